"""How much straight-line work stands behind a place in a program."""

from __future__ import annotations

from math import prod

from tensorir import dtype
from tensorir.stmt import Alloc, For, ForKind, If, Stmt, Store
from tensorir.visit import child_stmts

LANES = 16
"""Elements of one vector, about."""

ENOUGH = 16
"""Stores that are so much that a test ahead of them costs nothing."""

REGISTERS = 4096
"""Bytes of the largest buffer of scope "local" that may be kept in registers: twice those of a
processor with 32 registers of 512 bits."""


def work(stmt: Stmt) -> int:
    """About how many stores `stmt` runs, of elements or vectors, all conditions being true.

    A loop of unknown extent counts as one iteration.
    """
    if isinstance(stmt, For):
        extent = stmt.const_extent or 1
        times = -(-extent // LANES) if stmt.kind is ForKind.VECTORIZED else extent
        return times * work(stmt.body)
    if isinstance(stmt, If):
        return work(stmt.then)
    below = child_stmts(stmt)
    return sum(map(work, below)) if below or isinstance(stmt, Alloc) else isinstance(stmt, Store)


def in_registers(stmt: Alloc) -> bool:
    """Whether what `stmt` allocates may be kept in registers, in all that is in it."""
    shape = stmt.buffer.const_shape
    size = dtype.itemsize(stmt.buffer.dtype) * prod(shape) if shape is not None else 0
    return stmt.buffer.scope == "local" and size <= REGISTERS


def is_tested_once(stmt: If) -> bool:
    """Whether what `stmt` asks is not worth copies of the loops around it: much work depends on
    one answer, whatever it is."""
    return stmt.orelse is not None and work(stmt.then) >= ENOUGH
