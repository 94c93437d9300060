"""narrow_gathers: places of gathered and scattered elements are as narrow integers as do."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Cast, Expr, Load, cast, int_value
from tensorir.func import PrimFunc
from tensorir.passes.rewriting import with_body
from tensorir.passes.vectors.masked_tails import REGISTERS
from tensorir.stmt import Stmt, Store, replace
from tensorir.vector_expr import Broadcast, Ramp
from tensorir.visit import map_children, map_loads, map_own_exprs

NARROW, RING = "int32", ("+", "-", "*")
"""The usual type, and the operators whose lowest bits follow from the lowest bits of both sides."""


def narrow_gathers(func: PrimFunc, masked_bits: Collection[int] = ()) -> PrimFunc:
    """Compute which elements a vector gathers in 32 bits, or in those of elements of a short table.

    rewrite:  (I of int32, A of fewer than 2^31 elements)
        A[int64(I[ramp(i, 1, 16)]) * 7 + j]  ->  A[int64(I[ramp(i, 1, 16)] * 7 + int32(j))]

    rewrite:  (I and A of uint8, A of 256 elements)
        A[int64(int32(I[ramp(i, 1, 64)]))]   ->  A[int64(I[ramp(i, 1, 64)])]

    The element exists, so its place fits, and sums, differences and products on the way may wrap.
    A vector then holds twice as many places, and processors gather by such in one instruction.
    Those with masks for elements of so few bits (`masked_bits`) choose among registers by places
    that are as wide.
    Requires that vectorize ran and buffers are flat.
    """
    memo: dict[Expr, Expr] = {}

    def load(e: Load) -> Expr | None:
        index = _narrowed(e.buffer, e.indices, _places(e, masked_bits))
        return None if index is None else Load(e.buffer, (index,))

    def visit(stmt: Stmt) -> Stmt:
        stmt = map_own_exprs(stmt, lambda e: map_loads(e, load, memo))
        if isinstance(stmt, Store):
            index = _narrowed(stmt.buffer, stmt.indices, NARROW)
            stmt = stmt if index is None else replace(stmt, indices=(index,))
        return map_children(stmt, visit)

    return with_body(func, visit(func.body))


def _places(load: Load, masked_bits: Collection[int]) -> str:
    """The type of places of what is loaded: as wide as elements where four vectors hold all."""
    bits, size = dt.bits(load.buffer.dtype), int_value(load.buffer.shape[0]) or 0
    short = 0 < size <= min(1 << bits, 4 * dt.lanes(load.dtype))
    whole = bits in masked_bits and bits < 32 and dt.itemsize(load.dtype) * 8 in REGISTERS
    return f"uint{bits}" if short and whole else NARROW


def _narrowed(buffer: Buffer, indices: tuple[Expr, ...], kind: str) -> Expr | None:
    """The place of each lane in a narrow type; None where it is no gather, or may not fit."""
    shape = [int_value(extent) for extent in buffer.shape]
    if len(indices) != 1 or None in shape:
        return None
    (index,) = indices
    scattered = dt.lanes(index.dtype) > 1 and not isinstance(index, (Ramp, Broadcast))
    if not scattered or prod(shape) >= 1 << 31:  # type: ignore[arg-type]
        return None
    found = cast(index.dtype, _low(index, kind))
    return None if found is index else found


def _low(e: Expr, kind: str) -> Expr:
    """The lowest bits of each lane of `e`, as an integer of `kind`."""
    narrow = dt.with_lanes(kind, dt.lanes(e.dtype))
    if isinstance(e, BinOp) and e.op in RING:
        return BinOp(e.op, _low(e.a, kind), _low(e.b, kind))
    if isinstance(e, Cast) and dt.is_int(e.a.dtype):
        return _low(e.a, kind) if dt.bits(e.a.dtype) > dt.bits(kind) else cast(narrow, e.a)
    if isinstance(e, Broadcast):
        return Broadcast(_low(e.a, kind), e.lanes)
    if isinstance(e, Ramp):
        return cast(narrow, Ramp(_low(e.base, NARROW), _low(e.stride, NARROW), e.lanes))
    return cast(narrow, e)
