"""Nests that go over the same elements are one, where what they share is in no cache between."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autotune import default_schedule, search_space
from backends import build
from tensorir import For, ForKind, Seq, interpret, ops, te, walk

TARGET = "c -threads=2"
GPU = "cuda-emulator -arch=sm_90a"


def nests(func, target=TARGET) -> int:
    body = default_schedule(func, target).func.body
    return sum(isinstance(s, For) for s in (body.stmts if isinstance(body, Seq) else (body,)))


def optimizer(shape, dtype="float32", names=("p", "g", "m", "v")):
    """A step of Adam: three results, the last of which reads the other two."""
    p, g, m, v = (te.placeholder(shape, dtype, name=name) for name in names)
    m2 = te.compute(shape, lambda *i: 0.9 * m[i] + 0.1 * g[i], name=f"{names[2]}2")
    v2 = te.compute(shape, lambda *i: 0.99 * v[i] + 0.01 * g[i] * g[i], name=f"{names[3]}2")
    out = te.compute(shape, lambda *i: p[i] - 0.1 * m2[i] / (te.sqrt(v2[i]) + 1e-6), name="out")
    return te.create_prim_func([p, g, m, v, m2, v2, out])


def sums(shape, axis=1):
    x = te.placeholder(shape, name="x")
    return te.create_prim_func([x, ops.max(x, axis), ops.min(x, axis), ops.mean(x, axis)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(200_000,), (500, 400), (9, 150, 160), (131_071,)])
def test_results_of_the_same_elements_have_one_nest(shape, dtype):
    assert nests(optimizer(shape, dtype)) == 1
    assert nests(optimizer(shape, dtype, ("a", "b", "c", "d"))) == 1


def test_sums_of_the_same_rows_have_one_nest():
    assert nests(sums((512, 600))) == 1


@pytest.mark.parametrize("make", [optimizer, sums])
def test_so_have_those_of_a_number_of_rows_that_a_call_has(make):
    rows = te.var("n")
    assert nests(make((rows, 600))) == 1 < nests(make((te.var("n"), 8)))


@pytest.mark.parametrize("shape", [(500, 400), (3, 5, 7), (131_071,)])
def test_kernels_of_the_same_elements_are_one(shape):
    assert nests(optimizer(shape), GPU) == 1
    assert nests(optimizer(shape, "float16", ("a", "b", "c", "d")), GPU) == 1


@pytest.mark.parametrize("shape, axis", [((512, 600), 1), ((512, 601), 1), ((64, 20, 64), 2)])
def test_kernels_of_the_same_rows_are_one(shape, axis):
    assert nests(sums(shape, axis), GPU) == 1


@pytest.mark.parametrize("size", [1 << 16, 100_001])
def test_sums_of_a_whole_array_share_both_of_their_kernels(size):
    """That of the parts of one sum is between those that read the array."""
    func = sums((size,), 0)
    assert nests(func, GPU) == 2
    array = np.random.default_rng(0).random(size, "float32")
    made = build(default_schedule(func, GPU), f"{GPU} -check=races,uninitialised")(array)
    np.testing.assert_allclose(made, [array.max(), array.min(), array.mean()], rtol=1e-5)


def test_what_a_cache_holds_stays_apart():
    assert nests(optimizer((500,))) == 3
    assert nests(sums((20, 60))) == 3


def test_what_needs_other_tasks_stays_apart():
    """Each row needs the rows beside it, whose tasks may run later."""
    x = te.placeholder((600, 512), name="x")
    y = te.compute((600, 512), lambda i, j: te.exp(x[i, j]), name="y")
    z = te.compute((600, 512), lambda i, j: y[599 - i, j] * 2.0, name="z")
    func = te.create_prim_func([x, y, z])
    assert nests(func) == 2
    values = np.random.default_rng(0).random((600, 512), "float32")
    first, second = np.empty_like(values), np.empty_like(values)
    build(default_schedule(func, TARGET), TARGET)(values, first, second)
    np.testing.assert_allclose(second, np.exp(values)[::-1] * 2.0, rtol=1e-5)


@pytest.mark.parametrize("target", [TARGET, GPU])
def test_what_is_refused_is_told(target):
    """Tasks need what they have in common, and what others make too."""
    size = 300_001
    x = te.placeholder((size,), name="x")
    y = te.compute((size,), lambda i: te.exp(x[i]), name="y")
    z = te.compute((size,), lambda i: y[i] + y[size - 1 - i], name="z")
    func = te.create_prim_func([x, y, z])
    assert nests(func, target) == 2
    assert "together with" in str(search_space(func, target).describe())


def blocks_meet(shape):
    """What a block of threads makes, others of its threads read: sums of rows, and what is done to
    their elements, both of them results."""
    x = te.placeholder(shape, name="x")
    y = te.compute(shape, lambda i, j: te.exp(x[i, j]), name="y")
    z = te.compute(shape, lambda i, j: y[i, shape[1] - 1 - j] * 2.0, name="z")
    return te.create_prim_func([x, y, ops.sum(y, 1), z, ops.max(z, 1)])


STEPS = {
    "step": lambda: optimizer((61, 51)),
    "sums": lambda: sums((61, 57)),
    "long sums": lambda: sums((5, 3000)),
    "columns": lambda: sums((300, 61), 0),
    "meet": lambda: blocks_meet((65, 64)),
}


@pytest.mark.parametrize("target", [TARGET, f"{GPU} -check=races,uninitialised"])
@pytest.mark.parametrize("name", STEPS)
def test_values_are_those_of_the_definition(name, target):
    func, rng = STEPS[name](), np.random.default_rng(0)
    arrays = [rng.random(b.const_shape).astype(b.dtype) for b in func.params]
    want = interpret(func, *arrays)
    for candidate in (default_schedule(func, target), *drawn(func, target)):
        got = [a.copy() for a in arrays]
        build(candidate, target)(*got)
        for mine, theirs in zip(got[-len(want) :], want, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def drawn(func, target):
    space, rng = search_space(func, target), random.Random(0)
    return [space.build(space.sample(rng, next(iter(space.sketches)))) for _ in range(3)]


def lattice(shape, dtype="float32", order=(0, 1)):
    """A step of a lattice gas: each of four results is made of what all populations come to."""
    x = te.placeholder((4, *shape), dtype, name="x")
    mass = te.compute(shape, lambda i, j: x[0, i, j] + x[1, i, j] + x[2, i, j] + x[3, i, j])
    flow = te.compute(shape, lambda i, j: (x[0, i, j] - x[1, i, j]) / (mass[i, j] + 2), name="flow")
    made = [
        te.compute(shape, lambda i, j, n=n: x[n, i, j] - mass[i, j] * flow[i, j] * n, name=f"o{n}")
        for n in (*order, 2, 3)
    ]
    return te.create_prim_func([x, *made])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape, order", [((127, 512), (0, 1)), ((130, 509), (1, 0))])
def test_what_several_results_are_made_of_is_computed_once(shape, order, dtype):
    func = lattice(shape, dtype, order)
    made = default_schedule(func, TARGET)
    loops = [stmt for stmt in walk(made.func.body) if isinstance(stmt, For)]
    assert sum(loop.kind is ForKind.VECTORIZED for loop in loops) == 1
    x = np.random.default_rng(0).random((4, *shape)).astype(dtype)
    got = build(made, TARGET)(x)
    flow = (x[0] - x[1]) / (x.sum(0) + 2)
    for n, each in zip((*order, 2, 3), got, strict=True):
        np.testing.assert_allclose(each, x[n] - x.sum(0) * flow * n, rtol=1e-4, atol=1e-4)
