"""Stencils, pooling and depthwise convolutions on GPUs: what they move, and that they are right."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from autotune import default_schedule
from autotune.explain import least_transactions
from autotune.gpu.count import rooms_of, works_of
from autotune.rules import choose
from autotune.rules.gpu.windows.surroundings import surroundings
from autotune.rules.group import find_groups
from backends import build
from schedule import Schedule, ScheduleError
from schedule.library import gpu
from tensorir import Gpu, PrimFunc, Target, Var, ops, reference, te
from tensorir.dtype import itemsize

EMULATOR = "cuda-emulator -arch=sm_90a"
DEVICE = Gpu(Target.parse(EMULATOR))


def program(make, *shapes, dtype="float32") -> PrimFunc:
    inputs = [te.placeholder(shape, dtype, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, make(*inputs)], name="program")


def cross(x):
    """The sum of the neighbours along each axis."""
    inner = [extent - 2 for extent in x.shape]

    def element(*at):
        return sum(
            x[tuple(i + (2 * side if n == axis else 1) for n, i in enumerate(at))]
            for axis in range(len(at))
            for side in (0, 1)
        )

    return te.compute(tuple(inner), element, name="out")


def mixed(x, y):
    """Neighbours of one array, along the rows of another that is turned."""
    m, n = x.shape[0], x.shape[1] - 2
    return te.compute(
        (m, n), lambda i, j: x[i, j] * y[j, i] + x[i, j + 2] + y[j + 1, i], name="out"
    )


def turned_pool(x):
    """Maxima whose channels are last."""
    r, s = te.reduce_axis(3, name="r"), te.reduce_axis(3, name="s")
    n, c, h, w = x.shape
    return te.compute(
        (n, (h - 1) // 2, (w - 1) // 2, c),
        lambda b, i, j, k: te.max(x[b, k, 2 * i + r, 2 * j + s], axis=[r, s]), name="out",
    )  # fmt: skip


def depthwise(layout):
    return lambda x, w: ops.depthwise_conv2d(x, w, padding=1, layout=layout)


WIDE = {
    "stencil": program(cross, (8194, 8194)),
    "stencil, primes": program(cross, (4099, 4093)),
    "pooling, primes": program(lambda x: ops.max_pool2d(x, 3, 2), (8, 64, 227, 113)),
    "stencil in three dimensions": program(cross, (258, 258, 258)),
    "pooling, padded": program(lambda x: ops.max_pool2d(x, 3, 2, 1), (32, 64, 112, 112)),
    "pooling, turned": program(turned_pool, (32, 64, 113, 113)),
    "depthwise": program(depthwise("NCHW"), (32, 128, 56, 56), (128, 1, 3, 3)),
    "depthwise, channels last": program(depthwise("NHWC"), (32, 56, 56, 128), (3, 3, 1, 128)),
}
MOVED = {"stencil, primes": 1.16, "pooling, primes": 1.16, "stencil in three dimensions": 1.5,
         "pooling, turned": 1.3, "pooling, padded": 1.17}  # fmt: skip
"""Times the arguments that they move, at most: rows that begin within a sector cost more; 1.15 of
the others."""


@pytest.mark.parametrize("name", WIDE)
def test_windows_are_read_once_without_conflicts(name):
    func = WIDE[name]
    (work,) = works_of(default_schedule(func, EMULATOR).func, DEVICE)
    least = sum(prod(p.const_shape) * itemsize(p.dtype) for p in func.params) / Gpu.sector_bytes
    assert work.sectors <= MOVED.get(name, 1.15) * least
    assert work.wavefronts <= (1.6 if "turned" in name else 1.01) * work.free
    assert replace(work, registers=32).occupancy(DEVICE) >= 0.5


ODD = {
    "average pool": program(lambda x: ops.avg_pool2d(x, 3, 2), (64, 9, 127, 127)),
    "maximum pool": program(lambda x: ops.max_pool2d(x, 2), (32, 16, 86, 150)),
    "depthwise": program(depthwise("NCHW"), (32, 64, 29, 83), (64, 1, 3, 3)),
    "stencil": program(cross, (20011, 189)),
}


@pytest.mark.parametrize("name", ODD)
def test_short_rows_of_odd_length_are_written_from_sector_to_sector(name):
    """Each row of a warp ended in a sector that the next one began in: up to 1.2 times."""
    (work,) = works_of(default_schedule(ODD[name], EMULATOR).func, DEVICE)
    assert work.sectors <= 1.15 * least_transactions(ODD[name], {})
    assert work.wavefronts <= 1.01 * work.free


N = Var("n")
SMALL = {
    "stencil, primes": program(cross, (37, 71)),
    "stencil of any length": program(cross, (N, 41)),
    "two arrays": program(mixed, (13, 70), (69, 13)),
    "pooling, turned": program(turned_pool, (1, 5, 9, 77)),
    "depthwise, channels last": program(
        lambda x, w: ops.depthwise_conv2d(x, w, stride=2, padding=1, layout="NHWC"),
        (1, 9, 7, 34), (3, 3, 1, 34), dtype="float64",
    ),
}  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SMALL)
def test_any_windows_are_right_without_races(name, cache):
    func = SMALL[name]
    sketch = choose(func, DEVICE, None, ()).sketch
    assert [plan.name for plan in sketch.plans] == ["windows"]
    rng = np.random.default_rng(0)
    shapes = [[23 if isinstance(d, Var) else d.value for d in p.shape] for p in func.inputs]
    given = [rng.integers(-4, 5, shape).astype(p.dtype) for p, shape in zip(func.inputs, shapes)]
    sch = sketch.build(sketch.values())
    kernel = build(sch, f"{EMULATOR} -check=races,uninitialised", cache=cache)
    np.testing.assert_allclose(kernel(*given), reference(func, *given)[0], 1e-5, 1e-5)


@pytest.mark.parametrize(("step", "shape"), [(2, (2, 3, 37, 77)), (1, (1, 2, 21, 67))])
def test_copies_begin_where_sectors_do(step, shape, cache):
    """Of rows that begin within one, as far as elements are that neighbours skip."""
    func, sectors = program(lambda x: ops.max_pool2d(x, 3, step, 1), shape), []
    given = np.random.default_rng(0).integers(-4, 5, shape).astype("float32")
    (plan,) = choose(func, DEVICE, None, ()).sketch.plans
    for way in (False, True):
        sch = Schedule(func)
        plan.apply(sch, {**plan.default(), plan.key("sectors"): way})
        (work,) = works_of(sch.func, DEVICE)
        sectors.append(work.sectors)
    kernel = build(sch, f"{EMULATOR} -check=races,uninitialised", cache=cache)
    np.testing.assert_array_equal(kernel(given), reference(func, given)[0])
    assert sectors[1] < 0.96 * sectors[0]


OTHERS = {
    "nothing around": program(lambda x: ops.relu(x), (64, 64)),
    "too far": program(
        lambda x: te.compute((4096,), lambda i: x[i] + x[i + 4096], name="out"), (8192,)
    ),
    "another order": program(
        lambda x: te.compute((64,), lambda i: x[i] + x[63 - i], name="out"), (64,)
    ),
    "for all channels": program(lambda x, w: ops.conv2d(x, w), (1, 8, 9, 9), (8, 8, 3, 3)),
    "nothing": program(cross, (2, 9)),
    "one result": program(cross, (3, 3)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_windows_are_not_for(name):
    plans = choose(OTHERS[name], DEVICE, None, ()).sketch.plans
    assert "windows" not in [plan.name for plan in plans]


def test_surroundings_are_told_along_each_axis():
    sch = Schedule(program(lambda x: ops.max_pool2d(x, 3, 2), (4, 8, 33, 35)))
    (group,) = find_groups(sch)
    found = surroundings(sch.state.block(group.block))
    told = [(side.extent, side.step, side.reach) for side in found.sides]
    assert told == [(4, 1, 0), (8, 1, 0), (16, 2, 2), (17, 2, 2)]
    assert (found.near, found.places, found.elements((1, 1, 2, 3))) == (3, 9, 5 * 7)


@pytest.mark.parametrize(
    ("threads", "own", "reason"),
    [((2, 16), (1,), "give both for each"), ((1, 1), (2, 2), "a block of one thread")],
)
def test_boxes_that_are_none(threads, own, reason):
    sch = Schedule(program(cross, (9, 9)))
    before = str(sch.func)
    with pytest.raises(ScheduleError, match=reason):
        gpu.windows(sch, "out", threads, own)
    assert str(sch.func) == before


def test_boxes_hold_what_they_were_taken_to_and_else_are_refused():
    func = program(lambda x: ops.avg_pool3d(x, 2), (Var("n"), 2, 7, 6, 5))
    (plan,) = choose(func, DEVICE, None, ()).sketch.plans
    sch = Schedule(func)
    plan.apply(sch, plan.default())
    (room,) = rooms_of(sch.func, DEVICE)
    assert 2 * room.at_once(DEVICE) * room.threads >= DEVICE.architecture.warps * Gpu.warp
    large = {plan.key("tile"): ((64, 2, 4, 1, 1), (8, 1, 1, 4, 2)), plan.key("sectors"): False,
             plan.key("results"): False}  # fmt: skip
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match="512 threads would have .* bytes of shared memory"):
        plan.apply(sch, large)
    assert not len(sch.trace)


DEPTHWISE = {
    "seven pixels": ((32, 256, 7, 7), 3, 1, "NCHW"),
    "a stride": ((32, 64, 28, 28), 3, 2, "NCHW"),
    "two pixels": ((59, 7, 14, 2), 2, 2, "NCHW"),
    "few channels, last": ((35, 30, 54, 5), 3, 2, "NHWC"),
}


@pytest.mark.parametrize("name", DEPTHWISE)
def test_lanes_that_read_several_rows_meet_in_few_banks(name):
    """Rows of seven and their surroundings lay nine words apart, of which four meet in banks; what
    is left is of the lanes that copy."""
    shape, size, stride, layout = DEPTHWISE[name]
    weights = (shape[1], 1, size, size) if layout == "NCHW" else (size, size, 1, shape[3])

    def depthwise(x, w):
        return ops.depthwise_conv2d(x, w, stride=stride, padding=size // 2, layout=layout)

    (work,) = works_of(default_schedule(program(depthwise, shape, weights), EMULATOR).func, DEVICE)
    assert work.wavefronts <= 1.3 * work.free


@pytest.mark.parametrize("shape", [(52, 113, 17, 29), (99, 113, 21, 13)])
def test_rows_of_pixels_with_few_channels_are_fetched_as_one(shape):
    """Of 29 channels a warp had one pixel at once, whose sectors are another one's too."""

    def depthwise(x, w):
        return ops.depthwise_conv2d(x, w, stride=3, layout="NHWC")

    func = program(depthwise, shape, (3, 3, 1, shape[-1]))
    (work,) = works_of(default_schedule(func, EMULATOR).func, DEVICE)
    assert work.sectors <= 1.15 * least_transactions(func, {})


