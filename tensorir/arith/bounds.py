"""Constant bounds: interval analysis of atoms, and a search for sums with symbolic limits.

The search looks for a proof that a sum is at least some number: it removes one atom after the
other with the help of a fact about it (Fourier and Motzkin's elimination, one fact at a time):
if F = f * x + rest >= 0 has the sign of t * x in the sum S, then |f| * S - |t| * F has no x and is
not greater than |f| * S. Quotients, remainders, minima and maxima bring facts of their own. As
everything is an integer, m * S > -m is enough for S >= 0.

A search for a bound starts no other one: proofs take time in proportion to the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import TYPE_CHECKING

from tensorir import dtype as dt
from tensorir.arith import interval
from tensorir.arith.bits import wide_and_narrow
from tensorir.arith.choices import is_looked_at, sides
from tensorir.arith.facts import keeps_value
from tensorir.arith.interval import OPERATIONS, UNBOUNDED, Range
from tensorir.arith.linear import Linear, factors, plain_form, product, times, without_factors
from tensorir.arith.points import shows_least
from tensorir.expr import BinOp, Cast, Const, Expr, Select, Var
from tensorir.vector_expr import Broadcast, Ramp

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer

_STEPS = 40
"""Sums looked at in one search; enough for the bindings of five nested splits."""
_DEPTH = 8
_DEGREE = 4
"""Factors of a product that is still looked at; each step may multiply, and that has to end."""

def atom_range(an: Analyzer, e: Expr) -> Range:
    """The interval of an integer or bool expression from its parts and the stated ranges.

    Arithmetic of types narrower than the index wraps, so an interval that does not fit in
    such a type is given up.
    """
    if isinstance(e, Const):
        return (int(e.value), int(e.value))
    found = _structural(an, e)
    kind = dt.element(e.dtype)
    if kind != dt.INDEX:
        limits = dt.int_limits(kind)
        found = interval.intersect(found, limits) if _fits(e, found, limits) else limits
    return interval.intersect(found, an.facts.range(e))


def _fits(e: Expr, found: Range, limits: Range) -> bool:
    return not isinstance(e, (BinOp, Ramp)) or interval.within(found, limits)


def _structural(an: Analyzer, e: Expr) -> Range:
    if isinstance(e, BinOp):
        operation = OPERATIONS.get(e.op)
        found = operation(_part(an, e.a), _part(an, e.b)) if operation else UNBOUNDED
        if e.op == "*" and e.dtype == dt.INDEX:
            return interval.intersect(found, _of_whole_parts(an, e))
        opposed = e.op in ("min", "max") and e.dtype == dt.INDEX
        return interval.intersect(found, _middle(an, e)) if opposed else found
    if isinstance(e, Select):
        known = an.facts.truths.get(e.cond)
        if known is not None:
            return _part(an, e.a if known else e.b)
        then, orelse = sides(an, e)
        return interval.hull(_part(then, e.a), _part(orelse, e.b))
    if isinstance(e, Cast):
        return _cast_range(an, e)
    if isinstance(e, Broadcast):
        return _part(an, e.a)
    if isinstance(e, Ramp):
        last = (e.lanes - 1, e.lanes - 1)
        reach = interval.hull((0, 0), interval.multiply(_part(an, e.stride), last))
        return interval.add(_part(an, e.base), reach)
    return UNBOUNDED


def _middle(an: Analyzer, e: BinOp) -> Range:
    """2 * min(a, b) <= a + b <= 2 * max(a, b), which says something where a and b are opposed."""
    a, b = plain_form(e.a), plain_form(e.b)
    if not any([t * b.terms.get(atom, 0) < 0 for atom, t in a.terms.items()]):
        return UNBOUNDED
    low, high = an.interval(a.plus(b))
    if e.op == "max":
        return None if low is None else -(-low // 2), None
    return None, None if high is None else high // 2


def _of_whole_parts(an: Analyzer, e: BinOp) -> Range:
    """x // c * c <= x for a positive c, which is symbolic: of numbers the quotient is bounded."""
    for quotient, c in ((e.a, e.b), (e.b, e.a)):
        if isinstance(quotient, BinOp) and quotient.op == "//" and quotient.b is c:
            low = _part(an, c)[0]
            if low is not None and low > 0:
                return None, _part(an, quotient.a)[1]
    return UNBOUNDED


