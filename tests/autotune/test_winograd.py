"""Winograd's algorithm by estimated time: what is chosen, and when it is worth it."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import winograd_schedule
from autotune.plans import plans
from autotune.rules import default_sketch, sketches
from autotune.rules.group import inline_stages
from autotune.rules.winograd import winograd_stages
from autotune.winograd import winograd_plans
from backends import build
from schedule import Schedule, library
from tensorir import Target, device_of, ops, reference, te

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
    proposed = plan.plans()
    for _, each in proposed[:: max(1, len(proposed) // 12)]:
        made = sch.copy()
        plan.apply(made, plan.values(each))
        assert made.trace != sch.trace


def test_two_convolutions_and_what_is_around_them():
    """Each of the stages has a plan of its own, and so has the softmax behind them."""
    x = te.placeholder((1, 8, 6, 6), name="x")
    u, v = (te.placeholder((8, 8, 3, 3), name=name) for name in "uv")
    y = ops.conv2d(ops.relu(x), u, padding=1, activation="relu", name="y")
    z = ops.softmax(ops.conv2d(y, v, padding=1, name="z"), axis=1)
    func = te.create_prim_func([x, u, v, z], name="net")
    target = "c -threads=2"
    made = winograd_schedule(func, target)
    assert made is not None and made.numerics == "algebraic"
    assert len(made.func.attrs["algorithms"]) == 2
    rng = np.random.default_rng(0)
    arrays = [rng.random(p.const_shape, np.float32) - 0.5 for p in func.inputs]
    (wanted,) = reference(func, *arrays)
    np.testing.assert_allclose(build(made, target)(*arrays), wanted, atol=1e-5)
    assert sum(step.name == "use_algorithm" for step in made.trace.instructions) == 2


def test_nothing_of_the_kind():
    x, w = te.placeholder((8, 8), name="x"), te.placeholder((8, 8), name="w")
    assert winograd_schedule(te.create_prim_func([x, w, ops.matmul(x, w)]), "c") is None


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
