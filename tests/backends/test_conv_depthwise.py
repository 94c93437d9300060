"""The schedule of depthwise convolutions: strips, strides, kernels and planes of any size."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from backends import build, resolve
from schedule import Schedule, library
from tensorir import TensorIRError, ops, te, verify

TARGET = resolve("c -threads=2")

CASES = [  # x, weight, attributes, what of the plan is given
    ((1, 6, 14, 14), (6, 1, 3, 3), {"padding": 1, "activation": "relu"}, {}),
    ((2, 3, 12, 37), (3, 1, 3, 3), {"padding": 1, "stride": 2}, {"strip": 4, "rows": 2}),
    ((1, 2, 23, 20), (4, 1, 5, 3), {"padding": (2, 0)}, {"strip": 5, "rows": 3}),
    ((1, 5, 9, 17), (5, 1, 3, 3), {"dilation": 2, "activation": "relu"}, {}),
    ((1, 2, 8, 8), (2, 1, 7, 7), {"padding": 3}, {}),
    ((1, 2, 1, 1), (2, 1, 1, 1), {}, {}),
    ((3, 4, 5, 7), (4, 1, 3, 3), {"padding": 3, "stride": 3}, {}),
    ((1, 3, 13, 70), (3, 1, 3, 3), {"padding": 1, "stride": 2, "activation": "relu"}, {}),
    ((1, 3, 13, 37), (3, 1, 3, 3), {"padding": 1}, {"across": True, "rows": 3}),
    ((2, 3, 13, 67), (3, 1, 5, 5), {"padding": 2, "stride": 2}, {}),
]


def program(x, weight, attrs, bias=True):
    image = te.placeholder(x, "float32", name="x")
    filters = te.placeholder(weight, "float32", name="weight")
    inputs = [image, filters]
    if bias:
        inputs.append(te.placeholder((weight[0],), "float32", name="b"))
    out = ops.depthwise_conv2d(*inputs, **attrs)
    return te.create_prim_func([*inputs, out], name="depthwise")


def check(func, sch, attrs, target, cache):
    verify(sch.func)
    rng = np.random.default_rng(0)
    shapes = [tuple(size.value for size in p.shape) for p in func.params[:-1]]
    given = [rng.random(shape, np.float32) * 2 - 1 for shape in shapes]
    exact = [a.astype(np.float64) for a in given]
    want = ops.OPERATORS["depthwise_conv2d"].reference(*exact, **attrs)
    got = build(sch, target=target, cache=cache)(*given)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())


@pytest.mark.parametrize(("x", "weight", "attrs", "given"), CASES, ids=str)
def test_a_scheduled_convolution(x, weight, attrs, given, cache):
    func = program(x, weight, attrs)
    sch = Schedule(func)
    assert isinstance(library.conv2d(sch, TARGET), library.DepthwisePlan)
    sch = Schedule(func)
    plan = library.conv2d_depthwise(Schedule(func), TARGET, "conv")
    plan = dataclasses.replace(plan, **given)
    assert library.conv2d_depthwise(sch, TARGET, "conv", plan) == plan
    assert repr(Schedule(func).apply(sch.trace).func) == repr(sch.func)
    check(func, sch, attrs, TARGET, cache)


def test_other_vectors_and_no_stage_after_the_sums(cache):
    attrs = {"padding": 1, "stride": 2}
    func = program((1, 3, 9, 22), (3, 1, 3, 3), attrs, bias=False)
    sch = Schedule(func)
    target = dataclasses.replace(TARGET, vector_bits=256)
    assert library.conv2d(sch, target).lanes == 8
    check(func, sch, attrs, target, cache)


def test_any_batch(cache):
    attrs = {"padding": 1, "activation": "relu"}
    sch = Schedule(program((te.var("n"), 3, 9, 20), (3, 1, 3, 3), attrs))
    assert isinstance(library.conv2d(sch, TARGET), library.DepthwisePlan)
    verify(sch.func)
    kernel = build(sch, target=TARGET, cache=cache)
    rng = np.random.default_rng(0)
    w, b = rng.random((3, 1, 3, 3), np.float32) - 0.5, rng.random(3, np.float32) - 0.5
    for n in (2, 1, 0):
        x = rng.random((n, 3, 9, 20), np.float32) - 0.5
        want = ops.OPERATORS["depthwise_conv2d"].reference(x, w, b, **attrs)
        np.testing.assert_allclose(kernel(x, w, b), want, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("x", "weight", "attrs", "message"),
    [
        ((1, 6, 6, 4), (3, 3, 1, 4), {"layout": "NHWC"}, "is no sum over .*depthwise_conv2d"),
        ((0, 4, 6, 6), (4, 1, 3, 3), {}, "is empty; there is nothing to schedule"),
    ],
    ids=["layout", "empty"],
)
def test_refusals(x, weight, attrs, message):
    sch = Schedule(program(x, weight, attrs, bias=False))
    with pytest.raises(TensorIRError, match=message):
        library.conv2d_depthwise(sch, TARGET, sch.get_blocks()[-1])


def test_a_direct_convolution_is_refused():
    x = te.placeholder((1, 4, 6, 6), "float32", name="x")
    weight = te.placeholder((4, 4, 3, 3), "float32", name="weight")
    sch = Schedule(te.create_prim_func([x, weight, ops.conv2d(x, weight)], name="conv"))
    with pytest.raises(TensorIRError, match="is no sum over"):
        library.conv2d_depthwise(sch, TARGET, sch.get_blocks()[-1])
