"""Points: values of variables that meet all that is known, and show what cannot be proved.

Most searches for a bound of a sum (bounds.py) look for one that is not there, and take all the
steps that they may. A point costs less: where a sum is there as small as the bound that it has, no
better one follows from what is known, and no search has to begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorir import dtype as dt
from tensorir.arith.exhaustive import values_at
from tensorir.arith.linear import Linear, plain_form
from tensorir.expr import BinOp, Const, Expr, Load, Not, Select, Var, int_value
from tensorir.numbers.folding import FOLD

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer
    from tensorir.arith.facts import Facts

    Terms = Iterable[tuple[Expr, int]]

POINTS = 8
"""Points that are kept of what is known, at most."""

MOVES = 8
"""Times that a point is moved to meet what is known."""


DRAWN = 512
"""Points that are drawn where none is moved to what is known."""

_STEPS = tuple([sqrt(n) % 1 for n in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)])
"""Steps between fractions that spread over all of [0, 1): the same points each time."""


class _NoValue(Exception):
    """Something has no value at a point: it is no arithmetic of the index type."""


class Point:
    """Values of variables and of all that is made of them. One that has none yet is as small as
    what is known allows."""

    __slots__ = ("facts", "values")

    def __init__(self, facts: Facts, values: dict[Expr, int]) -> None:
        self.facts, self.values = facts, values

    def total(self, terms: Terms, const: int = 0) -> int:
        """The value of a sum; raises where a term has none."""
        values = self.values
        for atom, coef in terms:
            value = values.get(atom)
            const += coef * (self.of(atom) if value is None else value)
        return const

    def of(self, e: Expr) -> int:
        """The value of an expression; raises where it has none."""
        found = self.values.get(e)
        if found is None:
            found = self.values[e] = self._value(e)
        return found

    def _value(self, e: Expr) -> int:
        if isinstance(e, BinOp) and e.op in FOLD and (e.a.dtype == dt.INDEX or e.dtype == "bool"):
            value = FOLD[e.op](self.of(e.a), self.of(e.b))
            if value is not None:
                return int(value)
        elif isinstance(e, Const) and not dt.is_float(e.dtype):
            return int(e.value)
        elif isinstance(e, (Var, Load)) and e.dtype == dt.INDEX:
            low, high = self.facts.range(e)
            return low if low is not None else min(high or 0, 0)
        elif isinstance(e, Select):
            return self.of(e.a if self.of(e.cond) else e.b)
        elif isinstance(e, Not):
            return 1 - self.of(e.a)
        raise _NoValue


def shows_least(facts: Facts, form: Linear, bound: int) -> bool:
    """Whether a point is found that meets all of `facts`, and where `form` is not above `bound`."""
    terms = form.terms.items()
    try:
        if any([point.total(terms, form.const) <= bound for point in facts.points]):
            return True
        point = _aimed(facts, form)
        for _ in range(MOVES):
            if point.total(terms, form.const) > bound:
                return False
            broken = next(_broken(facts, point), None)
            if broken is None:
                facts.points = (*facts.points[1 - POINTS :], point)
                return True
            moved = _moved(point, broken, form)
            if moved is None:
                return False
            point = moved
    except _NoValue:
        pass
    return False


def is_open(facts: Facts, given: Iterable[Linear], form: Linear) -> bool:
    """Whether points are found that meet `facts` and where no sum of `given` is negative: one where
    `form` is negative, and one where it is not."""
    known = facts.copy()
    for sum_ in given:
        part = frozenset(sum_.terms.items())
        known.floors[part] = max(-sum_.const, known.floors.get(part, -sum_.const))
    known.points = ()
    return shows_least(known, form, -1) and shows_least(known, form.scaled(-1), 0)


def drawn_truths(an: Analyzer, conditions: Sequence[Expr]) -> Any:
    """Which of some conditions hold at each of DRAWN points: an array of bool, a row for each
    condition. None where more is known than the ranges of their variables, or less, or what holds
    cannot be told."""
    used = sorted(frozenset[Var]().union(*[e.variables for e in conditions]), key=lambda v: v.name)
    ranges = [an.range(var) for var in used]
    if not an.knows_ranges_alone or len(used) > len(_STEPS):
        return None
    points: dict[Var, Any] = {}
    for var, step, (low, high) in zip(used, _STEPS, ranges):
        if var.dtype != dt.INDEX or low is None or high is None or high < low:
            return None
        points[var] = low + (np.arange(DRAWN) * step % 1 * (high - low + 1)).astype(np.int64)
    found: list[Any] = [values_at(e, points) for e in conditions]
    if any([values is None for values in found]):
        return None
    return np.array([np.broadcast_to(values, DRAWN) for values in found])


def keep(facts: Facts, terms: Terms, low: int | None, high: int | None) -> None:
    """Forget the points where a sum is not in a range that is known now."""
    facts.points = tuple([p for p in facts.points if _is_within(p, terms, low, high)])


def _is_within(point: Point, terms: Terms, low: int | None, high: int | None) -> bool:
    try:
        value = point.total(terms)
    except _NoValue:
        return False
    return (low is None or value >= low) and (high is None or value <= high)


def _broken(facts: Facts, point: Point) -> Iterator[tuple[Terms, int]]:
    """What a point does not meet: sums, and how much they have to grow."""
    for part, floor in facts.floors.items():
        missing = floor - point.total(part)
        if missing > 0:
            yield part, missing
    for atom, (low, high) in facts.ranges.items():
        value = point.of(atom)
        if low is not None and value < low:
            yield ((atom, 1),), low - value
        if high is not None and value > high:
            yield ((atom, -1),), value - high
    for cond, holds in facts.truths.items():
        if holds and not point.of(cond):
            yield (), 1


def _moved(point: Point, broken: tuple[Terms, int], form: Linear) -> Point | None:
    """The point with one variable moved so far that a sum has grown by what it misses, or as far as
    it goes; one that `form` does not have, if there is any."""
    terms, missing = broken
    facts, own = point.facts, frozenset().union(*[atom.variables for atom in form.terms])
    best: tuple[bool, int, Var, int] | None = None
    for atom, coef in terms:
        var, step = _variable(atom)
        if var is None or not coef:
            continue
        low, high = facts.range(var)
        now, wanted = point.of(var), -(-missing // abs(coef)) * step
        there = now + wanted if coef > 0 else now - wanted
        there = there if low is None else max(low, there)
        there = there if high is None else min(high, there)
        gained = (there - now) * coef // step
        if gained > 0:
            rank = var not in own, min(gained, missing), var, there
            best = rank if best is None or rank[:2] > best[:2] else best
    if best is None:
        return None
    values = {e: value for e, value in point.values.items() if e.is_load or not e.operands}
    values[best[2]] = best[3]
    return Point(facts, values)


def _variable(atom: Expr) -> tuple[Var | None, int]:
    """The variable with which an atom grows, and by how much it has to grow for 1; None without."""
    step = 1
    if isinstance(atom, BinOp) and atom.op in ("//", "%"):
        step, atom = (int_value(atom.b) or 1 if atom.op == "//" else 1), atom.a
    return (atom, step) if isinstance(atom, Var) else (None, 1)


def _aimed(facts: Facts, form: Linear) -> Point:
    """A point where the terms of a form are about as small as they can be."""
    point = Point(facts, {})
    for atom, coef in sorted(form.terms.items(), key=lambda term: -abs(term[1])):
        _aim(point, atom, coef < 0)
    return point


def _aim(point: Point, e: Expr, up: bool) -> None:
    """Give variables of an expression that have no value yet one where it is large, or small."""
    if isinstance(e, (Var, Load)) and e not in point.values:
        low, high = point.facts.range(e)
        if high is not None and (up or low is None):
            point.values[e] = high
    elif isinstance(e, BinOp) and e.op == "%":
        size = int_value(e.b)
        if up and size is not None and size > 0:
            _fill(point, plain_form(e.a), size)
    elif isinstance(e, BinOp):
        factor = int_value(e.b)
        _aim(point, e.a, up if e.op != "*" or factor is None or factor > 0 else not up)
        _aim(point, e.b, up != (e.op in ("-", "//")))


def _fill(point: Point, form: Linear, size: int) -> None:
    """Give the variables of a sum, the largest steps first, values of which it leaves size - 1."""
    terms = [(atom, coef % size) for atom, coef in form.terms.items()]
    left = size - 1 - form.const % size
    for atom, step in sorted(terms, key=lambda term: -term[1]):
        if isinstance(atom, Var) and step and atom not in point.values:
            high = point.facts.range(atom)[1]
            most = max(0, left // step)
            point.values[atom] = most if high is None else min(most, high)
            left -= step * point.values[atom]
