"""What NumPy does for the same: float32, into arrays that are made once."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Call


def linear(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, relu: bool = True) -> Call:
    """x[m, k] @ w[k, n] + bias[n], at least 0 if `relu`."""
    out = np.empty((len(x), w.shape[1]), x.dtype)

    def call() -> np.ndarray:
        np.matmul(x, w, out=out)
        if bias is not None:
            np.add(out, bias, out=out)
        if relu:
            np.maximum(out, 0, out=out)
        return out

    return call


def convolution(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> Call:
    """x[1, h, w, c] convolved with weight[r, s, c, k], zeros around it, plus bias, at least 0.

    By im2col: each output becomes a row of its r * s * c inputs, and one matrix product does all.
    """
    _, h, w, c = x.shape
    r, s, _, k = weight.shape
    padded = np.zeros((h + r - 1, w + s - 1, c), x.dtype)
    columns = np.empty((h, w, r, s, c), x.dtype)
    rows, matrix = columns.reshape(h * w, r * s * c), weight.reshape(r * s * c, k)
    out = np.empty((h * w, k), x.dtype)

    def call() -> np.ndarray:
        padded[r // 2 : r // 2 + h, s // 2 : s // 2 + w] = x[0]
        for dy in range(r):
            for dx in range(s):
                columns[:, :, dy, dx] = padded[dy : dy + h, dx : dx + w]
        np.matmul(rows, matrix, out=out)
        np.add(out, bias, out=out)
        return np.maximum(out, 0, out=out).reshape(1, h, w, k)

    return call
