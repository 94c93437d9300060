"""columns: sums of columns, whose neighbours are those in memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from schedule.analysis.uses import accesses, read_by_others
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.find import flat_index
from schedule.library.gpu.memory.sectors import in_sector
from schedule.library.gpu.steps import (
    bind_kernel,
    end_in,
    fuse_for_blocks,
    loops_in_memory,
    reduction_of,
)
from schedule.schedule import Schedule
from schedule.state import LoopRef
from tensorir import Gpu, Load, body_loads, checked, slope

PIECE = 8
"""Rows that a thread reads at once, where blocks have whole rows."""


@checked
def columns(
    sch: Schedule,
    block: str,
    *,
    warps: int = 8,
    parts: int = 1,
    whole: bool = False,
    epilogue: str | None = None,
) -> LoopRef:
    """Schedule B[.., j] = the sum, or another reduction, of A[.., k, j] over all k, for a GPU.

    Lanes of a warp have columns side by side, and warps of a block have rows in turn; each thread
    has its part of a column in a register, and a block combines them once. Extents need not divide.

    warps     of a block of threads
    parts     into which rows are divided, of two rows at least, each with blocks of threads of its
              own, where columns are few: a second kernel combines them
    whole     whether threads side by side have all columns of the last axis, or of the last ones if
              they lie side by side, and then those of the next row: no lane is without a column
              where these are few, or no multiple of a warp
    epilogue  an elementwise block that alone reads B, to be computed from registers

    Returns the loop over groups of columns, bound to blocks of threads.
    Raises ScheduleError where the block is no reduction, or has no columns, or more than half as
    many as a block of so many warps has threads if it is to have all of them.
    """
    with all_or_nothing(sch, f"gpu.columns({str(block)!r})"):
        outer, along = reduction_of(sch, block)
        require(bool(outer), block, f"block {block!r} computes a single value", "use whole")
        require(warps > 0 and parts > 0, block, f"{warps} warps and {parts} parts are too few")
        if parts > 1:
            term = sch.fuse(*along) if len(along) > 1 else along[0]
            extent = sch.state.loop(term).const_extent or 2 * parts
            parts = max(1, min(parts, extent // 2))  # what has one term each is no reduction
        if parts > 1:
            part, _ = sch.split(term, [parts, None])
            made = sch.rfactor(block, part, 0)
            _columns(sch, made, warps, whole)
        loop = _columns(sch, block, warps, whole, alone=epilogue is None)
        if epilogue is not None:
            end_in(sch, block, epilogue, loop, "threadIdx.x" if whole else "lane")
        return loop


def _columns(sch: Schedule, block: str, warps: int, whole: bool, alone: bool = True) -> LoopRef:
    """The kernel of a reduction; where it ends `alone`, lanes go on from row to row of columns."""
    outer, along = reduction_of(sch, block)
    sch.reorder(*outer, *along)
    outer = loops_in_memory(sch, block, outer)
    while alone and len(outer) > 1 and _are_one(sch, block, *outer[-2:]):
        if whole and not _has_room(sch, outer[-2:], Gpu.warp * warps):
            break
        outer = [*outer[:-2], sch.fuse(*outer[-2:])]
    term = sch.fuse(*along) if len(along) > 1 else along[0]
    if whole:
        return _whole_rows(sch, block, outer, term, Gpu.warp * warps)
    step, warp = sch.split(term, [None, warps])
    group, lane = sch.split(outer[-1], [None, Gpu.warp])
    sch.reorder(*outer[:-1], group, lane, warp, step)
    grid = fuse_for_blocks(sch, [*outer[:-1], group])
    return bind_kernel(sch, grid, {"lane": [lane], "warp": [warp]})


def _whole_rows(
    sch: Schedule, block: str, outer: list[LoopRef], term: LoopRef, threads: int
) -> LoopRef:
    """The kernel of a reduction whose blocks have as many whole rows at once as fit."""
    columns, fits = sch.state.loop(outer[-1]).const_extent, _has_room(sch, outer[-1:], threads)
    require(fits, block, f"{threads} threads have no room for two rows of block {block!r}")
    assert columns is not None
    node, rows = sch.state.block(block), threads // columns
    aligned = max(in_sector(load.buffer.dtype) for load in body_loads(node))
    unit = aligned // gcd(columns, aligned)  # rows that fill whole sectors
    step, piece, row = sch.split(term, [None, PIECE, rows - rows % unit or rows])
    grid = outer[:-1] or [sch.add_unit_loop(outer[-1])]
    sch.reorder(*grid, outer[-1], row, step, piece)
    sch.unroll(piece)
    grid = fuse_for_blocks(sch, grid)
    return bind_kernel(sch, grid, {"threadIdx.x": [outer[-1]], "threadIdx.y": [row]})


def _has_room(sch: Schedule, loops: Sequence[LoopRef], threads: int) -> bool:
    """Whether two rows of the columns of some loops have threads; sums of one would be stored."""
    return 2 * prod(sch.state.loop(x).const_extent or threads for x in loops) <= threads


def _are_one(sch: Schedule, block: str, outer: LoopRef, inner: LoopRef) -> bool:
    """Whether two loops move as one along all that a reduction reads."""
    node, around = sch.state.block(block), sch.state.loops_around(block)
    analyzer, (far, near) = sch.state.analyzer(around), (sch.state.loop(x) for x in (outer, inner))
    reads = [a for a in accesses(node) if a.buffer in read_by_others(node)]
    flat = [analyzer.simplify(flat_index(Load(a.buffer, a.in_loops()))) for a in reads]
    steps = [(slope(e, far.var, analyzer), slope(e, near.var, analyzer)) for e in flat]
    size = near.const_extent
    return size is not None and all(b is not None and a == b * size for a, b in steps)
