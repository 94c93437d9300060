"""The candidates of one batch while they are visited, and what is known of them so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autotune.errors import MeasureError
from autotune.measure.process import Reply
from autotune.measure.settings import MeasureResult, MeasureSettings
from autotune.noise.visits import Visits
from autotune.phases import Phases

OnResult = Callable[[int, MeasureResult], None]

Built = tuple[MeasureResult, "str | None"]
"""What came of building ahead: a result and a source text."""


class Batch:
    """Takes the answers of the worker, and tells `on_result` of those that are final, in order.

    built     result of the build of each candidate; those that failed are not visited
    requests  of checking and visiting each that was built for the first time
    """

    def __init__(
        self,
        built: Sequence[MeasureResult],
        requests: Sequence[Mapping[str, Any]],
        visits: Visits,
        on_result: OnResult | None,
    ) -> None:
        self.results = list(built)
        self.order: list[int] = []
        self._requests = requests
        self._visits = visits
        self._on_result = on_result
        self._told = 0
        self._begun = time.monotonic()
        for at, result in enumerate(built):
            if not result.ok:
                visits.leave(at)

    def begin_round(self, phases: Phases) -> bool:
        """Whether there is another round, after a pause if need be; `order` has who is visited."""
        self.order = self._visits.next()
        if self.order:
            with phases("waiting"):
                time.sleep(self._visits.pause)
        while self._told < len(self.results) and not self._visits.is_open(self._told):
            if self._on_result is not None:
                self._on_result(self._told, self.results[self._told])
            self._told += 1
        return bool(self.order)

    def is_new(self, at: int) -> bool:
        """Whether the candidate was not visited yet."""
        return not self._visits.made[at]

    def request(self, at: int, prune_factor: float) -> dict[str, Any]:
        """What to ask the worker for: the first visit, which is stopped where it takes so many
        times the best so far, or one more."""
        first = self._requests[at]
        if not self.is_new(at):
            calls = self.results[at].calls
            return {"op": "visit", "text": first["text"], "source": first["source"], "calls": calls}
        best = self._visits.best()
        return {**first, "prune_above": None if best is None else best * prune_factor}

    def take(self, at: int, answer: MeasureResult) -> None:
        """What came of the visit."""
        known, new = self.results[at], self.is_new(at)
        seconds = known.build_seconds or answer.build_seconds
        if not answer.ok:
            self._visits.leave(at)
            code = answer.source_hash or known.source_hash
            self.results[at] = replace(answer, build_seconds=seconds, source_hash=code)
            return
        after = round(time.monotonic() - self._begun, 3)
        self._visits.add(at, replace(answer.visits[0], at=after))
        found = replace(answer if new else known, build_seconds=seconds)
        self.results[at] = found.visited(self._visits, at)


def result_of(reply: Reply, settings: MeasureSettings) -> MeasureResult:
    """What a worker's reply says of a candidate. Raises MeasureError where no worker starts."""
    if reply.outcome == "answer":
        return MeasureResult.from_json(reply.data)
    if reply.phase == "start":
        raise MeasureError(f"the measuring worker does not start: {reply.error}")
    if reply.outcome == "died":
        return MeasureResult("crash", f"in phase {reply.phase!r}, {reply.error}")
    if reply.phase == "build":
        limit = settings.build_timeout_s
        return MeasureResult("build_timeout", f"the build took longer than {limit:g} s")
    limit = settings.timeout_s
    return MeasureResult("run_timeout", f"no answer for {limit:g} s in phase {reply.phase!r}")


def once(built: Sequence[Built], known: Collection[str]) -> list[Built]:
    """The same, without what repeats one of the `known` source texts, if there are any."""
    seen, found = set(known), list[Built]()
    for result, source in built:
        found.append((result.unless_in(seen), source))
        if known:
            seen.add(result.source_hash)
    return found
