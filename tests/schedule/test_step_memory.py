"""Remembered steps: states are shared by schedules that begin alike, and nothing else changes."""

from __future__ import annotations

import random

import pytest

from autotune.rules import make_space
from schedule import Schedule, ScheduleError
from schedule.state import BlockRef, LoopRef
from schedule.step_memory import STEPS, _Arguments, _made
from tensorir import Target, device_of, te


def test_equal_steps_give_one_state(matmul):
    base = Schedule(matmul())
    base.remember_steps()
    first, second = base.copy(), base.copy()
    assert first.split("i", [None, 4]) == second.split("i", [None, 4])
    assert first.state is second.state and first.state is not base.state
    second.split("j", [None, 2])
    assert first.copy().state is first.state
    assert second.state.loop_names() != first.state.loop_names()
    assert len(first.trace) == 1 and len(second.trace) == 2


def test_a_schedule_remembers_nothing_unless_asked(matmul):
    base = Schedule(matmul())
    first, second = base.copy(), base.copy()
    first.split("i", [None, 4])
    second.split("i", [None, 4])
    assert first.state is not second.state


def test_refusals_are_refused_again(matmul):
    sch = Schedule(matmul())
    sch.remember_steps()
    for _ in range(2):
        with pytest.raises(ScheduleError, match="cover 4 of the"):
            sch.split("i", [2, 2])
    assert len(sch.trace) == 0


def test_a_changed_answer_changes_no_other(matmul):
    base = Schedule(matmul())
    base.remember_steps()
    made = base.copy().split("i", [None, 4])
    if isinstance(made, list):
        made.clear()
    assert base.copy().split("i", [None, 4]) == ("i_0", "i_1")


def test_arguments_of_other_types_are_other_arguments():
    names = (("i", LoopRef("i")), (LoopRef("i"), BlockRef("i")))
    pairs = (*names, (1, True), (1, 1.0), ([1], 1), (0.0, -0.0))
    for a, b in pairs:
        assert _Arguments({"x": a}) != _Arguments({"x": b})
    for same in ([1, ("a", None)], float("nan")):
        assert _Arguments({"x": same}) == _Arguments({"x": same})


@pytest.mark.parametrize("values", [(0.0, -0.0), (-0.0, 0.0), (1, 1.0)])
def test_what_is_remembered_is_what_the_steps_make(values):
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] * 2.0, name="B")
    base = Schedule(te.create_prim_func([a, te.compute((10,), lambda i: b[i] + 1.0, name="C")]))
    base.remember_steps()
    for value in values:
        sch = base.copy()
        sch.transform_layout("B", "B", "i: i // 4, i % 4", pad_value=value)
        again = Schedule(base.definition).apply(sch.trace)
        assert str(sch.func) == str(again.func)


def test_all_schedules_share_one_memory_with_a_bound(matmul):
    """What a process keeps does not grow with the programs that it tunes."""
    _made.cache_clear()
    for _ in range(3):
        sch = Schedule(matmul())
        sch.remember_steps()
        for loop in "ij":
            sch.copy().split(loop, [None, 4])
    assert _made.cache_info()[:] == (0, 6, STEPS, 6)


def test_candidates_are_what_they_are_without(matmul):
    target = Target(vector_bits=512, threads=2, features=("avx512f", "fma"))
    a, b = te.placeholder((te.var("n"), 64), name="A"), te.placeholder((64, 48), name="B")
    k = te.reduce_axis(64, name="k")
    c = te.compute((a.shape[0], 48), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    func = te.create_prim_func([a, b, c], name="rows")
    rng = random.Random(0)
    space = make_space(func, device_of(target))
    for candidate in [space.sample(rng) for _ in range(6)]:
        try:
            made = space.build(candidate)
        except ScheduleError:
            continue
        assert str(Schedule(func).apply(made.trace).func) == str(made.func)
        assert space.build(candidate).state is made.state


def test_a_schedule_follows_what_went_on_from_where_it_is(matmul):
    base = Schedule(matmul())
    base.split("i", [None, 4])
    made, sch, other = base.copy(), base.copy(), Schedule(matmul())
    made.split("j", [None, 2])
    assert sch.follow(made)
    assert sch.state is made.state and sch.trace == made.trace
    assert len(base.trace) == 1
    sch.undo()
    assert sch.trace == base.trace and sch.state is base.state
    sch.split("k", [None, 2])
    for behind in (sch, other, Schedule(matmul())):
        steps = behind.trace
        assert not behind.follow(made)
        assert behind.trace == steps
