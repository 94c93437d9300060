"""implied_conditions: of what is asked together, what follows from the rest is not asked.

Tiles of a task that reach beyond it ask whether an element is in the task, and whether it is in the
buffer, which all of the task is: without the second question no copies are made for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tensorir.arith import Analyzer
from tensorir.arith.linear import Linear, to_expr
from tensorir.expr import BinOp, Expr, all_of, conjuncts
from tensorir.func import PrimFunc
from tensorir.passes.facts.inequality import slack
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.rewriting import with_body
from tensorir.stmt import If, Stmt, replace
from tensorir.visit import map_children, walk


def implied_conditions(func: PrimFunc) -> PrimFunc:
    """Leave out comparisons of statements' conditions that another one of the same implies.

    rewrite:
        for p, i in grid(4, 15):                        for p, i in grid(4, 15):
            if p * 14 + i < 56 and i < 14:     ->           if i < 14:
                C[p * 14 + i] = 0.0                             C[p * 14 + i] = 0.0

    Requires that lower_blocks ran.
    """
    if not any(isinstance(s, If) and _asks_twice(s.cond) for s in walk(func.body)):
        return func
    return with_body(func, _visit(func.body, partial(_needed, analyzer=function_analyzer(func))))


def _visit(stmt: Stmt, needed: Callable[[Expr], Expr]) -> Stmt:
    result = map_children(stmt, lambda child: _visit(child, needed))
    if isinstance(result, If) and _asks_twice(result.cond):
        cond = needed(result.cond)
        return result if cond is result.cond else replace(result, cond=cond)
    return result


def _asks_twice(condition: Expr) -> bool:
    return isinstance(condition, BinOp) and condition.op == "and"


def _needed(condition: Expr, analyzer: Analyzer) -> Expr:
    """`condition` without the parts that follow from one of the others.

    Parts are f >= 0 and g >= 0 in the ranges of all loops around: where f - g >= 0 there, the
    second implies the first.
    """
    parts = conjuncts(condition)
    forms = [slack(part) for part in parts]
    kept = list(range(len(parts)))
    for n, form in enumerate(forms):
        others = [other for m in kept if m != n and (other := forms[m]) is not None]
        if form is not None and any(_never_less(form, other, analyzer) for other in others):
            kept.remove(n)
    return condition if len(kept) == len(parts) else all_of(*[parts[n] for n in kept])


def _never_less(f: Linear, g: Linear, analyzer: Analyzer) -> bool:
    if f.terms.keys().isdisjoint(g.terms):
        return False  # they say nothing of each other
    low, _ = analyzer.bounds(to_expr(f.minus(g)))
    return low is not None and low >= 0
