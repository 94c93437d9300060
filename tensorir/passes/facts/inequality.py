"""Conditions as linear inequalities, solved for the part of them that one loop decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tensorir import dtype as dt
from tensorir.arith.linear import Linear, of_atom, to_expr
from tensorir.expr import BinOp, Const, Expr, Not, Var, convert, int_value
from tensorir.visit import variables

Limit = Expr | int | None
"""A constant, an expression, or None: unbounded."""

Bounds = Callable[[Expr], tuple["int | None", "int | None"]]


@dataclass(frozen=True)
class Range:
    """The half-open range [low, high) of `term` in which a condition holds; None is unbounded.

    Limits are int or expressions of variables outside of the loop.
    """

    term: Expr
    low: Limit
    high: Limit

    def const(self, extent: int) -> tuple[int, int] | None:
        """The range within [0, extent) as integers; None where a limit is symbolic."""
        low, high = 0 if self.low is None else self.low, extent if self.high is None else self.high
        if not isinstance(low, int) or not isinstance(high, int):
            return None
        low = min(max(low, 0), extent)
        return low, max(low, min(high, extent))

    @property
    def free(self) -> set[Var]:
        """The variables in the limits; none if they are constant."""
        parts = [e for e in (self.low, self.high) if isinstance(e, Expr)]
        return set().union(*map(variables, parts))

    def same(self, other: Range) -> bool:
        """Whether both ranges are written alike."""
        return all(
            a == b if isinstance(a, int) and isinstance(b, int) else a is b
            for a, b in ((self.low, other.low), (self.high, other.high), (self.term, other.term))
        )

    def covers(self, low: Limit, high: Limit) -> bool:
        """Whether all of [low, high) is in the range."""
        below = self.low is None or _at_most(self.low, low)
        return below and (self.high is None or _at_most(high, self.high))

    def misses(self, low: Limit, high: Limit) -> bool:
        """Whether nothing of [low, high) is in the range."""
        if self.low is not None and _at_most(high, self.low):
            return True
        return self.high is not None and _at_most(self.high, low)


def _at_most(a: Limit, b: Limit) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    return a is b and a is not None


def linear(e: Expr) -> Linear:
    """`e` as a linear form of whatever is not a sum or a multiple."""
    if isinstance(e, Const):
        return Linear({}, int(e.value))
    if isinstance(e, BinOp) and e.op in ("+", "-"):
        return linear(e.a).plus(linear(e.b), 1 if e.op == "+" else -1)
    if isinstance(e, BinOp) and e.op == "*":
        for side, other in ((e.a, e.b), (e.b, e.a)):
            factor = int_value(other)
            if factor is not None:
                return linear(side).scaled(factor)
    return of_atom(e)


def slack(condition: Expr) -> Linear | None:
    """The form that is non-negative exactly where `condition` holds; None for anything else."""
    negated = isinstance(condition, Not)
    inner = condition.a if isinstance(condition, Not) else condition
    if not isinstance(inner, BinOp) or inner.op not in ("<", "<=") or inner.a.dtype != dt.INDEX:
        return None
    a, b = linear(inner.a), linear(inner.b)
    strict = inner.op == "<"
    if negated:  # not a < b is b <= a, and not a <= b is b < a
        a, b, strict = b, a, not strict
    return b.minus(a).shifted(-1 if strict else 0)


def solve(
    condition: Expr, var: Var, inner: Mapping[Var, object], bounds: Bounds
) -> tuple[Range, Range] | None:
    """Where `condition` holds for all, and for some, values of the `inner` variables.

    Both are ranges of one term: `var`, or an expression of it such as `var // 16`. None if the
    condition is not such an inequality, or an inner variable cannot be bounded.
    """
    form = slack(condition)
    if form is None:
        return None
    form = _multiplied(form, lambda used: var in used and not used.isdisjoint(inner))
    own: list[tuple[Expr, int]] = []
    rest, least, most = Linear({}, form.const), 0, 0
    for atom, coef in form.terms.items():
        used = variables(atom)
        within = used & inner.keys()
        if var in used:
            if within or own:
                return None
            own.append((atom, coef))
        elif within:
            low, high = bounds(atom)
            if low is None or high is None:
                return None
            least += min(coef * low, coef * high)
            most += max(coef * low, coef * high)
        else:
            rest = rest.plus(of_atom(atom), coef)
    if not own:
        return None
    term, coef = own[0]
    return _range(term, coef, rest.shifted(least)), _range(term, coef, rest.shifted(most))


def _multiplied(form: Linear, mixed: Callable[[set[Var]], bool]) -> Linear:
    """A form that is non-negative where `form` is, without a quotient of `mixed` variables.

    rewrite:
        0 <= rest - x // 4    ->  0 <= rest * 4 + 3 - x
        0 <= rest + x // 4    ->  0 <= rest * 4 + x
    """
    for atom, coef in form.terms.items():
        divisor = int_value(atom.b) if isinstance(atom, BinOp) and atom.op == "//" else None
        if isinstance(atom, BinOp) and divisor and divisor > 0 and abs(coef) == 1:
            if mixed(set(variables(atom))):
                whole = form.plus(of_atom(atom), -coef).scaled(divisor)
                whole = whole.shifted(divisor - 1 if coef < 0 else 0)
                return _multiplied(whole.plus(linear(atom.a), coef), mixed)
    return form


def _range(term: Expr, coef: int, rest: Linear) -> Range:
    """Where coef * term + rest >= 0."""
    limit: Expr | int = to_expr(rest) // abs(coef) if rest.terms else rest.const // abs(coef)
    if coef < 0:
        return Range(term, None, limit + 1)
    return Range(term, -limit, None)


def split_at(
    sure: Range, low: Limit, high: Limit
) -> tuple[Expr, tuple[Limit, Limit], tuple[Limit, Limit]] | None:
    """A test that puts a term of [low, high) in `sure`, as far as one of its ends goes.

    With what is known where it holds, and where it does not. None where it holds always, or too
    seldom to be worth a body of its own.
    """
    if sure.high is not None and _worth(low, sure.high, high):
        return sure.term < sure.high, (low, sure.high), (sure.high, high)
    if sure.low is not None and _worth(high, sure.low, low):
        return convert(sure.low) <= sure.term, (sure.low, high), (low, sure.low)
    return None


def _worth(start: Limit, mark: Limit, end: Limit) -> bool:
    """Whether the part from `start` to `mark` is most of what lies between `start` and `end`."""
    if isinstance(start, int) and isinstance(mark, int) and isinstance(end, int):
        return abs(end - start) <= 2 * abs(mark - start) < 2 * abs(end - start)
    return mark is not end and mark is not start
