"""NumPy: what one writes by hand, into arrays that are made once."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers.kinds import EPSILON
from benchmarks.peers.libraries.operators_numpy import operator
from benchmarks.peers.task import Call, Task, choose, in_channels_first

CHUNK = 1 << 15
"""Elements taken at a time where the data are gone over in pieces that fit the cache."""


def start(threads: int) -> None:
    """The BLAS reads its number of threads from the environment."""


def version() -> str:
    return np.__version__


def as_array(result: Any) -> np.ndarray:
    return np.asarray(result)


@in_channels_first
def prepare(task: Task) -> dict[str, Call]:
    return choose(FORMS, task)


def _matmul(task: Task) -> dict[str, Call]:
    (a, b), out = task.arrays, task.out()
    return {"matmul": lambda: np.matmul(a, b, out=out)}


def _int8(task: Task) -> dict[str, Call]:
    """In float64, where the sums are exact and the BLAS does them."""
    a, b = task.arrays
    left, right = np.empty(a.shape), np.empty(b.shape)
    product, out = np.empty(task.out_shape), task.out(np.int32)

    def call() -> np.ndarray:
        left[...] = a
        right[...] = b
        np.matmul(left, right, out=product)
        out[...] = product
        return out

    return {"in float64": call}


def _linear(task: Task) -> dict[str, Call]:
    if task.sizes["activation"] != "relu":
        from benchmarks.peers.task import Unsupported

        raise Unsupported("NumPy has no error function for gelu")
    x, w, bias = task.arrays
    weights, out, column = (w.T if task.sizes["by_output"] else w), task.out(), task.out()[0]

    def product() -> np.ndarray:
        np.matmul(x, weights, out=out)
        np.add(out, bias, out=out)
        return np.maximum(out, 0, out=out)

    def vector() -> np.ndarray:
        np.matmul(w, x[0], out=column)
        np.add(column, bias, out=column)
        return np.maximum(column, 0, out=column)

    single = task.sizes["by_output"] and len(x) == 1
    return {"x @ w": product, **({"w @ x": vector} if single else {})}


def _batch(task: Task) -> dict[str, Call]:
    (a, b), out = task.arrays, task.out()
    turned = b.swapaxes(1, 2)
    return {"matmul": lambda: np.matmul(a, turned, out=out)}


def _conv(task: Task) -> dict[str, Call]:
    """A matrix product over all patches (im2col), by groups."""
    x, w, bias = task.arrays
    _, k, size, _ = task.out_shape
    c, r, step, groups = (task.sizes[name] for name in ("c", "r", "stride", "groups"))
    pad = r // 2
    padded = np.zeros((c, x.shape[2] + 2 * pad, x.shape[3] + 2 * pad), np.float32)
    patches = np.empty((c, r, r, size, size), np.float32)
    columns = patches.reshape(groups, c // groups * r * r, size * size)
    matrix, out = w.reshape(groups, k // groups, -1), task.out()
    flat, shift = out.reshape(groups, k // groups, -1), bias.reshape(groups, -1, 1)

    def call() -> np.ndarray:
        padded[:, pad : pad + x.shape[2], pad : pad + x.shape[3]] = x[0]
        for dy in range(r):
            for dx in range(r):
                patches[:, dy, dx] = padded[
                    :, dy : dy + step * size : step, dx : dx + step * size : step
                ][:, :size, :size]
        np.matmul(matrix, columns, out=flat)
        np.add(flat, shift, out=flat)
        np.maximum(flat, 0, out=flat)
        return out

    return {"im2col": call}


def _softmax_into(x: np.ndarray, out: np.ndarray) -> Call:
    top, total = (np.empty((*x.shape[:-1], 1), np.float32) for _ in range(2))

    def call() -> np.ndarray:
        np.max(x, axis=-1, keepdims=True, out=top)
        np.subtract(x, top, out=out)
        np.exp(out, out=out)
        np.sum(out, axis=-1, keepdims=True, out=total)
        return np.divide(out, total, out=out)

    return call


def _softmax(task: Task) -> dict[str, Call]:
    (x,) = task.arrays
    return {"whole": _softmax_into(x, task.out())}


def _layer_norm(task: Task) -> dict[str, Call]:
    x, gamma, beta = task.arrays
    out, square = task.out(), task.out()

    def call() -> np.ndarray:
        np.subtract(x, x.mean(axis=1, keepdims=True), out=out)
        np.multiply(out, out, out=square)
        scale = 1 / np.sqrt(square.mean(axis=1, keepdims=True) + np.float32(EPSILON))
        np.multiply(out, scale, out=out)
        np.multiply(out, gamma, out=out)
        return np.add(out, beta, out=out)

    return {"whole": call}


def _row_sum(task: Task) -> dict[str, Call]:
    (x,), out, product = task.arrays, task.out(), task.out()
    ones = np.ones(x.shape[1], np.float32)
    return {
        "sum": lambda: np.sum(x, axis=1, out=out),
        "x @ 1": lambda: np.matmul(x, ones, out=product),
    }


def _elementwise(task: Task) -> dict[str, Call]:
    (a, b, c, d), out = task.arrays, task.out()
    gate = np.empty(min(CHUNK, len(a)), np.float32)

    def part(at: slice, gate: np.ndarray) -> None:
        np.negative(d[at], out=gate)
        np.exp(gate, out=gate)
        np.add(gate, 1, out=gate)
        np.multiply(a[at], b[at], out=out[at])
        np.add(out[at], c[at], out=out[at])
        np.maximum(out[at], 0, out=out[at])
        np.divide(out[at], gate, out=out[at])

    def call() -> np.ndarray:
        for start in range(0, len(a), CHUNK):
            part(slice(start, start + CHUNK), gate[: len(a) - start])
        return out

    return {"in pieces": call}


def _transpose(task: Task) -> dict[str, Call]:
    (x,), out = task.arrays, task.out()
    return {"copyto": lambda: (np.copyto(out, x.T), out)[1]}


def _attention(task: Task) -> dict[str, Call]:
    (q, k, v), out = task.arrays, task.out()
    scale, turned = np.float32(task.sizes["depth"] ** -0.5), k.swapaxes(2, 3)
    scores = np.empty((*q.shape[:3], k.shape[2]), np.float32)
    softmax = _softmax_into(scores, scores)

    def call() -> np.ndarray:
        np.matmul(q, turned, out=scores)
        np.multiply(scores, scale, out=scores)
        softmax()
        return np.matmul(scores, v, out=out)

    return {"matmul": call}


FORMS = {
    "matmul": _matmul,
    "int8_matmul": _int8,
    "linear": _linear,
    "batch_matmul": _batch,
    "conv2d": _conv,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "row_sum": _row_sum,
    "elementwise": _elementwise,
    "transpose": _transpose,
    "attention": _attention,
    "operator": operator,
}
