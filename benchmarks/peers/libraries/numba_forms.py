"""Numba: parallel loops as one writes them, for what is not a matter of a BLAS."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import njit, prange

from benchmarks.peers.kinds import EPSILON
from benchmarks.peers.libraries import invented_numba
from benchmarks.peers.task import Call, Task, Unsupported, choose, in_channels_first

BAND = 32
"""Rows and columns that a transposition moves at a time."""


def start(threads: int) -> None:
    numba.set_num_threads(threads)


def version() -> str:
    return str(numba.__version__)


def as_array(result: Any) -> np.ndarray:
    return np.asarray(result)


@in_channels_first
def prepare(task: Task) -> dict[str, Call]:
    return choose(FORMS, task)


@njit(parallel=True, fastmath=True)
def softmax(x, out):
    for i in prange(x.shape[0]):
        top = np.float32(-np.inf)
        for j in range(x.shape[1]):
            top = max(top, x[i, j])
        total = np.float32(0)
        for j in range(x.shape[1]):
            out[i, j] = np.exp(x[i, j] - top)
            total += out[i, j]
        scale = np.float32(1) / total
        for j in range(x.shape[1]):
            out[i, j] *= scale
    return out


@njit(parallel=True, fastmath=True)
def layer_norm(x, gamma, beta, epsilon, out):
    n = np.float32(x.shape[1])
    for i in prange(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        mean = total / n
        square = np.float32(0)
        for j in range(x.shape[1]):
            square += (x[i, j] - mean) ** 2
        scale = np.float32(1) / np.sqrt(square / n + epsilon)
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * scale * gamma[j] + beta[j]
    return out


@njit(parallel=True, fastmath=True)
def row_sum(x, out):
    for i in prange(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        out[i] = total
    return out


@njit(parallel=True, fastmath=True)
def elementwise(a, b, c, d, out):
    one, zero = np.float32(1), np.float32(0)
    for i in prange(a.shape[0]):
        out[i] = max(a[i] * b[i] + c[i], zero) / (one + np.exp(-d[i]))
    return out


@njit(parallel=True, fastmath=True)
def transpose(x, out):
    m, n = x.shape
    for band in prange((n + BAND - 1) // BAND):
        for top in range(0, m, BAND):
            for j in range(band * BAND, min(band * BAND + BAND, n)):
                for i in range(top, min(top + BAND, m)):
                    out[j, i] = x[i, j]
    return out


@njit(parallel=True, fastmath=True)
def depthwise(x, w, bias, stride, out):
    _, c, h, width = x.shape
    r = w.shape[2]
    size = out.shape[2]
    pad = r // 2
    for ch in prange(c):
        for y in range(size):
            for z in range(size):
                total = bias[ch]
                for dy in range(r):
                    for dx in range(r):
                        p, q = y * stride + dy - pad, z * stride + dx - pad
                        if p >= 0 and p < h and q >= 0 and q < width:
                            total += x[0, ch, p, q] * w[ch, 0, dy, dx]
                out[0, ch, y, z] = max(total, np.float32(0))
    return out


def _depthwise(task: Task) -> dict[str, Call]:
    if task.sizes["groups"] != task.sizes["c"]:
        raise Unsupported("only depthwise convolutions are written for it")
    (x, w, bias), out, stride = task.arrays, task.out(), task.sizes["stride"]
    return {"loops": lambda: depthwise(x, w, bias, stride, out)}


def _layer_norm(task: Task) -> dict[str, Call]:
    arrays, out, epsilon = task.arrays, task.out(), np.float32(EPSILON)
    return {"loops": lambda: layer_norm(*arrays, epsilon, out)}


def _plain(function: Any) -> Any:
    def maker(task: Task) -> dict[str, Call]:
        arguments = (*task.arrays, task.out())
        return {"loops": lambda: function(*arguments)}

    return maker


FORMS = {
    "invented": invented_numba.prepare,
    "conv2d": _depthwise,
    "softmax": _plain(softmax),
    "layer_norm": _layer_norm,
    "row_sum": _plain(row_sum),
    "elementwise": _plain(elementwise),
    "transpose": _plain(transpose),
}
