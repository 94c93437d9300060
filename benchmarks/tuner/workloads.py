"""The workloads that are recorded: kernels of at most about 0.2 ms, half of them no products."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tensorir import PrimFunc, ops, te
from tensorir.te import Tensor

BAND, TAPS = 33, (1.0, 4.0, 6.0, 4.0, 1.0)


def _floats(name: str, *shape: int) -> Tensor:
    return te.placeholder(shape, name=name)


def matmul(n: int = 384) -> PrimFunc:
    a, b = _floats("a", n, n), _floats("b", n, n)
    return te.create_prim_func([a, b, ops.matmul(a, b, name="out")], name="matmul")


def softmax(rows: int = 512, n: int = 1000) -> PrimFunc:
    x = _floats("x", rows, n)
    return te.create_prim_func([x, ops.softmax(x, name="out")], name="softmax")


def distances(n: int = 512) -> PrimFunc:
    """Squared distances of n points to n others in 64 dimensions."""
    a, b, k = _floats("a", n, 64), _floats("b", n, 64), te.reduce_axis(64, "k")
    out = te.compute(
        (n, n),
        lambda i, j: te.sum((a[i, k] - b[j, k]) * (a[i, k] - b[j, k]), axis=k),
        name="out",
    )
    return te.create_prim_func([a, b, out], name="distances")


def banded(n: int = 1024) -> PrimFunc:
    """A banded matrix of n rows, stored by its diagonals, times a matrix."""
    band, x = _floats("band", n, BAND), _floats("x", n + BAND - 1, 256)
    k = te.reduce_axis(BAND, "k")
    out = te.compute((n, 256), lambda i, j: te.sum(band[i, k] * x[i + k, j], axis=k), name="out")
    return te.create_prim_func([band, x, out], name="banded")


def grouped(n: int = 512) -> PrimFunc:
    """A convolution of a signal of n samples in four groups, dilation 2."""
    x, w = _floats("x", 1, 64, n), _floats("w", 64, 16, 3)
    out = ops.conv1d(x, w, padding=2, dilation=2, groups=4, name="out")
    return te.create_prim_func([x, w, out], name="grouped")


def blur(size: int = 1024) -> PrimFunc:
    """Five taps along rows, then along columns."""
    u, n = _floats("u", size, size), size - len(TAPS) + 1
    d, e = te.reduce_axis(len(TAPS), "d"), te.reduce_axis(len(TAPS), "e")
    w = _floats("w", len(TAPS))
    rows = te.compute((size, n), lambda i, j: te.sum(w[d] * u[i, j + d], axis=d), name="rows")
    out = te.compute((n, n), lambda i, j: te.sum(w[e] * rows[i + e, j], axis=e), name="out")
    return te.create_prim_func([u, w, out], name="blur")


def conv2d(size: int = 28) -> PrimFunc:
    x, w = _floats("x", 1, 16, size, size), _floats("w", 32, 16, 3, 3)
    return te.create_prim_func([x, w, ops.conv2d(x, w, padding=1, name="out")], name="conv2d")


def mlp(rows: int = 128) -> PrimFunc:
    """Two products with relu between them."""
    x, v, w = _floats("x", rows, 64), _floats("v", 64, 256), _floats("w", 256, 64)
    hidden = ops.matmul(x, v, activation="relu", name="hidden")
    return te.create_prim_func([x, v, w, ops.matmul(hidden, w, name="out")], name="mlp")


WORKLOADS: Mapping[str, Callable[..., PrimFunc]] = {
    f.__name__: f for f in (matmul, softmax, distances, banded, grouped, blur, conv2d, mlp)
}

NEIGHBOURS: Mapping[str, Mapping[str, int]] = {
    "matmul": {"n": 256},
    "softmax": {"rows": 768, "n": 512},
    "distances": {"n": 384},
    "banded": {"n": 768},
    "grouped": {"n": 384},
    "blur": {"size": 768},
    "conv2d": {"size": 20},
    "mlp": {"rows": 192},
}
"""Another size of each, of the same family."""
