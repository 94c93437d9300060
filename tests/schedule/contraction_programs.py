"""Contractions of many kinds, and other ways to write some of them."""

from __future__ import annotations

from collections.abc import Callable

from tensorir import PrimFunc, ops, te
from tensorir.te import Tensor


def conv(
    n: int, c: int, h: int, o: int, r: int, act: bool = False, dtype: str = "float32",
    layout: str = "NCHW", groups: int = 1, symbolic: bool = False, **attrs: int,
) -> PrimFunc:  # fmt: skip
    batch = te.var("n") if symbolic else n
    shape, filters = (batch, c, h, h), (o, c // groups, r, r)
    if layout == "NHWC":
        shape, filters = (batch, h, h, c), (r, r, c // groups, o)
    x, w = te.placeholder(shape, dtype, name="x"), te.placeholder(filters, dtype, name="w")
    y = ops.conv2d(x, w, groups=groups, layout=layout, **{"padding": r // 2, **attrs})
    return te.create_prim_func([x, w, ops.relu(y) if act else y])


def product(
    m: int | None = 37, k: int | None = 41, n: int | None = 43, dtype: str = "float32",
    turned: bool = False, scaled: bool = False,
) -> PrimFunc:  # fmt: skip
    rows, terms, columns = (te.var(name) if s is None else s for name, s in zip("mkn", (m, k, n)))
    a = te.placeholder((rows, terms), dtype, name="a")
    b = te.placeholder((terms, columns), dtype, name="b")
    axis = te.reduce_axis(terms, "k")
    if turned:
        out = te.compute((columns, rows), lambda j, i: te.sum(a[i, axis] * b[axis, j], axis=axis))
    else:
        out = te.compute((rows, columns), lambda i, j: te.sum(a[i, axis] * b[axis, j], axis=axis))
    if scaled:
        out = te.compute(out.shape, lambda i, j: out[i, j] * 2 + 1)
    return te.create_prim_func([a, b, out])


def _two(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    return te.placeholder(a, name="a"), te.placeholder(b, name="b")


def split_terms() -> PrimFunc:
    a, b = _two((32, 8, 16), (8, 16, 48))
    k, j = te.reduce_axis(8, "k"), te.reduce_axis(16, "j")
    out = te.compute((32, 48), lambda x, y: te.sum(a[x, k, j] * b[k, j, y], axis=[k, j]))
    return te.create_prim_func([a, b, out])


def split_columns() -> PrimFunc:
    a, b = _two((32, 128), (128, 6, 8))
    k = te.reduce_axis(128, "k")
    out = te.compute((32, 6, 8), lambda i, p, q: te.sum(a[i, k] * b[k, p, q], axis=k))
    return te.create_prim_func([a, b, out])


def fused() -> PrimFunc:
    a, b = _two((32, 128), (128, 48))
    k = te.reduce_axis(128, "k")
    out = te.compute((32 * 48,), lambda f: te.sum(a[f // 48, k] * b[k, f % 48], axis=k))
    return te.create_prim_func([a, b, out])


def with_units() -> PrimFunc:
    a, b = _two((32, 1, 128), (128, 48, 1))
    k, one = te.reduce_axis(128, "k"), te.reduce_axis(1, "one")
    out = te.compute(
        (1, 32, 1, 48),
        lambda z, i, y, j: te.sum(a[i, y, k] * b[k, j, one], axis=[one, k]),
    )
    return te.create_prim_func([a, b, out])


def plain() -> PrimFunc:
    return product(32, 128, 48)


def renamed() -> PrimFunc:
    w, c = te.placeholder((32, 128), name="w"), te.placeholder((128, 48), name="c")
    h = te.reduce_axis(128, "h")
    out = te.compute((32, 48), lambda s, r: te.sum(w[s, h] * c[h, r], axis=h), name="o")
    return te.create_prim_func([w, c, out])


def nearest() -> PrimFunc:
    """Min-plus products: sums of another kind."""
    a, b = _two((32, 16), (16, 48))
    k = te.reduce_axis(16, "k")
    out = te.compute((32, 48), lambda i, j: te.min(a[i, k] + b[k, j], axis=k))
    return te.create_prim_func([a, b, out])


def local() -> PrimFunc:
    """A convolution with weights of its own at every place."""
    x, w = te.placeholder((2, 4, 8, 8), name="x"), te.placeholder((6, 6, 4, 12, 3, 3), name="w")
    c, r, s = (te.reduce_axis(n, name) for n, name in ((4, "c"), (3, "r"), (3, "s")))
    out = te.compute(
        (2, 12, 6, 6),
        lambda n, o, h, v: te.sum(x[n, c, h + r, v + s] * w[h, v, c, o, r, s], axis=[c, r, s]),
    )
    return te.create_prim_func([x, w, out])


def depthwise() -> PrimFunc:
    x, w = te.placeholder((1, 12, 15, 15), name="x"), te.placeholder((12, 1, 3, 3), name="w")
    return te.create_prim_func([x, w, ops.relu(ops.depthwise_conv2d(x, w, padding=1))])


def pool() -> PrimFunc:
    x = te.placeholder((2, 8, 15, 15), name="x")
    return te.create_prim_func([x, ops.max_pool2d(x, 3, stride=2, padding=1)])


def chain() -> PrimFunc:
    """Two convolutions, of which the first has an elementwise stage behind it."""
    x, w = te.placeholder((1, 8, 9, 9), name="x"), te.placeholder((16, 8, 3, 3), name="w")
    v = te.placeholder((20, 16, 3, 3), name="v")
    out = ops.conv2d(ops.relu(ops.conv2d(x, w, padding=1)), v, padding=1)
    return te.create_prim_func([x, w, v, out])


PROGRAMS: dict[str, Callable[[], PrimFunc]] = {
    "conv of primes": lambda: conv(1, 5, 13, 7, 3),
    "conv of primes, relu": lambda: conv(2, 5, 13, 19, 3, act=True),
    "conv stride 2": lambda: conv(1, 16, 17, 40, 3, stride=2),
    "conv 1x1": lambda: conv(1, 32, 7, 48, 1, act=True),
    "conv 5x5 without padding": lambda: conv(1, 8, 12, 24, 5, padding=0),
    "conv dilated": lambda: conv(1, 8, 12, 24, 3, dilation=2),
    "conv in groups": lambda: conv(1, 24, 9, 48, 3, groups=3),
    "conv NHWC": lambda: conv(2, 8, 9, 20, 3, act=True, layout="NHWC"),
    "conv float64": lambda: conv(1, 8, 14, 36, 3, act=True, dtype="float64"),
    "conv of any batch": lambda: conv(0, 8, 14, 36, 3, act=True, symbolic=True),
    "conv NHWC of any batch": lambda: conv(0, 8, 9, 36, 3, layout="NHWC", symbolic=True),
    "product": product,
    "product turned": lambda: product(turned=True),
    "product scaled": lambda: product(64, 64, 96, scaled=True),
    "product of any rows": lambda: product(None, 40, 96),
    "product of any columns": lambda: product(40, 40, None),
    "product of any terms": lambda: product(40, None, 64),
    "product int32": lambda: product(64, 64, 64, dtype="int32"),
    "row times matrix": lambda: product(1, 64, 96),
    "split terms": split_terms,
    "split columns": split_columns,
    "fused": fused,
    "units": with_units,
    "nearest": nearest,
    "local": local,
    "depthwise": depthwise,
    "pool": pool,
    "chain": chain,
}  # fmt: skip
