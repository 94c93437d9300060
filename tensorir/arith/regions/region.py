"""Regions: the interval of values that an index takes while some loops run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.bits import wide_and_narrow
from tensorir.arith.bounds import nonnegative
from tensorir.arith.linear import Linear, factors, of_atom, plain_form, product, times, to_expr
from tensorir.arith.regions.iter_map import bound_in
from tensorir.expr import (
    BinOp,
    Const,
    Expr,
    ExprLike,
    Select,
    Var,
    const,
    convert,
    int_value,
    maximum,
    minimum,
)
from tensorir.visit import variables

Span = tuple[Linear, Linear]
"""(low, width): the integers from low to low + width, both included."""


@dataclass(frozen=True)
class Interval:
    """The integers in [low, low + extent)."""

    low: Expr
    extent: Expr


def relax(index: Expr, inner: Mapping[Var, ExprLike], analyzer: Analyzer) -> Interval | None:
    """An interval that holds `index` while every variable of `inner` runs over [0, extent).

    Other variables stay symbolic in `low`; the extent is constant whenever possible. A strided
    index gives its dense hull. None where no interval is found.
    """
    an = bound_in(inner, analyzer)
    if isinstance(index, Var) and an.knows_ranges_alone:
        low, high = an.range(index)
        if low == 0 and high is not None and high > 0:  # most indices: there is no more to say
            if index in inner:
                return Interval(const(0), const(high + 1))
            return Interval(index, const(1))
    form = an.linear(index)
    plain = _of_variables(an, form, inner) if an.knows_ranges_alone else None
    if plain is not None:
        return plain
    span = _Relax(an, inner).sum(form)
    low, high = an.interval(form)
    whole = None if low is None or high is None else (Linear({}, low), Linear({}, high - low))
    best = _narrower(_narrower(span, whole), _moving(an, form, inner))
    if best is None:
        return None
    return Interval(an.simplify(to_expr(best[0])), an.simplify(to_expr(best[1].shifted(1))))


def _of_variables(an: Analyzer, form: Linear, inner: Mapping[Var, ExprLike]) -> Interval | None:
    """The interval of a sum of variables, of which those of `inner` have numbers of values."""
    terms, low, reach = dict[Expr, int](), form.const, 0
    for atom, coef in form.terms.items():
        if not isinstance(atom, Var):
            return None
        first, last = an.range(atom)
        if last is not None and last < (first or 0):  # it has no values
            return None
        if atom not in inner:
            terms[atom] = coef
            continue
        if first != 0 or last is None:
            return None
        reach += abs(coef) * last
        low += min(0, coef * last)
    return Interval(to_expr(Linear(terms, low)), const(reach + 1))


def _moving(an: Analyzer, form: Linear, inner: Mapping[Var, ExprLike]) -> Span | None:
    """The bounds of the terms with variables of `inner` alone, where facts say more of these."""
    terms = {atom: c for atom, c in form.terms.items() if variables(atom) & inner.keys()}
    moving = Linear(terms)
    if len(terms) == len(form.terms) or not an.may_refine(moving):
        return None
    low, high = an.interval(moving)
    if low is None or high is None:
        return None
    return form.minus(moving).shifted(low), Linear({}, high - low)


def union(a: Interval, b: Interval, analyzer: Analyzer) -> Interval | None:
    """The smallest interval found that holds both; None where their ends cannot be compared."""
    joined = _union(analyzer, _span(analyzer, a), _span(analyzer, b))
    if joined is None:
        return None
    return _interval(analyzer, joined)


def intersect_with(a: Interval, size: ExprLike, analyzer: Analyzer) -> Interval:
    """`a` clipped to [0, size) as far as that is provable; it may keep values outside."""
    if a.low is const(0) and a.extent is size and isinstance(size, Const):
        return a
    low, width = _span(analyzer, a)
    end = analyzer.linear(convert(size))
    if nonnegative(analyzer, width.shifted(1).minus(end)):
        return _interval(analyzer, (Linear({}), end.shifted(-1)))
    best = (low, width)
    below = low.scaled(-1)
    if nonnegative(analyzer, below):
        best = _simpler(best, (Linear({}), width.minus(below)))
    above = best[0].plus(best[1]).shifted(1).minus(end)
    if nonnegative(analyzer, above):
        best = _simpler(best, (best[0], best[1].minus(above)))
    hull = _clipped_hull(analyzer, low, width, int_value(analyzer.simplify(convert(size))))
    return _interval(analyzer, _narrower(best, hull) or best)


def _simpler(old: Span, new: Span) -> Span:
    """The clipped span, unless a constant width would become symbolic."""
    return old if new[1].terms and not old[1].terms else new


def covers(outer: Interval, inner: Interval, analyzer: Analyzer) -> bool:
    """Whether every value of `inner` is proved to be in `outer`."""
    low, width = _span(analyzer, outer)
    first, reach = _span(analyzer, inner)
    before = first.minus(low)
    return nonnegative(analyzer, before) and nonnegative(analyzer, width.minus(before).minus(reach))


def _span(an: Analyzer, a: Interval) -> Span:
    return an.linear(a.low), an.linear(a.extent).shifted(-1)


def _interval(an: Analyzer, span: Span) -> Interval:
    low, width = span
    return Interval(an.simplify(to_expr(low)), an.simplify(to_expr(width.shifted(1))))


def _narrower(a: Span | None, b: Span | None) -> Span | None:
    """The one of constant, smaller width; `a` where neither is better."""
    if a is None or b is None:
        return a or b
    if b[1].terms:
        return a
    return b if a[1].terms or b[1].const < a[1].const else a


def _clipped_hull(an: Analyzer, low: Linear, width: Linear, size: int | None) -> Span | None:
    first, last = an.interval(low)[0], an.interval(low.plus(width))[1]
    if first is None or last is None or size is None:
        return None
    first, last = max(first, 0), min(last, size - 1)
    return (Linear({}, first), Linear({}, last - first)) if first <= last else None


def _union(an: Analyzer, a: Span, b: Span) -> Span | None:
    gap = b[0].minus(a[0])
    if nonnegative(an, gap.scaled(-1)):
        a, b, gap = b, a, gap.scaled(-1)
    elif not nonnegative(an, gap):
        return None
    reach = gap.plus(b[1])
    if nonnegative(an, a[1].minus(reach)):
        return a
    if nonnegative(an, reach.minus(a[1])) and not reach.terms:
        return a[0], reach
    most = an.interval(reach)[1]
    if most is not None and not a[1].terms:
        return a[0], Linear({}, max(most, a[1].const))
    if nonnegative(an, reach.minus(a[1])):
        return a[0], reach
    return a[0], _wider(an, reach, a[1])


def _wider(an: Analyzer, a: Linear, b: Linear) -> Linear:
    """The larger of two widths, written as the larger of the extents."""
    extents = [to_expr(width.shifted(1)) for width in (a, b)]
    return an.linear(maximum(*extents)).shifted(-1)


class _Relax:
    """Spans of sums and atoms over the inner variables."""

    def __init__(self, an: Analyzer, inner: Mapping[Var, ExprLike]) -> None:
        self.an = an
        self.inner = inner

    def sum(self, form: Linear) -> Span | None:
        low, width = Linear({}, form.const), Linear({})
        for atom, coef in form.terms.items():
            span = self.atom(atom)
            if span is None:
                return None
            first, reach = span
            if coef < 0:
                first = first.plus(reach)
            low = low.plus(first, coef)
            width = width.plus(reach, abs(coef))
        return self.an.recombined(low), width

    def expr(self, e: Expr) -> Span | None:
        return self.sum(plain_form(e))

    def atom(self, atom: Expr) -> Span | None:
        if not any(var in self.inner for var in variables(atom)):
            return of_atom(atom), Linear({})
        if isinstance(atom, Var):
            return self.variable(atom)
        found = None
        if isinstance(atom, Select):
            found = self.choice(atom)
        elif isinstance(atom, BinOp):
            rule = {"//": self.quotient, "%": self.remainder, "*": self.product}.get(atom.op)
            if atom.op in ("min", "max"):
                rule = self.extremum
            if atom.op == "^":
                rule = self.bits
            found = rule(atom) if rule else None
        low, high = self.an.range(atom)
        whole = None if low is None or high is None else (Linear({}, low), Linear({}, high - low))
        return _narrower(found, whole)

    def variable(self, var: Var) -> Span | None:
        size = int_value(self.inner[var])
        if size is not None:
            return Linear({}), Linear({}, size - 1)
        last = self.expr(self.an.simplify(convert(self.inner[var]) - 1))
        if last is None:
            return None
        most = self.an.interval(last[0].plus(last[1]))[1]
        reach = last[0].plus(last[1])
        return Linear({}), reach if most is None or not reach.terms else Linear({}, most)

    def quotient(self, atom: BinOp) -> Span | None:
        """floor((y + w) / c) - floor(y / c) is at most ceil(w / c)."""
        span, divisor = self.expr(atom.a), int_value(atom.b)
        if span is None or divisor is None or divisor <= 0:
            return None
        an = self.an
        ends = (span[0], span[0].plus(span[1]))
        first, last = (an.divmod("//", end, Linear({}, divisor)) for end in ends)
        width = an.recombined(last.minus(first))
        if not width.terms:
            return first, width
        bound = an.interval(width)[1]
        if not span[1].terms:
            ceiling = -(-span[1].const // divisor)
            bound = ceiling if bound is None else min(bound, ceiling)
        return first, width if bound is None else Linear({}, bound)

    def remainder(self, atom: BinOp) -> Span | None:
        """Exact where the values do not wrap; otherwise all remainders."""
        span, divisor = self.expr(atom.a), plain_form(atom.b)
        an = self.an
        if any(var in self.inner for var in variables(atom.b)):
            return None
        if span is not None:
            blocks = [an.divmod("//", x, divisor) for x in (span[0], span[0].plus(span[1]))]
            step = an.recombined(blocks[1].minus(blocks[0]))
            if not step.terms and step.const == 0:
                return an.recombined(an.divmod("%", span[0], divisor)), span[1]
        if nonnegative(an, divisor.shifted(-1)):
            return Linear({}), divisor.shifted(-1)
        return None

    def bits(self, atom: BinOp) -> Span | None:
        """x ^ y stays within the run of g that x is in, for 0 <= y < g, a power of two."""
        found = wide_and_narrow(self.an, atom)
        if found is None:
            return None
        x, g = found
        span = self.sum(self.an.divmod("//", x, Linear({}, g)).scaled(g))
        return None if span is None else (span[0], span[1].shifted(g - 1))

    def product(self, atom: BinOp) -> Span | None:
        """An inner variable times a factor that is free of inner variables and not negative."""
        parts = factors(atom)
        inner = [p for p in parts if any(var in self.inner for var in variables(p))]
        outer = [p for p in parts if not any(p is q for q in inner)]
        if len(inner) != 1 or not outer:
            return None
        span, scale = self.atom(inner[0]), of_atom(product(outer))
        if span is None or not nonnegative(self.an, scale):
            return None
        return times(span[0], scale), times(span[1], scale)

    def extremum(self, atom: BinOp) -> Span | None:
        """min and max move by no more than their operands do."""
        a, b = self.expr(atom.a), self.expr(atom.b)
        if a is None or b is None:
            return None
        pick = minimum if atom.op == "min" else maximum
        low = self.an.linear(pick(to_expr(a[0]), to_expr(b[0])))
        if nonnegative(self.an, a[1].minus(b[1])):
            return low, a[1]
        if nonnegative(self.an, b[1].minus(a[1])):
            return low, b[1]
        return low, _wider(self.an, a[1], b[1])

    def choice(self, atom: Select) -> Span | None:
        a, b = self.expr(atom.a), self.expr(atom.b)
        return None if a is None or b is None else _union(self.an, a, b)
