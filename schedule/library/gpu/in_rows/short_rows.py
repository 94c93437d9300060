"""short_rows: what is computed of rows of few elements, a thread for each row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from schedule.analysis.uses import accesses, written
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.gpu.cooperative_fetch import split_for_threads
from schedule.library.gpu.in_rows.stages import RowStages, axes_of_rows, chain_of
from schedule.library.gpu.memory.banks import best_pitch
from schedule.library.gpu.memory.sectors import in_sector
from schedule.library.gpu.steps import bind_kernel, fuse_for_blocks, in_order_of_reads, write_out
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import Buffer, Gpu, Var, checked, dtype, int_value, variables

SECTORS = 8
"""Rows that begin where a sector does, as often as that, whatever their length: of 4 bytes each."""

LONGEST = 64
"""Elements of a row that a thread has at the most: all of them are in registers."""


@checked
def short_rows(
    sch: Schedule, block: str, *, warps: int = 4, stages: Collection[str] | None = None
) -> LoopRef:
    """Schedule a reduction along the last axes, or what is computed of the elements of a row and of
    reductions of that row, for a GPU; `block` is the last one of them, and rows are short.

    Each thread has a row. What has elements for those of rows goes through shared memory, for all
    rows of a block of threads at once: lanes that copy it have neighbours, whatever the length of
    rows, and whether these are columns in memory, so that each sector is moved once. Rows lie an
    odd number of words apart there: lanes that read the same element of theirs meet in no bank;
    columns lie so that they meet in few. Extents need not divide.

    warps  of a block
    stages the blocks before it that are computed with it; None is all that it alone uses

    Returns the loop over pieces of rows, bound to blocks of threads.
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
        return _by_threads(rows, warps * Gpu.warp, rows.inlined(chain, rows.is_number))


def _by_threads(rows: RowStages, threads: int, chain: Sequence[BlockRef]) -> LoopRef:
    """The kernel of a chain, of so many threads of a block or a few less."""
    sch, outer = rows.sch, rows.outer
    copies = rows.copies(chain, rows.along(chain), "shared")
    shared = [(name, written(sch.state.block(name))[0]) for name in copies]
    last, whole = chain[-1], not rows.is_sum(chain[-1])
    of_rows = _rows_of(sch, last, outer)
    stored = [
        _apart_from(sch, last, at, "shared" if whole else "local")
        for at, buffer in enumerate(written(sch.state.block(last)))
        if buffer in sch.func.params or _is_read(sch, last, buffer)
    ]
    first = _rows_first(sch, stored[0], last, of_rows)
    told = of_rows if whole else _rows_of(sch, stored[0], outer)
    grid, piece = _pieces(sch, first, threads)
    unit = max((in_sector(buffer.dtype) for _, buffer in shared), default=1)
    threads = prod(piece) if prod(piece) % unit == 0 else threads  # else each copies some more
    if whole:
        shared.append((last, written(sch.state.block(last))[0]))
        sch.compute_at(last, grid[-1])
    thread = _thread(sch, last if whole else stored[0], told, grid[-1], threads)
    for name in stored[1:]:
        sch.reverse_compute_at(name, thread)
    for name in reversed(chain[:-1] if whole else chain):
        sch.compute_at(name, thread)
        for at in range(len(written(sch.state.block(name)))):
            sch.set_scope(name, at, "local")
    for name in copies:
        sch.compute_at(name, grid[-1])
    for name in (*copies, *stored * whole):
        in_order_of_reads(sch, name)
    for name in chain:
        inside = sch.get_loops(name)
        write_out(sch, inside[inside.index(thread) + 1 :])
    for name, buffer in shared:
        _apart(sch, name, buffer, chain, piece, of_rows)
    copies += stored * whole
    lanes = [thread, *(_shared(sch, copy, threads) for copy in copies)]
    return bind_kernel(sch, fuse_for_blocks(sch, grid), {"threadIdx.x": lanes})


def _apart_from(sch: Schedule, block: str, at: int, scope: str) -> BlockRef:
    """A copy to its place of what a block stores, with a dimension for each of its variables where
    that has parts of them."""
    store = [a for a in accesses(sch.state.block(block)) if a.is_write][at]
    if all(isinstance(i, Var) or int_value(i) is not None for i in store.indices):
        return sch.cache_write(block, at, scope)
    copy = sch.reindex(block, store.buffer.name)
    sch.set_scope(block, at, scope)
    return copy


def _rows_of(sch: Schedule, block: str, outer: int) -> list[Var]:
    """The variables of a block that tell rows, those of its first loops."""
    node, loops = sch.state.block(block), sch.state.loops_around(block)
    own = {it.binding: it.var for it in node.iters}
    return [own.get(loop.var, it.var) for loop, it in zip(loops[:outer], node.iters)]


