"""The schedule of Winograd convolutions, on shapes that fit no tile and ones that fit all."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from backends import build, resolve
from schedule import Schedule, library
from tensorir import Target, TensorIRError, ops, reference, te, verify
from tensorir.ops.winograd import ERROR

TARGET = resolve("c -threads=2")

SHAPES = [  # n, c, o, h, w, tile, padding, rows of tiles in a task (0: threads share channels)
    (1, 16, 64, 8, 8, (4, 4), 1, 1),
    (1, 32, 64, 8, 8, (4, 2), 1, 0),
    (2, 5, 7, 5, 10, (2, 2), 1, 3),
    (1, 33, 20, 5, 3, (2, 4), 1, 0),
    (1, 1, 1, 1, 1, (2, 2), 1, 1),
    (2, 16, 40, 4, 21, (2, 2), 0, 1),
]


def program(n, c, o, h, w, tile, padding, activation="relu", layout="NCHW", dtype="float32"):
    first = layout == "NCHW"
    x = te.placeholder((n, c, h, w) if first else (n, h, w, c), dtype, name="x")
    weight = te.placeholder((o, c, 3, 3) if first else (3, 3, c, o), dtype, name="weight")
    bias = te.placeholder((o,), dtype, name="b")
    out = ops.conv2d_winograd(x, weight, bias, tile, padding, activation, layout)
    return te.create_prim_func([x, weight, bias, out], name="conv")


def arrays(func, seed=0, samples=2):
    rng = np.random.default_rng(seed)
    shapes = [[getattr(size, "value", samples) for size in p.shape] for p in func.params[:3]]
    return [(rng.random(shape) * 2 - 1).astype(func.params[0].dtype) for shape in shapes]


def expected(tile, padding, x, weight, bias, layout="NCHW"):
    exactly = ops.OPERATORS["conv2d_winograd"].reference
    exact = [a.astype(np.float64) for a in (x, weight, bias)]
    return exactly(*exact, tile=tile, padding=padding, activation="relu", layout=layout)


@pytest.mark.parametrize(
    ("shape", "bits"), [*((shape, None) for shape in SHAPES), (SHAPES[1], 256)], ids=str
)
def test_a_scheduled_convolution(shape, bits, cache):
    *sizes, tile, padding, rows = shape
    target = TARGET if bits is None else dataclasses.replace(TARGET, vector_bits=bits)
    func = program(*sizes, tile, padding)
    sch = Schedule(func)
    plan = library.plan_winograd(sch, target)
    shares = 2 if shape is SHAPES[0] else 1
    plan = dataclasses.replace(plan, rows=rows, shares=shares)
    chosen = library.conv2d_winograd(sch, target, plan=plan)
    assert chosen.side == tile and chosen.rows == rows
    verify(sch.func)
    assert "parallel" in repr(sch.func) and "vectorized" in repr(sch.func)
    given = arrays(func)
    want = expected(tile, padding, *given)
    got = build(sch, target=target, cache=cache)(*given)
    assert np.abs(got - want).max() <= ERROR[max(tile)] * np.abs(want).max()


SIDES = [(4, 4), (4, 2), (2, 4), (2, 2)]
LAST = [  # c, o, h, w, padding: channels that fill no vector, images that fill no tile
    (17, 40, 5, 3, 1),
    (3, 17, 2, 3, 2),
    (100, 16, 5, 4, 0),
    (16, 48, 1, 1, 1),
]


@pytest.mark.parametrize(("rows", "samples"), [(0, None), (1, 2)])
@pytest.mark.parametrize(("sizes", "tile"), list(zip(LAST, SIDES)), ids=str)
def test_channels_last_and_any_batch(sizes, tile, samples, rows, cache):
    *sizes, padding = sizes
    batch = te.var("n") if samples is None else samples
    func = program(batch, *sizes, tile, padding, layout="NHWC")
    sch = Schedule(func)
    plan = dataclasses.replace(library.plan_winograd(sch, TARGET), rows=rows)
    library.conv2d_winograd(sch, TARGET, plan=plan)
    verify(sch.func)
    kernel = build(sch, target=TARGET, cache=cache)
    for count in (samples,) if samples else (0, 1, 3):
        given = arrays(func, samples=count)
        want = expected(tile, padding, *given, layout="NHWC")
        found = kernel(*given)
        assert found.shape == want.shape
        worst = np.abs(found - want).max(initial=0)
        assert worst <= ERROR[max(tile)] * np.abs(want).max(initial=0)


@pytest.mark.parametrize("rows", [0, 1])
def test_dimensions_in_another_order(rows, cache):
    """Neither channels nor columns are last: lanes are gathered, and the values are the same."""
    x = te.placeholder((7, 6, 2, 5), "float32", name="x")
    weight = te.placeholder((5, 3, 3, 4), "float32", name="weight")
    c, r, s = (te.reduce_axis(size, name=name) for size, name in ((5, "c"), (3, "r"), (3, "s")))
    out = te.compute(
        (4, 5, 2, 4),
        lambda o, h, n, w: te.sum(x[h + r, w + s, n, c] * weight[c, s, r, o], axis=(c, r, s)),
        "out",
    )
    func = te.create_prim_func([x, weight, out], name="conv")
    sch = Schedule(func)
    last = sch.use_algorithm("out", "winograd_2x4")
    plan = dataclasses.replace(library.plan_winograd(sch, TARGET, last), rows=rows)
    library.conv2d_winograd(sch, TARGET, last, plan)
    rng = np.random.default_rng(0)
    given = [rng.random(shape, np.float32) for shape in ((7, 6, 2, 5), (5, 3, 3, 4))]
    (want,) = reference(func, *given)
    found = build(sch, target=TARGET, cache=cache)(*given)
    np.testing.assert_allclose(found, want, rtol=1e-5)


def test_double_precision_has_its_own_lanes(cache):
    func = program(2, 20, 24, 6, 9, (4, 4), 1, layout="NHWC", dtype="float64")
    sch = Schedule(func)
    plan = library.conv2d_winograd(sch, TARGET)
    assert plan.lanes == TARGET.lanes("float64")
    given = arrays(func)
    want = expected((4, 4), 1, *given, layout="NHWC")
    found = build(sch, target=TARGET, cache=cache)(*given)
    assert np.abs(found - want).max() <= 1e-13 * np.abs(want).max()


def test_a_symbolic_batch_with_channels_first(cache):
    func = program(te.var("n"), 20, 17, 5, 9, (4, 4), 1)
    for rows in (0, 2):
        sch = Schedule(func)
        plan = dataclasses.replace(library.plan_winograd(sch, TARGET), rows=rows)
        library.conv2d_winograd(sch, TARGET, plan=plan)
        given = arrays(func, samples=3)
        want = expected((4, 4), 1, *given)
        found = build(sch, target=TARGET, cache=cache)(*given)
        assert np.abs(found - want).max() <= ERROR[4] * np.abs(want).max()


def test_nan_stays_out_of_channels_that_round_up(cache):
    """Lanes that no channel has are computed along, and never read."""
    func = program(1, 3, 5, 6, 6, (2, 2), 1, layout="NHWC")
    sch = Schedule(func)
    library.conv2d_winograd(sch, TARGET)
    x, weight, bias = arrays(func)
    x[0, 0, 0, 1], weight[1, 1, 2, 4] = np.inf, np.nan
    found = build(sch, target=TARGET, cache=cache)(x, weight, bias)
    want = expected((2, 2), 1, x, weight, bias, layout="NHWC")
    assert np.isnan(found[..., 4]).all() and not np.isnan(found[0, 3:, 3:, :4]).any()
    near = ERROR[2] * np.abs(want[0, 3:, 3:, :4]).max()
    np.testing.assert_allclose(found[0, 3:, 3:, :4], want[0, 3:, 3:, :4], atol=near, rtol=0)


def test_nan_and_infinity_reach_the_tiles_that_read_them(cache):
    func = program(1, 16, 16, 8, 8, (4, 4), 1)
    sch = Schedule(func)
    library.conv2d_winograd(sch, TARGET)
    x, weight, bias = arrays(func)
    plain = build(sch, target=TARGET, cache=cache)
    want = plain(x, weight, bias)
    x[0, 3, 7, 7] = np.nan
    got = plain(x, weight, bias)
    assert np.isnan(got[0, :, 6:, 6:]).all()
    np.testing.assert_array_equal(got[:, :, :4, :4], want[:, :, :4, :4])


def test_the_trace_replays_and_weights_can_come_transformed(cache):
    x = te.placeholder((1, 16, 6, 6), "float32", name="x")
    u = te.placeholder((6, 6, 32, 16), "float32", name="u")
    func = te.create_prim_func([x, u, ops.conv2d_winograd(x, u)], name="conv")
    sch = Schedule(func)
    library.conv2d_winograd(sch, TARGET)
    assert repr(Schedule(func).apply(sch.trace).func) == repr(sch.func)
    rng = np.random.default_rng(1)
    image, weight = rng.random((1, 16, 6, 6), np.float32), rng.random((32, 16, 3, 3), np.float32)
    transformed = ops.OPERATORS["winograd_weights"].reference(weight.astype(np.float64))
    got = build(sch, target=TARGET, cache=cache)(image, transformed.astype(np.float32))
    want = ops.OPERATORS["conv2d_winograd"].reference(image.astype(np.float64), weight)
    assert np.abs(got - want).max() <= ERROR[4] * np.abs(want).max()


@pytest.mark.parametrize(
    ("sizes", "rows", "shares"),
    [
        ((1, 64, 64, 56, 56, (4, 4), 1), 1, 1),  # 14 rows of tiles: 7 for each thread
        ((1, 256, 256, 28, 28, (4, 4), 1), 1, 2),  # 7 rows of tiles cannot be shared evenly
        ((1, 128, 128, 28, 28, (4, 4), 1), 0, 1),  # all transformed inputs fit into the cache
        ((8, 16, 16, 8, 8, (4, 4), 1), 2, 1),  # a sample is a task
        ((8, 512, 512, 7, 7, (4, 4), 1), 0, 1),  # weights beyond the caches are read once
        ((te.var("n"), 512, 512, 7, 7, (4, 4), 1), 0, 1),
        ((te.var("n"), 64, 64, 56, 56, (4, 4), 1), 2, 1),
    ],
)
def test_the_split_of_the_work_follows_the_sizes(sizes, rows, shares):
    target = Target("c", vector_bits=512, threads=2)
    plan = library.plan_winograd(Schedule(program(*sizes)), target)
    assert (plan.rows, plan.shares) == (rows, shares)


def test_refusals():
    x = te.placeholder((1, 4, 6, 6), "float32", name="x")
    weight = te.placeholder((4, 4, 3, 3), "float32", name="weight")
    direct = te.create_prim_func([x, weight, ops.conv2d(x, weight)], name="conv")
    with pytest.raises(TensorIRError, match="no stage 'conv2d_winograd_strips'; make it with ops"):
        library.conv2d_winograd(Schedule(direct), TARGET)
    empty = program(1, 0, 4, 6, 6, (4, 4), 1)
    with pytest.raises(TensorIRError, match="is empty; there is nothing to schedule"):
        library.conv2d_winograd(Schedule(empty), TARGET)
    sch = Schedule(program(1, 4, 4, 6, 6, (4, 4), 1))
    library.conv2d_winograd(sch, TARGET)
    with pytest.raises(TensorIRError, match="another layout already; schedule the definition"):
        library.conv2d_winograd(sch, TARGET)


def test_errors_stay_small_with_many_channels(cache):
    """With Toom-Cook's points 1, -1, 2, -2 they are above 9e-6 here."""
    func = program(1, 512, 16, 8, 8, (4, 4), 1)
    sch = Schedule(func)
    library.conv2d_winograd(sch, TARGET)
    kernel = build(sch, target=TARGET, cache=cache)
    worst = 0.0
    for seed in range(3):
        given = arrays(func, seed)
        want = expected((4, 4), 1, *given)
        worst = max(worst, float(np.abs(kernel(*given) - want).max() / np.abs(want).max()))
    assert worst <= 6e-6
