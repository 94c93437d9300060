"""lower_init: the init of a reduction becomes a loop nest of its own, before the reduction."""

from __future__ import annotations

from tensorir.func import PrimFunc
from tensorir.passes.rewriting import fresh_names, replace_stmts, with_body
from tensorir.rewrite.reduction import reduction_loop, split_init
from tensorir.stmt import Block, For, Stmt, seq
from tensorir.visit import child_stmts


def lower_init(func: PrimFunc) -> PrimFunc:
    """Take the init out of every reduction block; the update stays as a block without one.

    The init nest runs directly before the outermost loop that feeds the reduction, or before the
    block where no loop does. A reduction of no elements is therefore still initialised.
    """
    fresh = fresh_names(func.body)
    body = func.body
    while True:
        found = _first_with_init(body, [])
        if found is None:
            return with_body(func, body)
        anchor, block = found
        body = replace_stmts(body, {anchor: seq(*split_init(anchor, block, fresh))})


def _first_with_init(stmt: Stmt, loops: list[For]) -> tuple[For | Block, Block] | None:
    if isinstance(stmt, Block):
        if stmt.init is not None:
            return reduction_loop(loops, stmt) or stmt, stmt
        return _first_with_init(stmt.body, [])
    inside = [*loops, stmt] if isinstance(stmt, For) else loops
    for child in child_stmts(stmt):
        found = _first_with_init(child, inside)
        if found is not None:
            return found
    return None
