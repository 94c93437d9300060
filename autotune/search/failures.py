"""Failures teach: how likely a candidate fails, by trials that have values in common with it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from autotune.search.state import SearchState
from autotune.space import Candidate

DOUBT = 2.0
"""Trials' worth of doubt about a value: so many say nothing yet."""


class Failures:
    """What the trials so far say of failing; nothing where none failed."""

    def __init__(self, state: SearchState) -> None:
        self._tried: Counter[tuple[str, int, Any]] = Counter()
        self._failed: Counter[tuple[str, int, Any]] = Counter()
        failed = 0
        for candidate, seconds in state.measured.items():
            parts = _parts(candidate)
            self._tried.update(parts)
            if seconds is None:
                failed += 1
                self._failed.update(parts)
        self._share = failed / max(len(state.measured), 1)

    def chance(self, candidate: Candidate) -> float:
        """The chance to fail of the value that is worst, below 1; 0 if nothing failed."""
        if not self._share:
            return 0.0
        return max(
            (self._failed[part] + DOUBT * self._share) / (self._tried[part] + DOUBT + 1)
            for part in _parts(candidate)
        )


def _parts(candidate: Candidate) -> list[tuple[str, int, Any]]:
    """The values with their places; the sketch itself is one too."""
    values = [(candidate.sketch, at, value) for at, value in enumerate(candidate.values)]
    return [(candidate.sketch, -1, None), *values]
