"""Reductions of rows and columns, and softmax, by warps and by blocks of threads."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis import producers, reduction_loops
from schedule.errors import ScheduleError
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import WARP, IterKind, const

UNITS = ("warp", "block")
"""Who shares a row: the lanes of a warp, or all threads of a block."""


def row_reduction(sch: Schedule, block: str, unit: str = "warp", count: int = 8) -> None:
    """Schedule the reduction `block` along contiguous rows: a row for each warp, `count` warps in a
    block of threads, or a row for each block of `count` * 32 threads."""
    _check(unit, block)
    rows, inner = _data_loops(sch, block), _reduce_loops(sch, block)
    row = sch.fuse(*rows) if rows else sch.add_unit_loop(inner[0])
    _rows(sch, row, unit, count)
    _terms(sch, sch.fuse(*_reduce_loops(sch, block)), unit, count)


def softmax(sch: Schedule, block: str, unit: str = "warp", count: int = 8) -> None:
    """Schedule a chain of stages that ends in `block`, all of them along the rows of its last axis:
    softmax, normalisations. All that a row needs is computed by the same threads: statistics in
    registers that all of them have, elements of stages in between in shared memory."""
    _check(unit, block)
    *rows, last = sch.get_loops(block)
    row = sch.fuse(*rows) if rows else sch.add_unit_loop(last)
    inner = _rows(sch, row, unit, count)
    chain = _before(sch, block)
    for name in chain:
        sch.set_scope(name, 0, "local" if _of_many(sch, name) else "shared")
    for name in reversed(chain):
        sch.compute_at(name, inner, preserve_unit_loops=True)
    for name in (*chain, BlockRef(block)):
        around = sch.get_loops(name)
        own = around[around.index(inner) + 1 :]
        _terms(sch, sch.fuse(*own) if own else sch.add_unit_loop(name), unit, count)


def column_reduction(
    sch: Schedule, block: str, columns: int = 32, rows: int = 8
) -> None:
    """Schedule the reduction `block` along the columns of an array: `columns` threads side by side
    read elements side by side, `rows` of such rows of threads share the terms of a column."""
    outer, thread = sch.split(sch.fuse(*_data_loops(sch, block)), [None, columns])
    sch.bind(outer, "blockIdx.x")
    terms = sch.fuse(*_reduce_loops(sch, block))
    _, part = sch.split(terms, [None, rows])
    sch.bind(thread, "threadIdx.x")
    sch.bind(part, "threadIdx.y")


def split_reduction(
    sch: Schedule, block: str, parts: int = 64, threads: int = 256
) -> BlockRef:
    """Schedule a reduction to few values in two kernels: `parts` blocks of threads reduce a part of
    the terms of each value, and another kernel what they have; returns the block of the first."""
    terms = sch.fuse(*_reduce_loops(sch, block))
    part, _ = sch.split(terms, [parts, None])
    first = sch.rfactor(block, part)
    for name in (first, block):
        values = _data_loops(sch, name)
        outer = sch.fuse(*values) if values else sch.add_unit_loop(_reduce_loops(sch, name)[0])
        sch.bind(outer, "blockIdx.x")
        inner = sch.fuse(*_reduce_loops(sch, name))
        width = threads if name == first else WARP
        _, thread = sch.split(inner, [None, width])
        sch.bind(thread, "threadIdx.x")
    return first


def _check(unit: str, block: str) -> None:
    if unit not in UNITS:
        reason = f"unit {unit!r} is none of {', '.join(UNITS)}"
        raise ScheduleError("schedule.library.gpu", block, reason, None, None, None)


def _rows(sch: Schedule, row: LoopRef, unit: str, count: int) -> LoopRef:
    """The loop in which a unit has a row."""
    if unit == "block":
        sch.bind(row, "blockIdx.x")
        return row
    outer, inner = sch.split(row, [None, min(count, sch.state.loop(row).const_extent or count)])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "warp")
    return inner


def _terms(sch: Schedule, loop: LoopRef, unit: str, count: int) -> None:
    """The threads of a unit take the iterations of a loop, neighbours side by side."""
    size, axis = (WARP, "lane") if unit == "warp" else (WARP * count, "threadIdx.x")
    _, thread = sch.split(loop, [None, size])
    sch.bind(thread, axis)


def _of_many(sch: Schedule, block: str) -> bool:
    """Whether a block reduces several terms: all threads that share them have the result."""
    iters = [it for it in sch.state.block(block).iters if it.kind is IterKind.REDUCE]
    return any([it.extent is not const(1) for it in iters])


def _data_loops(sch: Schedule, block: str) -> list[LoopRef]:
    return [loop for loop in sch.get_loops(block) if loop not in _reduce_loops(sch, block)]


def _reduce_loops(sch: Schedule, block: str) -> list[LoopRef]:
    state = sch.state
    found = reduction_loops(state.block(block), state.loops_around(block))
    return [LoopRef(loop.name) for loop in found]


def _before(sch: Schedule, block: str) -> Sequence[BlockRef]:
    """The blocks that what `block` computes needs, in program order."""
    found: set[str] = set()
    pending = [block]
    while pending:
        for name in producers(sch.state, pending.pop()):
            if name not in found:
                found.add(name)
                pending.append(name)
    return [name for name in sch.get_blocks() if name in found]

