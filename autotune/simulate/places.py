"""How near recorded candidates of one sketch are to one another."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import log2
from typing import Any

import numpy as np

Values = tuple[Any, ...]


class Places:
    """Distinct tuples of values, one for each of so many choices. Add all, then ask.

    Near is first who differs in few choices, then whose sizes differ by small factors.
    """

    def __init__(self, choices: int) -> None:
        self.known: list[Values] = []
        self._at: dict[Values, int] = {}
        self._codes: list[dict[Any, int]] = [{} for _ in range(choices)]
        self._orders: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def add(self, values: Values) -> None:
        if values not in self._at:
            self._at[values] = len(self.known)
            self.known.append(values)
            for codes, value in zip(self._codes, values, strict=True):
                codes.setdefault(value, len(codes))

    @property
    def options(self) -> list[tuple[Any, ...]]:
        """The values of each choice that occur."""
        return [tuple(codes) for codes in self._codes]

    @cached_property
    def grid(self) -> list[Values]:
        """All in the order of a grid: by the numbers of their values."""
        return sorted(self.known, key=lambda found: ([_coordinates(v) for v in found], repr(found)))

    def nearest(self, values: Values, count: int) -> list[Values]:
        """At most `count` others, nearest first."""
        return self._take(self._order(values)[0][:count])

    def within_one(self, values: Values) -> int:
        """How many others differ in one choice alone."""
        return int(np.count_nonzero(self._order(values)[1] <= 1))

    def between(self, a: Values, b: Values) -> list[Values]:
        """All whose every value is that of `a` or of `b`, these two among them."""
        one, other = self._table[self._at[a]], self._table[self._at[b]]
        inside = ((self._table == one) | (self._table == other)).all(axis=1)
        return self._take(np.flatnonzero(inside))

    def _take(self, places: Sequence[int] | np.ndarray) -> list[Values]:
        return [self.known[at] for at in places]

    def _order(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        """The places of all others, nearest first, and in how many choices each differs."""
        at = self._at[values]
        if at not in self._orders:
            apart, differ = self._apart(self._table[at])
            order = np.lexsort((apart, differ))
            order = order[order != at]
            self._orders[at] = order, differ[order]
        return self._orders[at]

    def _apart(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far all are from these codes in size, and in how many choices."""
        apart = np.zeros(len(self.known))
        for grid, column, code in zip(self._grids, self._table.T, codes):
            apart += np.abs(grid[column] - grid[code]).sum(axis=1)
        return apart, np.count_nonzero(self._table != codes, axis=1)

    @cached_property
    def _table(self) -> np.ndarray:
        """The code of each value: a row for each candidate, a column for each choice."""
        rows = [[codes[v] for codes, v in zip(self._codes, values)] for values in self.known]
        return np.array(rows, dtype=int).reshape(len(self.known), len(self._codes))

    @cached_property
    def _grids(self) -> list[np.ndarray]:
        """Coordinates of the values of each choice, in the order of their codes."""
        return [_grid([_coordinates(value) for value in codes]) for codes in self._codes]


def _grid(rows: list[list[float]]) -> np.ndarray:
    width = max(map(len, rows), default=0)
    return np.array([row + [0.0] * (width - len(row)) for row in rows]).reshape(len(rows), width)


def _coordinates(value: Any) -> list[float]:
    """Sizes by their logarithms; other values are all equally far apart."""
    if isinstance(value, tuple):
        return [x for part in value for x in _coordinates(part)]
    is_size = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return [log2(value + 1) if is_size else 0.0]
