"""Which schedules the sizes of a family share, by their times; functions of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

WORTH = 0.01
"""A further schedule is taken where it makes the whole at least this share faster."""


def shared(times: np.ndarray, most: int) -> list[int]:
    """At most `most` columns that serve all rows best together with column 0, which costs nothing.

    times  float64 [sizes, schedules], weighted so that their sum is what counts; inf where a
           schedule is none for a size. Column 0 is finite.

    One column after the other, of which each may then be exchanged for a better one: for all of a
    few hundred drawn tables within 4 % of the best choice. Without a column for which it is worth
    it, none. Ties go to the first.
    """
    chosen: list[int] = []
    while len(chosen) < most:
        left = [c for c in range(1, times.shape[1]) if c not in chosen]
        best = min(left, key=lambda c: _sum(times, [*chosen, c]), default=None)
        if best is None:
            break
        larger = _exchanged(times, [*chosen, best])
        if _sum(times, larger) > (1 - WORTH) * _sum(times, chosen):
            break
        chosen = larger
    return chosen


def served(times: np.ndarray, chosen: Sequence[int]) -> list[int]:
    """For each row the best column of `chosen` and 0, the first of equals."""
    columns = [0, *chosen]
    return [columns[at] for at in np.argmin(times[:, columns], axis=1)]


def _sum(times: np.ndarray, chosen: Sequence[int]) -> float:
    return float(times[:, [0, *chosen]].min(axis=1).sum())


def _exchanged(times: np.ndarray, chosen: list[int]) -> list[int]:
    """The columns after each exchange of one that gains something."""
    while True:
        others = [c for c in range(1, times.shape[1]) if c not in chosen]
        ways = [[*chosen[:at], c, *chosen[at + 1 :]] for at in range(len(chosen)) for c in others]
        best = min(ways, key=lambda way: _sum(times, way), default=chosen)
        if _sum(times, best) >= _sum(times, chosen):
            return chosen
        chosen = best
