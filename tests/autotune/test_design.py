"""Candidates are made once, by the workers that compile them, and are what this process makes."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from autotune.errors import MeasureError
from autotune.measure import Measurer
from autotune.measure.design import Design, Made, build_request
from autotune.measure.job import Job
from autotune.measure.measurer import DEFAULT_BUILDER
from autotune.measure.places.runner import LocalRunner, Workers
from autotune.measure.process import Reply, WorkerProcess
from autotune.measure.scoring import made_for, outline
from autotune.rules import default_candidates, make_space
from autotune.space import Candidate, Space
from schedule import Schedule
from tensorir import DEFAULT_NUMERICS, TensorIRError, device_of, te
from tests.autotune.distinct_spaces import PROGRAMS, TARGET, key, lowered, space_of, walked
from tests.brief import BRIEF

TWO = replace(BRIEF, build_jobs=2)


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


@pytest.fixture(scope="module")
def blurs() -> Iterator[Measurer]:
    """A measurer that several tests share: starting its workers takes longer than they do."""
    with Measurer(PROGRAMS["blur"](), str(TARGET), TWO) as measurer:
        yield measurer


@pytest.mark.parametrize("constants", [(), ("B",)])
def test_workers_make_what_is_made_here(constants):
    """As a worker does it, but in this process."""
    func = PROGRAMS["product"]()
    shapes = {p.name: tuple(map(int, p.shape)) for p in func.params if p.name in constants}
    space = make_space(func, device_of(TARGET), constants=constants)
    candidates = some(space, 2)
    made = [space.build(candidate) for candidate in candidates]
    there = designs(Unbuilt(list(space.sketches.values())), candidates, outline(space, TARGET))
    worker, other = (Job(DEFAULT_BUILDER, str(TARGET), str(func), None, shapes) for _ in "ab")
    for design, schedule in zip(there, made):
        found = worker.build(build_request(design), lambda phase: None)
        expected = other.build(build_request(str(schedule.func)), lambda phase: None)
        assert (found["status"], found["source"]) == ("ok", expected["source"])
        design.tell(found["made"])
        assert design.text == str(schedule.func)
        assert Made.of(design) == Made.of(schedule) and design.numerics == schedule.numerics


def test_what_no_worker_knows_is_made_here(blurs):
    space = space_of("blur")
    asked = designs(space, some(space, 2), "another outline")
    alone = [Design(space, design.candidate) for design in asked]
    with pytest.warns(UserWarning, match="workers know other schedules .* finds the same"):
        assert [r.status for r in blurs.measure(asked)] == ["ok"] * 2
    with pytest.warns(UserWarning, match="workers know other schedules"):
        candidates = [design.candidate for design in asked]
        assert blurs.features(candidates, DEFAULT_NUMERICS, "another outline") is None
    assert [r.status for r in blurs.measure(alone)] == ["ok"] * 2
    assert [d.made for d in asked] == [d.made for d in alone]


def test_what_is_built_ahead_is_not_timed_again(blurs):
    """Neither what an earlier batch had, nor two of one."""
    twins = next(twins_of(walked(space_of("blur"), 60, seed=1)))
    assert [r.status for r in blurs.measure(twins)] == ["ok", "ok"]
    again = blurs.measure(twins, known=["another"])
    assert [r.status for r in again] == ["ok", "repeated"]
    assert "code is that of an earlier trial" in again[1].error
    third = blurs.measure(twins, known=[again[0].source_hash])
    assert [(r.status, r.times) for r in third] == [("repeated", ())] * 2


class Waiting:
    """In place of workers: they have built when `done` is set."""

    jobs = 2

    def __init__(self, done: threading.Event) -> None:
        self.done = done

    def request(self, messages: Sequence[object]) -> list[Reply]:
        assert self.done.wait(60)
        return [Reply("answer", "build", {"status": "ok"})] * len(messages)

    def close(self) -> None:
        return


class Ready(LocalRunner):
    """A place that tells when its slot was asked for."""

    def __init__(self, asked: threading.Event) -> None:
        super().__init__()
        self.asked = asked

    def slot(self, start_message: Mapping[str, object], env: Mapping[str, str]) -> WorkerProcess:
        self.asked.set()
        return WorkerProcess(start_message, env)


def test_the_runner_starts_while_programs_are_compiled():
    asked = threading.Event()
    here = Workers(runner=Ready(asked))
    with Measurer(PROGRAMS["blur"](), str(TARGET), TWO, workers=here) as measurer:
        measurer._builders = Waiting(asked)
        assert [r.status for r, _ in measurer._build(["a", "b"])] == ["ok"] * 2


def test_what_hinders_the_runner_is_told_once_programs_are_compiled():
    done = threading.Event()
    done.set()
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    func = te.create_prim_func([a, te.compute((n,), lambda i: a[i] * 2.0, name="B")])
    with Measurer(func, str(TARGET), TWO) as measurer:
        measurer._builders = Waiting(done)
        with pytest.raises(MeasureError, match="symbolic size|in `sizes`"):
            measurer.measure(["a", "b"])


def twins_of(schedules: Iterable[Schedule]) -> Iterator[list[Schedule]]:
    """Pairs of different programs that lowering makes the same one."""
    known: dict[str, Schedule] = {}
    for schedule in schedules:
        first = known.setdefault(lowered(schedule), schedule)
        if key(first) != key(schedule):
            yield [first, schedule]


def test_a_worker_that_makes_another_program_is_noticed():
    func = PROGRAMS["product"]()
    space = make_space(func, device_of(TARGET))
    design = Design(space, default_candidates(space)[0], program="of another time")
    made = Made.of(space.build(design.candidate))
    answer = {"trace": list(made.trace), "numerics": made.numerics, "program": made.program}
    with pytest.raises(MeasureError, match="makes another program .*build_jobs=1"):
        design.tell({**answer, "text": "text"})
