"""Moves of users: called by hand, tried by defaults and searches, and held to what they say."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import default_candidate, forget_move, make_space, register_move
from autotune.rules.moves import MOVES
from backends import build
from benchmarks.general.renamed import NAMINGS, renamed
from schedule import Schedule, ScheduleError
from schedule.library import (
    Move,
    find_again,
    find_contraction,
    lanes,
    make_nest,
    panel,
    parts,
)
from tensorir import Cpu, Target, TensorIRError, allows, interpret, reference, te
from tests.autotune.phases_move import by_phases, phases

CPU = Cpu(
    Target(vector_bits=512, threads=2, features=("avx512f",), l1d=32 << 10, l2=1 << 20, l3=1 << 25)
)
TEXT = "c -vector_bits=512 -threads=2"


@pytest.fixture
def registered():
    """Registers moves, and forgets them in the end."""
    made: list[Any] = []

    def register(move: Any) -> Any:
        made.append(register_move(move))
        return move

    yield register
    for move in made:
        if MOVES.get(move.name) is move:
            forget_move(move)


def filtered(results=640, taps=128, step=4, form="plain", dtype="float32"):
    """Every `step`-th result of a filter, of one signal or several."""
    length, rows = step * (results - 1) + taps, (3,) if form != "plain" else ()
    x = te.placeholder((*rows, length), dtype, name="x")
    h, k = te.placeholder((taps,), dtype, name="h"), te.reduce_axis(taps, name="k")
    if form == "plain":
        y = te.compute((results,), lambda i: te.sum(h[k] * x[step * i + k], axis=k), name="y")
    elif form == "rows":
        y = te.compute(
            (3, results), lambda c, i: te.sum(x[c, step * i + k] * h[k], axis=k), name="y"
        )
    else:  # a unit axis, the result's axes the other way round, a stage after it
        s = te.compute(
            (results, 1, 3), lambda i, u, c: te.sum(x[c, step * i + k] * h[k], axis=k), name="s"
        )
        y = te.compute((results, 1, 3), lambda i, u, c: s[i, u, c] + h[0], name="y")
    return te.create_prim_func([x, h, y], name="filtered")


def arrays(func):
    rng = np.random.default_rng(0)
    return [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in func.inputs]


def check(func, schedule, cache):
    given = arrays(func)
    got = build(schedule, TEXT, cache=cache)(*given)
    np.testing.assert_array_equal(got, reference(func, *given)[0])


@pytest.mark.parametrize("form", ["plain", "rows", "turned"])
def test_it_is_the_default_and_searched_whatever_the_names(form, registered, cache):
    """Of nests that keep every bit: else terms are lanes, which take about as long."""
    func = filtered(form=form)
    before = default_schedule(func, TEXT, numerics="bitwise").func
    registered(phases)
    candidates = []
    for program in (func, *(renamed(func, names) for names in NAMINGS.values())):
        space = make_space(program, CPU, "bitwise")
        candidates.append(default_candidate(space))
        sketch = space.sketches[candidates[-1].sketch]
        assert space.contains(candidates[-1])
        decided = dict(zip([c.name.rpartition(".")[2] for c in sketch.choices],
                           candidates[-1].values))  # fmt: skip
        assert [name for name, _ in decided["moves"]] == ["phases"]
    assert len({candidate.values for candidate in candidates}) == 1
    check(func, default_schedule(func, TEXT, numerics="bitwise"), cache)
    space, rng = make_space(func, CPU, "bitwise"), random.Random(0)
    drawn = [space.build(space.sample(rng, candidates[0].sketch)) for _ in range(3)]
    check(func, drawn[-1], cache)
    forget_move(phases)
    assert repr(default_schedule(func, TEXT, numerics="bitwise").func) == repr(before)


def test_bits_stay_where_no_other_order_is_allowed(registered):
    func = filtered(results=320)
    registered(phases)
    made = default_schedule(func, TEXT, numerics="bitwise")
    assert made.numerics == "bitwise" and "cache_read" in repr(made.trace)
    given = [np.random.default_rng(0).standard_normal(p.const_shape).astype("float32")
             for p in func.inputs]  # fmt: skip
    np.testing.assert_array_equal(interpret(made.func, *given)[0], interpret(func, *given)[0])


def test_it_is_compared_by_estimate_with_the_nests_without_it(registered):
    """Which read what a step of two leaves out, and have nothing to copy."""
    few = filtered(results=640, taps=2, step=2)
    dear = replace(phases, cycles=lambda *args: 1e12)
    before = default_schedule(few, TEXT)
    registered(dear)
    assert repr(default_schedule(few, TEXT).func) == repr(before.func)
    assert any("phases" in name for name in make_space(few, CPU).sketches)


def test_moves_go_one_after_the_other_and_before_those_that_come_along(registered, cache):
    def own(sch, c, option):
        sch.cache_read(c.block, c.operands[option].buffer, "global")
        return find_again(sch, c)

    func = filtered()
    registered(phases)
    registered(Move("kept", own, options=lambda c, device: (0,)))
    space = make_space(func, CPU)
    kinds = {name.partition(":")[2] for name in space.sketches}
    assert {"phases", "kept", "phases_kept", "kept_phases"} <= kinds
    candidate = space.sample(random.Random(1), "y:phases_kept")
    check(func, space.build(candidate), cache)


@pytest.mark.parametrize("results", [1, 2, 37, 64])
@pytest.mark.parametrize("dtype", ["float64", "int8"])
def test_odd_sizes_and_other_types(results, dtype, registered, cache):
    func = filtered(results=results, taps=8, dtype=dtype)
    registered(phases)
    check(func, default_schedule(func, TEXT), cache)


def by_hand(func):
    sch = Schedule(func)
    return sch, find_contraction(sch, "y")


def test_by_hand_it_leaves_the_next_contraction():
    sch, c = by_hand(filtered(results=64))
    left = phases(sch, c, (1, 4, False))
    assert left == find_contraction(sch, "y") and left != c
    assert [o.strides for o in left.operands] == [(0, 1, 4), (1, 95, 1)]


REFUSED = {
    "a rest of taps": (phases, filtered(taps=23), (1, 4, True), "23. terms are no multiple"),
    "no step": (phases, filtered(step=1), (1, 1, True), "one phase"),
    "lanes of one term": (lanes, filtered(), (1, 128), "128 partial sums of 128 .* save nothing"),
    "lanes of results": (lanes, filtered(), (0, 4), "axis 0 of block 'y' is not summed over"),
    "parts of one term": (parts, filtered(), (1, 1, 1, 16), "1 partial sums of 128 .* save"),
    "a panel of windows": (panel, filtered(), (1, 0, True), "'x' is not read at one place, at val"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_move_and_what_it_requires(name):
    move, func, option, reason = REFUSED[name]
    sch, c = by_hand(func)
    before = sch.func
    with pytest.raises(ScheduleError, match=rf"^{move.name}\('y', .*\): .*{reason}"):
        move(sch, c, option)
    assert sch.func is before and not sch.trace.instructions


def _halves(sch, c, option):
    outer, _ = sch.split(sch.get_loops(c.block)[-1], [2, None])
    sch.rfactor(c.block, outer)
    return find_again(sch, c)


def _half_done(sch, c, option):
    sch.split(sch.get_loops(c.block)[0], [None, 8])
    sch.split("no loop", [None, 8])
    return c


def _stale(sch, c, option):
    by_phases(sch, c, option)
    return c


WRONG = {
    "says bitwise": (_halves, TensorIRError, "'wrong' says that its .* bitwise, and they are rea"),
    "a contraction that was": (_stale, TensorIRError, "not what block 'y' computes after it: end"),
    "no contraction": (lambda *args: None, TensorIRError, "returned None and not the contraction"),
    "a primitive refuses": (_half_done, ScheduleError, r"wrong\('y', .*split.*no loop"),
    "a mistake": (lambda sch, c, option: sch.split(*c), TypeError, "must be an iterable"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_it_says_is_asked_and_the_schedule_stays(name):
    apply, kind, text = WRONG[name]
    sch, c = by_hand(filtered())
    before = sch.func
    with pytest.raises(kind, match=text):
        Move("wrong", apply)(sch, c, (1, 4, False))
    assert sch.func is before and not sch.trace.instructions


def test_a_wrong_class_is_found_by_defaults_too_and_a_true_one_is_kept(registered):
    lying = Move("halves", _halves, options=lambda c, device: ("",))
    registered(lying)
    with pytest.raises(TensorIRError, match="give it numerics='reassociated'"):
        default_schedule(filtered(), TEXT)
    forget_move(lying)
    registered(replace(lying, numerics="reassociated"))
    space = make_space(filtered(), CPU, "bitwise")
    assert not any("halves" in name for name in space.sketches)
    space = make_space(filtered(), CPU)
    names = [name for name in space.sketches if "halves" in name]
    made = space.build(space.sample(random.Random(0), names[0]))
    assert names and allows("reassociated", made.numerics)


def test_what_primitives_refuse_is_told(registered):
    registered(phases)
    twice = replace(phases, name="twice", options=lambda c, device: ((0, 3, False),))
    registered(twice)
    text = str(make_space(filtered(), CPU).describe())
    assert "impossible: twice('y', (0, 3, False)): 'h'" in text or "impossible: twice('y'" in text


def test_what_cannot_be_registered_says_why(registered):
    registered(phases)
    with pytest.raises(TensorIRError, match="there is a move 'phases' already"):
        register_move(phases)
    with pytest.raises(TensorIRError, match="there is a move 'lanes' already"):
        register_move(replace(phases, name="lanes"))
    with pytest.raises(TensorIRError, match="5 is no move: give a schedule.library.Move"):
        register_move(5)  # type: ignore[arg-type]
    with pytest.raises(TensorIRError, match="cannot be called 'a move': give it an identifier"):
        replace(phases, name="a move")
    with pytest.raises(TensorIRError, match="unknown numerics 'exact'"):
        replace(phases, numerics="exact")
    with pytest.raises(TensorIRError, match="move 'other' is not registered"):
        forget_move(replace(phases, name="other"))


def test_the_nest_after_it_can_be_made_by_hand(cache):
    func = filtered(results=64)
    sch, c = by_hand(func)
    left = phases(sch, c, (1, 4, False))
    from autotune.plans import plans

    make_nest(sch, left, plans(left, CPU)[0][1])
    check(func, sch, cache)
