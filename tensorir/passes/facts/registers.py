"""What a thread of a GPU keeps in registers: arrays of its own, and what it needs beside them."""

from __future__ import annotations

from math import isqrt, prod

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.expr import int_value
from tensorir.stmt import Alloc, Stmt, Store
from tensorir.visit import child_stmts, loads, walk

ADDRESSES = 24
"""Registers of 32 bits for indices, addresses and counters."""


def thread_registers(stmt: Stmt) -> int:
    """Registers of 32 bits that the code of a thread takes, about: its arrays, those of its sums
    with a row and a column of what is multiplied, taken for a square, at least, and addresses."""
    sums = sum_bytes(stmt) // 4
    return max(held_bytes(stmt) // 4, sums + 2 * isqrt(sums)) + ADDRESSES


def ample_registers(stmt: Stmt) -> int:
    """Registers that a compiler does well with: as many again as for addresses, for what it loads
    ahead. With these no tile of the defaults is spilled."""
    return thread_registers(stmt) + ADDRESSES


def held_bytes(stmt: Stmt) -> int:
    """Bytes of registers, of 4 bytes each, that arrays of a thread take at once at the most."""
    below = max(map(held_bytes, child_stmts(stmt)), default=0)
    if not isinstance(stmt, Alloc) or stmt.buffer.scope != "local":
        return below
    return below + _bytes(stmt.buffer)


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
