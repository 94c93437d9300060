"""Searches that are ended at random moments and begun again, against the one that never was.

Times come from a measurer that runs nothing: each is a function of the program, so that two
searches differ only where they try other candidates.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any
from unittest.mock import patch

from autotune import Database, tune
from autotune.database.records import Record, Verdict
from autotune.measure import MeasureResult
from autotune.measure.settings import Rounds
from autotune.search import Evolution, Policy, evolutionary, policy
from autotune.search.strategies import STRATEGIES
from tensorir import PrimFunc, TensorIRError, te
from tests.pretended import RunsNothing

ENDS = ("killed", "killed in the race", "time is up", "fewer trials", "other seed")


class Killed(BaseException):
    """As if the process had ended here: nothing catches it."""


@dataclass
class Run:
    """One call of tune: how many trials it asks for, and how it ends before."""

    trials: int
    end: str = ""
    after: int = 0

    def limits(self) -> dict[str, Any]:
        return {"seconds": 0.0} if self.end == "time is up" else {}


class Case:
    """One seed: a program, a way to search, how candidates do, and what ends the runs."""

    def __init__(self, seed: int) -> None:
        pick = random.Random(seed)
        self.seed = seed
        self.func = pick.choice((products, row_sums, twice))()
        self.strategy = pick.choice(("evolutionary", *STRATEGIES))
        self.cost_model = pick.choice(("random", "sklearn"))
        self.batch = pick.choice((1, 3, 4, 8))
        self.failing = pick.choice((0.0, 0.3, 0.6, 1.0))
        self.trials = pick.randint(2, 14)
        # Trials of another seed are known to what comes after them: such runs come first.
        self.before = [Run(pick.randint(1, 6), "other seed")] * pick.choice((0, 0, 1))
        self.runs = [self._run(pick) for _ in range(pick.randint(1, 5))]

    def _run(self, pick: random.Random) -> Run:
        end = pick.choice(ENDS[:-1])
        wanted = pick.randint(1, self.trials) if end == "fewer trials" else self.trials
        return Run(wanted, end, pick.randint(0, 5))


def check_seed(seed: int) -> dict[str, Any]:
    """A row for the fuzzer."""
    case = Case(seed)
    ends = Counter(run.end for run in (*case.before, *case.runs))
    finding = None
    try:
        check(case)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        program = f"tests/fuzz/killed_searches.py: check(Case({seed}))\n"
        finding = {"seed": seed, "stage": "killed search", "error": text, "program": program}
    return {
        "seed": seed, "workload": case.func.name, "compiled": 0, "bitwise": 0,
        "asked": dict(ends), "accepted": dict(ends), "finding": finding,
    }  # fmt: skip


Found = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Ended:
    """What a search has come to: its trials in order, who was in its last race and what is the
    answer, and who won the races before that."""

    trials: Found
    raced: frozenset[Any]
    answer: Found
    earlier: frozenset[Any]


def check(case: Case, never_ended: Ended | None = None) -> None:
    """Raise AssertionError where a search that was ended and begun again is another one.

    `never_ended` is what `whole(case)` found, if that is known.
    """
    expected = never_ended or whole(case)
    with tempfile.TemporaryDirectory() as folder, machinery(case):
        cut = Path(folder, "cut.db")
        for run in case.before:
            search(case, cut, run)
        for run in case.runs:
            search(case, cut, run)
            found = trials(cut)
            assert found == expected.trials[: len(found)], (case.runs, found, expected.trials)
        search(case, cut, Run(case.trials))
        same_end(ended(cut), expected, case.runs)


def same_end(found: Ended, expected: Ended, runs: Sequence[Run]) -> None:
    """The same trials, race and answer. A run whose time is up holds a race and tells its answer,
    which takes part in the next race too: so those that won earlier ones, and they alone, may be in
    one race and not in the other. Runs that were killed leave no such trace."""
    assert found.trials == expected.trials, (runs, found.trials, expected.trials)
    assert found.answer == expected.answer, (runs, found.answer, expected.answer)
    more = found.raced ^ expected.raced
    if found.earlier == expected.earlier:
        assert not more, (runs, more)
    assert more <= found.earlier | expected.earlier, (runs, more)


def whole(case: Case) -> Ended:
    """What the search that nothing ends comes to."""
    with tempfile.TemporaryDirectory() as folder, machinery(case):
        path = Path(folder, "whole.db")
        for run in (*case.before, Run(case.trials)):
            search(case, path, run)
        return ended(path)


def search(case: Case, path: Path, run: Run) -> None:
    """One call of tune, which may be killed, or find nothing that runs."""
    seed = 1 if run.end == "other seed" else 0
    with patch("autotune.tuning.search.Measurer", partial(FakeMeasurer, case, run)):
        try:
            tune(
                case.func, "c", run.trials, seed, path, strategy=case.strategy,
                cost_model=case.cost_model, progress=False, **run.limits(),
            )  # fmt: skip
        except Killed:
            assert run.end.startswith("killed")
        except TensorIRError as error:
            assert "ran correctly" in str(error)


@contextmanager
def machinery(case: Case) -> Any:
    """Small batches of few builds."""
    few = {
        "evolutionary": partial(evolutionary.propose, settings=Evolution(builds=12)),
        "policy": partial(policy.propose, settings=Policy(builds=12)),
    }
    with ExitStack() as stack:
        stack.enter_context(patch("autotune.tuning.batches.BATCH", case.batch))
        # What runs nothing has no code that could be another one today.
        stack.enter_context(patch("autotune.tuning.session.is_current", lambda *given: True))
        stack.enter_context(patch.dict(STRATEGIES, few))
        yield


class FakeMeasurer(RunsNothing):
    """Gives each program the time of its text, until the run is to end."""

    def __init__(self, case: Case, run: Run, *args: Any, **options: Any) -> None:
        super().__init__()
        self.case, self.run, self.left = case, run, run.after

    def result(self, program: Any) -> MeasureResult:
        return result_of(self.case, str(program.func))

    def measure(
        self, programs: Any, on_result: Any = None, **options: Any
    ) -> list[MeasureResult]:
        results = []
        for index, program in enumerate(programs):
            if self.run.end == "killed" and self.left == 0:
                raise Killed
            self.left -= 1
            results.append(self.result(program))
            on_result(index, results[-1])
        return results

    def race(self, programs: Any, rounds: int, before: int) -> Rounds:
        if self.run.end == "killed in the race":
            if before >= self.left:  # at once, or between two looks
                raise Killed
        return super().race(programs, rounds, before)


def result_of(case: Case, text: str) -> MeasureResult:
    digest = blake2b(f"{case.seed}{text}".encode()).digest()
    seconds, chance = (1 + int.from_bytes(digest[:4], "big") / 2**32) * 1e-3, digest[4] / 256
    code = f"code {digest[5] % 24}"  # some programs are others' once they are lowered
    if chance < case.failing * 0.7:
        return MeasureResult("crash", "as was to be expected", source_hash=code)
    status = "pruned" if chance < case.failing or case.failing == 1 else "ok"
    verdict = Verdict(status == "ok", 0.0, 1e-5)
    return MeasureResult(status, "", (seconds,), seconds, verdict, source_hash=code)


def trials(path: Path) -> Found:
    """What was tried, in order."""
    return [
        (r.sketch, r.decisions, r.seed, r.trial, r.batch, r.status, r.median, r.predicted)
        for r in records(path)
        if not r.is_final
    ]


def ended(path: Path) -> Ended:
    """What is stored of a search; the last race is one that nothing came after."""
    found = records(path)
    races = [r for r in found if r.is_final]
    last = [r for r in races if r.session == found[-1].session] if found[-1:] == races[-1:] else []
    earlier = races[: len(races) - len(last)]
    return Ended(
        trials(path), frozenset(map(_raced, last)), _winners(last), frozenset(_winners(earlier))
    )


def _raced(record: Record) -> tuple[Any, ...]:
    return record.median, record.sketch, str(record.decisions)


def _winners(raced: Iterable[Record]) -> Found:
    return sorted(_raced(r) for r in raced if r.race is not None and r.race["won"])


def records(path: Path) -> list[Record]:
    with Database(path) if path.exists() else nullcontext() as db:
        return [] if db is None else db.records()


def products() -> PrimFunc:
    a, b = te.placeholder((16, 8), name="A"), te.placeholder((8, 24), name="B")
    k = te.reduce_axis(8, name="k")
    c = te.compute((16, 24), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c], name="products")


def row_sums() -> PrimFunc:
    a = te.placeholder((32, 64), name="A")
    k = te.reduce_axis(64, name="k")
    b = te.compute((32,), lambda i: te.sum(a[i, k], axis=k), name="B")
    return te.create_prim_func([a, b], name="row_sums")


def twice() -> PrimFunc:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] * 2.0, name="B")
    return te.create_prim_func([a, b], name="twice")
