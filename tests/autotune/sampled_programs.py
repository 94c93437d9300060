"""Small programs whose stages meet in many ways, for tests that sample their spaces."""

from __future__ import annotations

from collections.abc import Callable

from tensorir import PrimFunc, ops, te

Shape = tuple[int, ...]


def chosen(x: te.Tensor, name: str = "R") -> te.Tensor:
    """A relu by if_then_else, which reads like padding: one buffer or a constant."""
    return te.compute(x.shape, lambda *i: te.if_then_else(x[i] > 0.0, x[i], 0.0), name=name)


def inputs(*shapes: Shape) -> list[te.Tensor]:
    return [te.placeholder(shape, name=f"X{n}") for n, shape in enumerate(shapes)]


def products() -> PrimFunc:
    a, b, c = inputs((128, 64), (64, 256), (256, 64))
    return te.create_prim_func([a, b, c, ops.matmul(chosen(ops.matmul(a, b)), c)])


def three_products() -> PrimFunc:
    a, b, c, d = inputs((24, 17), (17, 40), (40, 19), (19, 33))
    first = chosen(ops.matmul(a, b), "R1")
    second = chosen(ops.matmul(first, c), "R2")
    return te.create_prim_func([a, b, c, d, ops.matmul(second, d)])


def chosen_input() -> PrimFunc:
    a, b = inputs((48, 31), (31, 40))
    return te.create_prim_func([a, b, ops.matmul(chosen(a), b)])


def both_ends() -> PrimFunc:
    a, b, c = inputs((48, 31), (31, 40), (40,))
    biased = ops.add(ops.matmul(chosen(a, "R0"), b), c)
    return te.create_prim_func([a, b, c, chosen(biased, "R1")])


def convolutions() -> PrimFunc:
    x, v, w = inputs((1, 4, 12, 12), (8, 4, 3, 3), (8, 8, 3, 3))
    first = chosen(ops.conv2d(x, v, padding=1, stride=2))
    return te.create_prim_func([x, v, w, ops.conv2d(first, w, padding=1, stride=2)])


def pointwise() -> PrimFunc:
    x, v, w = inputs((1, 8, 9, 7), (16, 8, 1, 1), (16, 1, 3, 3))
    first = chosen(ops.conv2d(x, v))
    return te.create_prim_func([x, v, w, ops.depthwise_conv2d(first, w, padding=1)])


def pooled() -> PrimFunc:
    x, w = inputs((1, 3, 16, 16), (8, 3, 3, 3))
    first = chosen(ops.conv2d(x, w, padding=1))
    return te.create_prim_func([x, w, ops.max_pool2d(first, 2)])


def attention() -> PrimFunc:
    q, k, v = inputs((1, 2, 24, 16), (1, 2, 20, 16), (1, 2, 20, 16))
    return te.create_prim_func([q, k, v, ops.attention(q, k, v)])


def normed() -> PrimFunc:
    x, w = inputs((24, 50), (50, 30))
    return te.create_prim_func([x, w, ops.matmul(chosen(ops.softmax(x)), w)])


def sums_of_sums() -> PrimFunc:
    (x,) = inputs((30, 21, 13))
    k, j = te.reduce_axis(13, name="k"), te.reduce_axis(21, name="j")
    rows = te.compute((30, 21), lambda i, j: te.sum(x[i, j, k], axis=k), name="S")
    kept = chosen(rows)
    total = te.compute((30,), lambda i: te.sum(kept[i, j], axis=j), name="T")
    return te.create_prim_func([x, total])


def several_results() -> PrimFunc:
    a, b = inputs((33, 1), (1, 29))
    c = ops.matmul(a, b)
    return te.create_prim_func([a, b, c, chosen(c)])


def running() -> PrimFunc:
    x, w = inputs((12, 40), (40, 8))
    return te.create_prim_func([x, w, ops.matmul(chosen(ops.cumsum(x, axis=1)), w)])


def running_from_sums() -> PrimFunc:
    a, x, s = inputs((33, 40), (8, 33), (8, 33))
    k = te.reduce_axis(40, name="k")
    sums = te.compute((1, 33), lambda _, i: te.sum(a[i, k], axis=k), name="sums")
    first = te.compute((1, 33), lambda _, i: sums[0, i] * 2.0, name="first")
    step = te.compute((8, 33), lambda t, i: s[t - 1, i] * 0.5 + x[t, i], name="step")
    return te.create_prim_func([a, x, te.scan(first, step, s, name="states")])


PROGRAMS: dict[str, Callable[[], PrimFunc]] = {
    f.__name__: f
    for f in (
        products, three_products, chosen_input, both_ends, convolutions, pointwise, pooled,
        attention, normed, sums_of_sums, several_results, running,
        running_from_sums,
    )
}  # fmt: skip
