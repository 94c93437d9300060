"""The workloads that are recorded: kernels of at most about 0.2 ms, half of them no products."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tensorir import PrimFunc, ops, te
from tensorir.te import Tensor

BAND, TAPS = 33, (1.0, 4.0, 6.0, 4.0, 1.0)


def _floats(name: str, *shape: int) -> Tensor:
    return te.placeholder(shape, name=name)


def matmul() -> PrimFunc:
    a, b = _floats("a", 384, 384), _floats("b", 384, 384)
    return te.create_prim_func([a, b, ops.matmul(a, b, name="out")], name="matmul")


def softmax() -> PrimFunc:
    x = _floats("x", 512, 1000)
    return te.create_prim_func([x, ops.softmax(x, name="out")], name="softmax")


def distances() -> PrimFunc:
    """Squared distances of 512 points to 512 others in 64 dimensions."""
    a, b, k = _floats("a", 512, 64), _floats("b", 512, 64), te.reduce_axis(64, "k")
    out = te.compute(
        (512, 512),
        lambda i, j: te.sum((a[i, k] - b[j, k]) * (a[i, k] - b[j, k]), axis=k),
        name="out",
    )
    return te.create_prim_func([a, b, out], name="distances")


def banded() -> PrimFunc:
    """A banded matrix, stored by its diagonals, times a matrix."""
    band, x = _floats("band", 1024, BAND), _floats("x", 1024 + BAND - 1, 256)
    k = te.reduce_axis(BAND, "k")
    out = te.compute(
        (1024, 256), lambda i, j: te.sum(band[i, k] * x[i + k, j], axis=k), name="out"
    )
    return te.create_prim_func([band, x, out], name="banded")


def grouped() -> PrimFunc:
    """A convolution of a signal in four groups, dilation 2."""
    x, w = _floats("x", 1, 64, 512), _floats("w", 64, 16, 3)
    out = ops.conv1d(x, w, padding=2, dilation=2, groups=4, name="out")
    return te.create_prim_func([x, w, out], name="grouped")


def blur() -> PrimFunc:
    """Five taps along rows, then along columns."""
    u, n = _floats("u", 1024, 1024), 1024 - len(TAPS) + 1
    d, e = te.reduce_axis(len(TAPS), "d"), te.reduce_axis(len(TAPS), "e")
    w = _floats("w", len(TAPS))
    rows = te.compute((1024, n), lambda i, j: te.sum(w[d] * u[i, j + d], axis=d), name="rows")
    out = te.compute((n, n), lambda i, j: te.sum(w[e] * rows[i + e, j], axis=e), name="out")
    return te.create_prim_func([u, w, out], name="blur")


def conv2d() -> PrimFunc:
    x, w = _floats("x", 1, 16, 28, 28), _floats("w", 32, 16, 3, 3)
    return te.create_prim_func([x, w, ops.conv2d(x, w, padding=1, name="out")], name="conv2d")


def mlp() -> PrimFunc:
    """Two products with relu between them."""
    x, v, w = _floats("x", 128, 64), _floats("v", 64, 256), _floats("w", 256, 64)
    hidden = ops.matmul(x, v, activation="relu", name="hidden")
    return te.create_prim_func([x, v, w, ops.matmul(hidden, w, name="out")], name="mlp")


WORKLOADS: Mapping[str, Callable[[], PrimFunc]] = {
    f.__name__: f for f in (matmul, softmax, distances, banded, grouped, blur, conv2d, mlp)
}
