"""The operators of the suite, each with data, the right answer and NumPy's forms of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from scipy.special import softmax as scipy_softmax

from autotune import examples
from benchmarks import rivals
from benchmarks.case import NUMPY, SCIPY, Case
from tensorir import PrimFunc, te

CHUNK = 1 << 15
"""Elements that NumPy takes at a time where it goes over the data in pieces that fit the cache."""


def make_cases(quick: bool) -> Mapping[str, Callable[[], Case]]:
    """The makers of all cases by name; a case is made when its turn comes, for its memory."""
    small = 16 if quick else 1
    side, depth, batch = 1024 // small, 3072 // small, 128 // small
    rows, columns, tall = 200 // small, 768 // small, 4096 // small
    image, channels, flat = 56 // small, 64 // small, tall * 1024
    sizes = [(n // small,) * 3 for n in (256, 512, 1024)]
    sizes.append((777 // small, 513 // small, 1025 // small))
    makers: dict[str, Callable[[str], Case]] = {}
    for m, k, n in sizes:
        makers[f"matmul {m}x{k}x{n}"] = partial(matmul, m, k, n)
    makers[f"linear+relu 1x{rows}x{depth}"] = partial(matvec, rows, depth)
    makers[f"linear+bias+relu {batch}x{depth}x{columns}"] = partial(linear, batch, depth, columns)
    makers[f"conv2d 3x3 {image}x{image}, {channels}"] = partial(conv2d, image, channels)
    makers[f"relu(a*b+c)*d {flat}"] = partial(elementwise, flat)
    makers[f"row sum {tall}x{tall}"] = partial(row_sum, tall)
    makers[f"softmax {side}x{side}"] = partial(softmax, side)
    return {name: partial(maker, name) for name, maker in makers.items()}


def uniform(*shape: int, seed: int = 0) -> np.ndarray:
    """float32 numbers in [-1, 1)."""
    rng = np.random.default_rng((seed, *shape))
    return rng.random(shape, np.float32) * 2 - 1


def exact(*arrays: np.ndarray) -> list[np.ndarray]:
    return [a.astype(np.float64) for a in arrays]


def matmul(m: int, k: int, n: int, name: str) -> Case:
    """a[m, k] @ b[k, n]."""
    a, b = uniform(m, k), uniform(k, n, seed=1)
    c = np.empty((m, n), np.float32)
    right, left = exact(a, b)
    return Case(
        name, examples.matmul(m, n, k), (a, b), right @ left,
        {NUMPY: lambda: np.matmul(a, b, out=c)},
    )  # fmt: skip


def matvec(n: int, k: int, name: str) -> Case:
    """max(x[1, k] @ w[n, k].T, 0): one sample, weights stored by output."""
    x, w = uniform(1, k), uniform(n, k, seed=1)
    row, column = np.empty((1, n), np.float32), np.empty(n, np.float32)

    def product() -> np.ndarray:
        np.matmul(x, w.T, out=row)
        return np.maximum(row, 0, out=row)

    def matrix_vector() -> np.ndarray:
        np.matmul(w, x[0], out=column)
        return np.maximum(column, 0, out=column)

    right, left = exact(x, w)
    return Case(
        name, matvec_func(n, k), (x, w), np.maximum(right @ left.T, 0),
        {NUMPY: product, f"{NUMPY} w @ x": matrix_vector},
    )  # fmt: skip


def matvec_func(n: int, k: int) -> PrimFunc:
    x = te.placeholder((1, k), "float32", name="x")
    w = te.placeholder((n, k), "float32", name="w")
    r = te.reduce_axis(k, name="k")
    product = te.compute((1, n), lambda i, j: te.sum(x[i, r] * w[j, r], axis=r), name="product")
    out = te.compute((1, n), lambda i, j: te.max(product[i, j], 0.0), name="out")
    return te.create_prim_func([x, w, out], name="linear_relu_transposed")


def linear(m: int, k: int, n: int, name: str) -> Case:
    """max(x[m, k] @ w[k, n] + bias[n], 0)."""
    x, w, bias = uniform(m, k), uniform(k, n, seed=1), uniform(n, seed=2)
    right, left, shift = exact(x, w, bias)
    return Case(
        name, examples.linear_relu(m, n, k), (x, w, bias),
        np.maximum(right @ left + shift, 0), {NUMPY: rivals.linear(x, w, bias)},
    )  # fmt: skip


def conv2d(size: int, channels: int, name: str) -> Case:
    """A 3x3 convolution with padding, bias and ReLU of x[1, size, size, channels]."""
    x, weight = uniform(1, size, size, channels), uniform(3, 3, channels, channels, seed=1)
    bias = uniform(channels, seed=2)
    return Case(
        name, examples.conv2d_bias_relu(1, size, size, channels, channels), (x, weight, bias),
        convolved(*exact(x, weight, bias)), {NUMPY: rivals.convolution(x, weight, bias)},
    )  # fmt: skip


def convolved(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The answer: one matrix product for each of the nine taps."""
    _, h, w, _ = x.shape
    padded = np.pad(x[0], ((1, 1), (1, 1), (0, 0)))
    taps = (padded[dy : dy + h, dx : dx + w] @ weight[dy, dx] for dy, dx in np.ndindex(3, 3))
    return np.maximum(sum(taps) + bias, 0)[np.newaxis]


def elementwise(size: int, name: str) -> Case:
    """max(a * b + c, 0) * d."""
    a, b, c, d = (uniform(size, seed=s) for s in range(4))
    out = np.empty(size, np.float32)

    def part(at: slice) -> None:
        np.multiply(a[at], b[at], out=out[at])
        np.add(out[at], c[at], out=out[at])
        np.maximum(out[at], 0, out=out[at])
        np.multiply(out[at], d[at], out=out[at])

    def whole() -> np.ndarray:
        part(slice(None))
        return out

    def pieces() -> np.ndarray:
        for start in range(0, size, CHUNK):
            part(slice(start, start + CHUNK))
        return out

    p, q, r, s = exact(a, b, c, d)
    return Case(
        name, examples.elementwise(size), (a, b, c, d),
        np.maximum(p * q + r, 0) * s, {NUMPY: whole, f"{NUMPY} in pieces": pieces},
    )  # fmt: skip


def row_sum(size: int, name: str) -> Case:
    """The sum of each row."""
    x, ones = uniform(size, size), np.ones(size, np.float32)
    out = np.empty(size, np.float32)
    forms = {
        NUMPY: lambda: np.sum(x, axis=1, out=out),
        f"{NUMPY} x @ 1": lambda: np.matmul(x, ones, out=out),
    }
    answer = exact(x)[0].sum(axis=1)
    return Case(name, examples.row_sum(size, size), (x,), answer, forms)


def softmax(size: int, name: str) -> Case:
    """The softmax of each row."""
    x = uniform(size, size)
    out = np.empty_like(x)
    top, total = np.empty((size, 1), np.float32), np.empty((size, 1), np.float32)

    def call() -> np.ndarray:
        np.max(x, axis=1, keepdims=True, out=top)
        np.subtract(x, top, out=out)
        np.exp(out, out=out)
        np.sum(out, axis=1, keepdims=True, out=total)
        return np.divide(out, total, out=out)

    return Case(
        name, examples.softmax(size, size), (x,),
        scipy_softmax(exact(x)[0], axis=1),
        {NUMPY: call, SCIPY: lambda: scipy_softmax(x, axis=1)},
    )  # fmt: skip
