"""What a step costs, in calls of functions: as many on every machine, whatever else runs there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from schedule import Schedule
from tensorir import parse

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import schedule_speed  # noqa: E402


def calls(run):
    """The calls of Python functions, and of those that they call, that `run` makes."""
    count = 0

    def note(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(("name", "most"), [("tiles fit", 25_000), ("tiles leave a rest", 26_000)])
def test_the_schedule_of_a_product(name, most):
    """A fifth more than it is in a process of its own: what other tests left in caches counts."""
    sizes = schedule_speed.SIZES[name]
    schedule_speed.scheduled(schedule_speed.matmul(*sizes(0)))
    assert calls(lambda: schedule_speed.scheduled(schedule_speed.matmul(*sizes(1)))) < most


NEST = """
@prim_func
def f(A: f32[8, 1003], C: f32[8]):
    for i, k in grid(8, 1003):
        with block("C"):
            vi = spatial(8, i)
            vk = {kind}(1003, k){init}
            C[vi] = C[vi] + A[vi, vk]
"""
INIT = """
            with init():
                C[vi] = 0.0"""


def kind_of_a_loop(kind, init):
    """The calls that it takes to unroll a loop of a nest that a split has left a rest in."""
    sch = Schedule(parse(NEST.format(kind=kind, init=init)))
    outer, inner = sch.split("k", [None, 8])
    sch.reorder(inner, outer)
    return calls(lambda: sch.unroll("i"))


def test_what_a_step_does_not_change_is_not_proved_again():
    """That the sum has each term once depends on extents, bindings and predicates alone."""
    assert kind_of_a_loop("reduce", INIT) - kind_of_a_loop("opaque", "") < 100
