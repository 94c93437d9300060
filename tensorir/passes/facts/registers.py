"""What a thread of a GPU keeps in registers: arrays of its own, and what it needs beside them."""

from __future__ import annotations

from math import isqrt, prod

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.expr import Load, int_value
from tensorir.stmt import Alloc, Stmt, Store
from tensorir.visit import child_stmts, loads, walk

ADDRESSES = 24
"""Registers of 32 bits for indices, addresses and counters."""


def thread_registers(stmt: Stmt, copies: bool = False) -> int:
    """Registers of 32 bits that the code of a thread takes, about: its arrays, a row and a column
    of what is multiplied for its sums, taken for a square, and addresses; those of `copies` of
    shared memory too where it is not known yet which they are."""
    return held_bytes(stmt, copies) // 4 + _multiplied(stmt) + ADDRESSES


def ample_registers(stmt: Stmt) -> int:
    """Registers that a compiler does well with: as many again as for addresses, for what it loads
    ahead, twice as many where elements take two; where copies are on their way in arrays, these are
    that, with the row and the column that it multiplies next. With these no tile of the defaults is
    spilled."""
    buffers = [s.buffer for s in walk(stmt) if isinstance(s, Alloc)]
    words = max([dt.itemsize(b.dtype) // 4 for b in buffers if b.scope == "local"], default=1)
    loaded = sum(map(_bytes, on_their_way(stmt))) // 4
    later = max(ADDRESSES * max(1, words), loaded + _multiplied(stmt))
    return thread_registers(stmt) - loaded + later


def on_their_way(stmt: Stmt) -> set[Buffer]:
    """Arrays of a thread that hold what it loads from global memory, until it stores that to shared
    memory."""
    stores = [s for s in walk(stmt) if isinstance(s, Store)]
    read = {s: {load.buffer for load in loads(s.value)} for s in stores}
    sent = {b for s in stores if s.buffer.scope == "shared" for b in read[s] if b.scope == "local"}
    filled = {s.buffer for s in stores if any(b.scope == "global" for b in read[s])}
    return sent & filled


def _multiplied(stmt: Stmt) -> int:
    """Registers for a row and a column of what a thread multiplies for its sums."""
    return 2 * isqrt(sum_bytes(stmt) // 4)


def held_bytes(stmt: Stmt, copies: bool = False) -> int:
    """Bytes of registers, of 4 bytes each, that arrays of a thread take at once at the most, but
    `copies` of shared memory: of these a compiler has in registers what it multiplies next."""
    below = max([held_bytes(child, copies) for child in child_stmts(stmt)], default=0)
    if not isinstance(stmt, Alloc) or stmt.buffer.scope != "local":
        return below
    if not copies and _is_copy(stmt):
        return below
    return below + _bytes(stmt.buffer)


def _is_copy(alloc: Alloc) -> bool:
    """Whether all that is stored to an array is read from shared memory."""
    stores = [s for s in walk(alloc.body) if isinstance(s, Store) and s.buffer is alloc.buffer]
    return bool(stores) and all(
        isinstance(s.value, Load) and s.value.buffer.scope == "shared" for s in stores
    )


def sum_bytes(stmt: Stmt) -> int:
    """Bytes of the largest array of a thread that is added to, or combined with otherwise."""
    updated = {
        s.buffer
        for s in walk(stmt)
        if isinstance(s, Store) and any(load.buffer is s.buffer for load in loads(s.value))
    }
    return max((_bytes(b) for b in updated if b.scope == "local"), default=0)


def _bytes(buffer: Buffer) -> int:
    count = prod(int_value(extent) or 1 for extent in buffer.shape)
    return count * max(4, dt.itemsize(buffer.dtype))
