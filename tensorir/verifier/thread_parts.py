"""What decides whether threads may use a buffer as they do: the part of a kernel that touches it.

Most steps of a schedule leave the parts of most buffers as they are. Equal parts are one object, so
that what follows from one is found once.
"""

from __future__ import annotations

from functools import lru_cache

from tensorir.buffer import Buffer
from tensorir.expr import Expr, Var
from tensorir.parts import touched
from tensorir.stmt import Alloc, For, ForKind, If, Seq, Stmt
from tensorir.verifier.kernels import Kernel, Use
from tensorir.visit import loads, stmt_exprs, walk

STATEMENTS = 4096
"""Statements of which parts are kept."""


def part_of(kernel: Kernel, buffer: Buffer) -> Stmt:
    """The statements of a kernel that touch `buffer`, and the loops and conditions around them.

    All statements stay where memory is read to find out where it is touched: any of them may
    write that. Loops have no annotations, and unrolled ones are as serial ones.
    """
    asks = any([_asks_memory(use) for use in kernel.uses[buffer]])
    part = _part(kernel.stmt, None if asks else buffer)
    assert part is not None
    return part


def _asks_memory(use: Use) -> bool:
    block = use.access.block
    asked = [block.predicate, *(it.binding for it in block.iters), *use.access.indices]
    return any([e.has_loads for e in asked]) or any([x.extent.has_loads for x in use.loops])


@lru_cache(maxsize=STATEMENTS)
def _part(stmt: Stmt, buffer: Buffer | None) -> Stmt | None:
    if isinstance(stmt, For):
        body = _part(stmt.body, buffer)
        kind = ForKind.SERIAL if stmt.kind is ForKind.UNROLLED else stmt.kind
        return body and _loop(stmt.var, stmt.extent, body, kind, stmt.thread)
    if isinstance(stmt, Seq):
        found = [_part(s, buffer) for s in stmt.stmts]
        kept = tuple([s for s in found if s is not None])
        return _sequence(kept) if len(kept) > 1 else kept[0] if kept else None
    if isinstance(stmt, If):
        then = _part(stmt.then, buffer)
        orelse = None if stmt.orelse is None else _part(stmt.orelse, buffer)
        return _choice(stmt.cond, then or Seq(()), orelse) if then or orelse else None
    if isinstance(stmt, Alloc):
        return _part(stmt.body, buffer)
    return stmt if buffer is None or buffer in _touched_in(stmt) else None


@lru_cache(maxsize=STATEMENTS)
def _touched_in(stmt: Stmt) -> frozenset[Buffer]:
    """All buffers that are read or written in `stmt`."""
    found = {buffer for s in walk(stmt) for buffer, _, _ in touched(s)}
    read = [load.buffer for s in walk(stmt) for e in stmt_exprs(s) for load in loads(e)]
    return frozenset(found.union(read))


@lru_cache(maxsize=STATEMENTS)
def _loop(var: Var, extent: Expr, body: Stmt, kind: ForKind, thread: str | None) -> For:
    return For(var, extent, body, kind, thread=thread)


@lru_cache(maxsize=STATEMENTS)
def _sequence(stmts: tuple[Stmt, ...]) -> Seq:
    return Seq(stmts)


@lru_cache(maxsize=STATEMENTS)
def _choice(cond: Expr, then: Stmt, orelse: Stmt | None) -> If:
    return If(cond, then, orelse)
