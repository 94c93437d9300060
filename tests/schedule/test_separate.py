"""Windows that are reduced axis by axis: what is recognised, what is not, and its values."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_inputs import drawn_inputs
from refusal import refused

from autotune import default_schedule
from backends import build
from schedule import Schedule
from tensorir import interpret, ops, te


def image(shape, dtype="float32"):
    return te.placeholder(shape, dtype, name="x")


def window(shape, sizes, dtype="float32", reduce=te.sum, step=1, apart=1, term=lambda e: e):
    """The reduction over windows of the last axes."""
    x, lead = image(shape, dtype), len(shape) - len(sizes)
    axes = [te.reduce_axis(size, name=f"r{n}") for n, size in enumerate(sizes)]
    places = zip(shape[lead:], sizes)
    out = [*shape[:lead], *((n - apart * (size - 1) - 1) // step + 1 for n, size in places)]

    def element(*i):
        near = (at * step + r * apart for at, r in zip(i[lead:], axes))
        return reduce(term(x[(*i[:lead], *near)]), axis=axes)

    return te.create_prim_func([x, te.compute(out, element, name="y")])


def pooled(name, shape, size, dtype="float32", **options):
    x = image(shape, dtype)
    return te.create_prim_func([x, getattr(ops, name)(x, size, name="y", **options)])


def channels():
    """Squared differences of two images, over their channels too."""
    x, z = image((3, 7, 8)), te.placeholder((3, 8, 7), name="z")
    c, a, b = (te.reduce_axis(size, name=name) for size, name in ((3, "c"), (3, "a"), (2, "b")))

    def element(i, j):
        e = x[c, a + i, j + b] - z[c, b + j, i + a]
        return te.sum(e * e, axis=[b, c, a])

    return te.create_prim_func([x, z, te.compute((5, 6), element, name="y")])


def names_taken():
    """What the variables of two steps might be called is the name of others."""
    x, k = image((3, 40)), te.reduce_axis(12, name="k")
    return te.create_prim_func(
        [x, te.compute((3, 29), lambda k_1, k_0: te.sum(x[k_1, k_0 + k], axis=k), name="y")]
    )


PROGRAMS = {
    "names": names_taken(),
    "sums": window((2, 9, 11), (3, 5)),
    "maxima": window((9, 10), (4, 3), reduce=te.max),
    "minima of bytes": window((9, 10), (4, 3), "int8", te.min),
    "whole sums": window((9, 11), (3, 3), "uint8", term=lambda e: e.astype("int32")),
    "steps": window((3, 10, 15), (4, 5), step=2),
    "side by side": window((3, 10, 15), (5, 5), step=5),
    "holes": window((11, 12), (3, 2), apart=2),
    "even ones": window((11, 12), (3, 2), step=2, apart=2),
    "three axes": window((2, 6, 7, 8), (3, 2, 3)),
    "channels": channels(),
    "long": window((3, 60), (24,)),
    "long steps": window((2, 70), (16,), step=4),
    "long extremes": window((50,), (17,), reduce=te.max),
    "long holes": window((2, 70), (12,), apart=3),
    "long and wide": window((2, 30, 31), (15, 14)),
    "side by side and long": window((2, 32, 48), (16, 16), "int8", te.max, step=16),
    "average": pooled("avg_pool2d", (1, 2, 11, 12), 5, padding=2),
    "channels last": pooled("max_pool2d", (1, 9, 9, 3), 3, stride=2, padding=1, layout="NHWC"),
}
EXACT = (
    "maxima",
    "minima of bytes",
    "whole sums",
    "channels last",
    "long extremes",
    "side by side and long",
)
ROUNDS = tuple(name for name in PROGRAMS if name not in EXACT)


def block_of(sch):
    return next(name for name in sch.get_blocks() if sch.state.block(name).is_reduction)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    """Maxima and whole sums have the same bits, other sums are added in another order."""
    func, rounds = PROGRAMS[name], name in ROUNDS
    sch = Schedule(func)
    reductions = sum(sch.state.block(b).is_reduction for b in sch.get_blocks())
    sch.use_algorithm(block_of(sch), "separate_sums" if rounds else "separate")
    assert sum(sch.state.block(b).is_reduction for b in sch.get_blocks()) > reductions
    assert sch.numerics == ("reassociated" if rounds else "bitwise")
    given = drawn_inputs(func)
    wanted, found = interpret(func, *given), interpret(sch.func, *given)
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5 * rounds, atol=1e-5 * rounds)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_other_class_is_another_algorithm(name):
    sch = Schedule(PROGRAMS[name])
    other, why = ("separate", "a sum") if name in ROUNDS else ("separate_sums", "no sum")
    refused(sch.use_algorithm, block_of(sch), other, match=f"is {why} of floats")


def weighted():
    x, w = image((7, 8)), te.placeholder((3, 2), name="w")
    a, b = te.reduce_axis(3, name="a"), te.reduce_axis(2, name="b")
    y = te.compute((5, 7), lambda i, j: te.sum(x[i + a, j + b] * w[a, b], axis=[a, b]), name="y")
    return te.create_prim_func([x, w, y])


def placed():
    """The place in a window says more of a term than what is read."""
    x = image((7, 8))
    a, b = te.reduce_axis(3, name="a"), te.reduce_axis(2, name="b")
    y = te.compute((5, 7), lambda i, j: te.sum(x[i + a, j + b] + a + b, axis=[a, b]), name="y")
    return te.create_prim_func([x, y])


def started():
    x = image((7, 8))
    a, b = te.reduce_axis(3, name="a"), te.reduce_axis(2, name="b")
    y = te.compute(
        (5, 7), lambda i, j: te.max(x[i + a, j + b], axis=[a, b], init=te.const(0.0)), name="y"
    )
    return te.create_prim_func([x, y])


@pytest.mark.parametrize(
    "func, why",
    [
        (weighted(), "no windows that share any"),
        (placed(), "no windows that share any"),
        (started(), "starts from"),
        (window((9, 10), (4, 1)), "no windows that share any"),
        (window((12, 12), (2, 2), step=3), "no windows that share any"),  # parts of x are not read
        (window((5, 6), (3, 3), apart=2), "no windows that share any"),
        (window((3, 9), (4,)), "no windows that share any"),
        (window((160,), (16,), step=16), "no windows that share any"),  # rows one after the other
        (window((3, 40), (17,)), "no windows that share any"),
        (window((3, 40), (12,), reduce=te.sum, step=13), "no windows that share any"),
        (window((3, 9, 9), (3, 3), reduce=te.prod), "no sum, maximum or minimum"),
    ],
)
def test_others_are_refused(func, why):
    refused(Schedule(func).use_algorithm, "y", "separate_sums", match=why)


@pytest.mark.parametrize("reduce", [te.sum, te.max])
@pytest.mark.parametrize(
    "shape, sizes, step",
    [
        ((2, 31, 45), (5, 5), 5),
        ((2, 31, 45), (7, 7), 1),
        ((3, 4100), (64,), 1),
        ((4100,), (32,), 4),
    ],
)
def test_the_default_takes_steps_where_terms_are_many(reduce, shape, sizes, step, cache):
    func = window(shape, sizes, reduce=reduce, step=step)
    sch = default_schedule(func, "c -threads=1 -vector_bits=256")
    assert "separate" in "".join(sch.func.attrs["algorithms"].values())
    (given,) = drawn_inputs(func)
    wanted = interpret(func, given)[0]
    np.testing.assert_allclose(build(sch, "c -threads=1")(given), wanted, rtol=1e-5, atol=1e-5)


def test_small_windows_stay_whole():
    sch = default_schedule(window((8, 56, 56), (2, 2), reduce=te.max, step=2), "c -threads=1")
    assert "algorithms" not in sch.func.attrs
