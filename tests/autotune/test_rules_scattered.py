"""Sums of which data tell the elements are scattered, by one thread and by several."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autotune import default_schedule, search_space
from backends import build
from tensorir import interpret, reference, te, verify

TERMS = 3001


def taken(kind, bins, dtype, rows=None, n=TERMS, reduce=te.sum, other=0):
    """What is reduced by the number of its bin; rows of it where there is a number of them."""
    x = te.placeholder((n,), kind, name="x")
    w = te.placeholder((n,) if rows is None else (n, rows), dtype, name="w")
    k = te.reduce_axis(n, name="k")
    shape = (bins,) if rows is None else (bins, rows)

    def element(*i):
        return reduce(te.if_then_else(x[k] == i[0], w[(k, *i[1:])], other), axis=k)

    axes = (lambda b: element(b)) if rows is None else (lambda b, j: element(b, j))
    return te.create_prim_func([x, w, te.compute(shape, axes, name="h")])


def counted(shape=(TERMS,), bins=256):
    """A histogram, and its shares."""
    x = te.placeholder(shape, "uint8", name="x")
    axes = [te.reduce_axis(size, name=f"k{n}") for n, size in enumerate(shape)]
    h = te.compute((bins,), lambda b: te.sum((x[(*axes,)] == b).astype("int32"), axis=axes), "h")
    total = float(np.prod(shape))
    return te.create_prim_func([x, te.compute((bins,), lambda b: h[b] / total, "shares")])


def joint():
    x, y = (te.placeholder((TERMS,), "int32", name=name) for name in "xy")
    k = te.reduce_axis(TERMS, name="k")

    def element(a, b):
        return te.sum(te.all(x[k] == a, y[k] == b).astype("int32"), axis=k)

    return te.create_prim_func([x, y, te.compute((13, 17), element, name="h")])


PROGRAMS = {
    "floats": lambda: taken("int32", 97, "float32"),
    "bytes": lambda: taken("uint8", 97, "uint8"),
    "short rows": lambda: taken("int16", 97, "float32", rows=7),
    "long rows": lambda: taken("int32", 97, "float32", rows=131, n=301),
    "extremes": lambda: taken("int32", 97, "float64", reduce=te.max, other=-float("inf")),
    "histogram": counted,
    "image": lambda: counted((53, 59)),
    "joint": joint,
    "symbolic": lambda: taken("int32", 499, "float32", n=te.var("n")),
}


def drawn(func):
    rng = np.random.default_rng(0)
    shapes = [p.const_shape or (TERMS, *(int(str(d)) for d in p.shape[1:])) for p in func.inputs]
    ends = [(0, 200) if p.dtype == "uint8" else (-9, 99) for p in func.inputs]
    return [
        rng.integers(*end, shape).astype(p.dtype)
        for p, shape, end in zip(func.inputs, shapes, ends)
    ]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("threads", [1, 3])
def test_defaults(name, threads, cache):
    """Each term once, whatever the number of elements; small integers are added exactly."""
    func = PROGRAMS[name]()
    sch = default_schedule(func, f"c -threads={threads}")
    assert "scatter" in [step.name for step in sch.trace.instructions]
    verify(sch.func)
    inputs = drawn(func)
    (wanted,) = reference(func, *inputs)
    made = build(sch, f"c -threads={threads}", cache=cache)(*inputs)
    for found in (made, *interpret(sch.func, *inputs)):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)  # shares are quotients


@pytest.mark.parametrize("dtype, numerics", [("float32", "reassociated"), ("int32", "bitwise")])
def test_threads_have_sums_of_their_own(dtype, numerics):
    """Which are in another order than those of one thread: not where bits are to be the same."""
    func = taken("int32", 97, dtype, n=5 * TERMS)
    sch = default_schedule(func, "c -threads=4")
    assert "rfactor" in [step.name for step in sch.trace.instructions]
    assert sch.numerics == numerics
    kept = default_schedule(func, "c -threads=4", numerics="bitwise")
    steps = [step.name for step in kept.trace.instructions]
    assert "scatter" in steps and kept.numerics == "bitwise"
    assert ("rfactor" in steps) == (numerics == "bitwise")


def test_threads_share_long_rows():
    sch = default_schedule(taken("int32", 97, "float32", rows=256), "c -threads=4 -vector_bits=512")
    assert sch.numerics == "bitwise"
    assert "for j_0 in parallel(4):" in str(sch.func)


def test_few_elements_are_asked():
    """Two bins in vectors take less than a term after the other; and floats may be infinite."""
    for func in (counted(bins=4), taken("int32", 1, "float32")):
        sch = default_schedule(func, "c -threads=1 -vector_bits=512")
        assert "scatter" not in [step.name for step in sch.trace.instructions]


def test_all_candidates(cache):
    func = taken("int32", 97, "int32", n=997)
    space = search_space(func, "c -threads=2")
    mine = [s for s in space.sketches.values() if "scatter" in s.name]
    assert {"h:scatter_parts", "h:scatter"} <= {s.name for s in mine}
    x, w = (a[:997] for a in drawn(taken("int32", 97, "int32")))
    (wanted,) = reference(func, x, w)
    for sketch in mine:
        values = sketch.decisions(sketch.draw(random.Random(1)))
        (found,) = interpret(sketch.build(values).func, x, w)
        np.testing.assert_array_equal(found, wanted)
