"""skip_stores: what stores an element's own value under a condition does nothing there."""

from __future__ import annotations

from tensorir import dtype as dt
from tensorir.expr import BinOp, Expr, Load, Select, Var, conjuncts
from tensorir.func import PrimFunc
from tensorir.passes.rewriting import with_body
from tensorir.stmt import For, ForKind, If, Stmt, Store, replace
from tensorir.visit import loads, map_children, variables


def skip_stores(func: PrimFunc) -> PrimFunc:
    """Store only where the value changes, if that is up to a place in the loops around.

    rewrite:
        for k in range(8):                             for k in range(8):
            C[i] = select(k < i, C[i] + A[k], C[i])  ->    if k < i:
                                                               C[i] = C[i] + A[k]

    partition_loops then ends the loop where the condition does. Conditions that tell the lanes of
    a vector apart, or ask for data in each iteration, stay.
    """
    return with_body(func, _visit(func.body, ()))


def _visit(stmt: Stmt, loops: tuple[For, ...]) -> Stmt:
    if isinstance(stmt, For):
        loops = (*loops, stmt)
    if not isinstance(stmt, Store):
        return map_children(stmt, lambda child: _visit(child, loops))
    value = stmt.value
    if not isinstance(value, Select) or value.b is not Load(stmt.buffer, stmt.indices):
        return stmt
    if not loops or not all(_is_place(part, loops) for part in conjuncts(value.cond)):
        return stmt
    return If(value.cond, replace(stmt, value=value.a))


def _is_place(part: Expr, loops: tuple[For, ...]) -> bool:
    if not isinstance(part, BinOp) or part.op not in ("<", "<=") or part.a.dtype != dt.INDEX:
        return False
    lanes: set[Var] = {f.var for f in loops if f.kind is ForKind.VECTORIZED}
    asked = {v for load in loads(part) for v in variables(load)}
    serial = [f.var for f in loops if f.kind is not ForKind.VECTORIZED]
    return not variables(part) & lanes and (not serial or serial[-1] not in asked)
