"""The schedule of convolutions of other ranks, and of transposed ones, with channels first."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from autotune import default_schedule
from backends import build, resolve
from schedule import Schedule, library
from tensorir import TensorIRError, ops, te, verify

TARGET = resolve("c -threads=2")

CASES = [  # operator, x, weight, attributes, what of the plan is given
    ("conv1d", (2, 5, 40), (33, 5, 3), {"padding": 1, "stride": 2, "activation": "relu"}, {}),
    ("conv1d", (1, 6, 97), (40, 6, 5), {"padding": 2, "dilation": 3}, {"rows": 32}),
    ("conv1d", (1, 3, 1), (17, 3, 1), {}, {}),
    ("conv3d", (1, 6, 5, 7, 9), (20, 6, 3, 2, 3), {"padding": 1}, {"panels_first": True}),
    ("conv3d", (2, 2, 5, 7, 9), (32, 2, 3, 3, 3), {"stride": 2, "activation": "relu"}, {}),
    ("conv2d_transpose", (1, 8, 7, 7), (8, 32, 4, 4), {"stride": 2, "padding": 1}, {"rows": 4}),
    (
        "conv2d_transpose",
        (2, 5, 7, 9),
        (5, 20, 3, 3),
        {"stride": 2, "padding": 1, "output_padding": 1, "activation": "relu"},
        {"rows": 3},
    ),
    ("conv2d_transpose", (1, 8, 7, 7), (8, 32, 3, 3), {"padding": 1}, {}),
    ("conv2d_transpose", (1, 3, 4, 3), (3, 5, 3, 5), {"stride": (3, 1)}, {"panels_first": True}),
    ("conv1d_transpose", (2, 4, 50), (4, 24, 16), {"stride": 8, "padding": 4}, {}),
    ("conv3d_transpose", (1, 4, 3, 4, 5), (4, 16, 2, 2, 2), {"stride": 2}, {}),
]


def filters(op, weight):
    return weight[1] if "transpose" in op else weight[0]


def program(op, x, weight, attrs, bias=True):
    inputs = [te.placeholder(x, name="x"), te.placeholder(weight, name="weight")]
    if bias:
        inputs.append(te.placeholder((filters(op, weight),), name="b"))
    out = getattr(ops, op)(*inputs, **attrs)
    return te.create_prim_func([*inputs, out], name="conv")


def sums_of(sch):
    return next(str(b) for b in sch.get_blocks() if sch.state.block(b).is_reduction)


def check(sch, op, shapes, attrs, target, cache, **options):
    verify(sch.func)
    rng = np.random.default_rng(0)
    given = [rng.random(shape, np.float32) * 2 - 1 for shape in shapes]
    want = ops.OPERATORS[op].reference(*[a.astype(np.float64) for a in given], **attrs)
    got = build(sch, target=target, cache=cache, **options)(*given)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max(initial=0))


@pytest.mark.parametrize(("op", "x", "weight", "attrs", "given"), CASES, ids=str)
def test_a_scheduled_convolution(op, x, weight, attrs, given, cache):
    func = program(op, x, weight, attrs)
    sch = Schedule(func)
    plan = library.conv2d(Schedule(func), TARGET)
    assert isinstance(plan, library.ChannelsPlan)
    plan = dataclasses.replace(plan, **given)
    assert library.conv_channels(sch, TARGET, sums_of(sch), plan) == plan
    assert "parallel" in repr(sch.func)
    assert repr(Schedule(func).apply(sch.trace).func) == repr(sch.func)
    check(sch, op, [x, weight, (filters(op, weight),)], attrs, TARGET, cache)


@pytest.mark.parametrize("op", ["conv1d", "conv2d_transpose"])
def test_other_vectors_and_no_stage_after_the_sums(op, cache):
    x, weight, attrs = ((1, 4, 30), (20, 4, 3), {"padding": 1})
    if op == "conv2d_transpose":
        x, weight, attrs = ((1, 4, 5, 6), (4, 20, 2, 2), {"stride": 2})
    sch = Schedule(program(op, x, weight, attrs, bias=False))
    target = dataclasses.replace(TARGET, vector_bits=256)
    assert library.conv2d(sch, target).lanes == 8
    check(sch, op, [x, weight], attrs, target, cache)


def test_any_batch_is_the_default(cache):
    attrs = {"stride": 2, "padding": 1, "activation": "relu"}
    func = program("conv2d_transpose", (te.var("n"), 4, 6, 5), (4, 16, 4, 4), attrs)
    sch = default_schedule(func, TARGET)
    assert "vectorize" in repr(sch.func)
    kernel = build(sch, target=TARGET, cache=cache)
    rng = np.random.default_rng(0)
    w, b = rng.random((4, 16, 4, 4), np.float32) - 0.5, rng.random(16, np.float32) - 0.5
    for n in (2, 1, 0):
        x = rng.random((n, 4, 6, 5), np.float32) - 0.5
        want = ops.OPERATORS["conv2d_transpose"].reference(x, w, b, **attrs)
        np.testing.assert_allclose(kernel(x, w, b), want, rtol=0, atol=1e-5)


def test_what_is_not_a_number_stays_where_it_belongs(cache):
    attrs = {"stride": 2, "padding": 1}
    func = program("conv2d_transpose", (1, 2, 5, 5), (2, 16, 4, 4), attrs, bias=False)
    sch = Schedule(func)
    library.conv2d(sch, TARGET)
    x, w = np.ones((1, 2, 5, 5), np.float32), np.ones((2, 16, 4, 4), np.float32)
    x[0, 1, 2, 2], x[0, 0, 0, 0] = np.nan, np.inf
    want = ops.OPERATORS["conv2d_transpose"].reference(x, w, **attrs)
    got = build(sch, target=TARGET, cache=cache)(x, w)
    assert np.isnan(want).any() and np.isinf(want).any() and np.isfinite(want).any()
    np.testing.assert_array_equal(got, want)


def test_weights_are_packed_ahead(cache):
    attrs = {"stride": 2, "padding": 1}
    x, weight = (1, 4, 5, 5), (4, 16, 3, 3)
    sch = Schedule(program("conv2d_transpose", x, weight, attrs, bias=False))
    library.conv2d(sch, TARGET)
    rng = np.random.default_rng(0)
    image, w = rng.random(x, np.float32), rng.random(weight, np.float32)
    kernel = build(sch, target=TARGET, cache=cache, constants={"weight": w})
    want = ops.OPERATORS["conv2d_transpose"].reference(image, w, **attrs)
    np.testing.assert_allclose(kernel(image), want, rtol=1e-5)


@pytest.mark.parametrize(
    ("op", "x", "weight", "attrs", "message"),
    [
        ("conv1d", (1, 4, 6), (4, 2, 3), {"groups": 2}, "in one group"),
        ("conv1d", (1, 4, 6), (0, 4, 3), {}, "is empty; there is nothing to schedule"),
        ("conv1d", (1, 6, 4), (3, 4, 4), {"layout": "NWC"}, "with channels first"),
    ],
    ids=["groups", "empty", "layout"],
)
def test_refusals(op, x, weight, attrs, message):
    sch = Schedule(program(op, x, weight, attrs, bias=False))
    before = sch.func
    with pytest.raises(TensorIRError, match=message):
        library.conv_channels(sch, TARGET, sums_of(sch))
    assert sch.func is before
