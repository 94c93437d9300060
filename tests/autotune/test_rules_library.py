"""The schedules of schedule.library as sketches: for convolutions, and for nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import default_candidate, machine_of, make_space
from autotune.rules.group import inline_stages
from backends import build, resolve
from schedule import Schedule
from tensorir import ops, reference, te

TARGET = "c -vector_bits=128 -threads=2"


def conv(c, k, size, r, groups=1, **options):
    x = te.placeholder((1, c, size, size), name="x")
    w = te.placeholder((k, c // groups, r, r), name="w")
    if groups == c == k:
        out = ops.depthwise_conv2d(x, w, name="out", **options)
    else:
        out = ops.conv2d(x, w, groups=groups, name="out", **options)
    return te.create_prim_func([x, w, out], name="conv")


CASES = {
    "3x3": conv(5, 7, 9, 3, padding=1),
    "3x3 s2 relu": conv(4, 6, 8, 3, stride=2, activation="relu"),
    "1x1": conv(6, 5, 7, 1),
    "groups": conv(6, 9, 7, 3, groups=3, padding=1),
    "depthwise": conv(6, 6, 7, 3, groups=6, padding=1),
}


@pytest.mark.parametrize("name", CASES)
def test_convolutions_have_a_schedule_of_the_library(name):
    func = CASES[name]
    space = make_space(func, machine_of(resolve(TARGET)))
    assert default_candidate(space).sketch == "library"
    assert len(space.sketches) > 1
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in func.inputs]
    got = build(default_schedule(func, TARGET), TARGET)(*inputs)
    np.testing.assert_array_equal(got, reference(func, *inputs)[0])


def winograd(batch):
    x, w = te.placeholder((batch, 4, 6, 6), name="x"), te.placeholder((4, 4, 3, 3), name="w")
    out = ops.conv2d_winograd(x, w, name="out")
    return te.create_prim_func([x, w, out], name="winograd")


def test_winograd_has_the_schedule_of_the_library():
    space = make_space(winograd(1), machine_of(resolve(TARGET)))
    assert default_candidate(space).sketch == "library"


def test_transforms_that_read_many_elements_are_not_written_into_each_other():
    sch = Schedule(winograd(te.var("n")))
    inline_stages(sch)
    assert {"out_columns", "out_input", "out_products", "out_rows"} <= set(sch.get_blocks())


def test_other_programs_have_none():
    x, y = te.placeholder((2, 3, 4, 5), name="x"), te.placeholder((4, 5, 3, 2), name="y")
    out = ops.einsum([x, y], "abcd,cdef->abef", name="out")
    func = te.create_prim_func([x, y, out], name="contraction")
    assert "library" not in make_space(func, machine_of(resolve(TARGET))).sketches


def test_a_symbolic_batch():
    x = te.placeholder((te.var("n"), 5, 9, 9), name="x")
    w = te.placeholder((7, 5, 3, 3), name="w")
    func = te.create_prim_func([x, w, ops.conv2d(x, w, name="out")], name="conv")
    space = make_space(func, machine_of(resolve(TARGET)))
    assert default_candidate(space).sketch == "library"
    rng = np.random.default_rng(0)
    inputs = [
        rng.integers(-3, 4, shape).astype("float32") for shape in ((3, 5, 9, 9), (7, 5, 3, 3))
    ]
    got = build(default_schedule(func, TARGET), TARGET)(*inputs)
    np.testing.assert_array_equal(got, reference(func, *inputs)[0])


@pytest.mark.parametrize("name", CASES)
def test_bitwise_spaces_keep_the_order_of_sums(name):
    space = make_space(CASES[name], machine_of(resolve(TARGET)), "bitwise")
    assert space.build(default_candidate(space)).numerics == "bitwise"
