"""The workloads that are searched: kernels of at most about 0.2 ms. Half of those that are recorded
are no products; beside them there is one of each other family of operators."""

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


def depthwise(size: int = 56) -> PrimFunc:
    """A convolution of each of 64 channels by itself."""
    x, w = _floats("x", 1, 64, size, size), _floats("w", 64, 1, 3, 3)
    out = ops.depthwise_conv2d(x, w, padding=1, name="out")
    return te.create_prim_func([x, w, out], name="depthwise")


def pool(size: int = 112) -> PrimFunc:
    """Maxima of 3x3 windows, two apart, of 32 channels."""
    x = _floats("x", 1, 32, size, size)
    out = ops.max_pool2d(x, 3, stride=2, padding=1, name="out")
    return te.create_prim_func([x, out], name="pool")


def norm(rows: int = 512, n: int = 768) -> PrimFunc:
    """Rows of mean 0 and variance 1, scaled and shifted."""
    x, gamma, beta = _floats("x", rows, n), _floats("gamma", n), _floats("beta", n)
    out = ops.layer_norm(x, gamma, beta, name="out")
    return te.create_prim_func([x, gamma, beta, out], name="norm")


def running(rows: int = 256, n: int = 2048) -> PrimFunc:
    """Running sums of rows."""
    x = _floats("x", rows, n)
    return te.create_prim_func([x, ops.cumsum(x, name="out")], name="running")


def jacobi(n: int = 1024) -> PrimFunc:
    """The mean of four neighbours, twice."""
    u = _floats("u", n, n)

    def step(v: Tensor, size: int, name: str) -> Tensor:
        return te.compute(
            (size, size),
            lambda i, j: 0.25 * (v[i, j + 1] + v[i + 2, j + 1] + v[i + 1, j] + v[i + 1, j + 2]),
            name=name,
        )

    out = step(step(u, n - 2, "half"), n - 4, "out")
    return te.create_prim_func([u, out], name="jacobi")


FAMILIES: Mapping[str, Callable[..., PrimFunc]] = {
    **WORKLOADS, **{f.__name__: f for f in (depthwise, pool, norm, running, jacobi)}
}  # fmt: skip
"""With those that no recording is of, which searches that are made here and now can tell of."""

NEIGHBOURS: Mapping[str, Mapping[str, int]] = {
    "matmul": {"n": 256},
    "softmax": {"rows": 768, "n": 512},
    "distances": {"n": 384},
    "banded": {"n": 768},
    "grouped": {"n": 384},
    "blur": {"size": 768},
    "conv2d": {"size": 20},
    "mlp": {"rows": 192},
    "depthwise": {"size": 40},
    "pool": {"size": 80},
    "norm": {"rows": 768, "n": 512},
    "running": {"rows": 384, "n": 1536},
    "jacobi": {"n": 768},
}
"""Another size of each, of the same family."""