def _part(an: Analyzer, e: Expr) -> Range:
    """The interval of a part of an atom, which is simplified already."""
    return an.interval(plain_form(e)) if e.dtype == dt.INDEX else an.range(e)


def _cast_range(an: Analyzer, e: Cast) -> Range:
    source = dt.element(e.a.dtype)
    if not (dt.is_int(source) or dt.is_bool(source)):
        return UNBOUNDED
    found = _part(an, e.a)
    if dt.element(e.dtype) == dt.INDEX:
        return found if dt.is_bool(source) or keeps_value(source) else UNBOUNDED
    if dt.is_bool(e.dtype):
        return UNBOUNDED
    limits = dt.int_limits(e.dtype)
    return found if interval.within(found, limits) else limits


def plain_lower(an: Analyzer, form: Linear) -> int | None:
    """The lower bound of a sum by the ranges of its atoms, or by a fact about the same sum."""
    known = an.facts.floor(form)
    total = form.const
    for atom, coef in form.terms.items():
        end = an.range(atom)[0 if coef > 0 else 1]
        if end is None:
            return known
        total += coef * end
    return total if known is None or total > known else known


def plain_interval(an: Analyzer, form: Linear) -> Range:
    """The bounds of a sum by the ranges of its atoms alone."""
    low: int | None = form.const
    high: int | None = form.const
    for atom, coef in form.terms.items():
        first, last = an.range(atom)
        if coef < 0:
            first, last = last, first
        low = None if low is None or first is None else low + coef * first
        high = None if high is None or last is None else high + coef * last
    return low, high


def lower(an: Analyzer, form: Linear, goal: int | None = None) -> int | None:
    """The best lower bound found for `form`, or None; stops as soon as it reaches `goal`."""
    found = plain_lower(an, form)
    if _reaches(found, goal) or an.searching or not an.may_refine(form):
        return found
    bound = found if goal is None else goal - 1
    if bound is not None and shows_least(an.facts, form, bound):
        return found
    with an.one_search():
        return _Search(an).run(form, goal, frozenset(), _DEPTH)


def nonnegative(an: Analyzer, form: Linear) -> bool:
    """Whether `form` is proved never to be negative."""
    found = lower(an, form, 0)
    return found is not None and found >= 0


def _reaches(found: int | None, goal: int | None) -> bool:
    return found is not None and goal is not None and found >= goal


class _Step:
    """scale * S >= the smallest of `forms`; if `scale` is 0, S >= goal where that is >= 0.

    `under` are those who know what holds where each of `forms` counts; none if that is nothing
    special.
    """

    __slots__ = ("fact", "forms", "scale", "under")

    def __init__(
        self,
        forms: tuple[Linear, ...],
        scale: int = 1,
        fact: Linear | None = None,
        under: tuple[Analyzer, ...] = (),
    ) -> None:
        self.forms, self.scale, self.fact, self.under = forms, scale, fact, under


