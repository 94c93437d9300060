"""Scans have a search space: their steps stay in order, and what is inside them is scheduled."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import choose, make_space
from autotune.rules.group import lane_of, output_store, stride_in
from backends import build, source_text
from schedule import Schedule, library
from tensorir import (
    ForKind,
    Target,
    body_loads,
    device_of,
    dtype,
    interpret,
    ops,
    parse,
    reference,
    te,
)


def running_sum(m=5, n=6):
    x = te.placeholder((m, n), name="X")
    s = te.placeholder((m, n), name="s")
    first = te.compute((1, n), lambda _, i: x[0, i], name="first")
    step = te.compute((m, n), lambda t, i: s[t - 1, i] + x[t, i], name="step")
    return te.create_prim_func([x, te.scan(first, step, s, name="total")], name="running_sum")


def recurrent_net(m=4, n=5):
    x, w = te.placeholder((m, n), name="X"), te.placeholder((n, n), name="W")
    h, k = te.placeholder((m, n), name="h"), te.reduce_axis(n, name="k")
    first = te.compute((1, n), lambda _, i: 0.0, name="first")
    gate = te.compute((m, n), lambda t, i: te.sum(h[t - 1, k] * w[i, k], axis=k), name="gate")
    step = te.compute((m, n), lambda t, i: te.max(gate[t, i] + x[t, i], 0.0), name="step")
    return te.create_prim_func([x, w, te.scan(first, step, h, name="hs")], name="net")


def steps_of_products(size=96, rows=13, steps=4, turned=False, direct=False, kind="float32"):
    """A state that is multiplied with a matrix in each step, and is the product if `direct`."""
    shape, k = (steps, rows, size), te.reduce_axis(size, name="k")
    x, w, h = (
        te.placeholder(of, kind, name=name)
        for name, of in {"X": shape[1:], "W": (size, size), "h": shape}.items()
    )
    first = te.compute((1, rows, size), lambda _, i, j: x[i, j], name="first")

    def term(t, i, j):
        return te.sum(h[t - 1, i, k] * (w[j, k] if turned else w[k, j]), axis=k)

    gate = te.compute(shape, term, name="gate")
    step = te.compute(shape, lambda t, i, j: te.max(gate[t, i, j] - x[i, j], 0), name="step")
    made = te.scan(first, gate if direct else step, h, name="hs")
    return te.create_prim_func([x, w, made], name="net")


STEPS = {
    "plain": {},
    "turned": {"turned": True},
    "direct": {"direct": True},
    "both": {"turned": True, "direct": True},
    "one row": {"rows": 1, "steps": 20, "turned": True},
    "no multiple": {"size": 61, "turned": True},
    "float64": {"kind": "float64", "turned": True},
    "int32": {"kind": "int32"},
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", STEPS)
def test_products_in_steps_have_the_plans_of_products(name, cache):
    """Operands that all steps read are packed once, ahead of them; gathered lanes took 25 times as
    long."""
    func = steps_of_products(**STEPS[name])
    sketch = choose(func, device_of(Target(vector_bits=512, threads=1)), None, ()).sketch
    assert ["contraction"] == [p.name for p in sketch.plans if p.group.block == "gate"]
    sch = sketch.build(sketch.values())
    turned = STEPS[name].get("turned", False)
    assert (len(sch.get_blocks()) > len(Schedule(func).get_blocks())) == turned
    loops = sch.state.loops_around("gate")
    assert loops[-1].kind is ForKind.VECTORIZED
    assert "load_strided" not in source_text(sch.func, "c -march=skylake-avx512 -threads=1")
    if "rows" not in STEPS[name]:
        assert loops[-2].kind is ForKind.UNROLLED
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-1, 2, p.const_shape).astype(p.dtype) for p in func.inputs]
    np.testing.assert_allclose(build(sch, cache=cache)(*inputs), reference(func, *inputs)[0], 1e-4)


SHARED = """@prim_func
def main(x: f32[4, 6, 40], w: f32[40, 40], h: f32[4, 6, 40]):
    g = alloc(f32[4, 6, 40])
    for t in range(4):
        for i in range(6):
            for j, k in grid(40, 40):
                with block("gate"):
                    vt = opaque(4, t)
                    vi = spatial(6, i)
                    vj = spatial(40, j)
                    vk = reduce(40, k)
                    with init():
                        g[vt, vi, vj] = 0.0
                    g[vt, vi, vj] = g[vt, vi, vj] + x[vt, vi, vk] * w[vj, vk]
            for j_1 in range(40):
                with block("step"):
                    vt = opaque(4, t)
                    vi = spatial(6, i)
                    vj = spatial(40, j_1)
                    h[vt, vi, vj] = g[vt, vi, vj] + x[vt, vi, vj]
