"""Searches that go on in turns, a batch at a time."""

from __future__ import annotations

import time
from collections.abc import Mapping

from autotune.errors import DatabaseError, MeasureError
from autotune.tasks.allocation import Spent, next_task
from autotune.tuning.batches import batch_size
from autotune.tuning.found import nothing_ran, result_of
from autotune.tuning.progress import Progress
from autotune.tuning.result import TuneResult
from autotune.tuning.search import Search
from tensorir import TensorIRError

AWAKE = 3
"""Searches whose workers are kept while others have their turn."""


class Turns:
    """Takes turns until a budget is spent.

    failed  why searches ended without a result, by name
    """

    def __init__(
        self, searches: Mapping[str, Search], weights: Mapping[str, float], show: Progress
    ) -> None:
        self.failed: dict[str, str] = {}
        self._searches, self._weights, self._show = searches, weights, show
        self._running = dict.fromkeys(searches)
        self._begun: set[str] = set()
        self._others = {s.session.workload.key for s in searches.values()}
        self._awake: list[str] = []
        self._before = {name: search.session.trials for name, search in searches.items()}
        self._seconds = dict.fromkeys(searches, 0.0)

    def take(self, trials: float, seconds: float) -> str:
        """Search until there are so many trials of all functions, or so many seconds are over; why
        it ended. Each function gets a batch, of one trial at least."""
        deadline = time.perf_counter() + seconds
        while self._running:
            count = sum(search.session.trials for search in self._searches.values())
            fresh = [n for n in self._running if not self._searches[n].session.trials]
            if count >= trials and not fresh:
                return f"{count} trials"
            if time.perf_counter() >= deadline and not fresh:
                return f"{seconds:g} s"
            name = self._next()
            others = len([each for each in fresh if each != name])
            batch = batch_size(self._searches[name].session.known)
            self._step(name, max(min(batch, trials - count - others), 1))
        return "nothing is left to try"

    def finish(self, ended: str) -> dict[str, TuneResult]:
        """Race the best of each function, and say what was found."""
        found = {}
        for name, search in self._searches.items():
            if name in self.failed:
                continue
            begun, session = time.perf_counter(), search.session
            with self._show.task(name, session.trials, None, session.work) as task:
                search.finish(task)
            search.rest()
            self._seconds[name] += time.perf_counter() - begun
            best = session.stored_best()
            if best is None:
                self.failed[name] = str(nothing_ran(session))
                continue
            measured = session.trials - self._before[name]
            found[name] = result_of(session, best, measured, self._seconds[name], ended)
        return found

    def _next(self) -> str:
        sessions = {name: self._searches[name].session for name in self._running}
        spent = {name: Spent.of(session.counted()) for name, session in sessions.items()}
        begun = [name for name, session in sessions.items() if session.is_open]
        return next_task(spent, self._weights, begun)

    def _step(self, name: str, allowed: float) -> None:
        """A batch of one search; one that cannot go on takes part no more."""
        begun, search = time.perf_counter(), self._searches[name]
        session = search.session
        shown = f"{name} ({len(self._running)} functions)"
        try:
            with self._show.task(shown, session.trials, None, session.work) as task:
                if name not in self._begun:
                    self._begun.add(name)
                    others = self._others - {session.workload.key}
                    search.begin(task, several=True, without=others)
                batch = search.step(task, session.trials + allowed)
            if not batch.proposed:
                del self._running[name]
        except (MeasureError, DatabaseError):
            raise
        except TensorIRError as error:
            self.failed[name] = str(error)
            del self._running[name]
        self._seconds[name] += time.perf_counter() - begun
        self._keep_awake(name)

    def _keep_awake(self, name: str) -> None:
        """End the workers of the search that had no turn for the longest time."""
        self._awake = [*(each for each in self._awake if each != name), name]
        while len(self._awake) > AWAKE:
            self._searches[self._awake.pop(0)].rest()
