"""unroll: short unrolled loops become straight-line code."""

from __future__ import annotations

from tensorir.expr import Const, Expr
from tensorir.func import PrimFunc
from tensorir.passes.conditions import Memo, comparisons
from tensorir.passes.rewriting import NOTHING, replace_exprs, with_body
from tensorir.stmt import For, ForKind, Seq, Stmt, Store, seq
from tensorir.visit import child_stmts, map_children, variables

LIMIT = 1024
"""The most statements that a nest of expanded loops may have."""


def unroll(func: PrimFunc, conditional: bool = False) -> PrimFunc:
    """Expand unrolled loops of constant extent, innermost first, up to LIMIT statements.

    Longer ones stay, and are left to the C compiler. `conditional` expands only those on which
    some condition depends, so that it can be decided for each copy.
    """
    return with_body(func, _unroll(func.body, {} if conditional else None))


def _unroll(stmt: Stmt, memo: Memo | None) -> Stmt:
    result = map_children(stmt, lambda child: _unroll(child, memo))
    if isinstance(result, For) and result.kind is ForKind.UNROLLED:
        extent = result.const_extent
        short = extent is not None and extent * code_size(result.body) <= LIMIT
        if extent is not None and short and (memo is None or _has_say(result, memo)):
            return expand(result, extent)
    return seq(*result.stmts) if isinstance(result, Seq) and result is not stmt else result


def _has_say(loop: For, memo: Memo) -> bool:
    return any(loop.var in variables(c) for c in comparisons(loop.body, memo))


def expand(loop: For, extent: int) -> Stmt:
    """The iterations of `loop` one after the other."""
    var, fixed = loop.var, set[Expr]()
    values = [Const(n, var.dtype) for n in range(extent)]
    copies = [replace_exprs(loop.body, {var: value}, fixed) for value in values]
    return seq(*copies) if copies else NOTHING


def code_size(stmt: Stmt) -> int:
    """About how many stores are left when loops are unrolled and vectorized."""
    if isinstance(stmt, Store):
        return 1
    below = sum(map(code_size, child_stmts(stmt)))
    if isinstance(stmt, For) and stmt.kind in (ForKind.UNROLLED, ForKind.VECTORIZED):
        extent = stmt.const_extent or 1
        below *= extent if stmt.kind is ForKind.UNROLLED else -(-extent // 16)
    return below