"""


def test_sums_in_loops_that_others_share(cache):
    """Their variables stand still, as the time does: `default_schedule` had no answer."""
    func = parse(SHARED)
    sketch = choose(func, device_of(Target(vector_bits=512, threads=2)), None, ()).sketch
    sch = sketch.build(sketch.values())
    c = library.find_contraction(Schedule(func), "gate", steps=True)
    assert c.repeated == 24 and [axis.extent for axis in c.axes] == [40, 40]
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-2, 3, p.const_shape).astype(p.dtype) for p in func.inputs]
    found = build(sch, cache=cache)(*inputs)
    np.testing.assert_array_equal(found, inputs[0] @ inputs[1].T + inputs[0])


def running_sum_of_a_vector():
    """Its steps have no axis but the time."""
    x = te.placeholder((7,), name="x")
    return te.create_prim_func([x, ops.cumsum(x)], name="cumsum")


@pytest.mark.parametrize("make", [running_sum, recurrent_net, running_sum_of_a_vector])
def test_candidates_keep_the_meaning(make):
    func = make()
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in func.inputs]
    (expected,) = reference(func, *inputs)
    space = make_space(func, device_of(Target(vector_bits=256, threads=2)))
    draw = random.Random(0)
    for candidate in [space.sample(draw) for _ in range(4)]:
        (found,) = interpret(space.build(candidate).func, *inputs)
        np.testing.assert_allclose(found, expected)


def sums_of_sums(*axes):
    def make(x):
        for axis in axes:
            x = ops.cumsum(x, axis)
        return x

    return make


def windows_of_sums(x):
    total = ops.cumsum(x, 1)
    m, n = total.shape
    return te.compute((m, n - 3), lambda i, j: total[i, j + 3] - total[i, j], name="window")


READ = {
    "an integral image": sums_of_sums(1, 0),
    "the other way": sums_of_sums(0, 1),
    "sums twice": sums_of_sums(1, 1),
    "columns twice": sums_of_sums(0, 0),
    "softmax": lambda x: ops.softmax(ops.cumsum(x, 1)),
    "differences": windows_of_sums,
    "the largest of a row": lambda x: ops.max(ops.cumsum(x, 1), axis=1),
    "turned": lambda x: ops.transpose(ops.cumsum(x, 1)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", READ)
def test_states_lie_as_what_reads_them_wants(name, threads):
    """Whatever reads the states of a scan, also another scan, reads neighbours in memory: turning
    them element by element took ten times as long."""
    x = te.placeholder((37, 53), name="x")
    func = te.create_prim_func([x, READ[name](x)], name="f")
    sch = default_schedule(func, f"c -threads={threads}")
    blocks = [sch.state.block(name) for name in sch.get_blocks()]
    states = {output_store(block).buffer for block in blocks if block.name.startswith("step")}
    assert states
    for block in blocks:
        lane = lane_of(block)
        for load in body_loads(block):
            if load.buffer in states and not block.is_reduction and lane is not None:
                assert stride_in(load, lane, block) == 1, (block, load)
    given = np.random.default_rng(0).integers(-3, 4, (37, 53)).astype("float32")
    (expected,) = reference(func, given)
    np.testing.assert_allclose(build(sch)(given), expected, rtol=1e-5)


SUMMED = {
    "the largest": lambda x, total: ops.max(total, axis=0),
    "sums": lambda x, total: ops.sum(total, axis=0),
    "beside what it was made of": lambda x, total: ops.max(total - x, axis=0),
    "of two scans": lambda x, total: ops.sum(ops.cumsum(0 - x, 0) * total, axis=0),
}


@pytest.mark.parametrize("name", SUMMED)
def test_sums_of_states_leave_steps_in_vectors(name):
    """Sums over the time take states in any order: where steps read in vectors, the time comes
    first. It was put last, one element at a time, and what was read beside it lay across."""
    x = te.placeholder((37, 53), name="x")
    func = te.create_prim_func([x, SUMMED[name](x, ops.cumsum(x, 0))], name="f")
    sch = default_schedule(func, "c -threads=1")
    steps = [sch.state.block(n) for n in sch.get_blocks() if "step" in str(n)]
    assert steps
    for step in steps:
        rows = step.iters[-1].var
        made = [output_store(step), *body_loads(step)]
        assert all(stride_in(access, rows, step) == 1 for access in made), step
    given = np.random.default_rng(0).integers(-3, 4, (37, 53)).astype("float32")
    (expected,) = reference(func, given)
    np.testing.assert_allclose(build(sch)(given), expected, rtol=1e-5)


def test_a_cube_of_sums():
    x = te.placeholder((5, 17, 19), name="x")
    func = te.create_prim_func([x, sums_of_sums(2, 1, 0)(x)], name="f")
    given = np.random.default_rng(0).integers(-3, 4, (5, 17, 19)).astype("float32")
    found = build(default_schedule(func))(given)
    np.testing.assert_array_equal(found, given.cumsum(2).cumsum(1).cumsum(0))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["float32", "float64", "int16"])
@pytest.mark.parametrize("shape", [(9, 4096), (9, 2, 2048), (9, 8192, 1), (9, 100), (9, 1024, 64)])
def test_pieces_of_rows_are_as_long_as_memory_wants(shape, kind, threads):
    """Each step of long rows is in pages of its own: short pieces of them meet each page anew.
    Where a step is in the page of the one before it, sums stay in registers."""
    x = te.placeholder(shape, kind, name="x")
    target = f"c -march=skylake-avx512 -threads={threads}"
    sch = default_schedule(te.create_prim_func([x, ops.cumsum(x, 0)]), target)
    (step,) = [name for name in sch.get_blocks() if name.startswith("step")]
    (lanes,) = [f for f in sch.state.loops_around(step) if f.kind is ForKind.VECTORIZED]
    piece = lanes.const_extent * dtype.itemsize(kind)
    *_, last = [n * dtype.itemsize(kind) for n in shape if n > 1]
    if np.prod(shape[1:]) * dtype.itemsize(kind) < 4096:
        assert piece <= 512
    else:
        assert 2 * piece >= min(last / threads, 8192)
