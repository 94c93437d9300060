"""vector_locals: small buffers that are only used as vectors become arrays of vectors.

gcc keeps such arrays in registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import is_

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import Const, Expr, Load, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.rewriting import with_body
from tensorir.stmt import Alloc, Extern, Prefetch, Stmt, Store
from tensorir.vector_expr import Ramp
from tensorir.visit import (
    child_stmts,
    loads,
    map_children,
    map_own_exprs,
    rebuild,
    stmt_exprs,
    walk,
)

LARGEST = 16384
"""Bytes of the largest buffer that is worth it: only what may be kept in registers is."""

Moved = dict[Expr, tuple[Buffer, Expr]]
"""Where the element (or the vector) at an index has gone."""


@dataclass
class _Uses:
    """The indices at which an allocated buffer is accessed, and whether it stays in memory as it
    is: extern functions have it, which work on elements, or it is asked for ahead."""

    indices: dict[Expr, None] = field(default_factory=dict)
    handed: bool = False


def vector_locals(func: PrimFunc) -> PrimFunc:
    """Give allocated buffers a vector type, so that the C compiler keeps them in registers.

    rewrite:
        with alloc(T, f32[32]):                    with alloc(T, f32x16[2]):
            T[ramp(0, 1, 16)] = ...          ->        T[0] = ...
            T[ramp(16, 1, 16)] = ...                   T[1] = ...

    Either every access is an aligned vector of as many lanes; or every index is constant and no
    two accesses overlap in part: then there is one buffer for each number of lanes.
    Requires that flatten_buffers ran.
    """
    if not any(isinstance(s, Alloc) for s in walk(func.body)):
        return func
    uses: dict[Alloc, _Uses] = {}
    _gather(func.body, {}, uses)
    analyzer = function_analyzer(func)
    return with_body(func, _rewritten(func.body, {}, uses, analyzer))


def _gather(stmt: Stmt, near: Mapping[Buffer, _Uses], found: dict[Alloc, _Uses]) -> None:
    """Add what is allocated in `stmt`, and the accesses in it of what is allocated `near`."""
    if isinstance(stmt, Alloc):
        near = {**near, stmt.buffer: found.setdefault(stmt, _Uses())}
    elif isinstance(stmt, Store) and stmt.buffer in near:
        near[stmt.buffer].indices[stmt.indices[0]] = None
    elif isinstance(stmt, Prefetch) and stmt.buffer in near:
        near[stmt.buffer].handed = True
    elif isinstance(stmt, Extern):
        for part in stmt.parts:
            if part.buffer in near:
                near[part.buffer].handed = True
    for e in stmt_exprs(stmt):
        for load in loads(e):
            if load.buffer in near:
                near[load.buffer].indices[load.indices[0]] = None
    for child in child_stmts(stmt):
        _gather(child, near, found)


def _rewritten(
    stmt: Stmt, moved: Mapping[Buffer, Moved], uses: Mapping[Alloc, _Uses], analyzer: Analyzer
) -> Stmt:
    """`stmt` with vectors for what is allocated in it, where some `moved` ones are around it."""
    memo: dict[Expr, Expr] = {}

    def expr(e: Expr) -> Expr:
        if not e.has_loads:
            return e
        done = memo.get(e)
        if done is not None:
            return done
        if isinstance(e, Load) and e.buffer in moved:
            done = Load(*place(e.buffer, e.indices[0]))
        else:
            after = tuple([expr(c) for c in e.operands])
            done = e if all(map(is_, e.operands, after)) else rebuild(e, after)
        memo[e] = done
        return done

    def place(buffer: Buffer, index: Expr) -> tuple[Buffer, tuple[Expr]]:
        new, at = moved[buffer][index]
        return new, (expr(at),)

    def visit(node: Stmt) -> Stmt:
        if isinstance(node, Store) and node.buffer in moved:
            return Store(*place(node.buffer, node.indices[0]), expr(node.value))
        made = _made(node, uses[node], analyzer) if isinstance(node, Alloc) else None
        if made is None or not isinstance(node, Alloc):
            return map_own_exprs(map_children(node, visit), expr)
        body = _rewritten(node.body, {**moved, node.buffer: made}, uses, analyzer)
        for part in dict.fromkeys(new for new, _ in made.values()):
            body = Alloc(part, body)
        return body

    return visit(stmt)


def _made(alloc: Alloc, uses: _Uses, analyzer: Analyzer) -> Moved | None:
    """Where all that is accessed of a buffer goes; None where it stays as it is."""
    buffer = alloc.buffer
    size = int_value(buffer.shape[0])
    if size is None or dt.element(buffer.dtype) == "bool" or uses.handed:
        return None
    if dt.lanes(buffer.dtype) > 1 or size * dt.itemsize(buffer.dtype) > LARGEST:
        return None
    if not any(isinstance(i, Ramp) for i in uses.indices):
        return None
    return _aligned(buffer, size, uses.indices, analyzer) or _separate(buffer, uses.indices)


def _aligned(
    old: Buffer, size: int, indices: dict[Expr, None], analyzer: Analyzer
) -> Moved | None:
    lanes = {i.lanes if isinstance(i, Ramp) and int_value(i.stride) == 1 else 0 for i in indices}
    count = lanes.pop()
    if lanes or not count:
        return None
    ramps = [i for i in indices if isinstance(i, Ramp)]
    if not all(analyzer.divides(ramp.base, count) for ramp in ramps):
        return None
    new = Buffer(old.name, (-(-size // count),), dt.with_lanes(old.dtype, count), old.scope)
    return {ramp: (new, analyzer.simplify(ramp.base // count)) for ramp in ramps}


def _separate(old: Buffer, indices: dict[Expr, None]) -> Moved | None:
    spans: list[tuple[int, int, Expr]] = []
    for index in indices:
        ramp = index if isinstance(index, Ramp) and int_value(index.stride) == 1 else None
        base = int_value(index if ramp is None else ramp.base)
        if base is None:
            return None
        spans.append((base, 1 if ramp is None else ramp.lanes, index))
    spans.sort(key=lambda s: s[:2])
    if any(a + count > b for (a, count, _), (b, _, _) in zip(spans, spans[1:])):
        return None
    moved: Moved = {}
    for count in sorted({count for _, count, _ in spans}):
        group = [index for _, lanes, index in spans if lanes == count]
        dtype = dt.with_lanes(old.dtype, count)
        part = Buffer(f"{old.name}_x{count}", (len(group),), dtype, old.scope)
        moved.update({index: (part, Const(n, dt.INDEX)) for n, index in enumerate(group)})
    return moved
