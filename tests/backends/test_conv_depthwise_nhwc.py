"""The schedule of depthwise convolutions with channels last: edges, strides, any kernel."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from backends import build, resolve
from schedule import Schedule, library
from tensorir import Target, TensorIRError, ops, te, verify

TARGET = resolve("c -threads=2")

CASES = [  # operator, x, weight, attributes, what of the plan is given
    ("depthwise_conv2d", (1, 9, 14, 20), (3, 3, 1, 20), {"padding": 1, "activation": "relu"}, {}),
    ("depthwise_conv2d", (2, 8, 11, 40), (3, 3, 1, 40), {"padding": 1, "stride": 2}, {"rows": 2}),
    ("depthwise_conv2d", (1, 11, 8, 16), (5, 3, 1, 16), {"padding": (2, 0)}, {"rows": 0}),
    ("depthwise_conv2d", (1, 9, 9, 3), (3, 3, 1, 3), {"dilation": 2}, {"pixels": 2, "down": 1}),
    ("depthwise_conv2d", (1, 7, 8, 18), (7, 7, 1, 18), {"padding": 3}, {}),
    ("depthwise_conv2d", (1, 1, 1, 2), (1, 1, 1, 2), {}, {}),
    ("depthwise_conv2d", (3, 5, 7, 4), (3, 3, 1, 4), {"padding": 3, "stride": 3}, {}),
    ("conv1d", (2, 23, 17), (3, 1, 17), {"padding": 1, "layout": "NWC"}, {}),
    ("conv3d", (1, 3, 4, 5, 6), (3, 2, 2, 1, 6), {"padding": (1, 0, 0), "layout": "NDHWC"}, {}),
]


def program(op, x, weight, attrs, bias=True):
    image, filters = te.placeholder(x, name="x"), te.placeholder(weight, name="weight")
    inputs = [image, filters]
    if bias:
        inputs.append(te.placeholder((weight[-1],), name="b"))
    given = {"layout": "NHWC", **attrs}
    if op != "depthwise_conv2d":
        given["groups"] = x[-1]
    out = getattr(ops, op)(*inputs, **given)
    return te.create_prim_func([*inputs, out], name="depthwise"), given


def check(op, sch, shapes, given, target, cache):
    """Small integers have exact sums."""
    verify(sch.func)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, shape).astype("float32") for shape in shapes]
    want = ops.OPERATORS[op].reference(*arrays, **given)
    kernel = build(sch, target=target, cache=cache)
    np.testing.assert_array_equal(kernel(*arrays), want)
    return kernel


@pytest.mark.parametrize(("op", "x", "weight", "attrs", "plan"), CASES, ids=str)
def test_a_scheduled_convolution(op, x, weight, attrs, plan, cache):
    func, given = program(op, x, weight, attrs)
    sch = Schedule(func)
    assert isinstance(library.conv2d(Schedule(func), TARGET), library.DepthwiseNhwcPlan)
    chosen = dataclasses.replace(library.conv2d(Schedule(func), TARGET), parallel=True, **plan)
    assert library.conv2d_depthwise_nhwc(sch, TARGET, "conv", chosen) == chosen
    assert "parallel" in repr(sch.func) and sch.numerics == "bitwise"
    assert repr(Schedule(func).apply(sch.trace).func) == repr(sch.func)
    check(op, sch, [x, weight, weight[-1:]], given, TARGET, cache)


def test_other_vectors_and_no_stage_after_the_sums(cache):
    x, weight = (1, 6, 9, 22), (3, 3, 1, 22)
    func, given = program("depthwise_conv2d", x, weight, {"padding": 1}, bias=False)
    sch = Schedule(func)
    target = dataclasses.replace(TARGET, vector_bits=256)
    assert library.conv2d(sch, target).lanes == 8
    check("depthwise_conv2d", sch, [x, weight], given, target, cache)


def test_any_batch(cache):
    weight = (3, 3, 1, 5)
    func, given = program("depthwise_conv2d", (te.var("n"), 6, 7, 5), weight, {"padding": 1})
    sch = Schedule(func)
    library.conv2d(sch, TARGET)
    shapes = [(3, 6, 7, 5), weight, weight[-1:]]
    kernel = check("depthwise_conv2d", sch, shapes, given, TARGET, cache)
    none = [np.zeros(shape, np.float32) for shape in ((0, 6, 7, 5), *shapes[1:])]
    assert kernel(*none).shape == (0, 6, 7, 5)


def test_edges_multiply_padding_by_the_weights(cache):
    """0 times infinity is NaN in the definition, and stays so."""
    func, _ = program("depthwise_conv2d", (1, 5, 6, 3), (3, 3, 1, 3), {"padding": 1}, bias=False)
    sch = Schedule(func)
    library.conv2d(sch, TARGET)
    x, w = np.ones((1, 5, 6, 3), np.float32), np.ones((3, 3, 1, 3), np.float32)
    w[2, 2, 0, 1] = np.inf
    got = build(sch, target=TARGET, cache=cache)(x, w)
    assert np.isnan(got[0, -1, :, 1]).all() and np.isnan(got[0, :, -1, 1]).all()
    assert np.isposinf(got[0, :-1, :-1, 1]).all() and np.isfinite(got[..., (0, 2)]).all()


def test_the_plan_follows_the_sizes():
    target = Target("c", vector_bits=512, threads=2)
    large, _ = program("depthwise_conv2d", (1, 112, 112, 96), (3, 3, 1, 96), {"padding": 1})
    small, _ = program("depthwise_conv2d", (1, 14, 14, 384), (3, 3, 1, 384), {"padding": 1})
    assert library.conv2d(Schedule(large), target).rows > 0
    assert library.conv2d(Schedule(small), target).rows == 0


@pytest.mark.parametrize(
    ("op", "x", "weight", "attrs", "message"),
    [
        ("depthwise_conv2d", (0, 6, 6, 4), (3, 3, 1, 4), {}, "is empty; there is nothing"),
        ("depthwise_conv2d", (1, 6, 6, 4), (3, 3, 1, 8), {}, "not make one output of each channel"),
        ("depthwise_conv2d", (1, 4, 6, 6), (4, 1, 3, 3), {"layout": "NCHW"}, "in layout NHWC"),
    ],
    ids=["empty", "multiplier", "layout"],
)
def test_refusals(op, x, weight, attrs, message):
    sch = Schedule(program(op, x, weight, attrs, bias=False)[0])
    before = sch.func
    with pytest.raises(TensorIRError, match=message):
        library.conv2d_depthwise_nhwc(sch, TARGET, sch.get_blocks()[-1])
    assert sch.func is before
