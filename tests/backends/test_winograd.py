"""The schedule of Winograd's algorithm, on shapes that fit no tile and ones that fit all."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from backends import build, resolve
from schedule import Schedule, Trace, library
from tensorir import TensorIRError, ops, reference, te, verify
from tensorir.ops.winograd import ERROR

TARGET = resolve("c -threads=2")
LANES = TARGET.lanes()


def images(shape, weight, dtype="float32"):
    x = te.placeholder(shape, dtype, name="x")
    return x, te.placeholder(weight, dtype, name="w")


def by_op(op, shape, weight, dtype="float32", **options):
    x, w = images(shape, weight, dtype)
    return te.create_prim_func([x, w, op(x, w, name="out", **options)], name="conv")


def conv(n, c, o, h, w, padding, layout="NCHW", activation="relu", dtype="float32", r=3):
    first = layout == "NCHW"
    x, weight = images(
        (n, c, h, w) if first else (n, h, w, c), (o, c, r, r) if first else (r, r, c, o), dtype
    )
    bias = te.placeholder((o,), dtype, name="b")
    out = ops.conv2d(
        x, weight, bias, padding=padding, activation=activation, layout=layout, name="out"
    )
    return te.create_prim_func([x, weight, bias, out], name="conv")


def started(func, algorithm):
    """The program by an algorithm in all blocks, what follows joined, and its stages."""
    sch = Schedule(func)
    for block in [b for b in sch.get_blocks() if sch.state.block(b).is_reduction]:
        last = sch.use_algorithm(block, algorithm)
        if len(users := sch.get_consumers(last)) == 1:
            sch.reverse_compute_inline(users[0])
    sums = [str(b) for b in sch.get_blocks() if sch.state.block(b).is_reduction]
    return sch, [library.find_winograd(sch, name) for name in sums]


def scheduled(func, algorithm, plan):
    sch, found = started(func, algorithm)
    for stages in found:
        library.make_winograd(sch, stages, plan)
    return sch


def arrays_of(func, samples=2, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [[getattr(size, "value", samples) for size in p.shape] for p in func.inputs]
    return [(rng.random(s) * 2 - 1).astype(p.dtype) for s, p in zip(shapes, func.inputs)]


def check(func, sch, bound, cache, samples=(2,), target=TARGET):
    verify(sch.func)
    assert "parallel" in repr(sch.func) and "vectorized" in repr(sch.func)
    kernel = build(sch, target=target, cache=cache)
    for count in samples:
        given = arrays_of(func, count)
        (want,) = reference(func, *given)
        found = kernel(*given)
        assert found.shape == want.shape
        worst = np.abs(found - want).max(initial=0)
        assert worst <= bound * np.abs(want).max(initial=0)


def plan(tiles=4, panel=LANES, rows=1, shares=1, lanes=LANES):
    return library.WinogradPlan(lanes, tiles, panel, rows, shares)


SHAPES = [  # n, c, o, h, w, padding, tile, the plan
    (1, 16, 64, 8, 8, 1, "4x4", plan(2, 2 * LANES, 1, 2)),
    (1, 32, 64, 8, 8, 1, "4x2", plan(3, 2 * LANES, 0)),
    (2, 5, 7, 5, 10, 1, "2x2", plan(5, LANES, 3)),
    (1, 33, 20, 5, 3, 1, "2x4", plan(14, 2 * LANES, 0)),
    (1, 4, 1, 1, 1, 1, "2x2", plan()),
    (2, 16, 40, 4, 21, 0, "2x2", plan(7, LANES, 1)),
    (1, 16, 48, 20, 40, 1, "4x4", plan(13, 2 * LANES, 5)),  # tiles of a task in uneven parts
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_scheduled_convolution(shape, cache):
    *sizes, tile, chosen = shape
    func = conv(*sizes)
    check(func, scheduled(func, f"winograd_{tile}", chosen), ERROR[4], cache)


def test_the_steps_replay():
    *sizes, tile, chosen = SHAPES[0]
    func = conv(*sizes)
    sch = scheduled(func, f"winograd_{tile}", chosen)
    replayed = Schedule(func).apply(Trace.from_json(sch.trace.dumps()))
    assert str(replayed.func) == str(sch.func)


def test_narrower_vectors(cache):
    target = dataclasses.replace(TARGET, vector_bits=128)
    func = conv(1, 12, 20, 8, 8, 1)
    sch = scheduled(func, "winograd_4x2", plan(3, 8, 0, lanes=4))
    check(func, sch, ERROR[4], cache, target=target)


LAST = [  # c, o, h, w, padding: channels that fill no vector, images that fill no tile
    (17, 40, 5, 3, 1),
    (4, 17, 2, 3, 2),
    (100, 16, 5, 4, 0),
    (16, 48, 1, 1, 1),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("sizes", "tile", "rows", "samples"),
    list(zip(LAST, ("4x4", "4x2", "2x4", "2x2"), (0, 1, 1, 0), (None, 2, None, 2))),
    ids=str,
)
def test_channels_last_and_any_batch(sizes, tile, rows, samples, cache):
    *sizes, padding = sizes
    func = conv(samples or te.var("n"), *sizes, padding, layout="NHWC")
    sch = scheduled(func, f"winograd_{tile}", plan(rows=rows))
    check(func, sch, ERROR[4], cache, (samples,) if samples else (0, 1, 3))


def test_a_symbolic_batch_with_channels_first(cache):
    func = conv(te.var("n"), 20, 17, 5, 9, 1)
    check(func, scheduled(func, "winograd_4x4", plan(rows=2)), ERROR[4], cache, (3,))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("func", "algorithm", "panel", "rows"),
    [
        (by_op(ops.conv1d, (2, 8, 21), (20, 8, 3), padding=1), "winograd_4", LANES, 0),
        (by_op(ops.conv1d, (2, 8, 21), (20, 8, 5), padding=2), "winograd_2", LANES, 1),
        (conv(1, 16, 24, 7, 6, 2, r=5), "winograd_2x2", LANES, 0),
        (by_op(ops.conv2d, (1, 8, 9, 12), (16, 8, 3, 7)), "winograd_4", LANES, 1),
        (by_op(ops.conv2d, (1, 8, 9, 9), (16, 8, 3, 3), stride=(2, 1)), "winograd_2", LANES, 0),
        (
            by_op(ops.conv3d, (1, 6, 3, 5, 4), (17, 6, 3, 3, 3), padding=1),
            "winograd_2x2x2", LANES, 1,
        ),
        (
            by_op(ops.conv2d, (2, 16, 5, 7), (32, 4, 3, 3), groups=4, padding=1),
            "winograd_2x2", 8, 0,
        ),
    ],
    ids=["1d", "1d of five taps", "five taps", "one window of two", "one stride", "3d", "groups"],
)  # fmt: skip
def test_other_windows(func, algorithm, panel, rows, cache):
    """One to three windows of three or five taps; others, of any step, stay what they are."""
    check(func, scheduled(func, algorithm, plan(3, panel, rows)), ERROR[4], cache)


def any_order(element, shape, *inputs):
    return te.create_prim_func([*inputs, te.compute(shape, element, "out")], name="conv")


def _sums(*sizes):
    return [te.reduce_axis(size, name=f"k{n}") for n, size in enumerate(sizes)]


def _gathered():
    x, w = images((7, 6, 2, 5), (5, 3, 3, 4))
    c, r, s = _sums(5, 3, 3)
    return any_order(
        lambda o, h, n, v: te.sum(x[h + r, v + s, n, c] * w[c, s, r, o], axis=(c, r, s)),
        (4, 5, 2, 4), x, w,
    )  # fmt: skip


def _without_samples(flipped):
    x, w = images((6, 11, 10), (12, 6, 3, 3))
    c, r, s = _sums(6, 3, 3)
    at = (lambda h: h - r + 2) if flipped else (lambda h: h + r)
    tap = (lambda k: k) if flipped else (lambda k: 2 - k)
    return any_order(
        lambda o, h, v: te.sum(x[c, at(h), v + s] * w[o, c, tap(r), s], axis=(c, r, s)),
        (12, 9, 8), x, w,
    )  # fmt: skip


def _weights_of_samples():
    x, w = images((3, 2, 6, 8, 7), (2, 12, 6, 3, 3))
    c, r, s = _sums(6, 3, 3)
    return any_order(
        lambda n, g, o, h, v: te.sum(x[n, g, c, h + r, v + s] * w[g, o, c, r, s], axis=(c, r, s)),
        (3, 2, 12, 6, 5), x, w,
    )  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("func", "rows"),
    [
        (_gathered(), 0), (_without_samples(False), 1), (_without_samples(True), 0),
        (_weights_of_samples(), 1),
    ],
    ids=["no channels last", "taps backwards", "image backwards", "two batches"],
)  # fmt: skip
def test_dimensions_of_any_kind_and_order(func, rows, cache):
    check(func, scheduled(func, "winograd_2x4", plan(3, rows=rows)), ERROR[4], cache)


def test_double_precision_has_its_own_lanes(cache):
    func = conv(2, 20, 24, 6, 9, 1, layout="NHWC", dtype="float64")
    lanes = TARGET.lanes("float64")
    check(func, scheduled(func, "winograd_4x4", plan(panel=lanes, lanes=lanes)), 1e-13, cache)


def test_two_in_one_program(cache):
    """Each has its stages, and what is around them stays; the second reads what the first made."""
    x, a = images((1, 16, 9, 9), (16, 16, 3, 3))
    b = te.placeholder((16, 16, 3, 3), name="b")
    first = ops.conv2d(x, a, padding=1, activation="relu", name="first")
    second = ops.conv2d(first, b, padding=1, name="second")
    func = te.create_prim_func([x, a, b, second], name="two")
    sch, found = started(func, "winograd_4x4")
    assert len(found) == 2 and not set(found[0].blocks) & set(found[1].blocks)
    for stages, rows in zip(found, (1, 0)):
        library.make_winograd(sch, stages, plan(rows=rows))
    check(func, sch, ERROR[4], cache)


def test_nan_stays_out_of_channels_that_round_up(cache):
    """Lanes that no channel has are computed along, and never read."""
    func = conv(1, 4, 5, 6, 6, 1, layout="NHWC")
    sch = scheduled(func, "winograd_2x2", plan(rows=0))
    x, weight, bias = arrays_of(func)
    x[0, 0, 0, 1], weight[1, 1, 2, 4] = np.inf, np.nan
    found = build(sch, target=TARGET, cache=cache)(x, weight, bias)
    (want,) = reference(func, x, weight, bias)
    assert np.isnan(found[..., 4]).all() and not np.isnan(found[0, 3:, 3:, :4]).any()
    near = ERROR[2] * np.abs(want[0, 3:, 3:, :4]).max()
    np.testing.assert_allclose(found[0, 3:, 3:, :4], want[0, 3:, 3:, :4], atol=near, rtol=0)


def test_nan_reaches_the_tiles_that_read_it(cache):
    func = conv(1, 16, 16, 8, 8, 1)
    kernel = build(scheduled(func, "winograd_4x4", plan()), target=TARGET, cache=cache)
    x, weight, bias = arrays_of(func)
    want = kernel(x, weight, bias)
    x[0, 3, 7, 7] = np.nan
    got = kernel(x, weight, bias)
    assert np.isnan(got[0, :, 6:, 6:]).all()
    np.testing.assert_array_equal(got[:, :, :4, :4], want[:, :, :4, :4])


def test_weights_can_come_transformed(cache):
    x = te.placeholder((1, 16, 6, 6), "float32", name="x")
    u = te.placeholder((6, 6, 24, 16), "float32", name="u")
    func = te.create_prim_func([x, u, ops.conv2d_winograd(x, u)], name="conv")
    sch = Schedule(func)
    found = library.find_winograd(sch, "conv2d_winograd_products")
    assert found.weight == "u"
    library.make_winograd(sch, found, plan())
    rng = np.random.default_rng(1)
    image, weight = rng.random((1, 16, 6, 6), np.float32), rng.random((24, 16, 3, 3), np.float32)
    transformed = ops.OPERATORS["winograd_weights"].reference(weight.astype(np.float64))
    got = build(sch, target=TARGET, cache=cache)(image, transformed.astype(np.float32))
    want = ops.OPERATORS["conv2d_winograd"].reference(image.astype(np.float64), weight)
    assert np.abs(got - want).max() <= ERROR[4] * np.abs(want).max()


def test_refusals():
    direct = Schedule(by_op(ops.conv2d, (1, 4, 6, 6), (4, 4, 3, 3)))
    with pytest.raises(TensorIRError, match="neither operand is made of tiles of an image; make"):
        library.find_winograd(direct, "out")
    sch, (found,) = started(conv(1, 4, 4, 6, 6, 1), "winograd_4x4")
    with pytest.raises(TensorIRError, match="it is no reduction"):
        library.find_winograd(sch, found.pad)
    before = str(sch.func)
    for wrong, match in (
        ({"panel": 0}, "panel=0 is no positive integer"),
        ({"rows": -1}, "rows=-1 is no integer from 0 on"),
        ({"lanes": 8, "panel": 12}, "a panel of 12 filters is no whole number of vectors of 8"),
    ):
        with pytest.raises(TensorIRError, match=match):
            library.make_winograd(sch, found, plan(**wrong))
    assert str(sch.func) == before
    grouped, (stages,) = started(
        by_op(ops.conv2d, (1, 16, 6, 6), (24, 4, 3, 3), groups=4), "winograd_2x2"
    )
    with pytest.raises(TensorIRError, match="a panel of 4 filters does not divide the 6 that have"):
        library.make_winograd(grouped, stages, plan(panel=4))
    library.make_winograd(sch, found, plan())
    with pytest.raises(TensorIRError, match="is not between the transforms of Winograd's"):
        library.find_winograd(sch, found.products)
    x = te.placeholder((1, 0, 6, 6), name="x")
    w = te.placeholder((4, 0, 3, 3), name="w")
    empty = te.create_prim_func([x, w, ops.conv2d_winograd(x, w, name="out")], name="conv")
    with pytest.raises(TensorIRError, match="it is empty; there is nothing to schedule"):
        library.find_winograd(Schedule(empty), "out_products")


def test_errors_stay_small_with_many_channels(cache):
    """With Toom-Cook's points 1, -1, 2, -2 they are above 9e-6 here."""
    func = conv(1, 512, 16, 8, 8, 1)
    sch = scheduled(func, "winograd_4x4", plan())
    kernel = build(sch, target=TARGET, cache=cache)
    worst = 0.0
    for seed in range(3):
        given = arrays_of(func, seed=seed)
        exact = [a.astype(np.float64) for a in given]
        want = ops.OPERATORS["conv2d"].reference(*exact, padding=1, activation="relu")
        worst = max(worst, float(np.abs(kernel(*given) - want).max() / np.abs(want).max()))
    assert worst <= 6e-6
