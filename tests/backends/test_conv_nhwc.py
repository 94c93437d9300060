"""The schedule of convolutions with channels last: any size, stride, dilation, order of weights."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from backends import build, resolve
from schedule import Schedule, library
from tensorir import Target, TensorIRError, ops, te, verify

TARGET = resolve("c -threads=2")

CASES = [  # operator, x, weight, attributes, what of the plan is given
    ("conv2d", (1, 8, 8, 16), (3, 3, 16, 64), {"padding": 1, "activation": "relu"}, {"rows": 2}),
    ("conv2d", (2, 9, 11, 3), (7, 7, 3, 16), {"padding": 3, "stride": 2}, {"rows": 1}),
    ("conv2d", (2, 9, 7, 5), (3, 2, 5, 7), {"padding": 1, "dilation": 2}, {}),
    ("conv2d", (2, 7, 7, 20), (1, 1, 20, 70), {"activation": "relu"}, {"rows": 21}),
    ("conv2d", (1, 6, 13, 16), (3, 3, 16, 48), {"stride": (1, 2)}, {"rows": 0}),
    ("conv2d", (3, 7, 7, 16), (3, 3, 16, 64), {"padding": 1}, {"rows": 4, "down": 2, "pixels": 7}),
    ("conv2d", (1, 5, 12, 96), (5, 5, 96, 32), {"padding": ((0, 2), (3, 1))}, {"rows": 2}),
    ("conv2d", (1, 8, 8, 32), (3, 3, 16, 64), {"groups": 2, "padding": 1}, {}),
    ("conv2d", (1, 8, 8, 12), (1, 1, 12, 40), {"stride": 2}, {}),
    ("conv2d", (1, 6, 5, 12), (3, 3, 12, 40), {"padding": 1}, {"packed": False}),
    ("conv2d", (1, 1, 1, 1), (1, 1, 1, 1), {}, {}),
    ("conv1d", (2, 50, 8), (3, 8, 24), {"padding": 1, "layout": "NWC"}, {}),
    ("conv1d", (1, 31, 8), (5, 8, 40), {"stride": 2, "layout": "NWC"}, {"rows": 0}),
    ("conv3d", (1, 4, 5, 7, 8), (3, 3, 3, 8, 20), {"padding": 1, "layout": "NDHWC"}, {}),
]


def program(op, x, weight, attrs, bias=True, dtype="float32"):
    image = te.placeholder(x, dtype, name="x")
    filters = te.placeholder(weight, dtype, name="weight")
    inputs = [image, filters]
    if bias:
        inputs.append(te.placeholder((weight[-1],), dtype, name="b"))
    out = getattr(ops, op)(*inputs, **{"layout": "NHWC", **attrs})
    return te.create_prim_func([*inputs, out], name="conv")


def check(op, sch, shapes, attrs, target, cache):
    """Small integers have exact sums."""
    verify(sch.func)
    rng = np.random.default_rng(0)
    dtype = sch.func.params[0].dtype
    given = [rng.integers(-3, 4, shape).astype(dtype) for shape in shapes]
    want = ops.OPERATORS[op].reference(*given, **{"layout": "NHWC", **attrs})
    kernel = build(sch, target=target, cache=cache)
    np.testing.assert_array_equal(kernel(*given), want)
    return kernel


@pytest.mark.parametrize(("op", "x", "weight", "attrs", "given"), CASES, ids=str)
def test_a_scheduled_convolution(op, x, weight, attrs, given, cache):
    func = program(op, x, weight, attrs)
    sch = Schedule(func)
    plan = dataclasses.replace(library.plan_nhwc(sch, TARGET, "conv"), parallel=True, **given)
    assert library.conv2d_nhwc(sch, TARGET, "conv", plan) == plan
    assert "parallel" in repr(sch.func) and sch.numerics == "bitwise"
    assert repr(Schedule(func).apply(sch.trace).func) == repr(sch.func)
    check(op, sch, [x, weight, weight[-1:]], attrs, TARGET, cache)


@pytest.mark.parametrize("bits", [256, 128])
def test_other_vectors_and_no_stage_after_the_sums(bits, cache):
    x, weight, attrs = (1, 5, 6, 12), (3, 3, 12, 20), {"padding": 1}
    sch = Schedule(program("conv2d", x, weight, attrs, bias=False))
    target = dataclasses.replace(TARGET, vector_bits=bits)
    plan = library.conv2d(sch, target)
    assert isinstance(plan, library.NhwcPlan) and plan.lanes == bits // 32
    check("conv2d", sch, [x, weight], attrs, target, cache)


def test_float64(cache):
    x, weight, attrs = (1, 5, 6, 4), (3, 3, 4, 20), {"padding": 1}
    sch = Schedule(program("conv2d", x, weight, attrs, bias=False, dtype="float64"))
    assert library.conv2d(sch, TARGET).lanes == TARGET.lanes("float64")
    check("conv2d", sch, [x, weight], attrs, TARGET, cache)


@pytest.mark.parametrize("taps", [1, 3])
def test_any_batch(taps, cache):
    weight, attrs = (taps, taps, 5, 19), {"padding": taps // 2, "activation": "relu"}
    sch = Schedule(program("conv2d", (te.var("n"), 6, 7, 5), weight, attrs))
    assert isinstance(library.conv2d(sch, TARGET), library.NhwcPlan)
    kernel = check("conv2d", sch, [(3, 6, 7, 5), weight, weight[-1:]], attrs, TARGET, cache)
    none = [np.zeros(shape, np.float32) for shape in ((0, 6, 7, 5), weight, weight[-1:])]
    assert kernel(*none).shape == (0, 6, 7, 19)


def test_weights_in_another_order(cache):
    x = te.placeholder((1, 7, 9, 6), name="x")
    w = te.placeholder((40, 6, 3, 3), name="w")
    c, r, s = (te.reduce_axis(n, name=name) for n, name in ((6, "c"), (3, "r"), (3, "s")))
    out = te.compute(
        (1, 5, 7, 40),
        lambda n, i, j, o: te.sum(x[n, i + r, j + s, c] * w[o, c, r, s], axis=(r, s, c)),
        name="out",
    )
    func = te.create_prim_func([x, w, out], name="conv")
    sch = Schedule(func)
    assert isinstance(library.conv2d(sch, TARGET), library.NhwcPlan)
    rng = np.random.default_rng(0)
    image, weight = (rng.integers(-3, 4, p.const_shape).astype("float32") for p in func.inputs)
    want = ops.OPERATORS["conv2d"].reference(
        image, weight.transpose(2, 3, 1, 0), layout="NHWC"
    )  # fmt: skip
    np.testing.assert_array_equal(build(sch, target=TARGET, cache=cache)(image, weight), want)


def test_padding_is_no_number_where_the_weights_are_none(cache):
    """0 times infinity is NaN in the definition, and stays so at the edges."""
    attrs = {"padding": 1}
    func = program("conv2d", (1, 4, 4, 3), (3, 3, 3, 16), attrs, bias=False)
    sch = Schedule(func)
    library.conv2d(sch, TARGET)
    x, w = np.ones((1, 4, 4, 3), np.float32), np.ones((3, 3, 3, 16), np.float32)
    w[0, 0, 0, 5] = np.inf
    got = build(sch, target=TARGET, cache=cache)(x, w)
    assert np.isnan(got[0, 0, :, 5]).all() and np.isnan(got[0, :, 0, 5]).all()
    assert np.isposinf(got[0, 1:, 1:, 5]).all() and np.isfinite(got[..., :5]).all()


@pytest.mark.parametrize(
    ("x", "weight", "attrs", "plan"),
    [
        ((1, 56, 56, 64), (3, 3, 64, 64), {"padding": 1}, (14, 1, 2, 4, False)),
        ((1, 56, 56, 256), (1, 1, 256, 64), {}, (14, 1, 2, 56, True)),
        ((1, 224, 224, 3), (7, 7, 3, 64), {"padding": 3, "stride": 2}, (14, 1, 2, 4, False)),
        ((1, 7, 7, 512), (3, 3, 512, 512), {"padding": 1}, (7, 2, 2, 0, False)),
    ],
)
def test_the_plan_follows_the_sizes(x, weight, attrs, plan):
    target = Target("c", vector_bits=512, threads=2)
    found = library.plan_nhwc(Schedule(program("conv2d", x, weight, attrs)), target)
    assert (found.pixels, found.down, found.vectors, found.rows, found.flat) == plan


@pytest.mark.parametrize(
    ("x", "weight", "attrs", "message"),
    [
        ((1, 6, 6, 4), (3, 3, 4, 0), {}, "is empty; there is nothing to schedule"),
        ((1, 4, 6, 6), (4, 4, 3, 3), {"layout": "NCHW"}, "is no sum over .*in layout NHWC"),
        ((1, 6, 6, 8), (3, 3, 4, 6), {"groups": 2}, "has 3 output channels in each of 2 groups"),
    ],
    ids=["empty", "layout", "groups"],
)
def test_refusals(x, weight, attrs, message):
    sch = Schedule(program("conv2d", x, weight, attrs, bias=False))
    before = sch.func
    with pytest.raises(TensorIRError, match=message):
        library.conv2d_nhwc(sch, TARGET, sch.get_blocks()[-1])
    assert sch.func is before


def test_types_that_it_does_not_take_are_named():
    sch = Schedule(program("conv2d", (1, 6, 6, 4), (3, 3, 4, 4), {}, False, "float16"))
    with pytest.raises(TensorIRError, match="elements of float32 or float64"):
        library.conv2d_nhwc(sch, TARGET, "conv")


def test_little_work_is_done_by_one_thread():
    small = program("conv2d", (1, 6, 6, 4), (3, 3, 4, 8), {"padding": 1})
    assert not library.conv2d(Schedule(small), TARGET).parallel
    large = program("conv2d", (1, 30, 30, 16), (3, 3, 16, 16), {"padding": 1})
    assert library.conv2d(Schedule(large), TARGET).parallel


def test_a_refused_program_stays_as_it_was():
    x, r = te.placeholder((1, 6, 6, 8), name="x"), te.placeholder((1, 4, 4, 6), name="r")
    w = te.placeholder((3, 3, 4, 6), name="w")
    y = ops.relu(ops.add(ops.conv2d(x, w, groups=2, layout="NHWC"), r))
    sch = Schedule(te.create_prim_func([x, w, r, y], name="groups"))
    before = sch.func
    with pytest.raises(TensorIRError, match="has 3 output channels"):
        library.conv2d(sch, TARGET)
    assert sch.func is before and len(sch.trace) == 0


def test_a_transposed_convolution_reads_its_copy_backwards(cache):
    """No address before the copy, a local array, may occur: gcc dropped the stores to its start."""
    x, w = te.placeholder((1, 30, 16), name="x"), te.placeholder((3, 20, 16), name="w")
    func = te.create_prim_func([x, w, ops.conv1d_transpose(x, w, layout="NWC")], name="back")
    sch = Schedule(func)
    assert isinstance(library.conv2d(sch, TARGET), library.NhwcPlan)
    rng = np.random.default_rng(0)
    given = [rng.integers(-3, 4, p.const_shape).astype("float32") for p in func.inputs]
    want = ops.OPERATORS["conv1d_transpose"].reference(*given, layout="NWC")
    np.testing.assert_array_equal(build(sch, target=TARGET, cache=cache)(*given), want)
