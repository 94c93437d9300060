"""Convolutions with pixels in the lanes: filters of any size, few channels, groups, any batch."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from backends import build, resolve
from schedule import Schedule, library
from tensorir import Target, TensorIRError, ops, te, verify

TARGET = resolve("c -threads=2")

CASES = [  # x, weight, attributes, what of the plan is given
    ((1, 12, 8, 9), (24, 12, 1, 1), {"activation": "relu"}, {"filters": 8, "shares": 3}),
    ((2, 5, 7, 7), (10, 5, 1, 1), {}, {"filters": 4}),
    ((2, 6, 9, 21), (3, 6, 3, 3), {"padding": 1, "activation": "relu"}, {}),
    ((1, 3, 11, 18), (7, 3, 5, 3), {"padding": (2, 0), "stride": 2}, {"rows": 2}),
    ((1, 2, 12, 40), (1, 2, 3, 3), {"dilation": 2}, {"down": 4, "vectors": 2, "rows": 8}),
    ((1, 4, 6, 16), (9, 4, 1, 1), {"stride": (1, 2)}, {}),
    ((1, 12, 6, 17), (15, 4, 3, 3), {"groups": 3, "padding": 1, "activation": "relu"}, {}),
    ((2, 4, 5, 6), (4, 2, 1, 1), {"groups": 2}, {}),
    ((1, 1, 1, 1), (1, 1, 1, 1), {}, {}),
]


def program(x, weight, attrs, bias=True, **kwargs):
    image = te.placeholder(x, "float32", name="x")
    filters = te.placeholder(weight, "float32", name="weight")
    inputs = [image, filters]
    if bias:
        inputs.append(te.placeholder((weight[0],), "float32", name="b"))
    out = ops.conv2d(*inputs, **attrs, **kwargs)
    return te.create_prim_func([*inputs, out], name="conv")


def check(sch, shapes, attrs, target, cache, **options):
    verify(sch.func)
    rng = np.random.default_rng(0)
    given = [rng.random(shape, np.float32) * 2 - 1 for shape in shapes]
    want = ops.OPERATORS["conv2d"].reference(*[a.astype(np.float64) for a in given], **attrs)
    got = build(sch, target=target, cache=cache, **options)(*given)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max(initial=0))


@pytest.mark.parametrize(("x", "weight", "attrs", "given"), CASES, ids=str)
def test_a_scheduled_convolution(x, weight, attrs, given, cache):
    func = program(x, weight, attrs)
    sch = Schedule(func)
    plan = dataclasses.replace(library.plan_pixels(sch, TARGET, "conv"), **given)
    assert library.conv2d_pixels(sch, TARGET, "conv", plan) == plan
    assert "parallel" in repr(sch.func)
    assert repr(Schedule(func).apply(sch.trace).func) == repr(sch.func)
    check(sch, [x, weight, weight[:1]], attrs, TARGET, cache)


@pytest.mark.parametrize("bits", [256, 128])
def test_other_vectors_and_no_stage_after_the_sums(bits, cache):
    attrs = {"padding": 1}
    shapes = [(1, 6, 5, 21), (3, 6, 3, 3)]
    sch = Schedule(program(*shapes, attrs, bias=False))
    target = dataclasses.replace(TARGET, vector_bits=bits)
    plan = library.conv2d_pixels(sch, target, "conv2d")
    assert plan.lanes == bits // 32
    check(sch, shapes, attrs, target, cache)


@pytest.mark.parametrize(
    ("x", "weight", "groups", "plan"),
    [
        ((1, 256, 56, 56), (64, 256, 1, 1), 1, library.PixelsPlan(16, 8, 3, flat=True)),
        ((1, 64, 56, 56), (3, 64, 3, 3), 1, library.PixelsPlan(16, 3, 2, 2, 28)),
        ((1, 128, 28, 28), (128, 4, 3, 3), 32, library.PixelsPlan(16, 4, 2, 2, 28)),
        ((1, 64, 56, 56), (64, 64, 3, 3), 1, library.DirectPlan(16, 14, 2, 4)),
        ((1, 1024, 14, 14), (256, 1024, 1, 1), 1, library.DirectPlan(16, 14, 2, 1, True)),
    ],
)
def test_the_plan_follows_the_sizes(x, weight, groups, plan):
    target = dataclasses.replace(
        Target("c", vector_bits=512, threads=2), features=("avx512bw", "avx512f", "avx512vl")
    )
    attrs = {"padding": weight[2] // 2, "groups": groups}
    assert library.conv2d(Schedule(program(x, weight, attrs)), target) == plan


@pytest.mark.parametrize(
    ("x", "weight", "attrs", "kind"),
    [
        (("n", 6, 9, 17), (3, 6, 3, 3), {"padding": 1}, library.PixelsPlan),
        (("n", 40, 6, 8), (48, 40, 1, 1), {"activation": "relu"}, library.PixelsPlan),
        (("n", 32, 7, 7), (64, 32, 3, 3), {"padding": 1}, library.DirectPlan),
        (("n", 64, 14, 14), (64, 64, 1, 1), {"stride": 2}, library.DirectPlan),
    ],
    ids=str,
)
@pytest.mark.parametrize("constants", [(), ("weight", "b")], ids=["", "constants"])
def test_any_batch(x, weight, attrs, kind, constants, cache):
    sch = Schedule(program((te.var("n"), *x[1:]), weight, attrs))
    assert isinstance(library.conv2d(sch, TARGET), kind)
    verify(sch.func)
    rng = np.random.default_rng(0)
    w, b = (rng.random(shape, np.float32) * 2 - 1 for shape in (weight, weight[:1]))
    known = {name: {"weight": w, "b": b}[name] for name in constants}
    kernel = build(sch, target=TARGET, cache=cache, constants=known or None)
    for n in (1, 3, 0):
        image = rng.random((n, *x[1:]), np.float32) * 2 - 1
        want = ops.OPERATORS["conv2d"].reference(image, w, b, **attrs)
        got = kernel(image) if constants else kernel(image, w, b)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max(initial=0))


def test_refusals():
    sch = Schedule(program((1, 4, 6, 6), (4, 2, 3, 3), {"groups": 2}))
    before = sch.func
    with pytest.raises(TensorIRError, match="has groups of 2 output channels, and vectors of"):
        library.conv2d_direct(sch, TARGET, "conv")
    empty = Schedule(program((1, 4, 6, 6), (0, 4, 3, 3), {}, bias=False))
    with pytest.raises(TensorIRError, match="is empty; there is nothing to schedule"):
        library.conv2d_pixels(empty, TARGET, "conv2d")
    assert sch.func is before
