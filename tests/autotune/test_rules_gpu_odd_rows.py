"""Products and sums whose rows begin within sectors of memory: what they ask for."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.explain import least_transactions
from autotune.gpu.count import works_of
from autotune.rules import choose
from autotune.rules.gpu.product import ProductPlan
from backends import build
from benchmarks.gpus.counts import EMULATOR, default, implied
from benchmarks.gpus.rows import MEMORY, PRODUCT
from schedule import Schedule, library
from tensorir import Gpu, PrimFunc, Target, ops, reference, te

DEVICE = Gpu(Target.parse("cuda -arch=sm_90a"))


def program(make, *shapes: tuple[int, ...], kind: str = "float32") -> PrimFunc:
    given = [te.placeholder(shape, kind, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*given, make(*given)], name="program")


FILLED = {
    "rows of 71 in tiles of 80": program(ops.batch_matmul, (66, 40, 64), (66, 64, 71)),
    "of 53 in 64": program(ops.matmul, (4096, 64), (64, 53)),
}


@pytest.mark.parametrize("name", FILLED)
def test_rows_that_are_filled_up_are_counted_each_by_itself(name):
    """Lanes ask for what fills up a row too, so rows side by side in memory are none in a warp."""
    func = FILLED[name]
    (plan,) = choose(func, DEVICE, None, ()).sketch.plans
    assert isinstance(plan, ProductPlan)
    filled = [
        counts
        for counts in plan.found
        if any(tile.filled > tile.elements and not tile.from_sectors for tile in counts.tiles)
    ]
    assert filled
    for counts in filled[:2]:
        sch = Schedule(func)
        library.gpu.make_tiles(sch, plan.contraction, counts.plan)
        works = works_of(sch.func, DEVICE)
        assert counts.transactions == pytest.approx(sum(work.sectors for work in works), rel=0.1)


def test_short_rows_side_by_side_are_stored_side_by_side():
    """Rows of four channels: threads with four of them each stored every fourth one at once."""
    func = program(
        lambda x, w: ops.conv2d(x, w, layout="NHWC"), (64, 7, 107, 2), (1, 1, 2, 4)
    )  # fmt: skip
    sch, _, counts = default(func)
    moved = sum(work.sectors for work in works_of(sch.func, DEVICE))
    assert counts.transactions == pytest.approx(moved, rel=0.05)
    assert moved <= MEMORY.most * least_transactions(func, {})


FEW = {
    "batches": program(ops.batch_matmul, (333, 13, 31), (333, 31, 183)),
    "rows of terms": program(ops.linear, (2053, 791), (15, 791)),
}


@pytest.mark.parametrize("name", FEW)
def test_few_odd_rows_have_tiles_of_both_sides_where_these_ask_for_less(name):
    sch, _, counts = default(FEW[name])
    moved = sum(work.sectors for work in works_of(sch.func, DEVICE))
    assert moved <= 1.05 * PRODUCT.most * implied(counts)
    assert moved <= 2.5 * least_transactions(FEW[name], {})


LONG = {
    "means": (lambda x: ops.mean(x, 1), (30, 61917), (3, 2055), "float32"),
    "maxima of two bytes": (lambda x: ops.max(x, 1), (3, 1743693), (2, 2177), "float16"),
    "sums of eight bytes, and what is done to them": (
        lambda x: ops.exp(ops.multiply(ops.sum(x, 1), 0.01)), (7, 100001), (3, 2049), "float64",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_sums_of_few_long_odd_rows_read_whole_sectors(name, cache):
    make, large, small, kind = LONG[name]
    func = program(make, large, kind=kind)
    moved = sum(work.sectors for work in works_of(default(func)[0].func, DEVICE))
    assert moved <= MEMORY.most * least_transactions(func, {})
    func = program(make, small, kind=kind)
    given = np.random.default_rng(0).integers(-4, 5, small).astype(kind)
    kernel = build(default(func)[0], f"{EMULATOR},races,uninitialised,bounds", cache=cache)
    np.testing.assert_allclose(kernel(given), reference(func, given)[0], rtol=1e-6)
