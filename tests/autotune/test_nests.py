"""The general nests: what they reach, that all that is drawn is legal and right, and what is
refused with a reason."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from autotune.rules import make_space
from autotune.rules.generate import NESTS, sketches
from autotune.rules.nest import finish_nest
from autotune.rules.nests.decide import MOST_CODE, reassociates
from autotune.rules.nests.places import INLINE
from autotune.space import Candidate
from benchmarks.peers.invented import INVENTED_QUICK
from benchmarks.peers.programs_invented import invented
from schedule import Schedule, ScheduleError
from tensorir import Cpu, ForKind, Target, te

for folder in ("schedule", "fuzz"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
import checks  # noqa: E402
import test_windows as by_hand  # noqa: E402
import workloads  # noqa: E402

SMALL = Cpu(Target(vector_bits=128, threads=2, features=("fma",), l1d=32 << 10, l2=1 << 20))


def general(func, device=SMALL, numerics="mixed"):
    """The sketch of the general nests of a program, if it has one; no later ones are made."""
    found = sketches(func, device, numerics, many=True)
    return next((sketch for sketch in found if sketch.name == NESTS), None)


def point(func, **wanted):
    """The candidate of the general nests with these values: `block_what` for `block.what`, and
    `block_x` for the tile of the block's axis at that place. What is not said needs no tuning."""
    sketch = general(func)
    values = sketch.values()
    for name, value in wanted.items():
        block, _, what = name.partition("_")
        keys = [key for key in values if key in (f"{block}.{what}", f"{block}.tile[v{what}]")]
        assert len(keys) == 1, name
        values[keys[0]] = value
    drawn = tuple(values.values())
    for choice, value in zip(sketch.choices, drawn):
        assert choice.contains(value), (choice, value)
    assert sketch.refusal(drawn) is None
    return sketch.build(values)


def stencil_by_hand(place):
    sch = Schedule(by_hand.stencil((23, 37)))
    if place == "inline":
        sch.compute_inline("pad")
    rows = by_hand.rows_of_registers(sch, 6, 16)
    if place == "at first":
        sch.compute_at("pad", rows)
        sch.vectorize(sch.get_loops("pad")[-1])
    return sch


@pytest.mark.parametrize(
    ("place", "pad"),
    [
        ("inline", {}),
        ("root", {"pad_i1": (1, 4), "pad_lanes": "scalar", "pad_unroll": "none"}),
        ("at first", {"pad_i1": (1, 39)}),
    ],
)
def test_rows_of_registers_are_a_point(place, pad):
    """The hand schedule of a stencil, 1.24 times as fast as the one of the rules."""
    stencil = {"S_i0": (1, 6), "S_i1": (1, 16), "S_threads": 1}
    found = point(by_hand.stencil((23, 37)), pad_where=place, **stencil, **pad)
    expected = stencil_by_hand(place)
    if place == "root":  # the hand leaves the copy alone
        sch = expected
        sch.split(sch.get_loops("pad")[-1], [None, 4])
    assert str(found.func) == str(expected.func)


