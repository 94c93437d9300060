"""Which threads of a block touch one element: two accesses of a kernel, compared by elements.

An index speaks of the thread, of loops, and of what is the same for all threads (blocks, sizes,
loops that all of them walk through together). What is the same in both indices cancels; the rest is
tried for all values. Where that cannot be done, any two threads may meet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import lcm, prod
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.arith.exhaustive import values_at
from tensorir.arith.linear import Linear, to_expr
from tensorir.arith.regions.iter_map import determines_all
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Var, const, int_value
from tensorir.passes.facts.periods import period, with_names
from tensorir.passes.gpu.axes import THREAD_AXES, WARP
from tensorir.passes.gpu.merge_shared import offsets_of
from tensorir.stmt import For
from tensorir.vector_expr import Broadcast, Ramp
from tensorir.visit import substitute, transform, variables

POINTS = 1 << 16
"""Elements that are looked at for one access, at most."""

TURNS = 32
"""Values of what is common to both accesses, if it does not cancel."""

LANE = Var("lane.of.a.vector")
"""The lane of an access that is a vector; no program has such a name."""

ANY = -1
"""The age of an access that any earlier iteration of a loop may have made."""


Ages = tuple[tuple[Var, int], ...]
"""How many iterations of some loops ago something was."""

Periods = Mapping[Var, tuple[int | None, bool]]
"""Of some variables how many values are tried, and whether they stand for others."""


@dataclass(frozen=True, eq=False)
class Touch:
    """One load or store of a flat buffer: its index, and the conditions that it stands under."""

    buffer: Buffer
    index: Expr
    is_write: bool
    loops: Mapping[Var, Expr]
    conditions: tuple[Expr, ...]


@dataclass(frozen=True)
class Met:
    """Elements, sorted, and for each the first and the last thread that touches it."""

    elements: Any
    first: Any
    last: Any


class Meetings:
    """Answers for one kernel, whose loops over axes are `nest`."""

    def __init__(self, nest: Sequence[For], analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.threads: dict[Var, tuple[int, int]] = {}  # extent and stride in the linear index
        stride = 1
        for axis in THREAD_AXES:
            for loop in nest:
                if loop.thread == axis:
                    extent = loop.const_extent or 1
                    self.threads[loop.var] = extent, stride
                    stride *= extent
        self.count = stride
        self.worst = "warp" if self.count <= WARP else "block"
        self.offsets = offsets_of(list(nest))
        self.found: dict[Any, str | None] = {}
        self.touches: dict[Any, Touched] = {}

    def scope(self, earlier: Touch, ages: Ages, later: Touch) -> str | None:
        """Who has to wait between the two: None, "warp" or "block".

        `ages` are those of the loops that both are in: how many iterations ago the earlier one was.
        """
        if self.count == 1 or not (earlier.is_write or later.is_write):
            return None
        if earlier.buffer is not later.buffer:
            return self.worst if self.overlap(earlier.buffer, later.buffer) else None
        key = earlier, later, ages
        if key not in self.found:
            self.found[key] = self._scope(earlier, dict(ages), later)
        return self.found[key]

    def _scope(self, earlier: Touch, ages: Mapping[Var, int], later: Touch) -> str | None:
        if self.same_thread(earlier, later, {v for v, n in ages.items() if n == 0}):
            return None
        found = self._by_points(earlier, ages, later)
        if found is not None and earlier.index is later.index:  # of one statement: what conditions
            told = frozenset[Var]().union(*map(variables, later.conditions))  # say of iterations
            whole = {v: ANY if n and v in told else n for v, n in ages.items()}
            found = found if whole == ages else self._by_points(earlier, whole, later)
        return found

    def _by_points(self, earlier: Touch, ages: Mapping[Var, int], later: Touch) -> str | None:
        sides, own, turns = self.apart(earlier, ages, later)
        for var in reversed(list(ages)):
            if turns is not None:
                break
            ages = {**ages, var: ANY}  # all of its iterations at once, where one by one is too much
            sides, own, turns = self.apart(earlier, ages, later)
        if turns is None:
            return self.worst
        a, b = [self.touched(given, own, turns) for given in sides]
        found: str | None = None
        for n in range(len(turns)):
            met, other = a.met(n), b.met(n)
            if met is None or other is None:
                if self.lie_apart(sides, (met, other), turns[n]):
                    continue
                return self.worst
            found = _wider(found, _meeting(met, other))
            if found == self.worst:
                break
        return found

    def lie_apart(
        self, sides: Sequence[Touch], tried: Sequence[Met | None], turn: Mapping[Var, int]
    ) -> bool:
        """Whether two accesses touch no element both, one of which has too many iterations to be
        tried with all that tells who touches what: as those of the sums of one step, which read
        another version of a tile than the one that is fetched meanwhile."""
        first, second = (
            self.elements(touch, turn) if met is None else met.elements
            for touch, met in zip(sides, tried)
        )
        return first is not None and second is not None and not np.isin(first, second).any()

    def elements(self, touch: Touch, turn: Mapping[Var, int]) -> Any:
        """The elements that an access may touch in one turn, whatever its conditions are; None
        where these are too many. What has no variable in common is tried apart."""
        fixed: dict[Var, Expr] = {var: const(value) for var, value in turn.items()}
        known = self.analyzer.copy()
        known.bind_all(touch.loops)  # where one variable has several loops, this one
        form = known.linear(substitute(touch.index, fixed))
        found: Any = np.array([form.const])
        for atoms in _in_common(form.terms):
            places = self.places({atom: form.terms[atom] for atom in atoms}, touch, known)
            if places is None or found.size * places.size > POINTS:
                return None
            found = np.unique(np.add.outer(found, places))
        return found

    def places(self, terms: Mapping[Expr, int], touch: Touch, known: Analyzer) -> Any:
        """The values of a part of an index, or all between the least and the largest where there
        are many iterations; None where these are not known."""
        sizes = {var: int_value(extent) for var, extent in touch.loops.items()}
        sizes |= {var: extent for var, (extent, _) in self.threads.items()}
        own = sorted(frozenset().union(*map(variables, terms)), key=lambda v: v.name)
        shape = [sizes.get(var) or POINTS + 1 for var in own]
        if prod(shape) > POINTS:
            low, high = known.bounds(to_expr(Linear(dict(terms))))
            if low is None or high is None or high - low >= POINTS:
                return None
            return np.arange(low, high + 1)
        points = dict(zip(own, np.ix_(*map(np.arange, shape))))
        values: list[Any] = [values_at(atom, points) for atom in terms]
        if any(value is None for value in values):
            return None
        return np.unique(sum(n * value for n, value in zip(terms.values(), values)))

    def apart(
        self, earlier: Touch, ages: Mapping[Var, int], later: Touch
    ) -> tuple[list[Touch], set[Var], list[dict[Var, int]] | None]:
        """Both accesses without what is the same in their indices, under conditions that can be
        tried, the variables that each has a value of its own for, and the values that are tried of
        the others; None where these are too many."""
        turned: dict[Var, Expr] = {v: v - n for v, n in ages.items() if n > 0}
        a = self.analyzer.linear(substitute(_one_lane(earlier.index), turned))
        b = self.analyzer.linear(_one_lane(later.index))
        own = {*earlier.loops, *later.loops, *self.threads, LANE}
        own -= {v for v, n in ages.items() if n != ANY}
        for atom in list(a.terms):
            same = a.terms[atom] == b.terms.get(atom)
            if same and not variables(atom) & own and not atom.has_loads:
                a, b = a.without(atom), b.without(atom)
        names: dict[frozenset[Expr], Var] = {}
        left = [with_names(to_expr(form), own, names) for form in (a, b)]
        common = (variables(left[0]) | variables(left[1])) - own
        periods = self.periods(common, left, {**earlier.loops, **later.loops})
        sides = []
        for touch, index, moved in zip((earlier, later), left, (turned, {})):
            given = [with_names(substitute(c, moved), own, names) for c in touch.conditions]
            known = tuple(c for c in given if _is_tried(c, own, periods))
            loops = {**touch.loops, LANE: const(dt.lanes(touch.index.dtype))}
            sides.append(Touch(touch.buffer, index, touch.is_write, loops, known))
        return sides, own, _turns(periods)

    def overlap(self, a: Buffer, b: Buffer) -> bool:
        """Whether two buffers have bytes in common: parts of shared memory, at different times."""
        if a.name not in self.offsets or b.name not in self.offsets:
            return False
        first, second = self.offsets[a.name], self.offsets[b.name]
        ends = [
            n + (int_value(x.shape[0]) or 0) * dt.itemsize(x.dtype)
            for n, x in ((first, a), (second, b))
        ]
        return first < ends[1] and second < ends[0]

    def same_thread(self, earlier: Touch, later: Touch, fixed: set[Var]) -> bool:
        """Whether both have one index, which tells the thread, whatever the loops are that are not
        `fixed`."""
        index = _one_lane(later.index)
        if earlier.index is not later.index or index.has_loads:
            return False
        inner = {v: e for v, e in later.loops.items() if v not in fixed}
        inner[LANE] = const(dt.lanes(later.index.dtype))
        inner |= {v: const(extent) for v, (extent, _) in self.threads.items()}
        return determines_all((index,), list(self.threads), inner, self.analyzer)

    def periods(
        self, common: Collection[Var], indices: Sequence[Expr], loops: Mapping[Var, Expr]
    ) -> dict[Var, tuple[int | None, bool]]:
        """How many values are to be tried of what is common to both and did not cancel, None where
        that is not known, and whether each stands for others, at a distance of as many."""
        found: dict[Var, tuple[int | None, bool]] = {}
        for var in sorted(common, key=lambda v: v.name):
            every = [period(var, index) for index in indices]
            known = [n for n in every if n is not None]
            repeats = lcm(*known) if len(known) == len(every) else None
            extent = int_value(loops[var]) if var in loops else None
            count = min([n for n in (repeats, extent) if n is not None], default=None)
            found[var] = count, count == repeats
        return found

    def touched(
        self, touch: Touch, own: set[Var], turns: Sequence[Mapping[Var, int]]
    ) -> Touched:
        values = tuple([tuple(turn.items()) for turn in turns])
        key = touch.buffer, touch.index, touch.conditions, frozenset(own), values
        if key not in self.touches:
            self.touches[key] = Touched(touch, own, turns, self.threads)
        return self.touches[key]


class Touched:
    """The elements that an access touches, for each of the `turns`: the first one is evaluated
    alone, since threads that meet nearly always do in each, then as many of them together as there
    is room for, since most are few and their expressions long."""

    def __init__(
        self, touch: Touch, own: set[Var], turns: Sequence[Mapping[Var, int]],
        threads: Mapping[Var, tuple[int, int]],
    ) -> None:  # fmt: skip
        self.touch, self.turns, self.threads = touch, turns, threads
        self.found: dict[int, Met | None] = {}
        extents = {v: int_value(e) for v, e in touch.loops.items() if v in own}
        extents |= {v: extent for v, (extent, _) in threads.items()}
        used = frozenset[Var]().union(variables(touch.index), *map(variables, touch.conditions))
        self.free = sorted(used - turns[0].keys(), key=lambda v: v.name)
        sizes = [extents.get(v) for v in self.free]
        self.shape = tuple([n or 0 for n in sizes])
        self.known = None not in sizes and prod(self.shape) <= POINTS

    def met(self, n: int) -> Met | None:
        """Who touches them in one turn; None where that cannot be tried."""
        if not self.known:
            return None
        if n not in self.found:
            together = max(1, POINTS // max(1, prod(self.shape))) if n else 1
            first = 1 + (n - 1) // together * together
            found = self.evaluated(self.turns[first : first + together])
            self.found |= dict(enumerate(found, first))
        return self.found[n]

    def evaluated(self, turns: Sequence[Mapping[Var, int]]) -> Sequence[Met | None]:
        """The same of some turns, which are the outermost dimension of all arrays."""
        shape = (len(turns), *self.shape)
        _, *places = np.ix_(*map(np.arange, shape))
        points: dict[Var, Any] = dict(zip(self.free, places))
        rest = [1] * len(self.shape)
        for var in turns[0]:
            points[var] = np.array([turn[var] for turn in turns]).reshape(-1, *rest)
        found = values_at(self.touch.index, points)
        if found is None:
            return [None] * len(turns)
        held = [h for c in self.touch.conditions if (h := values_at(c, points)) is not None]
        low: Any = np.zeros(self.shape, np.int64)
        span = 0
        for var, (extent, stride) in self.threads.items():
            if var in points:
                low = low + points[var][0] * stride
            else:
                span += (extent - 1) * stride
        elements, first = np.broadcast_to(found, shape), np.broadcast_to(low, self.shape)
        keep = np.logical_and.reduce(np.broadcast_arrays(*held, np.ones(shape, bool)))
        return [
            _grouped(elements[n, ...][keep[n, ...]], first[keep[n, ...]], span)
            for n in range(len(turns))
        ]


def _in_common(atoms: Iterable[Expr]) -> list[list[Expr]]:
    """Atoms of a sum, those that have a variable in common together."""
    groups: list[list[Expr]] = []
    for atom in atoms:
        mine = [g for g in groups if any(variables(atom) & variables(other) for other in g)]
        groups = [g for g in groups if g not in mine]
        groups.append([atom, *(other for g in mine for other in g)])
    return groups


def _grouped(elements: Any, first: Any, span: int) -> Met:
    """Sorted by element and thread, as one number each: one sort in place of two."""
    if not len(elements):
        return Met(elements, first, first)
    bits = int(first.max()).bit_length()
    pairs = np.sort((elements << bits) | first, kind="stable")  # which finds what is in order
    elements, first = pairs >> bits, pairs & ((1 << bits) - 1)
    starts = np.flatnonzero(np.r_[True, elements[1:] != elements[:-1]])
    ends = np.r_[starts[1:], len(elements)] - 1
    return Met(elements[starts], first[starts], first[ends] + span)


def _meeting(a: Met, b: Met) -> str | None:
    """Who meets at one of the elements."""
    if not len(a.elements) or not len(b.elements):
        return None
    places = np.minimum(np.searchsorted(a.elements, b.elements), len(a.elements) - 1)
    there = np.flatnonzero(a.elements[places] == b.elements)
    at = places[there]
    first = np.minimum(a.first[at], b.first[there])
    last = np.maximum(a.last[at], b.last[there])
    if np.all(first == last):
        return None
    return "warp" if np.all(first // WARP == last // WARP) else "block"


def _wider(a: str | None, b: str | None) -> str | None:
    return "block" if "block" in (a, b) else a or b


def _one_lane(index: Expr) -> Expr:
    """An index that is a vector, as that of lane LANE."""

    def lane(e: Expr) -> Expr | None:
        if isinstance(e, Ramp):
            return e.base + e.stride * LANE
        return e.a if isinstance(e, Broadcast) else None

    named = any(dt.lanes(var.dtype) > 1 for var in variables(index))
    return index if named or dt.lanes(index.dtype) == 1 else transform(index, lane)


def _is_tried(condition: Expr, own: Collection[Var], periods: Periods) -> bool:
    """Whether a condition holds for all that the values stand for that are tried, or for none."""
    if condition.has_loads:
        return False
    for var in variables(condition) - set(own):
        count, repeats = periods.get(var, (None, True))
        steps = period(var, condition) if repeats else 1
        if count is None or steps is None or count % steps:
            return False
    return True


def _turns(periods: Periods) -> list[dict[Var, int]] | None:
    """The values that are tried together; None where these are too many."""
    ranges = []
    for count, repeats in periods.values():
        if count is None:
            return None
        ranges.append(range(1, count + 1) if repeats else range(count))
    if prod(map(len, ranges)) > TURNS:
        return None
    return [dict(zip(periods, values)) for values in product(*ranges)]
