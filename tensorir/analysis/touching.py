"""The part of a program that touches one buffer.

Most steps of a schedule leave the parts of most buffers as they are. Equal parts are one object, so
that what follows from one is found once.
"""

from __future__ import annotations

from functools import lru_cache

from tensorir.analysis.in_step import in_step
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Var
from tensorir.parts import buffers_in
from tensorir.stmt import Alloc, Block, For, ForKind, If, IterKind, IterVar, Seq, Stmt

STATEMENTS = 4096
"""Statements of which parts are kept."""


@lru_cache(maxsize=STATEMENTS)
def touching(stmt: Stmt, buffer: Buffer | None, staged: bool = False) -> Stmt | None:
    """What of `stmt` touches `buffer`, and the loops and conditions around it; all of it for None.

    None where nothing is left. Loops have no annotations, and unrolled ones are as serial ones.
    Pipelines are as they were before where that tells the same (in_step.py), unless `staged`.
    """
    if buffer is not None and buffer not in buffers_in(stmt):
        return None
    if isinstance(stmt, For):
        if "pipeline" in stmt.annotations and buffer is not None and not staged:
            before = in_step(stmt, buffer)
            if before is not None:
                return touching(before, buffer)
        body = touching(stmt.body, buffer, staged)
        kind = ForKind.SERIAL if stmt.kind is ForKind.UNROLLED else stmt.kind
        return body and plain_loop(stmt.var, stmt.extent, body, kind, stmt.thread)
    if isinstance(stmt, Seq):
        found = [touching(s, buffer, staged) for s in stmt.stmts]
        kept = tuple([s for s in found if s is not None])
        return _sequence(kept) if len(kept) > 1 else kept[0] if kept else None
    if isinstance(stmt, If):
        then = touching(stmt.then, buffer, staged)
        orelse = None if stmt.orelse is None else touching(stmt.orelse, buffer, staged)
        return _choice(stmt.cond, then or Seq(()), orelse) if then or orelse else None
    if isinstance(stmt, Alloc):
        return touching(stmt.body, buffer, staged)
    return _same_block(stmt) if isinstance(stmt, Block) and not stmt.annotations else stmt


@lru_cache(maxsize=STATEMENTS)
def plain_loop(var: Var, extent: Expr, body: Stmt, kind: ForKind, thread: str | None) -> For:
    """A loop without annotations: of equal ones the same object."""
    return For(var, extent, body, kind, thread=thread)


def _same_block(block: Block) -> Block:
    """Of blocks that are equal the first one: what a step did another one may have undone."""
    iters = tuple([(it.var, it.extent, it.kind, it.binding) for it in block.iters])
    return _first_block(block.name, iters, block.body, block.init, block.predicate)


@lru_cache(maxsize=STATEMENTS)
def _first_block(
    name: str,
    iters: tuple[tuple[Var, Expr, IterKind, Expr], ...],
    body: Stmt,
    init: Stmt | None,
    predicate: Expr,
) -> Block:
    return Block(name, tuple([IterVar(*it) for it in iters]), body, init, predicate)


@lru_cache(maxsize=STATEMENTS)
def _sequence(stmts: tuple[Stmt, ...]) -> Seq:
    return Seq(stmts)


@lru_cache(maxsize=STATEMENTS)
def _choice(cond: Expr, then: Stmt, orelse: Stmt | None) -> If:
    return If(cond, then, orelse)
