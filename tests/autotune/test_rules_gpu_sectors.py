"""Rows that begin within a sector of memory, as tiles of convolutions on GPUs fetch them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from autotune.gpu.count import works_of
from autotune.rules import choose
from autotune.rules.gpu.product import ProductPlan
from backends import build
from benchmarks.gpus.counts import EMULATOR, default, implied
from benchmarks.gpus.rows import MEMORY
from schedule import Schedule, ScheduleError, library
from tensorir import Gpu, PrimFunc, Target, ops, reference, te

DEVICE = Gpu(Target.parse("cuda -arch=sm_90a"))

FEW = 1.12
"""Times the sectors that tiles imply. A plan for rows of 57 that moves 1.02 is there too, and takes
1.02 of the time of the one that moves 1.112."""


def conv(shape: tuple[int, ...], weight: tuple[int, ...], **how: int) -> PrimFunc:
    x, w = te.placeholder(shape, name="x"), te.placeholder(weight, name="w")
    return te.create_prim_func([x, w, ops.conv2d(x, w, padding=1, **how)], name="program")


LARGE = {
    "rows of whole sectors": conv((32, 64, 56, 56), (64, 64, 3, 3)),
    "odd rows": conv((32, 64, 57, 57), (64, 64, 3, 3)),
    "groups": conv((32, 64, 28, 28), (64, 16, 3, 3), groups=4),
    "a prime, every second": conv((32, 64, 59, 61), (128, 64, 3, 3), stride=2),
}


@pytest.mark.parametrize("name", LARGE)
def test_tiles_of_windows_move_few_sectors_beside_their_own(name):
    sch, _, counts = default(LARGE[name])
    (work,) = works_of(sch.func, DEVICE)
    assert counts.plan.sectors or counts.plan.results
    assert work.sectors <= FEW * implied(counts)
    assert work.wavefronts <= 1.01 * work.free


def accepts(plan: ProductPlan, tile: library.gpu.TilePlan) -> bool:
    with suppress(ScheduleError):
        plan.apply(plan.base.copy(), {f"{plan.group.block}.tile": tile.values})
        return True
    return False


@pytest.mark.parametrize("size", [33, 41])
def test_rows_from_their_sectors_are_right_and_move_less(size, cache):
    """Of any plan: with as many terms in a step as there are, copied ahead or not."""
    func = conv((1, 4, 5, size), (8, 4, 3, 3))
    (plan,) = choose(func, DEVICE, None, ()).sketch.plans
    assert isinstance(plan, ProductPlan)
    counts = next(x for x in plan.found if x.plan.sectors and accepts(plan, x.plan))
    rng, moved = np.random.default_rng(0), []
    given = [rng.integers(-4, 5, p.const_shape).astype("float32") for p in func.inputs]
    for sectors in (True, False):
        sch = Schedule(func)
        tile = replace(counts.plan, sectors=sectors).values
        plan.apply(sch, {f"{plan.group.block}.tile": tile})
        kernel = build(sch, f"{EMULATOR},races,uninitialised", cache=cache)
        np.testing.assert_array_equal(kernel(*given), reference(func, *given)[0])
        found = [c for c in kernel.findings.counts if (c.space, c.buffer) == ("global", "x")]
        moved.append(sum(c.transactions for c in found))
    assert moved[0] < 0.95 * moved[1]


def turned(shape: tuple[int, ...], order: tuple[int, ...], kind: str = "float32") -> PrimFunc:
    x = te.placeholder(shape, kind, name="x")
    return te.create_prim_func([x, ops.transpose(x, order)], name="program")


def between(m: int, n: int) -> PrimFunc:
    """What is turned stands between a sum along what is read and one along what is written."""
    x, b = te.placeholder((m, n), name="x"), te.placeholder((n,), name="b")
    rows, k = ops.sum(x, 1, name="rows"), te.reduce_axis(m, name="k")
    y = te.compute((n, m), lambda i, j: te.max(x[j, i] - rows[j], 0.0) * b[i], name="y")
    return te.create_prim_func([x, b, y, te.compute((n,), lambda i: te.sum(y[i, k], k), name="z")])


TURNED = {
    "primes": (turned((5003, 3001), (1, 0)), 1.055),
    "what is read begins with sectors": (turned((4099, 4096), (1, 0)), 1.04),
    "what is written begins with them": (turned((4096, 4099), (1, 0)), 1.04),
    "in batches": (turned((3, 2503, 3001), (0, 2, 1)), 1.06),
    "around another axis": (turned((2503, 5, 3001), (2, 1, 0)), 1.06),
    "of 8 bytes": (turned((3001, 4099), (1, 0), "float64"), 1.05),
    "of 2 bytes": (turned((4099, 4101), (1, 0), "float16"), 1.08),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TURNED)
def test_what_is_turned_is_in_tiles_of_many_sectors(name):
    func, most = TURNED[name]
    (work,) = works_of(default(func)[0].func, DEVICE)
    assert work.sectors * Gpu.sector_bytes <= most * work.bytes
    assert work.wavefronts <= 1.01 * work.free
    assert work.occupancy(DEVICE) >= 0.5


SMALL_TURNED = {
    "odd": (turned((67, 41), (1, 0)), "transpose"),
    "in batches, of 8 bytes": (turned((2, 35, 37), (0, 2, 1), "float64"), "transpose"),
    "around another axis": (turned((37, 3, 61), (2, 1, 0)), "transpose"),
    "of 2 bytes": (turned((35, 69), (1, 0), "int16"), "transpose"),
    "between others": (between(35, 41), "y"),
}


@pytest.mark.parametrize("name", SMALL_TURNED)
def test_tiles_from_their_sectors_are_turned_right(name, cache):
    func, block = SMALL_TURNED[name]
    sch, rng = Schedule(func), np.random.default_rng(0)
    library.gpu.transpose(sch, block, tile=64, warps=2, sectors=True)
    given = [rng.integers(-4, 5, p.const_shape).astype(p.dtype) for p in func.inputs]
    kernel = build(sch, f"{EMULATOR},races,uninitialised", cache=cache)
    made, right = kernel(*given), reference(func, *given)
    for found, expected in zip(made if isinstance(made, tuple) else (made,), right):
        np.testing.assert_array_equal(found, expected)


BOXES = {
    "short rows": (turned((300, 7), (1, 0)), (7, 80)),
    "of 8 bytes": (turned((151, 2), (1, 0), "float64"), (2, 80)),
    "of 2 bytes, even": (turned((331, 20), (1, 0), "float16"), (20, 160)),
    "in batches": (turned((3, 157, 9), (0, 2, 1)), (1, 9, 80)),
}


@pytest.mark.parametrize("name", BOXES)
def test_boxes_from_their_sectors_are_turned_right(name, cache):
    func, sizes = BOXES[name]
    x = np.random.default_rng(0).integers(-9, 9, func.inputs[0].const_shape)
    x, moved = x.astype(func.inputs[0].dtype), list[float]()
    for sectors in (True, False):
        sch = Schedule(func)
        library.gpu.boxes(sch, "transpose", sizes, sectors=sectors)
        kernel = build(sch, f"{EMULATOR},races,uninitialised,bounds", cache=cache)
        np.testing.assert_array_equal(kernel(x), reference(func, x)[0])
        counts = kernel.findings.counts
        moved.append(sum(c.transactions for c in counts if c.space == "global"))
    assert moved[0] < moved[1]


LARGE_BOXES = {
    "seven columns": turned((1139011, 7), (1, 0)),
    "twenty columns of 2 bytes": turned((3033705, 20), (1, 0), "float16"),
    "two columns of 8 bytes": turned((1086811, 2), (1, 0), "float64"),
}


@pytest.mark.parametrize("name", LARGE_BOXES)
def test_short_rows_are_turned_in_boxes_of_many_sectors(name):
    (work,) = works_of(default(LARGE_BOXES[name])[0].func, DEVICE)
    assert work.sectors * Gpu.sector_bytes <= MEMORY.most * work.bytes
    assert work.wavefronts <= 1.01 * work.free


def test_records_from_before_there_were_sectors_are_read():
    plan = library.gpu.TilePlan((library.gpu.Cut(2),), (0,), (0,), 1, (), 1, 0, (0,))
    assert library.gpu.TilePlan.of(plan.values) == plan
    assert library.gpu.TilePlan.of(plan.values[:-1]) == plan
    assert library.gpu.TilePlan.of(plan.values[:-2]) == plan
    assert library.gpu.TilePlan.of(plan.values[:-3]) == replace(plan, laid=())
    both = replace(plan, sectors=True, results=True)
    assert library.gpu.TilePlan.of(both.values) == both
    assert library.gpu.TilePlan.of(both.values[:-1]) == replace(both, results=False)
