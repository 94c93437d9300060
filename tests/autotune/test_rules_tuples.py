"""Reductions of several values: pairs of sums, places of maxima, in lanes wherever they lie."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import default_candidate, make_space
from backends import build
from backends.c.emit.codegen import emit
from tensorir import Cpu, Store, Target, any_of, interpret, lower, te, walk
from tensorir import dtype as dt

TARGET = Target(vector_bits=256, threads=2, features=("avx2", "fma"), l1d=32 << 10, l2=1 << 20)
CPU = Cpu(TARGET)


def _larger(old, new):
    keep = any_of(old[1] > new[1], (old[1] == new[1]) & (old[0] <= new[0]))
    return te.if_then_else(keep, old[0], new[0]), te.if_then_else(keep, old[1], new[1])


PAIR = te.comm_reducer(
    lambda a, b: (a[0] + b[0], te.max(a[1], b[1])),
    lambda d, e: (te.const(0, d), te.min_value(e)), name="pair",
)  # fmt: skip
PLACED = te.comm_reducer(
    _larger, lambda d, e: (te.max_value(d), te.min_value(e)), name="placed"
)


def window(c, height, width, size, step, dtype="float32"):
    """Sums and maxima of windows."""
    x = te.placeholder((c, height, width), dtype, name="x")
    dy, dx = te.reduce_axis(size, "dy"), te.reduce_axis(size, "dx")
    shape = (c, (height - size) // step + 1, (width - size) // step + 1)

    def f(i, h, w):
        v = x[i, h * step + dy, w * step + dx]
        return PAIR((v, v), axis=[dy, dx])

    return te.create_prim_func([x, *te.compute(shape, f, name="y")], name="windows")


def places(c, height, width, size, dtype="float32"):
    x = te.placeholder((c, height, width), dtype, name="x")
    dy, dx = te.reduce_axis(size, "dy"), te.reduce_axis(size, "dx")

    def f(i, h, w):
        at = ((h * size + dy) * width + w * size + dx).astype("int32")
        return PLACED((at, x[i, h * size + dy, w * size + dx]), axis=[dy, dx])

    shape = (c, height // size, width // size)
    return te.create_prim_func([x, *te.compute(shape, f, name="y")], name="places")


def rows(*shape, axis, dtype="float32"):
    """Sums and maxima along an axis of a matrix, or of all elements."""
    x = te.placeholder(shape, dtype, name="x")
    axes = [te.reduce_axis(n, f"k{d}") for d, n in enumerate(shape) if axis in (d, None)]

    def f(*i):
        outer, inner = iter(i), iter(axes)
        v = x[tuple(next(inner) if axis in (d, None) else next(outer) for d in range(x.ndim))]
        return PAIR((v, v), axis=axes)

    kept = tuple(n for d, n in enumerate(shape) if axis not in (d, None))
    return te.create_prim_func([x, *te.compute(kept, f, name="y")], name="rows")


PROGRAMS = {
    "windows": (lambda: window(3, 11, 37, 3, 1), "spatial"),
    "windows apart": (lambda: window(2, 12, 70, 2, 2), "spatial"),
    "places": (lambda: places(3, 12, 50, 2), "spatial"),
    "places float64": (lambda: places(2, 9, 40, 3, "float64"), "spatial"),
    "columns": (lambda: rows(67, 41, axis=0), "spatial"),
    "columns int32": (lambda: rows(33, 50, axis=0, dtype="int32"), "spatial"),
    "a middle axis": (lambda: rows(3, 17, 19, axis=1), "spatial"),
    "one column": (lambda: rows(97, 1, axis=0), "tuples_lanes"),
    "rows": (lambda: rows(13, 203, axis=1), "tuples_lanes"),
    "rows float64": (lambda: rows(5, 64, axis=1, dtype="float64"), "tuples_lanes"),
    "all": (lambda: rows(7, 131, axis=None), "tuples_lanes"),
    "short rows": (lambda: rows(211, 6, axis=1), "short_rows"),
    "rows of short rows": (lambda: rows(3, 29, 9, axis=2), "short_rows"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_several_values_are_reduced_in_lanes(name):
    make, rule = PROGRAMS[name]
    func = make()
    assert default_candidate(make_space(func, CPU)).sketch == f"y:{rule}"
    x = np.random.default_rng(0).integers(-9, 9, [int(n.value) for n in func.params[0].shape])
    x = x.astype(func.params[0].dtype)
    kernel = build(default_schedule(func, "c -threads=2"), "c -threads=2")
    for found, want in zip(kernel(x), interpret(func, x)):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("name", PROGRAMS)
def test_whatever_is_chosen_computes_it(name):
    func = PROGRAMS[name][0]()
    space, rng = make_space(func, CPU), random.Random(0)
    x = np.random.default_rng(0).integers(-9, 9, [int(n.value) for n in func.params[0].shape])
    x = x.astype(func.params[0].dtype)
    sch = space.build(space.sample(rng, f"y:{PROGRAMS[name][1]}"))
    for found, want in zip(interpret(sch.func, x), interpret(func, x)):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_stored_in_vectors(name):
    """Nothing is left to single lanes but what is fewer than a vector."""
    func = PROGRAMS[name][0]()
    low = lower(default_schedule(func, TARGET).func, TARGET)
    stores = [s for s in walk(low.body) if isinstance(s, Store)]
    operations = [dt.lanes(s.value.dtype) for s in stores if s.value.has_loads]
    assert sum(n == 1 for n in operations) <= 3 * sum(n > 1 for n in operations), operations


def test_a_reduction_that_cannot_be_parted_keeps_its_order():
    """Rows of a combiner whose parts cannot be merged: the program is left to the general plan."""
    last = te.comm_reducer(
        lambda a, b: (b[0], a[1] * b[0] + b[1]),
        lambda d, e: (te.const(0, d), te.const(0, e)), name="last",
    )  # fmt: skip
    x, k = te.placeholder((4, 70), name="x"), te.reduce_axis(70, "k")
    y = te.compute((4,), lambda i: last((x[i, k], x[i, k]), axis=k), name="y")
    func = te.create_prim_func([x, *y])
    data = np.random.default_rng(0).uniform(-1, 1, (4, 70)).astype("float32")
    kernel = build(default_schedule(func))
    for found, want in zip(kernel(data), interpret(func, data)):
        np.testing.assert_allclose(found, want, rtol=1e-5)


def test_a_tail_knows_how_few_its_iterations_are():
    """Else what a choice reads there may lie outside, and is gathered."""
    target = Target(vector_bits=512, threads=1, features=("avx512f", "avx512vl", "fma"))
    text = emit(lower(default_schedule(places(1, 4, 112, 2), target).func, target), target)
    assert "shuffle_f32x8" in text
    assert "load_strided" not in text
