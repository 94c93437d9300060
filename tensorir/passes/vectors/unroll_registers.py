"""unroll_registers: short loops over a small local buffer unroll, so that registers can hold it."""

from __future__ import annotations

from collections.abc import Iterator

from tensorir.buffer import Buffer
from tensorir.expr import Expr, Var
from tensorir.func import PrimFunc
from tensorir.parts import touched
from tensorir.passes.rewriting import with_body
from tensorir.passes.unroll import code_size
from tensorir.stmt import Alloc, For, ForKind, Stmt, replace
from tensorir.visit import loads, map_children, stmt_exprs, walk

LIMIT = 64
"""The most statements that a nest may come to; what is larger does not fit in registers either."""


def unroll_registers(func: PrimFunc) -> PrimFunc:
    """Unroll the serial loops that index a buffer of scope "local", where all of them are short.

    A single access with a variable index, as when an accumulator is copied out by a loop, would
    force the whole buffer into memory. Requires that place_buffers ran.
    """
    indexing: dict[Buffer, set[Var]] = {}
    """The variables in indices of what is allocated around the statements that were left."""

    def visit(stmt: Stmt) -> Stmt:
        result = map_children(stmt, visit)
        if isinstance(result, Alloc):
            found = indexing.pop(result.buffer, set())
            body = _unrolled(result.body, found) if result.buffer.scope == "local" else result.body
            return result if body is result.body else Alloc(result.buffer, body)
        for buffer, indices in _accesses(result):
            if buffer.scope == "local":
                indexing.setdefault(buffer, set()).update(*[index.variables for index in indices])
        return result

    return with_body(func, visit(func.body))


def _accesses(stmt: Stmt) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    """What stands directly in a statement."""
    for buffer, indices, _ in touched(stmt):
        yield buffer, indices
    for e in stmt_exprs(stmt):
        for load in loads(e):
            yield load.buffer, load.indices


def _unrolled(body: Stmt, indexing: set[Var]) -> Stmt:
    if not indexing:
        return body
    loops = [s for s in walk(body) if isinstance(s, For) and s.var in indexing]
    if all(loop.kind is not ForKind.SERIAL for loop in loops):
        return body
    changed = _mark(body, indexing)
    nests = [s for s in walk(changed) if isinstance(s, For) and s.var in indexing]
    small = all(loop.const_extent is not None and code_size(loop) <= LIMIT for loop in nests)
    return changed if small else body


def _mark(stmt: Stmt, indexing: set[Var]) -> Stmt:
    result = map_children(stmt, lambda child: _mark(child, indexing))
    if isinstance(result, For) and "tensorize" in result.annotations:
        return stmt  # an intrinsic takes its place
    if isinstance(result, For) and result.var in indexing and result.kind is ForKind.SERIAL:
        return replace(result, kind=ForKind.UNROLLED)
    return result
