"""The schedule of direct convolutions: any size, stride and dilation, with what stands around."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from backends import build, resolve
from schedule import Schedule, library
from tensorir import Target, TensorIRError, ops, te, verify

TARGET = resolve("c -threads=2")

CASES = [  # x, weight, attributes, what of the plan is given
    ((1, 16, 8, 8), (32, 16, 3, 3), {"padding": 1, "activation": "relu"}, {}),
    ((1, 3, 9, 11), (16, 3, 7, 7), {"padding": 3, "stride": 2}, {"rows": 1}),
    ((2, 5, 9, 7), (7, 5, 3, 2), {"padding": 1, "dilation": 2}, {}),
    ((2, 20, 7, 7), (33, 20, 1, 1), {"activation": "relu"}, {"rows": 1}),
    ((1, 8, 4, 24), (48, 8, 1, 1), {}, {"rows": 2}),
    ((1, 16, 6, 13), (48, 16, 3, 3), {"stride": (1, 2), "activation": "relu"}, {"rows": 0}),
    ((3, 16, 7, 7), (64, 16, 3, 3), {"padding": 1}, {"rows": 0}),
    ((1, 1, 1, 1), (1, 1, 1, 1), {}, {}),
    ((1, 10, 6, 14), (64, 5, 3, 3), {"groups": 2, "padding": 1, "activation": "relu"}, {"rows": 2}),
    ((2, 6, 5, 7), (144, 2, 1, 1), {"groups": 3}, {}),
    ((2, 9, 7, 5), (48, 3, 3, 3), {"groups": 3, "stride": 2, "padding": 2}, {"rows": 0}),
    ((1, 8, 7, 7), (40, 8, 3, 3), {"padding": 1}, {"rows": 0, "pixels": 14, "down": 2}),
    ((2, 8, 5, 3), (33, 8, 2, 3), {"activation": "relu"}, {"rows": 4, "pixels": 3, "down": 3}),
]


def program(x, weight, attrs, bias=True, **kwargs):
    image = te.placeholder(x, "float32", name="x")
    filters = te.placeholder(weight, "float32", name="weight")
    inputs = [image, filters]
    if bias:
        inputs.append(te.placeholder((weight[0],), "float32", name="b"))
    out = ops.conv2d(*inputs, **attrs, **kwargs)
    return te.create_prim_func([*inputs, out], name="conv")


def check(func, sch, attrs, target, cache):
    verify(sch.func)
    rng = np.random.default_rng(0)
    shapes = [tuple(size.value for size in p.shape) for p in func.params[:-1]]
    given = [rng.random(shape, np.float32) * 2 - 1 for shape in shapes]
    want = ops.OPERATORS["conv2d"].reference(*[a.astype(np.float64) for a in given], **attrs)
    got = build(sch, target=target, cache=cache)(*given)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())


@pytest.mark.parametrize(("x", "weight", "attrs", "given"), CASES, ids=str)
def test_a_scheduled_convolution(x, weight, attrs, given, cache):
    func = program(x, weight, attrs)
    sch = Schedule(func)
    plan = dataclasses.replace(library.plan_direct(sch, TARGET, "conv"), **given)
    assert library.conv2d_direct(sch, TARGET, "conv", plan) == plan
    assert "parallel" in repr(sch.func)
    assert repr(Schedule(func).apply(sch.trace).func) == repr(sch.func)
    check(func, sch, attrs, TARGET, cache)


@pytest.mark.parametrize("bits", [256, 128])
def test_other_vectors_and_no_stage_after_the_sums(bits, cache):
    attrs = {"padding": 1}
    func = program((1, 12, 5, 6), (20, 12, 3, 3), attrs, bias=False)
    sch = Schedule(func)
    target = dataclasses.replace(TARGET, vector_bits=bits)
    assert library.conv2d(sch, target).lanes == bits // 32
    check(func, sch, attrs, target, cache)


@pytest.mark.parametrize(
    ("x", "weight", "plan"),
    [
        ((1, 64, 56, 56), (64, 64, 3, 3), library.DirectPlan(16, 14, 2, 4)),
        ((1, 512, 7, 7), (512, 512, 3, 3), library.DirectPlan(16, 14, 2, 0, down=2)),
        ((1, 64, 32, 32), (64, 64, 3, 3), library.DirectPlan(16, 14, 2, 4)),
        ((1, 160, 13, 13), (160, 160, 3, 3), library.DirectPlan(16, 7, 2, 1)),
        ((1, 256, 56, 56), (64, 256, 1, 1), library.DirectPlan(16, 14, 2, 1, True)),
        ((1, 2048, 7, 7), (512, 2048, 1, 1), library.DirectPlan(16, 13, 2, 0, True)),
        ((1, 64, 3, 3), (64, 64, 3, 3), library.DirectPlan(16, 9, 2, 0, down=3)),
    ],
)
def test_the_plan_follows_the_sizes(x, weight, plan):
    target = Target("c", vector_bits=512, threads=2)
    sch = Schedule(program(x, weight, {"padding": weight[2] // 2}))
    assert library.plan_direct(sch, target, "conv") == plan


def test_wide_groups_have_channels_in_the_lanes_and_narrow_ones_pixels():
    wide = Schedule(program((1, 64, 14, 14), (64, 32, 3, 3), {"groups": 2, "padding": 1}))
    assert isinstance(library.conv2d(wide, TARGET), library.DirectPlan)
    narrow = Schedule(program((1, 24, 14, 14), (24, 12, 3, 3), {"groups": 2, "padding": 1}))
    assert isinstance(library.conv2d(narrow, TARGET), library.PixelsPlan)


def test_conv2d_finds_the_convolution():
    sch = Schedule(program((1, 4, 6, 6), (4, 4, 3, 3), {}))
    assert isinstance(library.conv2d(sch, TARGET), library.DirectPlan | library.PixelsPlan)
    x = te.placeholder((1, 4, 6, 6), "float32", name="x")
    relu = te.create_prim_func([x, ops.relu(x)], name="relu")
    with pytest.raises(TensorIRError, match=r"has 0 reductions \(none\), not one convolution"):
        library.conv2d(Schedule(relu), TARGET)


@pytest.mark.parametrize(
    ("x", "weight", "attrs", "message"),
    [
        ((1, 6, 6, 4), (3, 3, 4, 4), {"layout": "NHWC"}, "is no sum over"),
        ((1, 4, 6, 6), (0, 4, 3, 3), {}, "is empty; there is nothing to schedule"),
    ],
    ids=["layout", "empty"],
)
def test_refusals(x, weight, attrs, message):
    sch = Schedule(program(x, weight, attrs, bias=False))
    before = sch.func
    with pytest.raises(TensorIRError, match=message):
        library.conv2d_direct(sch, TARGET, sch.get_blocks()[-1])
    assert sch.func is before
