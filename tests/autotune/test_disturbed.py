"""What a worker does with blocks that something else disturbed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autotune.measure.job import Job
from autotune.measure.reference import Reference
from autotune.noise.visits import Visit


class Sick:
    """A canary that is slow the first `times` times that it is asked."""

    def __init__(self, times: int) -> None:
        self.left = times

    def visit(self, timer, calls):
        seconds = timer(calls) / calls
        self.left -= 1
        return Visit(seconds, canary=2.0 if self.left >= 0 else 1.0)


@pytest.fixture
def job(monkeypatch):
    """job(times): a worker's job in this process, with kernels that take what their text says."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr("autotune.measure.job.time.sleep", lambda seconds: None)

    def make(sick: int) -> Job:
        a = np.arange(10, dtype=np.float32)
        types = {"A": "float32", "B": "float32"}
        tolerance = {"B": np.full((), 1e-6)}
        reference = Reference(("A", "B"), types, {"A": a}, {"B": a + 1}, tolerance)
        made = Job("fake_kernels:build", "c", "", reference)
        made.__dict__["_canary"] = Sick(sick)
        return made

    return make


def first_visit(job: Job) -> dict:
    message = {
        "text": "ok 4", "source": None, "check": True, "min_ms": 0.0, "prune_above": 1.0,
    }  # fmt: skip
    return job.measure(message, lambda phase: None)


def test_disturbed_first_calls_condemn_nobody(job):
    assert first_visit(job(0))["status"] == "pruned"
    later = first_visit(job(1))
    assert later["status"] == "ok" and not Visit.from_json(later["visits"][0]).disturbed
    assert Visit.from_json(first_visit(job(2))["visits"][0]).disturbed


@pytest.mark.parametrize(("sick", "told"), [(0, 0), (3, 0), (8, 4), (99, 4)])
def test_disturbed_rounds_of_a_race_are_taken_again_and_told(job, sick, told):
    phases = []
    message = {
        "texts": ["ok 1", "ok 2"], "calls": None, "rounds": 4, "min_ms": 0.0, "seed": [0, 0],
    }  # fmt: skip
    answer = job(sick).race(message, phases.append)
    assert answer["race"] == [[1.0] * 4, [2.0] * 4] and sum(answer["disturbed"]) == told
    rounds = (phases.count("time") - 2) / 2
    assert rounds == min(4 + sick, 8)
