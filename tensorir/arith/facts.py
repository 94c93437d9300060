"""What an Analyzer knows: ranges of atoms, linear inequalities between them, and truths.

A fact is a linear form that is never negative. A fact about a single atom becomes its range;
any other is kept under each of its atoms, where the search of bounds.py finds it, and under its
part without the constant, where a bound of the same sum is found at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorir import dtype as dt
from tensorir.arith import interval
from tensorir.arith.interval import UNBOUNDED, Range
from tensorir.arith.linear import Linear, factors, plain_form
from tensorir.arith.points import Point, keep
from tensorir.expr import BinOp, Cast, Expr, Var, int_value
from tensorir.visit import variables

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer

_DEPTH = 3
"""How far a tightened range is propagated through the facts that mention it."""

Part = frozenset[tuple[Expr, int]]


class Facts:
    """`ranges` of atoms, known remainders (`congruences`), `floors` of sums without their
    constant, inequalities `by_atom`, known `truths` of conditions, the `extents` with which
    variables were bound, the least values of `sizes`, and the `order` in which all were (outer
    first). All of it holds at the `points`."""

    __slots__ = (
        "by_atom", "congruences", "extents", "floors", "order", "points", "ranges", "sizes",
        "truths",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ranges: dict[Expr, Range] = {}
        self.floors: dict[Part, int] = {}
        self.congruences: dict[Expr, int] = {}
        self.by_atom: dict[Expr, tuple[Linear, ...]] = {}
        self.order: dict[Var, int] = {}
        self.extents: dict[Var, Expr] = {}
        self.sizes: dict[Var, int | None] = {}
        self.truths: dict[Expr, bool] = {}
        self.points: tuple[Point, ...] = ()

    def copy(self) -> Facts:
        other = object.__new__(Facts)
        other.ranges = self.ranges.copy()
        other.floors = self.floors.copy() if self.floors else {}  # most are empty
        other.congruences = self.congruences.copy() if self.congruences else {}
        other.by_atom = self.by_atom.copy() if self.by_atom else {}
        other.order = self.order.copy()
        other.extents = self.extents.copy()
        other.sizes = self.sizes.copy() if self.sizes else {}
        other.truths = self.truths.copy() if self.truths else {}
        other.points = self.points
        return other

    def range(self, atom: Expr) -> Range:
        """The range stated for an atom, not what follows from its parts."""
        return self.ranges.get(atom, UNBOUNDED)

    def floor(self, form: Linear) -> int | None:
        """A lower bound of `form` from a fact about the same sum, or None."""
        if not self.floors:
            return None
        for atom in form.terms:
            if atom not in self.by_atom:
                return None
        step = form.factor()
        if not step:
            return form.const
        found = self.floors.get(_part(form, step))
        return None if found is None else step * found + form.const

    def forget(self, var: Var) -> None:
        """Drop everything that mentions `var`."""
        self.points = ()
        self.order.pop(var, None)
        self.extents.pop(var, None)
        self.ranges = {a: r for a, r in self.ranges.items() if var not in variables(a)}
        self.congruences = {a: r for a, r in self.congruences.items() if var not in variables(a)}
        self.truths = {c: t for c, t in self.truths.items() if var not in variables(c)}
        self.floors = {
            p: k for p, k in self.floors.items() if not any(var in variables(a) for a, _ in p)
        }
        kept = {}
        for atom, forms in self.by_atom.items():
            left = tuple(f for f in forms if not any(var in variables(a) for a in f.terms))
            if left and var not in variables(atom):
                kept[atom] = left
        self.by_atom = kept


def keeps_value(dtype: str) -> bool:
    """Whether converting from this integer type to the index type keeps every value."""
    return dt.is_int(dtype) and dt.int_limits(dtype)[1] <= dt.int_limits(dt.INDEX)[1]


def _part(form: Linear, step: int) -> Part:
    return frozenset((atom, coef // step) for atom, coef in form.terms.items())


def learn(an: Analyzer, form: Linear, depth: int = _DEPTH) -> None:
    """Add the fact form >= 0 to what `an` knows."""
    step = form.factor()
    if not step:
        return
    form = Linear({a: c // step for a, c in form.terms.items()}, form.const // step)
    parts = _without_extremum(form)
    if parts:
        for part in parts:
            learn(an, part, depth)
    elif len(form.terms) == 1:
        atom, sign = next(iter(form.terms.items()))
        tighten(an, atom, (-form.const, None) if sign > 0 else (None, form.const), depth)
    else:
        _learn_sum(an, form, depth)


def _without_extremum(form: Linear) -> list[Linear]:
    """min(a, b) + rest >= 0 says the same as a + rest >= 0 and b + rest >= 0; max likewise."""
    for atom, coef in form.terms.items():
        if isinstance(atom, BinOp) and atom.op == ("min" if coef > 0 else "max"):
            rest = form.without(atom)
            return [rest.plus(plain_form(side), coef) for side in (atom.a, atom.b)]
    return []


def _learn_sum(an: Analyzer, form: Linear, depth: int) -> None:
    facts = an.facts
    part = _part(form, 1)
    known = facts.floors.get(part)
    if known is not None and known >= -form.const:
        return
    facts.floors[part] = -form.const
    keep(facts, part, -form.const, None)
    for atom in form.terms:
        facts.by_atom[atom] = (*facts.by_atom.get(atom, ()), form)
    an.reset()
    if form.const < 0:
        _learn_common_factor(an, form, depth)
    _propagate(an, form, depth)


def tighten(an: Analyzer, atom: Expr, bound: Range, depth: int = _DEPTH) -> None:
    """Add the fact that `atom` is within `bound`, and what follows from it."""
    facts = an.facts
    old = facts.range(atom)
    new = interval.intersect(old, bound)
    if new == old:
        return
    facts.ranges[atom] = new
    keep(facts, ((atom, 1),), *new)
    if isinstance(atom, BinOp) and atom.op == "%" and new[0] is not None and new[0] == new[1]:
        facts.congruences[atom] = new[0]
    an.reset()
    _spread(an, atom, bound, max(depth, 1))


def _spread(an: Analyzer, atom: Expr, bound: Range, depth: int) -> None:
    """What a range says of the parts of an atom, however deep, and of other atoms up to `depth`."""
    facts = an.facts
    if isinstance(atom, Cast) and keeps_value(atom.a.dtype):
        tighten(an, atom.a, bound, depth - 1)
    if isinstance(atom, BinOp) and atom.op == "//" and atom.dtype == dt.INDEX:
        _learn_quotient(an, atom, bound, depth - 1)
    if isinstance(atom, BinOp) and atom.op == "*":
        _learn_factors(an, atom, bound, depth - 1)
    if isinstance(atom, BinOp) and atom.op == "max" and atom.dtype == dt.INDEX:
        _learn_choice(an, atom, bound, depth - 1)
    for form in facts.by_atom.get(atom, ()):
        _propagate(an, form, depth - 1)


def _learn_quotient(an: Analyzer, atom: BinOp, bound: Range, depth: int) -> None:
    """x // c >= k says x >= k * c, and x // c <= k says x <= k * c + c - 1."""
    divisor = int_value(atom.b)
    if divisor is None and bound[0] is not None:
        if (an.range(atom.b)[0] or 0) > 0:
            learn(an, plain_form(atom.a).minus(plain_form(atom.b).scaled(bound[0])), depth)
    if divisor is None or divisor <= 0:
        return
    low = None if bound[0] is None else bound[0] * divisor
    high = None if bound[1] is None else bound[1] * divisor + divisor - 1
    _learn_range(an, plain_form(atom.a), (low, high), depth)


