"""Periods: after how many steps of a variable an expression has the same values again."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from math import lcm

from tensorir.expr import BinOp, Const, Expr, Var
from tensorir.visit import transform, variables, walk_exprs


def period(var: Var, e: Expr) -> int | None:
    """After how many steps of `var` an expression repeats; None where that is not seen."""
    if var not in variables(e):
        return 1
    divided = _divided(e, "%")
    if divided is not None:
        return _period_of_remainder(var, *divided)
    return None if e is var else _common(partial(period, var), e)


def _period_of_remainder(var: Var, e: Expr, modulus: int) -> int | None:
    """The same for the remainder by a number."""
    if var not in variables(e):
        return 1
    if e is var:
        return modulus
    if isinstance(e, BinOp) and e.op in ("+", "-", "*"):
        return _common(lambda part: _period_of_remainder(var, part, modulus), e)
    quotient = _divided(e, "//")
    if quotient is not None:
        return _period_of_remainder(var, quotient[0], quotient[1] * modulus)
    return period(var, e)


def _divided(e: Expr, op: str) -> tuple[Expr, int] | None:
    """What is divided by which positive number, if that is what an expression does."""
    if isinstance(e, BinOp) and e.op == op and isinstance(e.b, Const) and e.b.value > 0:
        return e.a, int(e.b.value)
    return None


def _common(of: Callable[[Expr], int | None], e: Expr) -> int | None:
    found = [of(part) for part in e.operands]
    known = [n for n in found if n is not None]
    return lcm(*known) if len(known) == len(found) else None


def with_names(e: Expr, own: Collection[Var], names: dict[frozenset[Expr], Var]) -> Expr:
    """An expression in whose remainders what has none of `own` is one variable, if it is more than
    multiples of variables: whatever its value is, as many differ as the remainder has. `names`
    keeps them, one for each sum."""

    def remainder(part: Expr) -> Expr | None:
        divided = _divided(part, "%")
        if divided is None or variables(part).isdisjoint(own):
            return None
        added = _addends(divided[0])
        common = [x for x in added if variables(x) and variables(x).isdisjoint(own)]
        if not any(isinstance(x, BinOp) and x.op in ("//", "%") for x in _parts(common)):
            return None
        name = names.setdefault(frozenset(common), Var(f"common.{len(names)}", part.dtype))
        rest = [x for x in added if x not in common]
        return sum(rest, start=name) % divided[1]

    return transform(e, remainder)


def _addends(e: Expr) -> list[Expr]:
    if isinstance(e, BinOp) and e.op == "+":
        return [*_addends(e.a), *_addends(e.b)]
    return [e]


def _parts(every: Collection[Expr]) -> list[Expr]:
    return [part for e in every for part in walk_exprs(e)]
