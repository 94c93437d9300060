"""What a step of a product asks memory for is under way together, whatever its rows are."""

from __future__ import annotations

import pytest

from autotune.gpu.count import works_of
from autotune.rules import choose
from tensorir import Gpu, PrimFunc, Target, ops, te

DEVICE = Gpu(Target.parse("cuda -arch=sm_90a"))


def product(make, *shapes: tuple[int, ...], dtype: str = "float32") -> PrimFunc:
    inputs = [te.placeholder(shape, dtype, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, make(*inputs)], name="product")


PRODUCTS = {
    "rows of sectors": product(ops.matmul, (2048, 1636), (1636, 36)),
    "odd": product(ops.matmul, (2047, 1637), (1637, 37)),
    "one row more": product(ops.matmul, (257, 512), (512, 256)),
    "halves": product(ops.matmul, (513, 511), (511, 515), dtype="float16"),
    "doubles": product(ops.matmul, (129, 127), (127, 131), dtype="float64"),
    "turned": product(lambda a, b: ops.matmul(a, b, transpose_b=True), (284, 1481), (273, 1481)),
    "batches": product(ops.batch_matmul, (32, 181, 953), (32, 953, 17)),
    "windows": product(ops.conv2d, (2, 5, 63, 185), (3, 5, 5, 5)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_step_waits_for_memory_once(name):
    """Elements that are asked for one by one are as many loads, of a loop that compilers write out
    by fours: odd rows waited up to eight times in each step."""
    sketch = choose(PRODUCTS[name], DEVICE, None, ()).sketch
    (plan,) = sketch.plans
    (work, *_) = works_of(sketch.build(sketch.values()).func, DEVICE)
    assert work.rounds <= plan.chosen.steps + 1


WINDOWS = product(lambda x, w: ops.conv2d(x, w, padding=1), (32, 128, 56, 56), (128, 128, 3, 3))


def test_threads_wait_for_each_other_once_in_a_step():
    """What the sums read is another version of a tile than the one that is fetched, whose rows are
    copied from where their sectors begin: each step waited twice, for what it had just fetched. The
    default has longer steps, and asks for more than registers hold."""
    (plan,) = choose(WINDOWS, DEVICE, None, ()).sketch.plans
    counts = next(x for x in plan.found if x.plan.ahead and x.plan.sectors)
    made = plan.base.copy()
    plan.apply(made, {f"{plan.group.block}.tile": counts.plan.values})
    (work,) = works_of(made.func, DEVICE)
    assert work.waits <= counts.steps + 1


def test_filters_whose_rows_are_terms_are_read_several_at_once():
    """They are turned on their way to shared memory, in sectors side by side, so that rows there
    begin where neighbours can be read together and no lanes meet as they write them."""
    sketch = choose(WINDOWS, DEVICE, None, ()).sketch
    (plan,), (work,) = sketch.plans, works_of(sketch.build(sketch.values()).func, DEVICE)
    turned = [tile for tile in plan.chosen.tiles if not tile.straight]
    assert turned and all(tile.wide >= 2 and tile.met == (1, 1) for tile in turned)
    assert work.wavefronts <= 1.01 * work.free


@pytest.mark.parametrize(("channels", "together"), [(128, 4), (6, 2), (5, 1)])
def test_channels_in_the_padding_together_are_fetched_together(channels, together):
    """Rows and columns alone say what is padding, which is asked once for several channels."""
    shapes = (32, 56, 56, channels), (3, 3, channels, 128)
    func = product(lambda x, w: ops.conv2d(x, w, padding=1, layout="NHWC"), *shapes)
    (plan,) = choose(func, DEVICE, None, ()).sketch.plans
    (padded,) = [t for t in plan.chosen.tiles if t.c.operands[t.operand].pad is not None]
    assert padded.vector == together


def test_rows_are_fetched_by_a_warp_each():
    """Where an element is in rows that begin within sectors is told once for a row: quotients of a
    number of all threads took half as many instructions as what was computed of them."""
    sketch = choose(WINDOWS, DEVICE, None, ()).sketch
    (plan,), (work,) = sketch.plans, works_of(sketch.build(sketch.values()).func, DEVICE)
    warps = int(plan.chosen.of.warps[plan.chosen.row])
    assert any(tile.by_rows(warps) for tile in plan.chosen.tiles)
    assert work.other <= 0.05 * work.float32


@pytest.mark.parametrize("width", [37, 33, 101])
def test_rows_that_end_within_a_tile_read_operands_no_more_often(width):
    """Each result of windows asks whether it is there, and what it shares with others is read
    whether it is or not: three to four times as many reads of shared memory for each product."""
    whole = reads_for_products((2, 8, 16, 40))
    assert reads_for_products((2, 8, 16, width)) <= 1.5 * whole
    assert reads_for_products((2, 8, width, 40)) <= 1.5 * whole


def reads_for_products(shape: tuple[int, ...]) -> float:
    """How often threads read shared memory in a convolution of such images, for each product."""
    func = product(lambda x, w: ops.conv2d(x, w, padding=1), shape, (32, 8, 3, 3))
    sketch = choose(func, DEVICE, None, ()).sketch
    (work,) = works_of(sketch.build(sketch.values()).func, DEVICE)
    return work.touches / work.float32
