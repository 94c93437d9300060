"""double_buffers: two versions of a buffer, taken in turn by the iterations of a loop.

On GPUs, as many versions as iterations of a pipelined loop are under way.
"""

from __future__ import annotations

from dataclasses import replace as replace_fields

from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, const
from tensorir.func import PrimFunc
from tensorir.stmt import Alloc, Exchange, For, ForKind, Prefetch, Seq, Stmt, Store, replace, seq
from tensorir.visit import map_children, map_loads, map_own_exprs


def double_buffers(func: PrimFunc) -> PrimFunc:
    """Allocate the buffers that the attribute "double_buffer" names outside of the serial loop
    that they were placed in, twice.

    rewrite:
        for k in range(8):                     with alloc(T, f32[2, 16]):
            with alloc(T, f32[16]):                for k in range(8):
                for i in range(16):       ->           for i in range(16):
                    T[i] = ...                             T[k % 2, i] = ...

    An iteration reads of such a buffer what it wrote itself, since it was placed inside of the
    loop; so any number of versions would do. Requires place_buffers.
    """
    names = set(func.attrs.get("double_buffer", ()))
    wanted = frozenset(names)
    body = _visit(func.body, names) if names else func.body
    if body is func.body:
        return func
    doubled = wanted - names
    rows = func.attrs.get("align", {})  # the versions are a new first axis
    moved = {n: [r[0] + 1, *r[1:]] if n in doubled else r for n, r in rows.items()}
    attrs = {**func.attrs, "align": moved} if rows else func.attrs
    return replace_fields(func, body=body, attrs=attrs)


def _visit(stmt: Stmt, names: set[str]) -> Stmt:
    """`stmt` with the buffers of `names` doubled, which leave that set."""
    result = map_children(stmt, lambda child: _visit(child, names))
    if not isinstance(result, For) or result.kind is not ForKind.SERIAL:
        return result
    found: list[Buffer] = []
    body = _without(result.body, names, found)
    if not found:
        return result
    names -= {b.name for b in found}
    versions = {b: Buffer(b.name, (const(2), *b.shape), b.dtype, b.scope) for b in found}
    loop: Stmt = replace(result, body=_in_turn(body, versions, result.var % 2))
    for buffer in reversed(found):
        loop = Alloc(versions[buffer], loop)
    return loop


def _without(stmt: Stmt, names: set[str], found: list[Buffer]) -> Stmt:
    """`stmt` without the allocations of `names` that belong to the loop around; adds to `found`."""
    if isinstance(stmt, Alloc) and stmt.buffer.name in names:
        found.append(stmt.buffer)
        return _without(stmt.body, names, found)
    if isinstance(stmt, (Alloc, Seq)):
        result = map_children(stmt, lambda child: _without(child, names, found))
        return seq(*result.stmts) if isinstance(result, Seq) and result is not stmt else result
    return stmt


def _in_turn(stmt: Stmt, versions: dict[Buffer, Buffer], turn: Expr) -> Stmt:
    memo: dict[Expr, Expr] = {}

    def load(e: Load) -> Expr | None:
        if e.buffer in versions:
            return Load(versions[e.buffer], (turn, *e.indices))
        return None

    def visit(node: Stmt) -> Stmt:
        node = map_own_exprs(map_children(node, visit), lambda e: map_loads(e, load, memo))
        if isinstance(node, (Store, Prefetch, Exchange)) and node.buffer in versions:
            return replace(node, buffer=versions[node.buffer], indices=(turn, *node.indices))
        return node

    return visit(stmt)
