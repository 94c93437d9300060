"""Sketches as the arms of a bandit: the next slot goes where the best time may yet be improved.

Only the best trial of a sketch counts in the end, not their mean, so an arm is worth its best time,
made smaller by what so few trials leave open (an upper confidence bound on the logarithm).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from math import inf, log, sqrt

from autotune.search.state import SearchState
from autotune.space import Candidate

OPTIMISM = 0.35
"""How much faster than its best trial a sketch of few trials may prove, as a logarithm."""


class Bandit:
    """Which sketch is next, of those that have candidates.

    expected  predicted seconds of candidates; a sketch without trials is worth the best of them
    """

    def __init__(self, state: SearchState, expected: Mapping[Candidate, float]) -> None:
        self._tried: Counter[str] = Counter(c.sketch for c in state.measured)
        self._best: dict[str, float] = {}
        guessed: dict[str, float] = {}
        for times, found in ((state.measured, self._best), (expected, guessed)):
            for candidate, seconds in times.items():
                if seconds:
                    found[candidate.sketch] = min(seconds, found.get(candidate.sketch, inf))
        for name, seconds in guessed.items():
            if not self._tried[name]:
                self._best[name] = seconds

    def count(self, candidate: Candidate) -> None:
        """One more slot is this candidate's."""
        self._tried[candidate.sketch] += 1

    def next(self, names: Collection[str]) -> str:
        """The sketch whose best time may be improved most, of these; equal ones by their order."""
        total = log(1 + sum(self._tried.values()))

        def bound(name: str) -> float:
            tried = self._tried[name]
            if name not in self._best:  # it failed so far: the fewer trials, the better
                return float(tried) if tried else -inf
            return log(self._best[name]) - OPTIMISM * sqrt(total / max(tried, 0.5))

        return min(names, key=bound)
