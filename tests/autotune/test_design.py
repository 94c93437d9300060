"""Candidates are made once, by the workers that compile them, and are what this process makes."""

from __future__ import annotations

import random

import pytest

from autotune.errors import MeasureError
from autotune.measure import Measurer, MeasureSettings
from autotune.measure.design import Design, Made
from autotune.measure.scoring import made_for, outline
from autotune.rules import default_candidates, make_space
from autotune.space import Candidate, Space
from tensorir import DEFAULT_NUMERICS, TensorIRError, device_of
from tests.autotune.distinct_spaces import PROGRAMS, TARGET

TWO = MeasureSettings(build_jobs=2, min_ms=0.2, repeats=1)


class Unbuilt(Space):
    """A space of which nothing may be built here."""

    def build(self, candidate: Candidate) -> object:
        raise AssertionError("built here")


def designs(space: Space, candidates: list[Candidate], known: str) -> list[Design]:
    request = made_for(DEFAULT_NUMERICS, known, None)
    return [Design(space, candidate, request=request) for candidate in candidates]


def some(space: Space, count: int) -> list[Candidate]:
    """Candidates that can be built, the default first."""
    found, rng = [default_candidates(space)[0]], random.Random(0)
    while len(found) < count:
        candidate = space.mutate(found[0], rng)
        try:
            space.build(candidate)
        except TensorIRError:
            continue
        found.append(candidate)
    return found


@pytest.mark.parametrize("constants", [(), ("B",)])
def test_workers_make_what_is_made_here(constants):
    func = PROGRAMS["product"]()
    space = make_space(func, device_of(TARGET), constants=constants)
    candidates = some(space, 3)
    made = [space.build(candidate) for candidate in candidates]
    there = designs(Unbuilt(list(space.sketches.values())), candidates, outline(space, TARGET))
    with Measurer(func, str(TARGET), TWO, constants=constants) as measurer:
        found = measurer.measure(there)
        expected = measurer.measure([str(schedule.func) for schedule in made])
    assert [r.status for r in found] == ["ok"] * 3
    assert [r.source_hash for r in found] == [r.source_hash for r in expected]
    for design, schedule in zip(there, made):
        assert design.text == str(schedule.func)
        assert Made.of(design) == Made.of(schedule) and design.numerics == schedule.numerics


def test_what_no_worker_knows_is_made_here():
    func = PROGRAMS["product"]()
    space = make_space(func, device_of(TARGET))
    asked = designs(space, some(space, 2), "another outline")
    alone = [Design(space, design.candidate) for design in asked]
    with Measurer(func, str(TARGET), TWO) as measurer:
        assert [r.status for r in measurer.measure(asked)] == ["ok"] * 2
        assert [r.status for r in measurer.measure(alone)] == ["ok"] * 2
    assert [d.made for d in asked] == [d.made for d in alone]


def test_a_worker_that_makes_another_program_is_noticed():
    func = PROGRAMS["product"]()
    space = make_space(func, device_of(TARGET))
    design = Design(space, default_candidates(space)[0], program="of another time")
    made = Made.of(space.build(design.candidate))
    answer = {"trace": list(made.trace), "numerics": made.numerics, "program": made.program}
    with pytest.raises(MeasureError, match="makes another program .*build_jobs=1"):
        design.tell({**answer, "text": "text"})
