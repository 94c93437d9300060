"""narrow_gathers: places of gathered and scattered elements are 32-bit integers where these do."""

from __future__ import annotations

from math import prod

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Cast, Expr, Load, cast, int_value
from tensorir.func import PrimFunc
from tensorir.passes.rewriting import with_body
from tensorir.stmt import Stmt, Store, replace
from tensorir.vector_expr import Broadcast, Ramp
from tensorir.visit import map_children, map_loads, map_own_exprs

NARROW, RING = "int32", ("+", "-", "*")
"""The type, and the operators whose lowest bits follow from the lowest bits of both sides."""


def narrow_gathers(func: PrimFunc) -> PrimFunc:
    """Compute which elements a vector gathers in 32 bits.

    rewrite:  (I of int32, A of fewer than 2^31 elements)
        A[int64(I[ramp(i, 1, 16)]) * 7 + j]  ->  A[int64(I[ramp(i, 1, 16)] * 7 + int32(j))]

    The element exists, so its place fits, and sums, differences and products on the way may wrap.
    A vector then holds twice as many places, and processors gather by such in one instruction.
    Requires that vectorize ran and buffers are flat.
    """
    memo: dict[Expr, Expr] = {}

    def load(e: Load) -> Expr | None:
        index = _narrowed(e.buffer, e.indices)
        return None if index is None else Load(e.buffer, (index,))

    def visit(stmt: Stmt) -> Stmt:
        stmt = map_own_exprs(stmt, lambda e: map_loads(e, load, memo))
        if isinstance(stmt, Store):
            index = _narrowed(stmt.buffer, stmt.indices)
            stmt = stmt if index is None else replace(stmt, indices=(index,))
        return map_children(stmt, visit)

    return with_body(func, visit(func.body))


def _narrowed(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr | None:
    """The place of each lane in 32 bits; None where it is no gather, or may not fit."""
    shape = [int_value(extent) for extent in buffer.shape]
    if len(indices) != 1 or None in shape:
        return None
    (index,) = indices
    scattered = dt.lanes(index.dtype) > 1 and not isinstance(index, (Ramp, Broadcast))
    if not scattered or prod(shape) >= 1 << 31:  # type: ignore[arg-type]
        return None
    found = cast(index.dtype, _low(index))
    return None if found is index else found


def _low(e: Expr) -> Expr:
    """The lowest 32 bits of each lane of `e`, as a signed integer."""
    narrow = dt.with_lanes(NARROW, dt.lanes(e.dtype))
    if isinstance(e, BinOp) and e.op in RING:
        return BinOp(e.op, _low(e.a), _low(e.b))
    if isinstance(e, Cast) and dt.is_int(e.a.dtype):
        return _low(e.a) if dt.bits(e.a.dtype) > dt.bits(NARROW) else cast(narrow, e.a)
    if isinstance(e, Broadcast):
        return Broadcast(_low(e.a), e.lanes)
    if isinstance(e, Ramp):
        return Ramp(_low(e.base), _low(e.stride), e.lanes)
    return cast(narrow, e)
