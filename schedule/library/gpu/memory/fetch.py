"""Tiles on their way to shared memory: how the threads of a block share a copy, what each of them
asks for together, and copies that run ahead.

What runs ahead is loaded before the sums of a step and stored behind them; between them elements
are in registers, so that nobody waits for memory. So do the tiles of CUTLASS where hardware does
not copy by itself ("Efficient GEMM in CUDA", software pipelining). A copy that is stored as soon as
it is loaded waits, into whatever version of a tile it goes: compilers move neither a load across a
barrier, nor a store to shared memory across the reads of the sums.
"""

from __future__ import annotations

from collections.abc import Mapping

from schedule.library.contraction.places import own_loops
from schedule.library.gpu.cooperative_fetch import split_for_threads
from schedule.library.gpu.memory.sectors import in_sector, rows_for_warps, sectors_first
from schedule.library.gpu.staged import StagedTile
from schedule.library.gpu.steps import write_out
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import ADDRESSES, Gpu

FETCHED = 32
"""Elements of a thread that are asked for together, at most."""


def room_for_fetched(sums: int, each: int) -> int:
    """Elements of each copy that a thread asks for together, and so waits for once, at most: half
    of the registers that its sums leave are for these, the others for where they are; `each` are
    those of an element of all copies."""
    left = (Gpu.roomy_registers - ADDRESSES - sums) // (2 * max(1, each))
    return min(FETCHED, max(1, left))


def asked_together(count: int, room: int, shifted: bool) -> int:
    """How many of its elements of a copy a thread asks for together: a divisor of these for which
    there is room; of rows that are `shifted` all or one, since their parts are not told apart."""
    together = max(n for n in range(1, min(room, count) + 1) if count % n == 0)
    return 1 if shifted and together < count else together


def share(
    sch: Schedule,
    block: str,
    tile: StagedTile,
    threads: Mapping[str, int],
    shifted: bool,
    room: int | None,
) -> dict[str, LoopRef]:
    """Have all threads of a block of these share the loops of what copies a tile, and return those
    over `threads`: so many warps and lanes. A thread asks together for as many elements as there is
    `room` for, all if it is None; `shifted` rows begin where sectors do.
    """
    warps, lanes = threads.get("warps", 1), threads.get("lanes", 1)
    if tile.by_rows(warps * lanes // Gpu.warp):
        row = own_loops(sch, block)[-1]
        turn, part, *loops = rows_for_warps(sch, block, row, warps * lanes // Gpu.warp)
        each = sch.state.loop(part).const_extent or 1
        _ask_together(sch, turn, None if room is None else max(1, room // each), False)
        sch.unroll(part)
        return dict(zip(threads, loops[2 - len(threads) :]))
    if shifted:  # rows of whole sectors, as what threads share
        sector = in_sector(tile.c.operands[tile.operand].dtype)
        sch.split(own_loops(sch, block)[-1], [None, sector])
    elif tile.beside[1] and not tile.from_sectors:
        sectors_first(sch, block, *tile.beside)
    part, *loops = split_for_threads(sch, block, list(threads.values()), tile.vector)
    _ask_together(sch, part, room, tile.from_sectors)
    if tile.vector > 1:
        sch.vectorize(loops[-1])
    return dict(zip(threads, loops))


def _ask_together(sch: Schedule, loop: LoopRef, room: int | None, shifted: bool) -> None:
    """Write out what a thread asks for together, of a loop over what it copies."""
    count = sch.state.loop(loop).const_extent or 1
    together = count if room is None else asked_together(count, room, shifted)
    if together == count:
        write_out(sch, [loop])
    elif together > 1:
        write_out(sch, [sch.split(loop, [None, together])[1]])


def through_registers(sch: Schedule, copy: str) -> tuple[BlockRef, BlockRef]:
    """Cut a copy in two, each in loops as it has them: one that loads what it stores to registers,
    and one that stores these. Returns both blocks.

    Its loops are to be serial still. Threads that share them have to share both alike.
    """
    around = own_loops(sch, copy) or [sch.add_unit_loop(copy)]
    load = sch.cache_value(copy, [], "local")
    sch.compute_at(load, around[-1])
    sch.fission(around[0], after=load)
    return load, BlockRef(copy)


def run_ahead(sch: Schedule, step: LoopRef, copies: int, ahead: int) -> None:
    """Let so many copies at the beginning of a step, each a statement that loads and one that
    stores, run some steps ahead of the sums behind them: all loads, the sums, then all stores."""
    order = [*range(0, 2 * copies, 2), 2 * copies, *range(1, 2 * copies, 2)]
    sch.pipeline(step, [*[0] * (2 * copies), ahead], order)
