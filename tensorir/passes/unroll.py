"""unroll: short unrolled loops become straight-line code."""

from __future__ import annotations

from tensorir.expr import Const
from tensorir.func import PrimFunc
from tensorir.passes.rewriting import NOTHING, replace_exprs, with_body
from tensorir.stmt import For, ForKind, Seq, Stmt, Store, seq
from tensorir.visit import child_stmts, map_children

LIMIT = 1024
"""The most stores that a nest of expanded loops may have."""


def unroll(func: PrimFunc) -> PrimFunc:
    """Expand unrolled loops of constant extent, innermost first, up to LIMIT stores.

    Longer ones stay, and are left to the C compiler.
    """
    return with_body(func, _unroll(func.body))


def _unroll(stmt: Stmt) -> Stmt:
    result = map_children(stmt, _unroll)
    if isinstance(result, For) and result.kind is ForKind.UNROLLED:
        extent = result.const_extent
        if extent is not None and extent * _stores(result.body) <= LIMIT:
            return expand(result, extent)
    return seq(*result.stmts) if isinstance(result, Seq) and result is not stmt else result


def expand(loop: For, extent: int) -> Stmt:
    """The iterations of `loop` one after the other."""
    dtype = loop.var.dtype
    copies = [replace_exprs(loop.body, {loop.var: Const(n, dtype)}) for n in range(extent)]
    return seq(*copies) if copies else NOTHING


def _stores(stmt: Stmt) -> int:
    return isinstance(stmt, Store) + sum(map(_stores, child_stmts(stmt)))
