"""Comparisons of index expressions, in one form each, and decided where the ranges decide them.

Both sides are brought together into one linear form D. D >= 0 is written with its negative terms
on the left and the constant on whichever side it is positive: `i_0 * 4 + i < n + 3`, `1 <= i + r`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import TYPE_CHECKING

from tensorir import dtype as dt
from tensorir.arith import interval
from tensorir.arith.bounds import nonnegative
from tensorir.arith.facts import keeps_value
from tensorir.arith.linear import Linear, of_atom, to_expr
from tensorir.arith.logic import negated
from tensorir.expr import FALSE, TRUE, BinOp, Cast, Const, Expr, binary

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer


def difference(an: Analyzer, e: BinOp) -> Linear | None:
    """b - a of a comparison a op b of integers, exact also for narrow types; None if unknown."""
    sides = [_exact(an, side) for side in (e.a, e.b)]
    if sides[0] is None or sides[1] is None:
        return None
    return an.recombined(sides[0].minus(sides[1])).scaled(-1)


def _exact(an: Analyzer, e: Expr) -> Linear | None:
    if e.dtype == dt.INDEX:
        return an.linear(e)
    if isinstance(e, Const) and dt.is_int(e.dtype):
        return Linear({}, int(e.value))
    if dt.lanes(e.dtype) == 1 and dt.is_int(e.dtype) and keeps_value(e.dtype):
        return of_atom(Cast(dt.INDEX, an.simplify(e)))
    return None


LARGE = 1 << 62
"""Constants from here on stay where they are: moved, such as by 1, they might not be written."""


def compare(an: Analyzer, e: BinOp) -> Expr:
    """The simplified comparison of two integers of one lane."""
    form = difference(an, e)
    if form is None:
        return _compare_narrow(an, e)
    if e.op in ("==", "!="):
        equal = _equal(an, form.scaled(-1))
        result = equal if e.op == "==" else negated(equal)
    else:
        result = _at_least(an, form.shifted(-1) if e.op == "<" else form)
    if isinstance(result, Const) or (e.a.dtype == dt.INDEX and abs(form.const) < LARGE):
        return result
    return _compare_narrow(an, e)


def _compare_narrow(an: Analyzer, e: BinOp) -> Expr:
    a, b = an.simplify(e.a), an.simplify(e.b)
    if a is b:
        return TRUE if e.op in ("<=", "==") else FALSE
    decided = decided_by_ranges(an, e)
    if decided is not None:
        return Const(decided, "bool")
    return binary(e.op, a, b)


def _at_least(an: Analyzer, form: Linear) -> Expr:
    """form >= 0."""
    if nonnegative(an, form):
        return TRUE
    if nonnegative(an, form.scaled(-1).shifted(-1)):
        return FALSE
    for step in _steps(form):
        a, b = form.split(step)
        low, high = an.interval(b)
        if low is not None and high is not None and low // step == high // step:
            return _at_least(an, a.shifted(low // step))
    return _write_at_least(form)


def _steps(form: Linear) -> Iterator[int]:
    """Factors worth splitting a sum by: coefficients and what they share, largest first."""
    found = {abs(t) for t in form.terms.values()}
    found.update([gcd(a, b) for a in found for b in found], [form.factor()])
    return (g for g in sorted(found, reverse=True) if g > 1)


def _write_at_least(form: Linear) -> Expr:
    left = Linear({a: -t for a, t in form.terms.items() if t < 0})
    right = Linear({a: t for a, t in form.terms.items() if t > 0})
    const = form.const
    if not right.terms:
        return binary("<", to_expr(left), to_expr(right.shifted(const + 1)))
    if not left.terms:
        return binary("<=", to_expr(left.shifted(-const)), to_expr(right))
    if const == 0:
        return binary("<=", to_expr(left), to_expr(right))
    if const > 0:
        return binary("<", to_expr(left), to_expr(right.shifted(const + 1)))
    return binary("<", to_expr(left.shifted(-const - 1)), to_expr(right))


def _equal(an: Analyzer, form: Linear) -> Expr:
    """form == 0."""
    if not form.terms:
        return Const(form.const == 0, "bool")
    low, high = an.interval(form)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return FALSE
    if low == 0 and high == 0:
        return TRUE
    if form.const % form.factor():
        return FALSE
    for step in _steps(form):
        a, b = form.split(step)
        if not a.terms:
            continue
        found = _equal_parts(an, a, b, step)
        if found is not None:
            return found
    return _write_equal(form)


def _equal_parts(an: Analyzer, a: Linear, b: Linear, step: int) -> Expr | None:
    """step * a + b == 0 as b == m * step and a == -m, where b has one multiple of step in range."""
    low, high = an.interval(b)
    if low is None or high is None:
        return None
    first, last = -(-low // step), high // step
    if first > last:
        return FALSE
    if first < last:
        return None
    upper = _equal(an, a.shifted(first))
    return binary("and", upper, _equal(an, b.shifted(-first * step)))


def _write_equal(form: Linear) -> Expr:
    sign = 1 if next(iter(form.terms.values())) > 0 else -1
    scale = form.factor()
    terms = {a: sign * t // scale for a, t in form.terms.items()}
    left = Linear({a: t for a, t in terms.items() if t > 0})
    right = Linear({a: -t for a, t in terms.items() if t < 0})
    const = -sign * form.const // scale
    if const < 0 and right.terms:
        return binary("==", to_expr(left.shifted(-const)), to_expr(right))
    return binary("==", to_expr(left), to_expr(right.shifted(const)))


def decided_by_ranges(an: Analyzer, e: BinOp) -> bool | None:
    """The truth of a comparison where the intervals of its two sides decide it."""
    a, b = an.bounds(e.a), an.bounds(e.b)
    gap = interval.subtract(b, a)
    strict = e.op == "<"
    if e.op in ("<", "<="):
        if gap[0] is not None and gap[0] >= strict:
            return True
        return False if gap[1] is not None and gap[1] < strict else None
    apart = (gap[0] is not None and gap[0] > 0) or (gap[1] is not None and gap[1] < 0)
    return (e.op == "!=") if apart else None
