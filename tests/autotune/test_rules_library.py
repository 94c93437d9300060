"""The schedules of schedule.library as sketches: for convolutions, and for nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import default_candidate, make_space
from backends import build, resolve
from schedule import Schedule, library
from tensorir import TensorIRError, device_of, ops, reference, te

TARGET = "c -vector_bits=128 -threads=2"


def conv(c, k, size, r, groups=1, **options):
    last = options.get("layout") == "NHWC"
    x = te.placeholder((1, size, size, c) if last else (1, c, size, size), name="x")
    w = te.placeholder((r, r, c // groups, k) if last else (k, c // groups, r, r), name="w")
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
    "3x3 NHWC": conv(5, 7, 9, 3, padding=1, layout="NHWC"),
    "1x1 s2 NHWC": conv(6, 5, 7, 1, stride=2, activation="relu", layout="NHWC"),
    "groups NHWC": conv(6, 12, 7, 3, groups=3, padding=1, layout="NHWC"),
    "depthwise NHWC": conv(6, 6, 7, 3, groups=6, padding=1, layout="NHWC"),
}


@pytest.mark.parametrize("name", CASES)
def test_convolutions_have_a_schedule_of_the_library(name):
    func = CASES[name]
    space = make_space(func, device_of(resolve(TARGET)))
    assert default_candidate(space).sketch == "library"
    assert len(space.sketches) > 1
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in func.inputs]
    got = build(default_schedule(func, TARGET), TARGET)(*inputs)
    np.testing.assert_array_equal(got, reference(func, *inputs)[0])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_stages_after_a_convolution_go_with_it(layout):
    last = layout == "NHWC"
    shape = (1, 7, 7, 5) if last else (1, 5, 7, 7)
    x, r = te.placeholder(shape, name="x"), te.placeholder(shape, name="r")
    w = te.placeholder((3, 3, 5, 5) if last else (5, 5, 3, 3), name="w")
    b = te.placeholder((5,), name="b")
    y = ops.relu(ops.add(ops.conv2d(x, w, b, padding=1, layout=layout), r))
    func = te.create_prim_func([x, w, b, r, y], name="residual")
    space = make_space(func, device_of(resolve(TARGET)))
    assert default_candidate(space).sketch == "library"
    made = default_schedule(func, TARGET)
    assert len([name for name in made.get_blocks() if str(name) in ("conv2d", "add")]) == 0
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in func.inputs]
    np.testing.assert_array_equal(build(made, TARGET)(*inputs), reference(func, *inputs)[0])


def test_stages_that_do_not_go_with_a_convolution_leave_it_to_the_rules():
    x, w = te.placeholder((1, 6, 6, 4), name="x"), te.placeholder((3, 3, 4, 4), name="w")
    y = ops.conv2d(ops.relu(x), w, padding=1, layout="NHWC")
    func = te.create_prim_func([x, w, y], name="before")
    assert "library" not in make_space(func, device_of(resolve(TARGET))).sketches
    with pytest.raises(TensorIRError, match="stages around its convolution .*: relu"):
        library.conv2d(Schedule(func), resolve(TARGET))


def blocks(sch):
    return [str(name) for name in sch.get_blocks()]


def test_weights_that_few_pixels_use_are_packed_only_ahead_of_the_call():
    few, many = conv(5, 20, 6, 3, layout="NHWC"), conv(5, 20, 20, 3, layout="NHWC")
    assert "w_global" not in blocks(default_schedule(few, TARGET))
    assert "w_global" in blocks(default_schedule(few, TARGET, ("w",)))
    assert "w_global" in blocks(default_schedule(many, TARGET))
    space = make_space(few, device_of(resolve(TARGET)))
    (choice,) = space.sketches["library"].choices
    assert (choice.name, choice.options) == ("out.pack_w", ("root", "none"))
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in few.inputs]
    got = build(default_schedule(few, TARGET), TARGET)(*inputs)
    np.testing.assert_array_equal(got, reference(few, *inputs)[0])


def test_few_pixels_are_left_to_the_rules():
    space = make_space(conv(8, 24, 2, 1, layout="NHWC"), device_of(resolve(TARGET)))
    assert "library" not in space.sketches


def test_small_types_in_nhwc_stay_with_their_rule():
    x = te.placeholder((1, 6, 6, 16), "uint8", name="x")
    w = te.placeholder((3, 3, 16, 16), "int8", name="w")
    func = te.create_prim_func([x, w, ops.conv2d(x, w, layout="NHWC")], name="conv")
    assert "library" not in make_space(func, device_of(resolve(TARGET))).sketches


def test_other_programs_have_none():
    x, y = te.placeholder((2, 3, 4, 5), name="x"), te.placeholder((4, 5, 3, 2), name="y")
    out = ops.einsum([x, y], "abcd,cdef->abef", name="out")
    func = te.create_prim_func([x, y, out], name="contraction")
    assert "library" not in make_space(func, device_of(resolve(TARGET))).sketches


def test_a_symbolic_batch():
    x = te.placeholder((te.var("n"), 5, 9, 9), name="x")
    w = te.placeholder((7, 5, 3, 3), name="w")
    func = te.create_prim_func([x, w, ops.conv2d(x, w, name="out")], name="conv")
    space = make_space(func, device_of(resolve(TARGET)))
    assert default_candidate(space).sketch == "library"
    rng = np.random.default_rng(0)
    inputs = [
        rng.integers(-3, 4, shape).astype("float32") for shape in ((3, 5, 9, 9), (7, 5, 3, 3))
    ]
    got = build(default_schedule(func, TARGET), TARGET)(*inputs)
    np.testing.assert_array_equal(got, reference(func, *inputs)[0])


@pytest.mark.parametrize("name", CASES)
def test_bitwise_spaces_keep_the_order_of_sums(name):
    space = make_space(CASES[name], device_of(resolve(TARGET)), "bitwise")
    assert space.build(default_candidate(space)).numerics == "bitwise"