@pytest.mark.parametrize(("strip", "rows"), [(8, 2), (8, 4), (6, 3)])
def test_sliding_windows_are_points(strip, rows):
    """A blur whose strips keep rows of the first stage: 1.07 times as fast as in two nests."""
    func = by_hand.blur((23, 37))
    expected = Schedule(func)
    expected.compute_inline("pad")
    by_hand.slide(expected, ["B1"], strip, rows, 16)
    last = {"B0_i0": (strip // rows, rows), "B0_i1": (1, 16), "B0_threads": 1}
    found = point(func, pad_where="inline", B1_where="slide tile", **last)
    assert str(found.func) == str(expected.func)


def test_two_windows_in_one_loop_are_a_point():
    func = by_hand.blur((23, 37))
    expected = Schedule(func)
    by_hand.slide(expected, ["pad", "B1"], 8, 2, 16)
    last = {"B0_i0": (4, 2), "B0_i1": (1, 16), "B0_threads": 1}
    found = point(func, pad_where="slide beside", B1_where="slide tile", **last)
    assert str(found.func) == str(expected.func)


def test_planes_slide_through_a_volume_is_a_point():
    """Down the first axis by planes, in strips of the second one."""
    func = by_hand.blur((7, 11, 37))
    expected = Schedule(func)
    expected.compute_inline("pad")
    z, y, x = expected.get_loops("B0")
    y_0, y_1 = expected.split(y, [None, 4])
    expected.reorder(y_0, z, y_1, x)
    for maker in ("B1", "B2"):
        expected.compute_at(maker, z)
    for block in ("B2", "B1"):
        finish_nest(expected, str(expected.rolling_buffer(block)), SMALL, unroll_rows=0)
    for block in ("B2", "B1"):
        finish_nest(expected, block, SMALL, unroll_rows=0)
    expected.vectorize(x)
    expected.unroll(y_1)
    expected.parallel(y_0)
    last = {"B0_i0": (7, 1), "B0_i1": (1, 4), "B0_i2": (1, 37), "B0_threads": 1}
    places = {"pad_where": "inline", "B1_where": "slide tile", "B2_where": "slide beside"}
    assert str(point(func, **last, **places).func) == str(expected.func)


def drawn(func, count, seed=0, device=SMALL, numerics="mixed"):
    """Candidates of the general nests, as schedules; None for those that primitives refuse."""
    sketch = general(func, device, numerics)
    rng = random.Random(seed)
    for _ in range(count if sketch is not None else 0):
        candidate = sketch.sample(rng)
        values = sketch.decisions(candidate.values)
        try:
            yield sketch, values, sketch.build(values)
        except ScheduleError:
            yield sketch, values, None


INVENTED = [row.name for row in INVENTED_QUICK]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("row", INVENTED_QUICK, ids=INVENTED)
def test_what_is_drawn_is_legal(row):
    """At most a fifth is refused, of whatever program; and what it does to sums is known before."""
    found = list(drawn(invented(row.sizes), 15))
    assert len(found) == 15
    assert sum(sch is None for _, _, sch in found) <= 3
    for sketch, values, sch in found:
        if sch is not None:
            (plan,) = sketch.plans
            decisions = plan.decisions(values)
            kept = [stage for stage in plan.parts if decisions[stage.block].place != INLINE]
            moved = any(reassociates(stage, decisions[stage.block]) for stage in kept)
            assert sch.numerics == ("reassociated" if moved else plan.least)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("row", INVENTED_QUICK, ids=INVENTED)
def test_what_is_written_out_is_bounded(row):
    """By the loops that were made, whatever the decisions say: of one whose lanes are scalars, the
    tile of the lanes is written out too."""
    for sketch, _, sch in drawn(invented(row.sizes), 30):
        (plan,) = sketch.plans
        for stage in plan.parts if sch is not None else ():
            around = sch.state.loops_around(stage.block) if stage.block in sch.get_blocks() else ()
            count = stage.work
            for loop in around:
                if loop.kind is ForKind.UNROLLED:
                    count *= loop.const_extent
                elif loop.kind is ForKind.VECTORIZED:
                    count *= -(-loop.const_extent // stage.lanes)
            assert count <= max(MOST_CODE, stage.work), (stage.block, str(sch.func))


@pytest.mark.parametrize("numerics", ["bitwise", "reassociated"])
def test_orders_of_terms_say_what_they_do(numerics):
    """Sums over two axes of floats: bitwise searches draw only what keeps the order."""
    a, (k, q) = te.placeholder((6, 5, 7), name="A"), (te.reduce_axis(n, name=n_) for n, n_ in AXES)
    s = te.compute((6,), lambda i: te.sum(a[i, k, q], axis=[k, q]), name="S")
    func = te.create_prim_func([a, s])
    found = [sch.numerics for _, _, sch in drawn(func, 40, numerics=numerics) if sch is not None]
    assert len(found) > 30
    assert ("reassociated" in found) == (numerics == "reassociated")
    assert "bitwise" in found


AXES = ((5, "k"), (7, "q"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(40))
def test_random_programs_keep_their_meaning(seed):
    """Random programs under random general nests, interpreted, and some of them compiled."""
    rng = random.Random(seed)
    work = workloads.draw(rng.choice)
    for turn, (_, _, sch) in enumerate(drawn(work.func, 4, seed)):
        if sch is not None:
            checks.check_interpreted(sch, work, seed)
            if not turn and seed % 8 == 0:
                checks.check_compiled(sch, work, seed)


def test_few_draws_of_random_programs_are_refused():
    refused = [
        sch is None
        for seed in range(100, 130)
        for _, _, sch in drawn(workloads.draw(random.Random(seed).choice).func, 5, seed)
    ]
    assert len(refused) > 100
    assert sum(refused) <= 0.1 * len(refused)


@pytest.mark.parametrize("name", ["stencil", "blur"])
def test_any_size(name):
    func = getattr(by_hand, name)((te.var("n"), te.var("m")))
    found = [sch for _, _, sch in drawn(func, 6) if sch is not None]
    assert len(found) > 4
    for turn, sch in enumerate(found):
        by_hand.right(sch, [(23, 37), (1, 1), (0, 5), (9, 16)], compiled=not turn)


@pytest.mark.parametrize("where", ["bitwise", "mixed"])
def test_the_untouched_program_is_in_every_space(where):
    for func in (by_hand.blur((5, 9)), *map(invented, (row.sizes for row in INVENTED_QUICK[:4]))):
        space = make_space(func, SMALL, where)
        candidate = Candidate("untouched", ())
        assert space.contains(candidate)
        assert str(space.build(candidate).func) == str(Schedule(func).func)


def test_all_blocks_have_nests_and_their_places():
    """Of each block the tiles of each loop at two levels, orders, lanes and threads."""
    choices = {c.name for c in make_space(by_hand.blur((40, 50)), SMALL).sketches[NESTS].choices}
    for block in ("pad", "B1", "B0"):
        own = "tile[vi0] tile[vi1] outer inner lanes unroll threads".split()
        assert choices >= {f"{block}.{what}" for what in own}
    assert {f"{block}.where" for block in ("pad", "B1")} == {c for c in choices if "where" in c}


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"B1_where": "at task", "B0_i1": (1, 64)}, "a user without a task loop"),
        ({"B1_where": "at beside"}, "a user at the root is beside no loop"),
        ({"B1_where": "slide first", "B0_threads": 1}, "a window that does not move"),
        ({"B0_i0": (1, 16), "B0_i1": (1, 64), "B0_lanes": "scalar"}, "too much code"),
        ({"B0_i0": (1, 16), "B0_i1": (1, 64), "B0_lanes": "scalar", "B0_unroll": "none"}, None),
        ({"pad_where": "at first", "B1_where": "slide tile"}, "does not slide with it"),
        ({"pad_where": "slide beside", "B1_where": "slide tile"}, None),
        ({"B0_threads": 2, "B0_i1": (1, 64)}, "more loops for threads than tasks have"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(wanted, reason):
    sketch = general(by_hand.blur((64, 64)))
    values = sketch.values()
    values.update({"B0.tile[vi0]": (4, 4), "B0.tile[vi1]": (1, 16), "B0.threads": 0})
    for name, value in wanted.items():
        block, _, what = name.partition("_")
        (key,) = [k for k in values if k in (f"{block}.{what}", f"{block}.tile[v{what}]")]
        values[key] = value
    found = sketch.refusal(tuple(values[c.name] for c in sketch.choices))
    assert found is None if reason is None else reason in found
