"""unroll: short unrolled loops become straight-line code."""

from __future__ import annotations

from tensorir.expr import Const
from tensorir.func import PrimFunc
from tensorir.passes.rewriting import NOTHING, replace_exprs, with_body
from tensorir.stmt import (
    Exchange,
    Extern,
    For,
    ForKind,
    Prefetch,
    Seq,
    Stmt,
    Store,
    Sync,
    replace,
    seq,
)
from tensorir.visit import child_stmts, map_children

LIMIT = 1024
"""The most statements that a nest of expanded loops may have."""

LOOP = 16
"""Statements that cost a compiler as much as a loop does, of which gcc takes 4 ms each where a
function has two hundred, and 14 where it has two thousand."""


def unroll(func: PrimFunc) -> PrimFunc:
    """Expand unrolled loops of constant extent, innermost first, up to LIMIT statements.

    Loops inside of them that stay count as LOOP statements. Longer ones become serial: a compiler
    that is asked to unroll them takes as long as for their text. The annotation "unroll_limit" of a
    loop takes the place of LIMIT, and counts no loops; longer ones stay, and are left to the C
    compiler.
    """
    return with_body(func, _unroll(func.body))


def _unroll(stmt: Stmt) -> Stmt:
    result = map_children(stmt, _unroll)
    if isinstance(result, For) and result.kind is ForKind.UNROLLED:
        if is_short(result):
            return expand(result)
        if "unroll_limit" not in result.annotations:
            return replace(result, kind=ForKind.SERIAL)
    return seq(*result.stmts) if isinstance(result, Seq) and result is not stmt else result


def is_short(loop: For) -> bool:
    """Whether an unrolled loop is expanded: what it makes is not too much for a compiler.

    Of what users asked for themselves, statements are counted.
    """
    limit: int | None = loop.annotations.get("unroll_limit")
    return code_size(loop, LOOP) <= LIMIT if limit is None else code_size(loop) <= limit


def expand(loop: For) -> Stmt:
    """The iterations of `loop` one after the other; `loop` itself if its extent is symbolic."""
    extent = loop.const_extent
    if extent is None:
        return loop
    var = loop.var
    values = [Const(n, var.dtype) for n in range(extent)]
    copies = [replace_exprs(loop.body, {var: value}) for value in values]
    return seq(*copies) if copies else NOTHING


def code_size(stmt: Stmt, loop: int = 0) -> int:
    """About how many stores are left when loops are unrolled and vectorized; a loop that stays
    counts as so many more."""
    if isinstance(stmt, (Store, Extern, Prefetch, Sync, Exchange)):
        return 1
    below = sum([code_size(child, loop) for child in child_stmts(stmt)])
    if not isinstance(stmt, For):
        return below
    if stmt.kind not in (ForKind.UNROLLED, ForKind.VECTORIZED):
        return below + loop
    extent = stmt.const_extent or 1
    return below * (extent if stmt.kind is ForKind.UNROLLED else -(-extent // 16))
