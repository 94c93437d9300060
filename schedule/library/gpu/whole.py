"""whole: a few values of a whole array, in two kernels."""

from __future__ import annotations

from schedule.analysis.uses import accesses, read_by_others, written
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.gpu.in_rows.rows import rows
from schedule.library.gpu.steps import (
    bind_kernel,
    end_in,
    fuse_for_blocks,
    last_axis,
    loops_in_memory,
    read_once,
    reduction_of,
    vector_of,
)
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import Block, Buffer, Gpu, checked, variables


@checked
def whole(
    sch: Schedule,
    block: str,
    *,
    blocks: int = 256,
    warps: int = 8,
    sectors: bool = False,
    epilogue: str | None = None,
) -> LoopRef:
    """Schedule a reduction of many elements to few values, one for instance, for a GPU.

    In the first kernel blocks of threads take turns with pieces of the array, in which threads have
    elements side by side, 16 bytes each where that is aligned; each thread has a part of the value
    in a register, and each block combines them once. The second kernel combines the parts of the
    blocks. Extents need not divide.

    blocks    of threads for each value
    warps     of a block
    sectors   whether blocks have parts of rows side by side, which they copy to shared memory from
              where sectors of memory begin on, for rows that begin within one
    epilogue  an elementwise block that alone reads what `block` makes, to be computed with it

    Returns the loop over parts of the first kernel, bound to blocks of threads.
    Raises ScheduleError where the block is no reduction.
    """
    with all_or_nothing(sch, f"gpu.whole({str(block)!r})"):
        require(warps > 0 and blocks > 0, block, f"{blocks} blocks of {warps} warps are too few")
        outer, along = reduction_of(sch, block)
        along = loops_in_memory(sch, block, along)
        threads = Gpu.warp * warps
        sch.reorder(*outer, *along)
        if sectors:
            term = sch.fuse(*along) if len(along) > 1 else along[0]
            parts = sch.rfactor(block, sch.split(term, [blocks, None])[0])
            first = rows(sch, parts, warps=warps, keep="shared", sectors=True, stages=()).loop
        else:
            parts, first = _in_turns(sch, block, along, blocks, threads)
        over, left = reduction_of(sch, block)
        sch.reorder(*over, *left)
        _, last = sch.split(left[0], [None, threads])
        over = over or [sch.add_unit_loop(sch.get_loops(block)[0])]
        loop = bind_kernel(sch, fuse_for_blocks(sch, over), {"threadIdx.x": [last]})
        if epilogue is not None:
            end_in(sch, block, epilogue, loop, "threadIdx.x", threads)
        return first


def _in_turns(
    sch: Schedule, block: str, along: list[LoopRef], blocks: int, threads: int
) -> tuple[BlockRef, LoopRef]:
    """Parts of a sum of which each block of threads has every so manieth piece of the terms."""
    buffers = _along(sch.state.block(block))
    lanes = min([vector_of(buffer) for buffer in buffers], default=1) if len(along) == 1 else 1
    term = sch.fuse(*along) if len(along) > 1 else along[0]
    lane = [lanes] if lanes > 1 else []
    step, part, *shared = sch.split(term, [None, blocks, threads, *lane])
    parts = sch.rfactor(block, part)
    several = len(written(sch.state.block(parts))) > 1  # each is computed of what is read
    names = [buffer.name for buffer in buffers] if lanes > 1 or several else []
    return parts, _first(sch, parts, [step, *shared], names)


def _along(node: Block) -> list[Buffer]:
    """What is read at the terms of a sum, neighbours at neighbours in memory; nothing where some
    array is read at several places, of which a copy would have all that is between them."""
    terms = {it.var for it in node.reduced}
    own = read_by_others(node)
    found = [a for a in accesses(node) if not a.is_write and a.buffer in own and a.indices]
    rows = [a for a in found if terms & variables(a.indices[last_axis(a.buffer)])]
    places = {(a.buffer, a.indices) for a in rows}
    buffers = list(dict.fromkeys(a.buffer for a in rows))
    return buffers if len(places) == len(buffers) else []


def _first(sch: Schedule, parts: BlockRef, terms: list[LoopRef], copied: list[str]) -> LoopRef:
    """The kernel that computes parts, with loops over `terms` by step, thread and lane. What is
    `copied` is read by all lanes at once."""
    step, thread, *lane = terms
    outer = [loop for loop in sch.get_loops(parts) if loop not in terms]
    sch.reorder(*outer, thread, step, *lane)
    read_once(sch, parts, thread)
    loop = bind_kernel(sch, fuse_for_blocks(sch, outer), {"threadIdx.x": [thread]})
    for name in copied:
        copy = sch.cache_read(parts, name, "local")
        sch.compute_at(copy, step)
        if lane:
            sch.vectorize(sch.get_loops(copy)[-1])
    for each in lane:
        sch.unroll(each)
    return loop
