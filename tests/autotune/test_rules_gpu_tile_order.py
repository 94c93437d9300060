"""Which of the tiles of a contraction on a GPU is the first."""

from types import SimpleNamespace

import pytest

from autotune.gpu.count import rooms_of, works_of
from autotune.gpu.work import cycles
from autotune.rules import choose
from autotune.rules.gpu.product import ProductPlan
from autotune.rules.gpu.tiles import in_order
from schedule import Refusal, Schedule, library
from tensorir import device_of, ops, te
from tensorir.targets.target import Target

DEVICE = device_of(Target.parse("cuda -arch=sm_90a"))


def test_of_tiles_that_take_about_as_long_that_which_moves_least_is_the_first():
    """Of equal ones that with all terms in one step; the launch belongs to the time."""
    kinds = [(900, 50, 1), (800, 60, 2), (800, 60, 1), (990, 40, 1), (5000, 1, 1)]
    given = [SimpleNamespace(cycles=c, call=c + 4000, transactions=t, steps=s) for c, t, s in kinds]
    found = [(x.cycles, x.transactions, x.steps) for x in in_order(given)]
    assert found == [(990, 40, 1), (900, 50, 1), (800, 60, 1), (800, 60, 2), (5000, 1, 1)]


@pytest.mark.parametrize(
    ("form", "dtype", "m", "n", "k"),
    [
        (ops.matmul, "float32", 12, 4096, 4096),
        (ops.linear, "float16", 4, 4096, 4096),
        (ops.linear, "float32", 12, 4096, 4096),
        (ops.matmul, "float32", 8, 4097, 4099),
        (ops.linear, "float32", 8, 1493, 512),
    ],
)
def test_tiles_take_about_what_is_counted_in_their_code(form, dtype, m, n, k):
    """Of few rows, where waits, shuffles and launches decide: so the first one is hardly slower by
    its code than those behind it, read from memory or copied, in parts or not."""
    x = te.placeholder((m, k), dtype, name="x")
    w = te.placeholder((n, k) if form is ops.linear else (k, n), dtype, name="w")
    func = te.create_prim_func([x, w, form(x, w)])
    sketch = choose(func, DEVICE, None, ()).sketch
    (plan,) = [plan for plan in sketch.plans if isinstance(plan, ProductPlan)]
    first = {(t.plan.shared, t.plan.split > 1, t.plan.sectors): t for t in plan.found[15::-1]}
    taken = {}
    for tile in first.values():
        sch = Schedule(func)
        library.gpu.make_tiles(sch, plan.contraction, tile.plan)
        taken[tile.text] = cycles(works_of(sch.func, DEVICE), DEVICE)
        assert 0.6 * taken[tile.text] < tile.call < 1.5 * taken[tile.text], tile.text
    assert len(taken) > 1
    assert taken[plan.chosen.text] < 1.15 * min(taken.values()), taken


def test_few_blocks_have_a_warp_for_each_part_of_a_multiprocessor():
    """All of them wait as long in short steps, whatever they compute meanwhile: those that compute
    for less time are looked at in longer ones."""
    x, w = te.placeholder((512, 256), name="x"), te.placeholder((256, 512), name="w")
    sketch = choose(te.create_prim_func([x, w, ops.matmul(x, w)]), DEVICE, None, ()).sketch
    (plan,) = [plan for plan in sketch.plans if isinstance(plan, ProductPlan)]
    assert plan.chosen.plan.split == 1
    assert int(plan.chosen.of.warps[plan.chosen.row]) >= 4


@pytest.mark.parametrize(
    ("x", "w", "how"),
    [
        ((2, 6, 17, 23), (9, 6, 3, 3), {"padding": 1}),
        ((3, 5, 19, 40), (17, 5, 3, 3), {"stride": 2}),
        ((2, 11, 31, 8), (5, 3, 8, 19), {"layout": "NHWC"}),
    ],
)
def test_blocks_have_at_most_the_shared_memory_that_tiles_tell(x, w, how):
    """So that a schedule of windows need not be lowered to know that it can be launched."""
    x, w = te.placeholder(x, name="x"), te.placeholder(w, name="w")
    func = te.create_prim_func([x, w, ops.conv2d(x, w, **how)])
    (plan,) = [p for p in choose(func, DEVICE, None, ()).sketch.plans if p.name == "product"]
    told = 0
    for tile in plan.found[:8]:
        sch = plan.base.copy()
        try:
            most = library.gpu.make_tiles(sch, plan.contraction, tile.plan)
        except Refusal:
            continue
        if most is not None:
            told += 1
            rooms = rooms_of(sch.func, DEVICE, registers=False)
            assert 0 < max(room.shared for room in rooms) <= most
    assert told
