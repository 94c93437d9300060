"""Results of products whose rows begin within a sector of memory go through shared memory."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from autotune.gpu.count import works_of
from autotune.rules import choose
from autotune.rules.gpu.product import ProductPlan
from autotune.rules.gpu.tile_memory import TileMemory
from backends import build
from benchmarks.gpus.counts import EMULATOR, default, implied
from benchmarks.gpus.rows import PRODUCT
from schedule import Schedule, ScheduleError
from tensorir import Gpu, PrimFunc, Target, ops, reference, te

DEVICE = Gpu(Target.parse("cuda -arch=sm_90a"))


def program(make, *shapes: tuple[int, ...], kind: str = "float32") -> PrimFunc:
    given = [te.placeholder(shape, kind, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*given, make(*given)], name="program")


def conv(x, w, groups: int = 1):
    return ops.conv2d(x, w, padding=1, groups=groups)


def accepts(plan: ProductPlan, tile) -> bool:
    with suppress(ScheduleError):
        plan.apply(plan.base.copy(), {f"{plan.group.block}.tile": tile.values})
        return True
    return False


SMALL = {
    "a prime": program(ops.matmul, (37, 7), (7, 67)),
    "few rows, and warps without any of them": program(ops.matmul, (20, 5), (5, 131)),
    "even rows of two bytes": program(ops.batch_matmul, (3, 33, 5), (3, 5, 74), kind="float16"),
    "odd rows of eight bytes": program(ops.batch_matmul, (2, 35, 6), (2, 6, 65), kind="float64"),
    "an epilogue": program(lambda x, w: ops.relu(ops.matmul(x, w)), (33, 8), (8, 75)),
    "images": program(conv, (2, 3, 7, 67), (18, 3, 3, 3)),
    "one image of one row": program(conv, (1, 3, 1, 75), (17, 3, 3, 3)),
}


@pytest.mark.parametrize("name", SMALL)
def test_results_from_sector_to_sector_are_right_and_ask_for_less(name, cache):
    """Of the first plan that writes them so, and of the same one that does not."""
    func = SMALL[name]
    plan = next(p for p in choose(func, DEVICE, None, ()).sketch.plans)
    assert isinstance(plan, ProductPlan)
    memory = TileMemory(plan.contraction, {*plan.contraction.spatial})
    offered = memory.without_conflicts(memory.to_sectors(x.plan) for x in plan.found)
    tile = next(p for p in offered if p.results and accepts(plan, p))
    rng, stored = np.random.default_rng(0), []
    given = [rng.integers(-4, 5, p.const_shape).astype(p.dtype) for p in func.inputs]
    for results in (True, False):
        sch = Schedule(func)
        plan.apply(sch, {f"{plan.group.block}.tile": replace(tile, results=results).values})
        kernel = build(sch, f"{EMULATOR},races,uninitialised,bounds", cache=cache)
        np.testing.assert_array_equal(kernel(*given), reference(func, *given)[0])
        made = func.outputs[0].name
        found = [c for c in kernel.findings.counts if (c.space, c.buffer) == ("global", made)]
        stored.append(sum(c.transactions for c in found))
    assert stored[0] <= stored[1]


LARGE = {
    "short sums": program(ops.batch_matmul, (21, 1023, 2), (21, 2, 191)),
}


@pytest.mark.parametrize("name", LARGE)
def test_defaults_write_odd_rows_of_results_from_sector_to_sector(name):
    sch, _, counts = default(LARGE[name])
    (work,) = works_of(sch.func, DEVICE)
    assert counts.plan.results
    assert work.sectors <= PRODUCT.most * implied(counts)


def test_tiles_that_are_no_boxes_of_the_result_are_stored_as_they_are():
    """Of 19 channels a group has 20 in a tile: the last one is of the next group."""
    func = program(lambda x, w: conv(x, w, groups=2), (1, 6, 5, 33), (38, 3, 3, 3))
    (plan,) = choose(func, DEVICE, None, ()).sketch.plans
    c = plan.contraction
    parts = [n for n in c.spatial if c.axes[n].extent == 19]
    made = [TileMemory(c, {*c.spatial}).to_sectors(counts.plan) for counts in plan.found]
    assert parts
    for tile in made:
        assert not tile.results or all(19 % tile.cuts[n].total == 0 for n in parts)
