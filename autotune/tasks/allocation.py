"""Which of several searches is next: the one from which most is expected to be gained per second.

The gain is that of the weighted sum of the best times. As in Ansor's task scheduler (Zheng et al.,
OSDI 2020, section 6) two guesses go together: what the latest seconds gained, and, optimistically,
that as many seconds as were spent so far could gain the whole time, which lets those go on that
were tried little. Seconds are those that records tell, so the order is a function of records: a
run that was killed goes on in the order of one that was not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.database.records import Record

RECENT = 16
"""Trials that tell what is gained now."""

OPTIMISM = 0.5
"""How much the optimistic guess counts; the recent gain counts the rest. Ansor has 0.8. On made
curves of steps all from 0.2 to 0.8 gain 3 % over equal shares, on smooth ones less is better."""

OVERHEAD_S = 0.02
"""Seconds of a trial besides building and timing: proposals, checks."""

HOPELESS = 16
"""Trials after which a function of which nothing ran is given up."""


@dataclass(frozen=True)
class Spent:
    """What the trials of a function have come to.

    seconds  spent on each trial, oldest first; `best` the best time after it, None before there
             was one
    """

    seconds: tuple[float, ...] = ()
    best: tuple[float | None, ...] = ()

    @staticmethod
    def of(records: Sequence[Record]) -> Spent:
        """That of trials, oldest first."""
        best: float | None = None
        found = []
        for record in records:
            if record.status == "ok" and record.median is not None:
                best = record.median if best is None else min(best, record.median)
            found.append(best)
        return Spent(tuple(map(cost, records)), tuple(found))

    @property
    def in_all(self) -> float:
        return sum(self.seconds)

    def gain_per_second(self, weight: float) -> float:
        """How much the weighted time is expected to fall in a second more; infinite before
        anything was tried, 0 where nothing runs."""
        if not self.best:
            return float("inf")
        best = self.best[-1]
        if best is None:
            return 0.0 if len(self.best) >= HOPELESS else float("inf")
        before = self.best[-RECENT - 1] if len(self.best) > RECENT else None
        first = next(b for b in self.best if b is not None)
        recent = ((before or first) - best) / sum(self.seconds[-RECENT:])
        return weight * (OPTIMISM * best / self.in_all + (1 - OPTIMISM) * recent)


def cost(record: Record) -> float:
    """Seconds that a trial took, as far as its record tells."""
    timed = sum(float(visit.get("lasted", 0.0)) for visit in record.visits)
    return OVERHEAD_S + (record.build_seconds or 0.0) + timed


def next_task(
    spent: Mapping[str, Spent], weights: Mapping[str, float], begun: Sequence[str] = ()
) -> str:
    """Whose turn it is: one whose batch was `begun` and cut off, or that which gains most, the
    first of equals."""
    if begun:
        return begun[0]
    return max(spent, key=lambda name: spent[name].gain_per_second(weights[name]))