def _learn_choice(an: Analyzer, atom: BinOp, bound: Range, depth: int) -> None:
    """max(x, y) >= k says x >= k where y < k."""
    low = bound[0]
    if low is None or depth <= 0:
        return
    for side, other in ((atom.a, atom.b), (atom.b, atom.a)):
        high = int_value(other)
        if high is not None and high < low:
            learn(an, plain_form(side).shifted(-low), depth)


def _learn_factors(an: Analyzer, atom: BinOp, bound: Range, depth: int) -> None:
    """x * y >= 1 makes both positive where neither is negative."""
    if bound[0] is None or bound[0] < 1:
        return
    parts = factors(atom)
    lows = [an.range(part)[0] for part in parts]
    if all([low is not None and low >= 0 for low in lows]):
        for part in parts:
            tighten(an, part, (1, None), depth)


def _learn_common_factor(an: Analyzer, form: Linear, depth: int) -> None:
    """x * y + x * z >= 1 says that x is not 0."""
    if not depth:
        return
    first, *others = [factors(atom) for atom in form.terms]
    for part in first:
        shared = all([any([part is other for other in found]) for found in others])
        if shared and an.range(part)[0] == 0:
            tighten(an, part, (1, None), depth - 1)


def _learn_range(an: Analyzer, form: Linear, bound: Range, depth: int) -> None:
    if bound[0] is not None:
        learn(an, form.shifted(-bound[0]), depth)
    if bound[1] is not None:
        learn(an, form.scaled(-1).shifted(bound[1]), depth)


def _propagate(an: Analyzer, form: Linear, depth: int) -> None:
    """Tighten each atom of a fact by the ranges of the others."""
    if not depth:
        return
    spans = {atom: an.range_before(atom) for atom in form.terms}
    for atom, coef in form.terms.items():
        most = form.const
        for other, factor in form.terms.items():
            if other is atom:
                continue
            end = spans[other][1 if factor > 0 else 0]
            if end is None:
                break
            most += factor * end
        else:
            bound = (-(most // coef), None) if coef > 0 else (None, most // -coef)
            tighten(an, atom, bound, depth - 1)
