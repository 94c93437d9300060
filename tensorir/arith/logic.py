"""Truth values: negation, conjunctions, disjunctions; and the choices that hang on conditions."""

from __future__ import annotations

from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any

from tensorir import dtype as dt
from tensorir.arith.bounds import nonnegative
from tensorir.arith.choices import sides
from tensorir.arith.points import drawn_truths, is_open
from tensorir.expr import (
    FALSE,
    TRUE,
    BinOp,
    Const,
    Expr,
    Not,
    Select,
    all_of,
    any_of,
    binary,
    select,
)

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer

_MANY = 8
"""Longest conjunction whose parts are checked against each other."""

_OPPOSITE = {"==": "!=", "!=": "=="}


def negated(e: Expr) -> Expr:
    """not e, pushed inwards; a float `<` keeps its Not, which is true for NaN."""
    if isinstance(e, Const):
        return Const(not e.value, e.dtype)
    if isinstance(e, Not):
        return e.a
    if not isinstance(e, BinOp):
        return Not(e)
    if e.op in ("and", "or"):
        return BinOp("or" if e.op == "and" else "and", negated(e.a), negated(e.b))
    if e.op in _OPPOSITE:
        return BinOp(_OPPOSITE[e.op], e.a, e.b)
    if dt.is_float(e.a.dtype):
        return Not(e)
    return BinOp("<=" if e.op == "<" else "<", e.b, e.a)


def reads_memory(e: Expr) -> bool:
    """Whether a load occurs in `e`."""
    return e.has_loads


def parts_of(e: Expr, op: str) -> list[Expr]:
    """The operands of a chain of one associative operator, left to right."""
    if isinstance(e, BinOp) and e.op == op:
        return parts_of(e.a, op) + parts_of(e.b, op)
    return [e]


def simplify_logic(an: Analyzer, e: BinOp) -> Expr:
    """`and`, `or`: parts that follow from the others are dropped, contradictions found."""
    parts: dict[Expr, None] = {}
    for part in parts_of(e, e.op):
        for found in parts_of(an.simplify(part), e.op):
            parts[found] = None
    neutral, absorbing = (TRUE, FALSE) if e.op == "and" else (FALSE, TRUE)
    parts.pop(neutral, None)
    if absorbing in parts or any(negated(p) in parts for p in parts):
        return absorbing
    kept = _necessary(an, list(parts), e.op == "and")
    if kept is None:
        return absorbing
    return all_of(*kept) if e.op == "and" else any_of(*kept)


def _necessary(an: Analyzer, parts: list[Expr], conjunction: bool) -> list[Expr] | None:
    """The parts without those that the others decide; None where two parts exclude each other.

    A disjunction is looked at as the negation of the conjunction of the negated parts.
    """
    if not 1 < len(parts) <= _MANY:
        return parts
    kept, left = list(parts), list(range(len(parts)))
    drawn = _Drawn(an, parts, conjunction)
    for place in reversed(range(len(parts))):
        part = parts[place]
        others = kept[:place] + kept[place + 1 :]
        related = an.related(part, others)
        if not related or _is_open(an, others, part, conjunction) or drawn.is_open(place, left):
            continue
        known = all_of(*(p if conjunction else negated(p) for p in related))
        decided = an.branch(known).decide(part)
        if decided is not None and decided != conjunction:
            return None
        if decided is not None:
            del kept[place], left[place]
    return kept


class _Drawn:
    """The parts of a conjunction or disjunction at points that are drawn, once they are asked."""

    def __init__(self, an: Analyzer, parts: list[Expr], conjunction: bool) -> None:
        self.an, self.parts, self.conjunction = an, parts, conjunction

    @cached_property
    def truths(self) -> Any:
        found = drawn_truths(self.an, self.parts)
        return found if found is None or self.conjunction else ~found

    def is_open(self, part: int, others: list[int]) -> bool:
        """Whether points show that other parts say nothing of one."""
        if self.truths is None:
            return False
        own = self.truths[part]
        given = self.truths[[n for n in others if n != part]].all(0)
        return bool((given & own).any() and (given & ~own).any())


def _is_open(an: Analyzer, others: list[Expr], part: Expr, conjunction: bool) -> bool:
    """Whether points show that `others`, or that none of them holds, says nothing of `part`."""
    margins = [None if e.has_loads else an.margin(e) for e in (part, *others)]
    forms = [form for form in margins if form is not None]
    if len(forms) < len(margins):
        return False
    own, *given = forms
    if not conjunction:
        given = [form.scaled(-1).shifted(-1) for form in given]
    return is_open(an.facts, given, own)


def simplify_select(an: Analyzer, e: Select) -> Expr:
    """A choice; each side is simplified knowing which way the condition went."""
    cond = an.simplify(e.cond)
    if isinstance(cond, Const):
        return an.simplify(e.a if cond.value else e.b)
    if isinstance(cond, Not):
        return simplify_select(an, Select(cond.a, e.b, e.a))
    then, orelse = sides(an, Select(cond, e.a, e.b))
    return select(cond, then.simplify(e.a), orelse.simplify(e.b))


def simplify_extremum(an: Analyzer, e: BinOp) -> Expr:
    """min, max of integers: operands that another one is always beyond are dropped.

    Those that are left of an index are in a row, so that it has one form. Numbers keep the pairs
    that they were written in, which other numbers share: a sorting network is made of such.
    """
    simple = {part: an.simplify(part) for part in parts_of(e, e.op)}
    kept: dict[Expr, Expr] = {}
    for part in dict.fromkeys(found for s in simple.values() for found in parts_of(s, e.op)):
        if not any(_replaces(an, e.op, other, part) for other in kept):
            kept = {other: other for other in kept if not _replaces(an, e.op, part, other)}
            kept[part] = part
    if e.dtype == dt.INDEX:
        return reduce(partial(binary, e.op), kept)

    def paired(node: Expr) -> Expr | None:
        if isinstance(node, BinOp) and node.op == e.op:
            sides = [side for side in map(paired, (node.a, node.b)) if side is not None]
            return reduce(partial(binary, e.op), sides) if sides else None
        inner = simple.get(node, node)
        return kept.pop(node, None) if node in kept or inner is node else paired(inner)

    result = paired(e)
    assert result is not None
    return result


def _replaces(an: Analyzer, op: str, a: Expr, b: Expr) -> bool:
    """Whether op(a, b) is always `a`."""
    if a.dtype != dt.INDEX:
        low, high = (an.bounds(a), an.bounds(b)) if op == "max" else (an.bounds(b), an.bounds(a))
        return low[0] is not None and high[1] is not None and low[0] >= high[1]
    gap = an.linear(a).minus(an.linear(b))
    return nonnegative(an, gap if op == "max" else gap.scaled(-1))
