"""Simplification by kind of node; sums of the index type go through their linear form."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING

from tensorir import dtype as dt
from tensorir.arith.compare import compare
from tensorir.arith.linear import Linear, of_atom, product_of, to_expr
from tensorir.arith.logic import negated, simplify_extremum, simplify_logic, simplify_select
from tensorir.arith.rules import apply_rules
from tensorir.expr import COMPARISONS, FALSE, LOGICAL, TRUE, BinOp, Const, Expr, Not, Select, Var
from tensorir.visit import rebuild

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer


def linear_form(an: Analyzer, e: Expr) -> Linear:
    """The simplified linear form of an expression of the index type."""
    if isinstance(e, Const):
        return Linear({}, int(e.value))
    if isinstance(e, BinOp):
        right = e.b  # most often a number, of which no form has to be kept
        number = Linear({}, int(right.value)) if isinstance(right, Const) else None
        if e.op in ("+", "-"):
            left, sign = an.linear(e.a), 1 if e.op == "+" else -1
            if number is not None:
                return an.recombined(left.shifted(sign * number.const))
            return an.recombined(left.plus(an.linear(right), sign))
        if e.op == "*":
            return an.recombined(product_of(an.linear(e.a), number or an.linear(right)))
        if e.op in ("//", "%"):
            return an.recombined(an.divmod(e.op, an.linear(e.a), number or an.linear(right)))
        if e.op == "^":
            return an.exclusive_or(an.linear(e.a), an.linear(e.b))
    node = e if isinstance(e, Var) else _node(an, e)
    if isinstance(node, Const):
        return Linear({}, int(node.value))
    if node is not e and isinstance(node, BinOp):
        return an.linear(node)
    low, high = an.range(node)
    return Linear({}, low) if low is not None and low == high else of_atom(node)


def simplified(an: Analyzer, e: Expr) -> Expr:
    """`e` after one pass of simplification."""
    if e.dtype == dt.INDEX:
        return to_expr(an.linear(e))
    if e.dtype == "bool":
        known = an.facts.truths.get(e)
        if known is not None:
            return TRUE if known else FALSE
        return _bool(an, e)
    node = _node(an, e)
    if dt.is_int(e.dtype) and dt.lanes(e.dtype) == 1 and not isinstance(node, Const):
        low, high = an.range(node)
        if low is not None and low == high:
            return Const(low, e.dtype)
    return node


def _bool(an: Analyzer, e: Expr) -> Expr:
    if isinstance(e, BinOp) and e.op in LOGICAL:
        return simplify_logic(an, e)
    if isinstance(e, BinOp) and e.op in COMPARISONS and dt.is_int(e.a.dtype):
        return compare(an, e)
    if isinstance(e, Not):
        inner = negated(e.a)
        return _node(an, e) if isinstance(inner, Not) else an.simplify(inner)
    return _node(an, e)


def _node(an: Analyzer, e: Expr) -> Expr:
    """`e` with simplified parts, and one step of the rules for its kind of node."""
    if isinstance(e, Select):
        node = simplify_select(an, e)
    elif isinstance(e, BinOp) and e.op in ("min", "max") and dt.is_int(e.dtype):
        node = simplify_extremum(an, e)
    else:
        before = e.operands
        after = tuple([an.simplify(part) for part in before])
        node = e if all(map(is_, before, after)) else rebuild(e, after)
    return node if isinstance(node, (Const, Var)) else apply_rules(node)
