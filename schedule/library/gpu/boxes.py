"""boxes: what is read in another order than it is written goes through boxes in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from schedule.analysis.uses import accesses
from schedule.errors import require
from schedule.library.gpu.elementwise import axes_of
from schedule.library.gpu.steps import (
    all_or_nothing,
    bind_blocks,
    fuse_for_blocks,
    in_memory,
    in_order_of_reads,
    shared_copy,
)
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import Gpu, IterKind, Var


class Boxes(NamedTuple):
    """The parts of the schedule, for steps that follow.

    copies  the blocks that copy boxes to shared memory
    loop    the loop over boxes, bound to blocks of threads
    """

    copies: tuple[BlockRef, ...]
    loop: LoopRef


def boxes(
    sch: Schedule,
    block: str,
    sizes: Sequence[int],
    *,
    warps: int = 8,
    pad: int | None = None,
    parts: int = 1,
) -> Boxes:
    """Schedule B[h, w, c] = f(A[c, h, w]) for a GPU: any permutation of any axes, short ones too.

    A block of threads moves a box of some extent along each axis: it is read in the order of A, and
    written in the order of B, so that both are contiguous as far as the box has whole axes. Extents
    need not divide. What is read in the order of B is read where it is needed.

    sizes  of a box along the axes of B, in the order of memory
    warps  of a block of threads
    pad    words by which neighbours in B are apart in shared memory, modulo the banks; None is what
           puts lanes that read several rows in different ones, 0 leaves boxes as they are read
    parts  elements that are read before the next neighbour in B: from two on these neighbours are
           side by side in shared memory, each part a row, which begin in banks as far apart as can
           be; `pad` is for one

    Raises ScheduleError where the block reads nothing in another order than it writes.
    """
    with all_or_nothing(sch, f"gpu.boxes({str(block)!r})"):
        node = sch.state.block(block)
        reduces = any(it.kind is IterKind.REDUCE for it in node.iters)
        require(not reduces, block, f"block {block!r} is a reduction", "use rows or columns")
        axes = axes_of(sch, block)
        given = f"{len(sizes)} sizes for the {len(axes)} axes of block {block!r}"
        require(len(sizes) == len(axes) and min(sizes) > 0, block, given, "give one for each")
        turned, last = turned_reads(sch, block)
        require(bool(turned), block, f"block {block!r} reads all in the order that it writes")
        assert last is not None
        banks = -(-Gpu.banks // min(sizes[-1], Gpu.banks)) if pad is None else pad
        split = [sch.split(axis, [None, size]) for axis, size in zip(axes, sizes)]
        outer, inner = [pair[0] for pair in split], [pair[1] for pair in split]
        sch.reorder(*outer, *inner)
        copies = [shared_copy(sch, block, name, last, banks, parts) for name in turned]
        for copy in copies:
            sch.compute_at(copy, outer[-1])
            in_order_of_reads(sch, copy)
        threads = min(warps * Gpu.warp, -(-prod(sizes) // Gpu.warp) * Gpu.warp)
        flat = sch.fuse(*inner) if len(inner) > 1 else inner[0]
        part, thread = sch.split(flat, [None, threads])
        sch.reorder(thread, part)
        loop = bind_blocks(sch, fuse_for_blocks(sch, outer))
        sch.bind(thread, "threadIdx.x")
        sch.unroll(part)
        for copy in copies:
            step, *_ = sch.cooperative_fetch(copy, {"threadIdx.x": threads})
            sch.unroll(step)
        return Boxes(tuple(copies), loop)
    raise AssertionError


def turned_reads(sch: Schedule, block: str) -> tuple[tuple[str, ...], Var | None]:
    """The arrays that a block reads in another order of its variables than it writes, and the last
    one of what it writes."""
    found = accesses(sch.state.block(block))
    stored = next(in_memory(a) for a in found if a.is_write)
    last = stored[-1] if stored else None
    turned = {a.buffer.name: a for a in found if not a.is_write and last in in_memory(a)[:-1]}
    return tuple(turned), last
