"""vector_locals: small buffers that are only used as vectors become arrays of vectors.

gcc keeps such arrays in registers.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import Const, Expr, Load, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.rewriting import with_body
from tensorir.stmt import Alloc, Extern, Stmt, Store
from tensorir.vector_expr import Ramp
from tensorir.visit import loads, map_children, map_loads, map_own_exprs, stmt_exprs, walk

LARGEST = 16384
"""Bytes of the largest buffer that is worth it: only what may be kept in registers is."""

Move = Callable[[Expr], tuple[Buffer, Expr]]
"""Where the element (or the vector) at an index has gone."""


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
    analyzer = function_analyzer(func)

    def visit(stmt: Stmt) -> Stmt:
        result = map_children(stmt, visit)
        return _retype(result, analyzer) if isinstance(result, Alloc) else result

    return with_body(func, visit(func.body))


def _retype(alloc: Alloc, analyzer: Analyzer) -> Stmt:
    buffer = alloc.buffer
    size = int_value(buffer.shape[0])
    if size is None or dt.element(buffer.dtype) == "bool":
        return alloc
    if dt.lanes(buffer.dtype) > 1 or size * dt.itemsize(buffer.dtype) > LARGEST:
        return alloc
    handed = (p.buffer for s in walk(alloc.body) if isinstance(s, Extern) for p in s.parts)
    if buffer in handed:  # extern functions work on elements
        return alloc
    indices = _indices(alloc.body, buffer)
    if not any(isinstance(i, Ramp) for i in indices):
        return alloc
    return _aligned(alloc, size, indices, analyzer) or _separate(alloc, indices) or alloc


def _indices(stmt: Stmt, buffer: Buffer) -> dict[Expr, None]:
    found: dict[Expr, None] = {}
    for s in walk(stmt):
        if isinstance(s, Store) and s.buffer is buffer:
            found[s.indices[0]] = None
        for e in stmt_exprs(s):
            for node in loads(e):
                if node.buffer is buffer:
                    found[node.indices[0]] = None
    return found


def _aligned(alloc: Alloc, size: int, indices: dict[Expr, None], analyzer: Analyzer) -> Stmt | None:
    lanes = {i.lanes if isinstance(i, Ramp) and int_value(i.stride) == 1 else 0 for i in indices}
    count = lanes.pop()
    if lanes or not count:
        return None
    ramps = [i for i in indices if isinstance(i, Ramp)]
    if not all(analyzer.divides(ramp.base, count) for ramp in ramps):
        return None
    old = alloc.buffer
    new = Buffer(old.name, (-(-size // count),), dt.with_lanes(old.dtype, count), old.scope)
    moved: dict[Expr, tuple[Buffer, Expr]] = {
        ramp: (new, analyzer.simplify(ramp.base // count)) for ramp in ramps
    }
    return Alloc(new, _move(alloc.body, old, moved.__getitem__))


def _separate(alloc: Alloc, indices: dict[Expr, None]) -> Stmt | None:
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
    old, body = alloc.buffer, alloc.body
    moved: dict[Expr, tuple[Buffer, Expr]] = {}
    parts: list[Buffer] = []
    for count in sorted({count for _, count, _ in spans}):
        group = [index for _, lanes, index in spans if lanes == count]
        dtype = dt.with_lanes(old.dtype, count)
        part = Buffer(f"{old.name}_x{count}", (len(group),), dtype, old.scope)
        moved.update({index: (part, Const(n, dt.INDEX)) for n, index in enumerate(group)})
        parts.append(part)
    body = _move(body, old, moved.__getitem__)
    for part in parts:
        body = Alloc(part, body)
    return body


def _move(stmt: Stmt, old: Buffer, move: Move) -> Stmt:
    memo: dict[Expr, Expr] = {}

    def load(e: Load) -> Expr | None:
        if e.buffer is not old:
            return None
        buffer, index = move(e.indices[0])
        return Load(buffer, (index,))

    def visit(node: Stmt) -> Stmt:
        node = map_own_exprs(map_children(node, visit), lambda e: map_loads(e, load, memo))
        if isinstance(node, Store) and node.buffer is old:
            buffer, index = move(node.indices[0])
            return Store(buffer, (index,), node.value)
        return node

    return visit(stmt)
