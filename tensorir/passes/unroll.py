"""unroll: short unrolled loops become straight-line code."""

from __future__ import annotations

from tensorir.expr import Const
from tensorir.func import PrimFunc
from tensorir.passes.rewriting import NOTHING, replace_exprs, with_body
from tensorir.stmt import Exchange, Extern, For, ForKind, Prefetch, Seq, Stmt, Store, Sync, seq
from tensorir.visit import child_stmts, map_children

LIMIT = 1024
"""The most statements that a nest of expanded loops may have."""


def unroll(func: PrimFunc) -> PrimFunc:
    """Expand unrolled loops of constant extent, innermost first, up to LIMIT statements.

    The annotation "unroll_limit" of a loop takes the place of LIMIT. Longer ones stay, and are
    left to the C compiler.
    """
    return with_body(func, _unroll(func.body))


def _unroll(stmt: Stmt) -> Stmt:
    result = map_children(stmt, _unroll)
    if isinstance(result, For) and result.kind is ForKind.UNROLLED:
        limit: int = result.annotations.get("unroll_limit", LIMIT)
        if code_size(result) <= limit:
            return expand(result)
    return seq(*result.stmts) if isinstance(result, Seq) and result is not stmt else result


def expand(loop: For) -> Stmt:
    """The iterations of `loop` one after the other; `loop` itself if its extent is symbolic."""
    extent = loop.const_extent
    if extent is None:
        return loop
    var = loop.var
    values = [Const(n, var.dtype) for n in range(extent)]
    copies = [replace_exprs(loop.body, {var: value}) for value in values]
    return seq(*copies) if copies else NOTHING


def code_size(stmt: Stmt) -> int:
    """About how many stores are left when loops are unrolled and vectorized."""
    if isinstance(stmt, (Store, Extern, Prefetch, Sync, Exchange)):
        return 1
    below = sum(map(code_size, child_stmts(stmt)))
    if isinstance(stmt, For) and stmt.kind in (ForKind.UNROLLED, ForKind.VECTORIZED):
        extent = stmt.const_extent or 1
        below *= extent if stmt.kind is ForKind.UNROLLED else -(-extent // 16)
    return below
