"""pad_rows: rows of small local buffers get a whole number of vectors, for masked tails."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import Expr, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.alignment import row_distance
from tensorir.stmt import Alloc, Extern, For, ForKind, Stmt, Store
from tensorir.visit import child_stmts, loads, stmt_exprs, variables, walk

Rows = Mapping[str, Sequence[int]]
"""By buffer: how many elements a row has, and how far apart rows begin."""

LARGEST = 16384
"""Bytes of the largest buffer that is padded: what a register tile takes."""


ROWS = "rows"


def pad_rows(
    func: PrimFunc, vector_bits: int, masked_bits: Collection[int] = (8, 16, 32, 64)
) -> PrimFunc:
    """Align the rows of local buffers whose last vector is not full (the attribute "align").

    rewrite:  (512 bits, float32)
        with alloc(T, f32[6, 30], scope="local")
        ->  the same, with {"align": {"T": [0, 16, 0]}, "rows": {"T": [30, 32]}}

    "rows" has the elements of a row and its stride: nothing reads what lies between.

    Only of elements of `masked_bits` bits, for which there are masks. A narrow row that one power
    of two covers stays, and so do buffers that extern functions or tensor intrinsics work on.
    Requires that flatten_buffers runs after it.
    """
    align = dict(func.attrs.get("align", {}))
    rows: dict[str, list[int]] = {}
    for s in walk(func.body):
        if not isinstance(s, Alloc) or not s.buffer.const_shape:
            continue
        if dt.bits(s.buffer.dtype) not in masked_bits:
            continue
        buffer, lanes = s.buffer, vector_bits // dt.bits(s.buffer.dtype)
        last = _last(s.buffer.const_shape)
        if buffer.name not in align and _wants_it(s, last, vector_bits):
            align[buffer.name] = [last - 1, lanes, 0]
        axis, factor, offset = row_distance(buffer, align) or (-1, 1, 0)
        extent = s.buffer.const_shape[last]
        if axis == last - 1 >= 0:
            rows[buffer.name] = [extent, extent + (offset - extent) % factor]
        elif axis < 0 < last and extent % lanes == 0 and buffer.scope == "local":
            rows[buffer.name] = [extent, extent]
    if not rows:
        return func
    return replace(func, attrs={**func.attrs, "align": align, ROWS: rows})


def _last(shape: Sequence[int]) -> int:
    """The dimension that rows are along: the last one of more than one value."""
    return max((n for n, extent in enumerate(shape) if extent != 1), default=len(shape) - 1)


def _wants_it(alloc: Alloc, last: int, vector_bits: int) -> bool:
    """Whether rows of a buffer, along its dimension `last`, are to begin with vectors."""
    buffer = alloc.buffer
    shape = buffer.const_shape
    if not shape or last < 1 or buffer.scope != "local" or dt.is_bool(buffer.dtype):
        return False
    lanes = vector_bits // dt.bits(buffer.dtype)
    rest = shape[last] % lanes
    if not rest & (rest - 1):  # none, or a power of two
        return False
    padded = prod(shape[:last]) * (shape[last] - rest + lanes) * dt.itemsize(buffer.dtype)
    inside = list(walk(alloc.body))
    if padded > LARGEST or any(_needs_dense_rows(s) for s in inside):
        return False
    return any(_fills_rows(s, buffer, last) for s in inside)


def _needs_dense_rows(stmt: Stmt) -> bool:
    return isinstance(stmt, Extern) or (isinstance(stmt, For) and "tensorize" in stmt.annotations)


def _fills_rows(stmt: Stmt, buffer: Buffer, last: int) -> bool:
    """Whether `stmt` is a vectorized loop along the rows of `buffer`."""
    if not isinstance(stmt, For) or stmt.kind is not ForKind.VECTORIZED:
        return False
    stores = (s for s in walk(stmt.body) if isinstance(s, Store) and s.buffer is buffer)
    return any(stmt.var in variables(s.indices[last]) for s in stores)


def used_rows(alloc: Alloc, rows: Rows, facts: Analyzer) -> Rows:
    """What is used of the rows of an allocation, where that is less than they have.

    A register tile has the rows of all tiles; the last one, in a tail, uses fewer elements of them.
    """
    buffer = alloc.buffer
    stride = rows.get(buffer.name, (0, 0))[1]
    if not stride or any(_needs_dense_rows(s) for s in walk(alloc.body)):
        return {}
    extents: set[int | None] = set()

    def visit(stmt: Stmt, loop: For | None) -> None:
        if isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED:
            loop = stmt
        used = [n.indices[0] for e in stmt_exprs(stmt) for n in loads(e) if n.buffer is buffer]
        if isinstance(stmt, Store) and stmt.buffer is buffer:
            used.append(stmt.indices[0])
        for index in used:
            extents.add(_whole_row(index, loop, stride, facts))
        for child in child_stmts(stmt):
            visit(child, loop)

    visit(alloc.body, None)
    found = extents.pop() if len(extents) == 1 else None
    return {} if found is None else {buffer.name: (found, stride)}


def _whole_row(index: Expr, loop: For | None, stride: int, facts: Analyzer) -> int | None:
    """The extent of the vectorized loop that runs from the start of a row on; None for others."""
    if loop is None or int_value(facts.simplify((index - loop.var) % stride)) != 0:
        return None
    return loop.const_extent
