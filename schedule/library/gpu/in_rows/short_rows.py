"""short_rows: what is computed of rows of few elements, a thread for each row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from schedule.analysis.uses import accesses, written
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.gpu.cooperative_fetch import split_for_threads
from schedule.library.gpu.in_rows.stages import RowStages, axes_of_rows, chain_of
from schedule.library.gpu.steps import bind_kernel, fuse_for_blocks, in_order_of_reads, write_out
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import Buffer, Gpu, checked, dtype, variables

SECTORS = 8
"""Rows that begin where a sector does, as often as that, whatever their length: of 4 bytes each."""

LONGEST = 64
"""Elements of a row that a thread has at the most: all of them are in registers."""


class ShortRows(NamedTuple):
    """The parts of the schedule, for steps that follow.

    loop    the loop over pieces of rows that is bound to blocks of threads
    copies  the blocks that copy rows to shared memory, and from there
    """

    loop: LoopRef
    copies: tuple[BlockRef, ...]


@checked
def short_rows(
    sch: Schedule, block: str, *, warps: int = 4, stages: Collection[str] | None = None
) -> ShortRows:
    """Schedule a reduction along the last axes, or what is computed of the elements of a row and of
    reductions of that row, for a GPU; `block` is the last one of them, and rows are short.

    Each thread has a row. What has elements for those of rows goes through shared memory, for all
    rows of a block of threads at once: lanes that copy it have neighbours, whatever the length of
    rows, so that each sector of memory is moved once. Rows lie an odd number of words apart there:
    lanes that read the same element of theirs meet in no bank. Extents need not divide.

    warps  of a block
    stages the blocks before it that are computed with it; None is all that it alone uses

    Raises ScheduleError where the blocks reduce along different numbers of axes, or along none, and
    where there is one row, or rows are long or of symbolic length.
    """
    with all_or_nothing(sch, f"gpu.short_rows({str(block)!r})"):
        require(warps > 0, block, f"{warps} warps are too few")
        chain = chain_of(sch, block, stages)
        outer, axes = axes_of_rows(sch, block, chain)
        rows = RowStages(sch, block, outer, axes)
        length = rows.length(chain)
        known = length is not None and length <= LONGEST and outer > 0
        long = f"rows of block {block!r} have more than {LONGEST} elements, or are all one"
        require(known, block, long, "use rows")
        chain = rows.inlined(chain, rows.is_number)
        copies = rows.copies(chain, rows.along(chain), "shared")
        shared = [(name, written(sch.state.block(name))[0]) for name in copies]
        last, whole = chain[-1], not rows.is_sum(chain[-1])
        stored = [
            sch.cache_write(last, at, "shared" if whole else "local")
            for at, buffer in enumerate(written(sch.state.block(last)))
            if buffer in sch.func.params or _is_read(sch, last, buffer)
        ]
        threads = warps * Gpu.warp
        grid = _pieces(sch, sch.get_loops(stored[0])[:outer], threads)
        if whole:
            shared.append((last, written(sch.state.block(last))[0]))
            sch.compute_at(last, grid[-1])
        thread = _thread(sch, last if whole else stored[0], outer, grid[-1], threads)
        for name in stored[1:]:
            sch.reverse_compute_at(name, thread)
        for name in reversed(chain[:-1] if whole else chain):
            sch.compute_at(name, thread)
            for at in range(len(written(sch.state.block(name)))):
                sch.set_scope(name, at, "local")
        for name in copies:
            sch.compute_at(name, grid[-1])
            in_order_of_reads(sch, name)
        for name in chain:
            inside = sch.get_loops(name)
            write_out(sch, inside[inside.index(thread) + 1 :])
        for name, buffer in shared:
            _apart(sch, name, buffer, outer)
        copies += stored * whole
        lanes = [thread, *(_shared(sch, copy, threads) for copy in copies)]
        loop = bind_kernel(sch, fuse_for_blocks(sch, grid), {"threadIdx.x": lanes})
        return ShortRows(loop, tuple(copies))
    raise AssertionError


def _pieces(sch: Schedule, rows: Sequence[LoopRef], threads: int) -> list[LoopRef]:
    """The loops over pieces of about so many rows: of one axis, with all of those inside of it that
    have room, so that a piece is a box in memory. Pieces begin with sectors if they can."""
    at, whole = len(rows) - 1, 1
    while at > 0 and whole * (sch.state.loop(rows[at]).const_extent or threads + 1) <= threads:
        whole *= sch.state.loop(rows[at]).const_extent or 1
        at -= 1
    size = threads // whole
    over, _ = sch.split(rows[at], [None, size - size % SECTORS if size > SECTORS else size])
    return [*rows[:at], over]


def _thread(sch: Schedule, block: str, outer: int, around: LoopRef, threads: int) -> LoopRef:
    """The loop over threads of a block of them, of those over rows in a piece."""
    loops, node = sch.get_loops(block), sch.state.block(block)
    moved = {v for it in node.iters[:outer] for v in variables(it.binding)}
    inside = loops[loops.index(around) + 1 :]
    own = [loop for loop in inside if sch.state.loop(loop).var in moved]
    own = own or [sch.add_unit_loop([*inside, block][0])]
    rows = sch.fuse(*own) if len(own) > 1 else own[0]
    return sch.split(rows, [None, threads])[1]


def _shared(sch: Schedule, copy: str, threads: int) -> LoopRef:
    """The loop over threads of a copy that those that have rows make together."""
    part, lanes = split_for_threads(sch, copy, [threads], 1)
    sch.unroll(part)
    return lanes


def _is_read(sch: Schedule, block: str, buffer: Buffer) -> bool:
    """Whether another block reads what one stores."""
    others = (sch.state.block(name) for name in sch.get_blocks() if name != block)
    return any(access.buffer is buffer for node in others for access in accesses(node))


def _apart(sch: Schedule, block: str, buffer: Buffer, outer: int) -> None:
    """Lay out rows in shared memory an odd number of words apart."""
    word = max(1, Gpu.bank_bytes // dtype.itemsize(buffer.dtype))
    if buffer.ndim > outer:
        sch.storage_align(block, buffer.name, outer - 1, 2 * word, word)
