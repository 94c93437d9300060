"""Reductions of which some instances have no term: the condition stands in the update.

A predicate would not do: whether an init runs is told by what the predicate says of the spatial
variables, and what it says of the terms can come to speak of these alone, once loops of one
iteration are gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from tensorir.arith import Analyzer, slope
from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Expr, Load, Select, Var, all_of, binary, const, select
from tensorir.stmt import Block, Let, Stmt, Store, replace
from tensorir.visit import map_children, substitute, variables

Place = tuple[Buffer, tuple[Expr, ...]]


def with_terms(update: Stmt, condition: Expr) -> Stmt:
    """The update of a reduction, which leaves everything as it is where `condition`, in variables
    of the block, does not hold."""
    return _where(update, condition, {})


def _where(stmt: Stmt, condition: Expr, olds: Mapping[Place, Expr]) -> Stmt:
    if isinstance(stmt, Let) and isinstance(stmt.value, Load):
        olds = {**olds, (stmt.value.buffer, stmt.value.indices): stmt.var}
    if not isinstance(stmt, Store):
        return map_children(stmt, lambda child: _where(child, condition, olds))
    place = stmt.buffer, stmt.indices
    old, value = olds.get(place, Load(*place)), stmt.value
    if isinstance(value, Select) and value.b is old:
        return replace(stmt, value=select(all_of(condition, value.cond), value.a, old))
    return replace(stmt, value=select(condition, value, old))


def in_own_variables(part: Expr, block: Block, loops: Set[Var], analyzer: Analyzer) -> Expr | None:
    """A condition on `loops` in terms of the variables of the block that is bound to them; None
    where they cannot say it."""
    plain = {it.binding: it.var for it in block.iters if isinstance(it.binding, Var)}
    said = substitute(part, plain)
    if not loops & variables(said):
        return said
    if not isinstance(part, BinOp) or part.op not in ("<", "<="):
        return None
    value = analyzer.simplify(part.a - part.b)
    for it in block.iters:
        for var in sorted(loops & variables(it.binding), key=lambda v: v.name):
            step, wanted = slope(it.binding, var, analyzer), slope(value, var, analyzer)
            if step and wanted and wanted % step == 0:
                value = analyzer.simplify(value + (it.var - it.binding) * (wanted // step))
    value = substitute(value, plain)
    return None if loops & variables(value) else binary(part.op, value, const(0))