class _Search:
    """One bounded search for a lower bound."""

    def __init__(self, an: Analyzer) -> None:
        self.an = an
        self.left = _STEPS

    def run(
        self, form: Linear, goal: int | None, used: frozenset[Linear], depth: int
    ) -> int | None:
        if any([len(factors(atom)) > _DEGREE for atom in form.terms]):
            return None
        best = plain_lower(self.an, form)
        if _reaches(best, goal) or not depth or self.left <= 0 or not form.terms:
            return best
        self.left -= 1
        atom = self.pick(form, used)
        if atom is None:
            return best
        for step in self.steps(form, atom, goal, used):
            taken = used if step.fact is None else used | {step.fact}
            found = self.follow(step, goal, taken, depth - 1)
            if found is not None and (best is None or found > best):
                best = found
            if _reaches(best, goal):
                break
        return best

    def follow(
        self, step: _Step, goal: int | None, used: frozenset[Linear], depth: int
    ) -> int | None:
        """The bound of the sum that follows from the forms of one step."""
        if step.scale:
            inner = None if goal is None else step.scale * goal - step.scale + 1
        else:
            inner = 0
        worst: int | None = None
        for place, form in enumerate(step.forms):
            search = self.within(step.under[place]) if step.under else self
            found = search.run(form, inner, used, depth)
            self.left = search.left
            if found is None:
                return None
            worst = found if worst is None else min(worst, found)
        if worst is None:
            return None
        if not step.scale:
            return goal if worst >= 0 else None
        return -(-worst // step.scale)

    def within(self, an: Analyzer) -> _Search:
        """The same search by one who knows more."""
        inner = _Search(an)
        inner.left = self.left
        return inner

    def pick(self, form: Linear, used: frozenset[Linear]) -> Expr | None:
        """The atom to remove next: products of minima and maxima, which two terms may stand for,
        then compound ones, then the variable bound innermost."""
        facts = self.an.facts
        best: Expr | None = None
        compound: Expr | None = None
        rank = -1
        for atom in form.terms:
            if not isinstance(atom, Var):
                if self.an.is_related(atom, form):
                    parts = factors(atom)
                    choices = [p for p in parts if isinstance(p, BinOp) and p.op in ("min", "max")]
                    if choices and len(parts) > 1:
                        return atom
                    compound = atom if compound is None else compound
            elif facts.order.get(atom, 0) > rank and any(
                f not in used for f in facts.by_atom.get(atom, ())
            ):
                best, rank = atom, facts.order.get(atom, 0)
        return best if compound is None else compound

    def steps(
        self, form: Linear, atom: Expr, goal: int | None, used: frozenset[Linear]
    ) -> Iterator[_Step]:
        """All ways to remove the term of `atom`."""
        an = self.an
        coef = form.terms[atom]
        rest = form.without(atom)
        for fact in an.facts.by_atom.get(atom, ()):
            if fact.terms[atom] * coef > 0 and fact not in used:
                yield _eliminate(form, atom, fact, Linear({}, 1), fact)
        end = an.range(atom)[0 if coef > 0 else 1]
        if end is not None:
            yield _Step((rest.shifted(coef * end),))
        if isinstance(atom, Select) and is_looked_at(atom):
            chosen = tuple([rest.plus(plain_form(s), coef) for s in (atom.a, atom.b)])
            yield _Step(chosen)
            under = (an, an) if goal is None and an.is_branch else sides(an, atom)
            if under[0] is not an:
                yield _Step(chosen, under=under)
        if isinstance(atom, BinOp):
            yield from self.operation(form, atom, goal, used)

    def operation(
        self, form: Linear, atom: BinOp, goal: int | None, used: frozenset[Linear]
    ) -> Iterator[_Step]:
        """Ways that an operation offers by what it means."""
        coef, rest = form.terms[atom], form.without(atom)
        if atom.op in ("min", "max"):
            both = [rest.plus(plain_form(s), coef) for s in (atom.a, atom.b)]
            if (atom.op == "min") == (coef > 0):
                yield _Step(tuple(both))
            else:
                yield from (_Step((side,)) for side in both)
                yield _Step((both[0].plus(both[1]),), 2)
        elif atom.op == "//":
            yield from self.quotient(form, atom, goal)
        elif atom.op == "%":
            yield from self.remainder(form, atom)
        elif atom.op == "*":
            yield from self.factor(form, atom, used)
        elif atom.op == "^":
            yield from self.bits(form, atom)

    def quotient(self, form: Linear, atom: BinOp, goal: int | None) -> Iterator[_Step]:
        """y - c + 1 <= c * (y // c) <= y for a positive c, which may be symbolic."""
        an, coef, rest = self.an, form.terms[atom], form.without(atom)
        y, divisor = plain_form(atom.a), plain_form(atom.b)
        limit = y if coef < 0 else y.minus(divisor).shifted(1)
        if not divisor.terms:
            if divisor.const > 0:
                scale = divisor.const // gcd(coef, divisor.const)
                ratio = scale * coef // divisor.const
                yield _Step((rest.scaled(scale).plus(limit, ratio),), scale)
        elif goal is not None and (plain_lower(an, divisor) or 0) > 0:
            scaled = times(divisor, rest.shifted(-goal))
            yield _Step((scaled.plus(limit, coef).plus(divisor).shifted(-1),), 0)

    def remainder(self, form: Linear, atom: BinOp) -> Iterator[_Step]:
        """y % c <= c - 1 for a positive c, and y % c <= y where y is not negative."""
        an, coef, rest = self.an, form.terms[atom], form.without(atom)
        if coef > 0:
            return
        y, divisor = plain_form(atom.a), plain_form(atom.b)
        if (plain_lower(an, divisor) or 0) <= 0:
            return
        if divisor.terms:
            yield _Step((rest.plus(divisor.shifted(-1), coef),))
        low = plain_lower(an, y)
        if low is not None and low >= 0:
            yield _Step((rest.plus(y, coef),))

    def bits(self, form: Linear, atom: BinOp) -> Iterator[_Step]:
        """g * (x // g) <= x ^ y <= g * (x // g) + g - 1 for 0 <= y < g, a power of two."""
        found, coef = wide_and_narrow(self.an, atom), form.terms[atom]
        if found is not None:
            x, g = found
            kept = self.an.divmod("//", x, Linear({}, g)).scaled(g)
            limit = kept if coef > 0 else kept.shifted(g - 1)
            yield _Step((form.without(atom).plus(limit, coef),))

    def factor(self, form: Linear, atom: Expr, used: frozenset[Linear]) -> Iterator[_Step]:
        """A fact about one factor times the others, where these are not negative."""
        an, coef, parts = self.an, form.terms[atom], factors(atom)
        for place, part in enumerate(parts):
            others = parts[:place] + parts[place + 1 :]
            if any((an.range(o)[0] or 0) < 0 or an.range(o)[0] is None for o in others):
                continue
            cofactor = Linear({product(others): 1})
            if isinstance(part, BinOp) and part.op in ("min", "max"):
                rest = form.without(atom)
                ends = [rest.plus(times(plain_form(s), cofactor), coef) for s in (part.a, part.b)]
                both = (part.op == "min") == (coef > 0)
                yield from [_Step(tuple(ends))] if both else [_Step((s,)) for s in ends]
            elif isinstance(part, BinOp) and part.op == "//":
                left = without_factors(others, part.b)
                if left is not None and (an.range(part.b)[0] or 0) > 0:
                    y = plain_form(part.a)
                    limit = y if coef < 0 else y.minus(plain_form(part.b)).shifted(1)
                    kept = Linear({product(left): 1}) if left else Linear({}, 1)
                    yield _Step((form.without(atom).plus(times(limit, kept), coef),))
            for fact in an.facts.by_atom.get(part, ()):
                if fact.terms[part] * coef > 0 and fact not in used:
                    yield _eliminate(form, atom, fact, cofactor, None, part)
            end = an.range(part)[0 if coef > 0 else 1]
            if end is not None:
                yield _Step((form.without(atom).plus(cofactor, coef * end),))


def _eliminate(
    form: Linear,
    atom: Expr,
    fact: Linear,
    cofactor: Linear,
    key: Linear | None,
    part: Expr | None = None,
) -> _Step:
    """Remove `atom` = part * cofactor from `form` with the fact that holds for `part`."""
    coef, own = form.terms[atom], fact.terms[atom if part is None else part]
    common = gcd(coef, own)
    scale = abs(own) // common
    left = form.scaled(scale).plus(times(fact, cofactor), -(abs(coef) // common))
    return _Step((left,), scale, key)