@pytest.mark.parametrize("channels", [61, 121])
def test_pieces_of_rows_that_begin_within_a_sector_are_long(channels):
    """Each has a part of a sector at both ends: eight channels are in two sectors, which is twice
    the least. Long ones leave room for fewer pixels, whose surroundings are read again."""

    def depthwise(x, w):
        return ops.depthwise_conv2d(x, w, padding=1, layout="NHWC")

    func = program(depthwise, (2, 44, 157, channels), (3, 3, 1, channels))
    (work,) = works_of(default_schedule(func, EMULATOR).func, DEVICE)
    assert work.sectors * Gpu.sector_bytes <= 1.55 * work.bytes


@pytest.mark.parametrize("kind", ["uint8", "float16", "float32"])
def test_what_a_thread_reads_of_several_pieces_of_a_row_is_held_piece_by_piece(kind):
    """Rows of narrow types are long ones: a thread has several pieces of them, far apart, and reads
    for each what it reads for one. Each word of a window was read for each result."""
    func = program(blur, (4098, 4098), dtype=kind)
    (work,) = works_of(default_schedule(func, EMULATOR).func, DEVICE)
    results = 4096 * 4096 / Gpu.warp
    assert work.wavefronts <= 5.5 * results


def blur(x):
    r, s = te.reduce_axis(3, name="r"), te.reduce_axis(3, name="s")
    shape = [size - 2 for size in x.shape]
    return te.compute(shape, lambda i, j: te.sum(x[i + r, j + s], axis=[r, s]), name="out")
