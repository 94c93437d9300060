"""columns: sums of columns, whose neighbours are those in memory."""

from __future__ import annotations

from typing import NamedTuple

from schedule.analysis.uses import accesses, read_by_others
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.find import flat_index
from schedule.library.gpu.steps import (
    bind_kernel,
    end_in,
    fuse_for_blocks,
    loops_in_memory,
    reduction_of,
)
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import Gpu, Load, checked, slope


class Columns(NamedTuple):
    """The parts of the schedule, for steps that follow.

    loop   the loop over groups of columns, bound to blocks of threads
    parts  the block that computes parts of the sums in a kernel of its own, if there are any
    """

    loop: LoopRef
    parts: BlockRef | None


@checked
def columns(
    sch: Schedule, block: str, *, warps: int = 8, parts: int = 1, epilogue: str | None = None
) -> Columns:
    """Schedule B[.., j] = the sum, or another reduction, of A[.., k, j] over all k, for a GPU.

    Lanes of a warp have columns side by side, and warps of a block have rows in turn; each thread
    has its part of a column in a register, and a block combines them once. Extents need not divide.

    warps     of a block of threads
    parts     into which rows are divided, each with blocks of threads of its own, where columns are
              few: a second kernel combines them
    epilogue  an elementwise block that alone reads B, to be computed from registers

    Raises ScheduleError where the block is no reduction, or has no columns.
    """
    with all_or_nothing(sch, f"gpu.columns({str(block)!r})"):
        outer, along = reduction_of(sch, block)
        require(bool(outer), block, f"block {block!r} computes a single value", "use whole")
        require(warps > 0 and parts > 0, block, f"{warps} warps and {parts} parts are too few")
        made = None
        if parts > 1:
            term = sch.fuse(*along) if len(along) > 1 else along[0]
            parts = min(parts, sch.state.loop(term).const_extent or parts)
        if parts > 1:
            part, _ = sch.split(term, [parts, None])
            made = sch.rfactor(block, part, 0)
            _columns(sch, made, warps)
        loop = _columns(sch, block, warps, alone=epilogue is None)
        if epilogue is not None:
            end_in(sch, block, epilogue, loop)
        return Columns(loop, made)
    raise AssertionError


def _columns(sch: Schedule, block: str, warps: int, alone: bool = True) -> LoopRef:
    """The kernel of a reduction; where it ends `alone`, lanes go on from row to row of columns."""
    outer, along = reduction_of(sch, block)
    sch.reorder(*outer, *along)
    outer = loops_in_memory(sch, block, outer)
    while alone and len(outer) > 1 and _are_one(sch, block, *outer[-2:]):
        outer = [*outer[:-2], sch.fuse(*outer[-2:])]
    term = sch.fuse(*along) if len(along) > 1 else along[0]
    step, warp = sch.split(term, [None, warps])
    group, lane = sch.split(outer[-1], [None, Gpu.warp])
    sch.reorder(*outer[:-1], group, lane, warp, step)
    grid = fuse_for_blocks(sch, [*outer[:-1], group])
    return bind_kernel(sch, grid, {"lane": [lane], "warp": [warp]})


def _are_one(sch: Schedule, block: str, outer: LoopRef, inner: LoopRef) -> bool:
    """Whether two loops move as one along all that a reduction reads."""
    node, around = sch.state.block(block), sch.state.loops_around(block)
    analyzer, (far, near) = sch.state.analyzer(around), (sch.state.loop(x) for x in (outer, inner))
    reads = [a for a in accesses(node) if a.buffer in read_by_others(node)]
    flat = [analyzer.simplify(flat_index(Load(a.buffer, a.in_loops()))) for a in reads]
    steps = [(slope(e, far.var, analyzer), slope(e, near.var, analyzer)) for e in flat]
    size = near.const_extent
    return size is not None and all(b is not None and a == b * size for a, b in steps)
