"""unroll_registers: short loops over a small local buffer unroll, so that registers can hold it."""

from __future__ import annotations

from tensorir.expr import Var
from tensorir.func import PrimFunc
from tensorir.passes.facts.accesses import Access, accesses
from tensorir.passes.rewriting import with_body
from tensorir.passes.unroll import code_size
from tensorir.stmt import Alloc, For, ForKind, Stmt, replace
from tensorir.visit import map_children, variables, walk

LIMIT = 64
"""The most statements that a nest may come to; what is larger does not fit in registers either."""


def unroll_registers(func: PrimFunc) -> PrimFunc:
    """Unroll the serial loops that index a buffer of scope "local", where all of them are short.

    A single access with a variable index, as when an accumulator is copied out by a loop, would
    force the whole buffer into memory. Requires that place_buffers ran.
    """

    def visit(stmt: Stmt) -> Stmt:
        result = map_children(stmt, visit)
        if isinstance(result, Alloc) and result.buffer.scope == "local":
            body = _unrolled(result.body, accesses(result.body).get(result.buffer, []))
            return result if body is result.body else Alloc(result.buffer, body)
        return result

    return with_body(func, visit(func.body))


def _unrolled(body: Stmt, uses: list[Access]) -> Stmt:
    indexing = {var for use in uses for index in use.indices for var in variables(index)}
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
