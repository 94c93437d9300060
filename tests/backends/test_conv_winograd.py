"""The schedule of Winograd convolutions, on shapes that fit no tile and ones that fit all."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from backends import build, resolve
from schedule import Schedule, library
from tensorir import Target, TensorIRError, ops, te, verify
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


def program(n, c, o, h, w, tile, padding, activation="relu"):
    x = te.placeholder((n, c, h, w), "float32", name="x")
    weight = te.placeholder((o, c, 3, 3), "float32", name="weight")
    bias = te.placeholder((o,), "float32", name="b")
    out = ops.conv2d_winograd(x, weight, bias, tile, padding, activation)
    return te.create_prim_func([x, weight, bias, out], name="conv")


def arrays(func, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [tuple(size.value for size in p.shape) for p in func.params[:3]]
    return [rng.random(shape, np.float32) * 2 - 1 for shape in shapes]


def expected(tile, padding, x, weight, bias):
    reference = ops.OPERATORS["conv2d_winograd"].reference
    exact = [a.astype(np.float64) for a in (x, weight, bias)]
    return reference(*exact, tile=tile, padding=padding, activation="relu")


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
    ],
)
def test_the_split_of_the_work_follows_the_sizes(sizes, rows, shares):
    target = Target("c", vector_bits=512, threads=2)
    plan = library.plan_winograd(Schedule(program(*sizes)), target)
    assert (plan.rows, plan.shares) == (rows, shares)


def test_refusals():
    x = te.placeholder((te.var("n"), 4, 6, 6), "float32", name="x")
    weight = te.placeholder((4, 4, 3, 3), "float32", name="weight")
    symbolic = te.create_prim_func([x, weight, ops.conv2d_winograd(x, weight)], name="conv")
    with pytest.raises(TensorIRError, match="has the symbolic extent .*constant sizes"):
        library.conv2d_winograd(Schedule(symbolic), TARGET)
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