def _rows_first(
    sch: Schedule, copy: str, block: str, rows: Sequence[Var]
) -> list[LoopRef]:
    """The loops over rows of the copy of what a block stores, brought outside of the others: its
    loops are the dimensions of that, wherever rows are among these."""
    stored = next(a.indices for a in accesses(sch.state.block(block)) if a.is_write)
    loops = sch.get_loops(copy)
    if len(loops) != len(stored) or not set(rows) <= set(stored):
        return loops[: len(rows)]
    return _outside(sch, [loops[stored.index(var)] for var in rows], loops)


def _outside(sch: Schedule, first: list[LoopRef], loops: Sequence[LoopRef]) -> list[LoopRef]:
    """Some of the loops, brought outside of the others."""
    if first != loops[: len(first)]:
        sch.reorder(*first, *(loop for loop in loops if loop not in first))
    return first


def _pieces(
    sch: Schedule, rows: Sequence[LoopRef], threads: int
) -> tuple[list[LoopRef], list[int]]:
    """The loops over pieces of about so many rows: of one axis, with all of those inside of it that
    have room, so that a piece is a box in memory; and how many rows of each axis these have. Pieces
    begin with sectors if they can."""
    extents = [sch.state.loop(loop).const_extent for loop in rows]
    at, whole = len(rows) - 1, 1
    while at > 0 and whole * (extents[at] or threads + 1) <= threads:
        whole *= extents[at] or 1
        at -= 1
    size = threads // whole
    size = size - size % SECTORS if size > SECTORS else size
    over, _ = sch.split(rows[at], [None, size])
    return [*rows[:at], over], [*[1] * at, size, *(n or 1 for n in extents[at + 1 :])]


def _thread(
    sch: Schedule, block: str, rows: Sequence[Var], around: LoopRef, threads: int
) -> LoopRef:
    """The loop over threads of a block of them, of those over the rows of a piece."""
    loops, node = sch.get_loops(block), sch.state.block(block)
    bound = {it.var: variables(it.binding) for it in node.iters}
    moved = [bound.get(var, frozenset()) for var in rows]
    inside = loops[loops.index(around) + 1 :]
    own = [x for each in moved for x in inside if sch.state.loop(x).var in each]
    own = _outside(sch, own, inside) or [sch.add_unit_loop([*inside, block][0])]
    share = sch.fuse(*own) if len(own) > 1 else own[0]
    return sch.split(share, [None, threads])[1]


def _shared(sch: Schedule, copy: str, threads: int) -> LoopRef:
    """The loop over threads of a copy that those that have rows make together."""
    part, lanes = split_for_threads(sch, copy, [threads], 1)
    sch.unroll(part)
    return lanes


def _is_read(sch: Schedule, block: str, buffer: Buffer) -> bool:
    """Whether another block reads what one stores."""
    others = (sch.state.block(name) for name in sch.get_blocks() if name != block)
    return any(access.buffer is buffer for node in others for access in accesses(node))


def _apart(
    sch: Schedule, block: str, buffer: Buffer, chain: Sequence[str], piece: Sequence[int],
    rows: Sequence[Var],
) -> None:  # fmt: skip
    """Lay out rows of which a block of threads has a `piece` in shared memory an odd number of
    words apart; or where their elements are not neighbours there, so that lanes meet in the fewest
    banks. `rows` tell those of the last stage."""
    word, outer = max(1, Gpu.bank_bytes // dtype.itemsize(buffer.dtype)), len(piece)
    users = (a for name in chain for a in accesses(sch.state.block(name)))
    mine = (a for a in users if a.buffer.name == buffer.name and len(a.block.iters) > outer)
    use = next(mine, None)
    if use is None or buffer.ndim <= outer:  # a number of each row
        return
    own = [it.var for it in use.block.iters]
    told = list(rows) if set(rows) <= set(own) else own[:outer]
    dims = [use.indices.index(var) if var in use.indices else n for n, var in enumerate(told)]
    if dims == [*range(outer)]:
        sch.storage_align(block, buffer.name, outer - 1, 2 * word, word)
        return
    lanes = dict(zip(dims, piece))
    extents = [lanes.get(n, int_value(size) or 1) for n, size in enumerate(buffer.shape)]
    copied = dict(enumerate(extents))
    _, pitch = best_pitch(extents, [lanes, copied], dtype.itemsize(buffer.dtype))
    if pitch is not None:
        sch.storage_align(block, buffer.name, *pitch)
