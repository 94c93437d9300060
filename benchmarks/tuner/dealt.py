"""Searches whose programs run nowhere: each is dealt the times of a recorded one, by its text.

So `tune` itself searches in its own process, with its database, its locks and its race, at the
noise of a machine, and equal programs have equal times whenever they are asked for.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from autotune import Database
from autotune.database.records import Verdict
from autotune.measure import MeasureResult
from autotune.measure.busy import Neighbours
from autotune.measure.settings import Rounds
from autotune.noise.visits import Visit
from autotune.search.strategies import DEFAULT_STRATEGY, STRATEGIES
from autotune.simulate import Recorded, Recording
from benchmarks.searched import searched
from benchmarks.tuner.workloads import WORKLOADS

PAUSE_S = 0.01
"""That a trial takes: long enough for a search to be ended in the middle of a batch."""

BUILDS = 24
"""Schedules that are made for each batch: few, since searches are run many times."""


class DealtMeasurer:
    """What `Measurer` is for a search, with the times of a recording."""

    def __init__(self, recording: Recording, *args: Any, **options: Any) -> None:
        self.neighbours, self.reference = Neighbours(), None
        self._entries = [e for e in recording.entries if e.status != "refused"]

    def __enter__(self) -> DealtMeasurer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return

    def begin(self, *args: object) -> None:
        """No worker makes schedules."""

    def features(self, *args: object) -> None:
        """They are found by the search itself."""

    def measure(
        self, programs: Sequence[Any], incumbent: float | None = None,
        known: Collection[str] = (), on_result: Callable[[int, MeasureResult], None] | None = None,
    ) -> list[MeasureResult]:  # fmt: skip
        """The result of each, told one by one."""
        found = []
        for at, program in enumerate(programs):
            time.sleep(PAUSE_S)
            found.append(_result(self._dealt(program)))
            if on_result is not None:
                on_result(at, found[-1])
        return found

    def race(self, programs: Sequence[Any], rounds: int, before: int = 0) -> Rounds:
        """Rounds drawn from the visits of each."""
        dealt = [self._dealt(program) for program in programs]
        seeds = [f"{before}:{number}" for number in range(rounds)]
        time.sleep(PAUSE_S * rounds)
        times = (tuple(random.Random(s).choice(e.visits) for s in seeds) for e in dealt)
        return Rounds(tuple(times), (False,) * rounds)

    def _dealt(self, program: Any) -> Recorded:
        digest = blake2b(str(program.func).encode(), digest_size=8).digest()
        return self._entries[int.from_bytes(digest, "big") % len(self._entries)]


def _result(entry: Recorded) -> MeasureResult:
    if entry.status != "ok":
        return MeasureResult(entry.status, entry.error)
    visits = tuple(Visit(seconds) for seconds in entry.visits)
    middle = median(entry.visits)
    return MeasureResult("ok", "", entry.visits, middle, Verdict(True, 0.0, 1e-5), visits=visits)


def search(recording: Path, database: Path, trials: int, seed: int) -> dict[str, Any]:
    """Search the workload of a recording; all that was tried, in order, and the answer."""
    read = Recording.read(recording)
    usual = import_module(f"autotune.search.{DEFAULT_STRATEGY}")
    few = partial(usual.propose, settings=replace(usual.DEFAULT, builds=BUILDS))
    with ExitStack() as stack:
        stack.enter_context(
            patch("autotune.tuning.search.Measurer", partial(DealtMeasurer, read))
        )
        # What runs nowhere has no code that could be another one today.
        stack.enter_context(patch("autotune.tuning.session.is_current", lambda *given: True))
        stack.enter_context(patch.dict(STRATEGIES, {DEFAULT_STRATEGY: few}))
        with Database(database) as db:
            func = WORKLOADS[read.name]()
            result = searched(
                func, "c", trials, seed, db, cost_model="sklearn", progress=False
            )
            tried = [
                [r.sketch, r.decisions, r.trial, r.batch, r.status, r.median, r.predicted]
                for r in db.records()
                if not r.is_final
            ]
    answer = [result.record.sketch, result.record.decisions, result.best_seconds]
    return {"tried": tried, "answer": [*answer, str(result.outcome)]}


if __name__ == "__main__":
    place, stored, count, number = sys.argv[1:]
    print(json.dumps(search(Path(place), Path(stored), int(count), int(number))))
