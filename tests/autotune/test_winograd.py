"""Winograd's algorithm by estimated time: what is chosen, and when it is worth it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune import winograd
from autotune.estimate.estimate import Estimate
from autotune.plans import plans
from autotune.rules import default_sketch, sketches
from autotune.rules.inlined import inline_stages
from autotune.rules.winograd import winograd_stages
from autotune.winograd import winograd_leaders, winograd_plans
from schedule import Schedule, library
from tensorir import Target, device_of, ops, te

TARGET = Target("c", vector_bits=512, threads=2, features=("avx512f", "fma"))
CPU = device_of(TARGET)


def conv(n, c, o, size, groups=1):
    x = te.placeholder((n, c, size, size), name="x")
    w = te.placeholder((o, c // groups, 3, 3), name="w")
    out = ops.conv2d(x, w, padding=1, groups=groups, name="out")
    return te.create_prim_func([x, w, out], name="conv")


def stages(func, tile="4x4"):
    sch = Schedule(func)
    sch.use_algorithm("out", f"winograd_{tile}")
    (found,) = [
        library.find_winograd(sch, b) for b in sch.get_blocks() if sch.state.block(b).is_reduction
    ]
    return found


@pytest.mark.parametrize(
    ("sizes", "rows", "shares"),
    [
        ((1, 64, 64, 56), 1, 1),  # 14 rows of tiles: 7 for each thread
        ((1, 128, 128, 28), 1, 2),  # 7 rows of tiles cannot be shared evenly: filters are
        ((1, 512, 512, 7), 0, 1),  # weights beyond the caches are read once
        ((te.var("n"), 512, 512, 7), 0, 1),
    ],
)
def test_the_split_of_the_work_follows_the_sizes(sizes, rows, shares):
    (_, plan), *_ = winograd_plans(stages(conv(*sizes)), CPU, ("w",))
    assert (plan.rows, plan.shares) == (rows, shares)


def best(func, tile):
    return winograd_plans(stages(func, tile), CPU, ("w",))[0][0]


def test_the_tile_follows_the_sizes():
    """Large ones have fewer products; of small images they leave much unused."""
    assert best(conv(1, 64, 64, 56), "4x4") < best(conv(1, 64, 64, 56), "2x2")
    assert best(conv(1, 64, 64, 2), "2x2") < best(conv(1, 64, 64, 2), "4x4")


@pytest.mark.parametrize(("channels", "size", "wins"), [(64, 56, True), (4, 8, False)])
def test_the_estimate_compares_it_with_the_definition(channels, size, wins):
    func = conv(1, channels, channels, size)
    sch = Schedule(func)
    direct = library.find_contraction(sch, "out", None, ("pad",))
    assert (best(func, "4x4") < plans(direct, CPU, ("w",))[0][0]) == wins


def test_the_products_are_estimated_as_those_of_the_program(monkeypatch):
    """As many instructions as the block of the program has: a product and its sum are one."""
    seen = set()

    class Spy(Estimate):
        def __init__(self, c, *args):
            seen.add(c.operations)
            super().__init__(c, *args)

    monkeypatch.setattr("autotune.winograd.Estimate", Spy)
    winograd._plans.cache_clear()
    sch = Schedule(conv(1, 32, 32, 12))
    sch.use_algorithm("out", "winograd_4x4")
    (plan,) = winograd_stages(sch, CPU)
    assert plan.estimate() > 0
    assert seen == {library.find_contraction(sch, plan.found.products).operations}


def test_what_one_thread_takes_starts_no_other():
    alone = device_of(replace(TARGET, threads=1))
    dear = replace(alone, costs=replace(alone.costs, start=1e9))
    found = stages(conv(1, 64, 64, 56))
    assert winograd_plans(found, alone, ("w",)) == winograd_plans(found, dear, ("w",))


def test_weights_beyond_the_last_cache_come_from_memory():
    found = stages(conv(1, 512, 512, 7))
    small, large = (device_of(replace(TARGET, l3=size << 20)) for size in (16, 512))
    near, far = (
        {plan: cycles for cycles, plan in winograd_plans(found, cpu, ("w",))}
        for cpu in (large, small)
    )
    assert near.keys() == far.keys() and all(near[p] < far[p] for p in near if not p.rows)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 2, 64])
@pytest.mark.parametrize("constants", [(), ("w",)])
@pytest.mark.parametrize("sizes", [(1, 64, 64, 56), (1, 512, 512, 7), (3, 16, 24, 9), (1, 7, 5, 9)])
def test_the_best_plan_is_found_without_an_estimate_of_all(sizes, constants, threads):
    """What is not estimated takes longer, in whatever order; and what is, not less than is said."""
    cpu = device_of(replace(TARGET, threads=threads))
    for tile in ("2x2", "4x2", "4x4"):
        found = stages(conv(*sizes), tile)
        every = winograd_plans(found, cpu, constants)
        leaders = winograd_leaders(found, cpu, constants)
        assert leaders[0] == every[0] and leaders == [each for each in every if each in leaders]
        search = winograd._Search(found, cpu, constants)
        for cycles, plan in every:
            assert search.least(plan.panel, plan.rows, plan.shares) <= cycles


def test_weights_that_are_no_constants_take_time():
    found = stages(conv(1, 64, 64, 28))
    known, unknown = (winograd_plans(found, CPU, constants) for constants in (("w",), ()))
    assert known[0][0] < unknown[0][0] and known[0][1] == unknown[0][1]


def test_panels_keep_to_a_group():
    found = stages(conv(1, 32, 64, 8, groups=8))
    assert found.period == 8
    assert {plan.panel for _, plan in winograd_plans(found, CPU)} == {8}


def test_every_plan_is_accepted():
    """The primitives take whatever is proposed."""
    sch = Schedule(conv(2, 20, 24, 9))
    sch.use_algorithm("out", "winograd_4x2")
    (plan,) = winograd_stages(sch, CPU)
    proposed = plan.ranked()
    for _, each in proposed[:: max(1, len(proposed) // 6)]:
        made = sch.copy()
        plan.apply(made, plan.values(each))
        assert made.trace != sch.trace


def test_a_program_that_is_written_so_has_a_default():
    x, w = te.placeholder((te.var("n"), 4, 6, 6), name="x"), te.placeholder((4, 4, 3, 3), name="w")
    func = te.create_prim_func([x, w, ops.conv2d_winograd(x, w, name="out")], name="winograd")
    first = default_sketch(sketches(func, CPU, "bitwise"), ())
    assert [plan.name for plan in first.plans] == ["winograd"]
    assert first.build(first.values()).numerics == "bitwise"


def test_transforms_that_read_many_elements_are_not_written_into_each_other():
    x, w = te.placeholder((1, 4, 6, 6), name="x"), te.placeholder((4, 4, 3, 3), name="w")
    sch = Schedule(te.create_prim_func([x, w, ops.conv2d_winograd(x, w, name="out")]))
    inline_stages(sch)
    assert {"out_columns", "out_input", "out_products", "out_rows"} <= set(sch.get_blocks())
