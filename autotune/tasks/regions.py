"""Regions of sizes: which schedule a size has that was not measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import isqrt
from operator import and_

from tensorir import Expr, Var

Sizes = Mapping[str, int]
Bounds = Mapping[str, tuple[int, int]]
Served = Sequence[tuple[Sizes, int]]
"""Sizes that were measured, each with the schedule that it has."""

BEYOND = 2
"""How far measured sizes tell something of others, as a factor: further out nothing is known."""


@dataclass(frozen=True)
class Region:
    """All sizes within bounds, both included, by name, and the schedule that they have."""

    bounds: Bounds
    schedule: int

    def holds(self, sizes: Sizes) -> bool:
        return all(low <= sizes[name] <= high for name, (low, high) in self.bounds.items())

    def condition(self, variables: Mapping[str, Var]) -> Expr:
        """The same as an expression of the variables of the sizes."""
        terms = [
            (variables[name] >= low) & (variables[name] <= high)
            for name, (low, high) in self.bounds.items()
        ]
        return reduce(and_, terms)

    def __str__(self) -> str:
        return ", ".join(f"{low} <= {n} <= {high}" for n, (low, high) in self.bounds.items())


def regions(served: Served) -> list[Region]:
    """Regions that share nothing: each measured size lies in one of its own schedule.

    Between two measured sizes the border is their geometric mean. As few borders as a greedy choice
    finds are drawn, so that what lies between sizes of one schedule has that one. All lie within
    twice the largest and half the smallest measured size.
    """
    names = list(served[0][0]) if served else []
    outer = {name: _reach([sizes[name] for sizes, _ in served]) for name in names}
    return list(_parted(outer, served)) if served else []


def _reach(values: Sequence[int]) -> tuple[int, int]:
    low, high = min(values), max(values)
    return min(-(-low // BEYOND), BEYOND * low), max(BEYOND * high, -(-high // BEYOND))


def _parted(bounds: Bounds, served: Served) -> Iterator[Region]:
    if len({schedule for _, schedule in served}) == 1:
        yield Region(bounds, served[0][1])
        return
    _, name, limit = min((_mixed(served, *cut), *cut) for cut in _cuts(served))
    low, high = bounds[name]
    below = [each for each in served if each[0][name] <= limit]
    above = [each for each in served if each[0][name] > limit]
    yield from _parted({**bounds, name: (low, limit)}, below)
    yield from _parted({**bounds, name: (limit + 1, high)}, above)


def _cuts(served: Served) -> Iterator[tuple[str, int]]:
    """Every border between two measured values of a size, unless both have one schedule alone."""
    for name in served[0][0]:
        found: dict[int, set[int]] = {}
        for sizes, schedule in served:
            found.setdefault(sizes[name], set()).add(schedule)
        values = sorted(found)
        for a, b in zip(values, values[1:]):
            if len(found[a] | found[b]) > 1:
                yield name, isqrt(a * b) if a > 0 else (a + b) // 2


def _mixed(served: Served, name: str, limit: int) -> int:
    """How many sizes are on a side of the border where most have another schedule."""
    count = 0
    for is_above in (False, True):
        side = [schedule for sizes, schedule in served if (sizes[name] > limit) == is_above]
        count += len(side) - max(map(side.count, side))
    return count
