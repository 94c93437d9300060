"""pad_rows: rows of small local buffers get a whole number of vectors, for masked tails."""

from __future__ import annotations

from dataclasses import replace

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.func import PrimFunc
from tensorir.stmt import Alloc, Extern, For, ForKind, Stmt, Store
from tensorir.visit import variables, walk

LARGEST = 2048
"""Bytes of the largest buffer that is padded: what a register tile takes."""


ROWS = "rows"


def pad_rows(func: PrimFunc, vector_bits: int) -> PrimFunc:
    """Align the rows of local buffers whose last vector is not full (the attribute "align").

    rewrite:  (512 bits, float32)
        with alloc(T, f32[6, 30], scope="local")
        ->  the same, with {"align": {"T": [0, 16, 0]}, "rows": {"T": [30, 32]}}

    "rows" has the elements of an aligned row and its stride: nothing reads what lies between.

    A narrow row that one power of two covers stays, and so do buffers that extern functions or
    tensor intrinsics work on. Requires that flatten_buffers runs after it.
    """
    align = dict(func.attrs.get("align", {}))
    rows: dict[str, list[int]] = {}
    for s in walk(func.body):
        if not isinstance(s, Alloc) or not s.buffer.const_shape:
            continue
        buffer, lanes = s.buffer, vector_bits // dt.bits(s.buffer.dtype)
        if buffer.name not in align and _wants_it(s, vector_bits):
            align[buffer.name] = [buffer.ndim - 2, lanes, 0]
        axis, factor, offset = align.get(buffer.name, (-1, 1, 0))
        if axis == buffer.ndim - 2 >= 0:
            extent = s.buffer.const_shape[-1]
            rows[buffer.name] = [extent, extent + (offset - extent) % factor]
    if not rows:
        return func
    return replace(func, attrs={**func.attrs, "align": align, ROWS: rows})


def _wants_it(alloc: Alloc, vector_bits: int) -> bool:
    buffer = alloc.buffer
    shape = buffer.const_shape
    if shape is None or len(shape) < 2 or buffer.scope != "local" or dt.is_bool(buffer.dtype):
        return False
    lanes = vector_bits // dt.bits(buffer.dtype)
    rest = shape[-1] % lanes
    if not rest & (rest - 1):  # none, or a power of two
        return False
    rows = 1
    for extent in shape[:-1]:
        rows *= extent
    padded = rows * (shape[-1] - rest + lanes) * dt.itemsize(buffer.dtype)
    inside = list(walk(alloc.body))
    if padded > LARGEST or any(_needs_dense_rows(s) for s in inside):
        return False
    return any(_fills_rows(s, buffer) for s in inside)


def _needs_dense_rows(stmt: Stmt) -> bool:
    return isinstance(stmt, Extern) or (isinstance(stmt, For) and "tensorize" in stmt.annotations)


def _fills_rows(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether `stmt` is a vectorized loop along the rows of `buffer`."""
    if not isinstance(stmt, For) or stmt.kind is not ForKind.VECTORIZED:
        return False
    stores = (s for s in walk(stmt.body) if isinstance(s, Store) and s.buffer is buffer)
    return any(stmt.var in variables(s.indices[-1]) for s in stores)
