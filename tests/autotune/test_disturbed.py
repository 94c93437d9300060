"""What a worker does with blocks that something else disturbed."""

from __future__ import annotations

import ast
import subprocess
import sys
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


def first_visit(
    job: Job, text: str = "ok 4", limit: float | None = 1.0, min_ms: float = 0.0
) -> dict:
    message = {
        "text": text, "source": None, "check": True, "min_ms": min_ms, "prune_above": limit,
    }  # fmt: skip
    return job.measure(message, lambda phase: None)


def test_disturbed_first_calls_condemn_nobody(job):
    """The first canary is that of the call which is checked."""
    slow = first_visit(job(0))
    assert slow["status"] == "pruned" and slow["median"] == 4.0 and len(slow["times"]) == 2
    assert first_visit(job(0), limit=5.0)["status"] == "ok"
    later = first_visit(job(2))
    assert later["status"] == "ok" and not Visit.from_json(later["visits"][0]).disturbed
    assert Visit.from_json(first_visit(job(3))["visits"][0]).disturbed


def test_a_call_that_takes_far_too_long_is_the_last(job):
    """The fake's calls last 60 ms, while its timer says that they take one: who was checked in too
    long a call is not timed at all, unless something disturbed it or the limit is near."""
    hopeless = first_visit(job(0), "slow", limit=0.01)
    assert hopeless["status"] == "pruned" and hopeless["verdict"]["checked"]
    assert len(hopeless["times"]) == 1 and hopeless["times"][0] >= 0.06
    assert first_visit(job(1), "slow", limit=0.01)["status"] == "ok"
    assert first_visit(job(0), "slow", limit=10.0)["status"] == "ok"


def test_the_call_that_is_checked_is_one_of_the_slow_calls(job):
    """Unless it says nothing: something disturbed it, or it was within the limit."""

    def slow(checked: Visit | None) -> list[float]:
        made = job(0)
        return made._slow_calls(Visit(4.0), made._told(checked), lambda calls: 3.0, 2.0, 0.0)

    assert slow(Visit(5.0)) == [5.0, 4.0]
    for other in (None, Visit(5.0, canary=2.0), Visit(1.0)):
        assert slow(other) == [4.0, 3.0]


class NoEviction:
    """Caches that nobody empties, and calls that are to find nothing there all the same."""

    def timer(self, seconds):
        return seconds


@pytest.mark.parametrize("limit", [None, 10.0, 0.03])
def test_the_call_that_is_checked_is_the_first_block_where_it_is_as_long(job, limit):
    """Its calls last 60 ms, while its timer says that they take one: which of them was taken shows.
    One above the limit condemns nobody alone."""
    answer = first_visit(job(0), "slow", limit, min_ms=50.0)
    seconds = Visit.from_json(answer["visits"][0]).seconds
    assert answer["status"] == "ok" and len(answer["visits"]) == 1
    assert (answer["calls"], seconds >= 0.06) == ((1, True) if limit != 0.03 else (50, False))
    cold = job(0)
    cold._cold = NoEviction()
    others = {"shorter": (job(0), 100.0), "disturbed": (job(1), 50.0), "warm": (cold, 50.0)}
    for made, min_ms in others.values():
        answer = first_visit(made, "slow", limit, min_ms)
        assert Visit.from_json(answer["visits"][0]).seconds == pytest.approx(0.001)
    quick = first_visit(job(0), "ok 0.002", limit)
    assert Visit.from_json(quick["visits"][0]).seconds == 0.002


def test_what_tests_measure_is_never_pruned():
    """It would be by what else the machine does: settings that are used are made of `BRIEF`."""
    tests = Path(__file__).parents[1]
    texts = {path.name: path.read_text(encoding="utf-8") for path in tests.rglob("*.py")}
    made = {name for name, text in texts.items() if makes_settings(text)}
    assert made == {"brief.py"} and makes_settings("x = f(settings=MeasureSettings(repeats=2))")


def makes_settings(text: str) -> bool:
    """Whether it makes settings for more than seeing that they are refused."""
    if "MeasureSettings(" not in text:
        return False
    nodes = list(ast.walk(ast.parse(text)))
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return any(
        isinstance(node, ast.Call)
        and id(node) not in alone
        and ast.unparse(node.func).endswith("MeasureSettings")
        for node in nodes
    )


@pytest.mark.parametrize(("sick", "told"), [(0, 0), (3, 0), (8, 4), (99, 4)])
def test_disturbed_rounds_of_a_race_are_taken_again_and_told(job, sick, told):
    phases = []
    message = {
        "texts": ["ok 1", "ok 2"], "sources": [None] * 2, "calls": [1, 1], "rounds": 4,
        "min_ms": 0.0, "seed": [0, 0],
    }  # fmt: skip
    answer = job(sick).race(message, phases.append)
    assert answer["race"] == [[1.0] * 4, [2.0] * 4] and sum(answer["disturbed"]) == told
    rounds = phases.count("time") / 2
    assert rounds == min(4 + sick, 8)


def test_a_canary_loads_no_masked_arrays():
    """Nothing of ours has any, and their import takes longer than timing a candidate."""
    code = (
        "import sys; from autotune.measure.canary import Canary;"
        "Canary().visit(lambda calls: 1.0, 1); sys.exit('numpy.ma' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
