"""realigned: rows that begin elsewhere within sectors of memory than what is read for them."""

from __future__ import annotations

from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.places import own_loops
from schedule.library.gpu.elementwise import axes_of
from schedule.library.gpu.memory.sectors import from_sectors
from schedule.library.gpu.steps import bind_kernel, fuse_for_blocks, write_out
from schedule.schedule import Schedule
from schedule.state import LoopRef
from tensorir import Gpu, IterKind, checked


@checked
def realigned(sch: Schedule, block: str, *, warps: int = 8, items: int = 4) -> LoopRef:
    """Schedule B[i, j] = f(A[i + 1, j]), whose rows begin elsewhere within a sector of memory than
    those that it reads, for a GPU: slices, concatenations and the like of rows that are no multiple
    of a sector.

    A block of threads computes a piece of a row in shared memory, its lanes where sectors of what
    is read begin, and stores it from where sectors of the result do. So each sector is moved once,
    but for one at both ends of a piece that is read. Extents need not divide.

    warps  of a block of threads
    items  elements of a thread in a piece

    Returns the loop over pieces of rows, bound to blocks of threads.
    Raises ScheduleError where the block is a reduction, stores elsewhere than at its own variables,
    or its loops were changed before.
    """
    with all_or_nothing(sch, f"gpu.realigned({str(block)!r})"):
        require(warps > 0 and items > 0, block, f"{warps} warps of {items} items are too few")
        reduces = any(it.kind is not IterKind.SPATIAL for it in sch.state.block(block).iters)
        require(not reduces, block, f"block {block!r} is a reduction", "use rows or columns")
        axes = axes_of(sch, block)
        require(bool(axes), block, f"block {block!r} computes a single value")
        out, threads = str(sch.cache_write(block, 0, "shared")), Gpu.warp * warps
        *others, row = axes_of(sch, out)
        over, part = sch.split(from_sectors(sch, out, row), [None, threads * items])
        sch.compute_at(block, over)
        made = from_sectors(sch, block, own_loops(sch, block)[-1])
        turns, lanes = zip(*(sch.split(loop, [None, threads]) for loop in (part, made)))
        write_out(sch, turns)
        grid = fuse_for_blocks(sch, [*others, over])
        return bind_kernel(sch, grid, {"threadIdx.x": lanes})
