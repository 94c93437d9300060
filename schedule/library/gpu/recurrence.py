"""recurrence: steps that follow each other, such as running sums, each row by one thread."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from schedule.analysis.uses import accesses, read_by_others
from schedule.errors import require
from schedule.library.contraction.places import own_loops
from schedule.library.gpu.steps import all_or_nothing, bind_blocks, fuse_for_blocks
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import Buffer, Gpu, IterKind, Var, variables

HELD = 2
"""Elements of one array that a step may read, for these to be fetched ahead."""


class Recurrence(NamedTuple):
    """The parts of the schedule, for steps that follow.

    copies  the blocks that fetch what some steps read, into registers
    steps   the loop over so many steps at a time
    loop    the loop over rows that is bound to blocks of threads
    """

    copies: tuple[BlockRef, ...]
    steps: LoopRef
    loop: LoopRef


def recurrence(
    sch: Schedule, block: str, *, threads: int = Gpu.warp, ahead: int = 16
) -> Recurrence:
    """Schedule the step of a recurrence, s[t + 1, i] = f(s[t, i], x[t + 1, i]) of a te.scan, for a
    GPU: a thread takes row i through all steps, whatever f is.

    What `ahead` steps read besides the state is fetched at once before them, into registers, so
    that memory is waited for once for all of these. Extents need not divide.

    threads  of a block; few of them, so that rows go to many multiprocessors
    ahead    steps that are written out, and fetched for at once

    Raises ScheduleError where the block is no step of a scan, or has loops that are bound or were
    split.
    """
    with all_or_nothing(sch, f"gpu.recurrence({str(block)!r})"):
        require(threads > 0 and ahead > 0, block, f"{threads} threads, {ahead} steps are too few")
        node, around = sch.state.block(block), sch.get_loops(block)
        kinds = [it.kind for it in node.iters]
        one = kinds.count(IterKind.OPAQUE) == 1 and IterKind.REDUCE not in kinds
        require(one, block, f"block {block!r} is no step of a scan that is one expression")
        names = {sch.state.loop(loop).var: loop for loop in around}
        bound = [it.binding for it in node.iters]
        plain = all(isinstance(b, Var) and b in names or not variables(b) for b in bound)
        changed = f"the loops of block {block!r} were changed before"
        require(plain and own_loops(sch, block) == around, block, changed, "schedule it first")
        places = [it.binding for it in node.iters if it.kind is IterKind.OPAQUE]
        (time,) = [names[b] for b in places if isinstance(b, Var)] or [around[0]]
        rows = [loop for loop in around if loop != time] or [sch.add_unit_loop(time)]
        sch.reorder(*rows, time)
        fused = fuse_for_blocks(sch, rows)
        steps, turn = sch.split(time, [None, ahead])
        known = sch.state.loop(fused[-1]).const_extent
        part, thread = sch.split(fused[-1], [None, min(threads, known or threads)])
        tried = [_fetch(sch, block, buffer, steps) for buffer in _given(sch, block)]
        copies = [copy for copy in tried if copy is not None]
        sch.unroll(turn)
        loop = bind_blocks(sch, [*fused[:-1], part])
        sch.bind(thread, "threadIdx.x")
        return Recurrence(tuple(copies), steps, loop)
    raise AssertionError


def _given(sch: Schedule, block: str) -> list[Buffer]:
    """What a step reads at its time, of what no step makes."""
    node = sch.state.block(block)
    times = {it.var for it in node.iters if it.kind is IterKind.OPAQUE}
    own = read_by_others(node)
    found = [a for a in accesses(node) if not a.is_write and a.buffer in own]
    return list(
        dict.fromkeys(a.buffer for a in found if any(times & variables(i) for i in a.indices))
    )


def _fetch(sch: Schedule, block: str, buffer: Buffer, steps: LoopRef) -> BlockRef | None:
    """A copy in registers of what some steps read, where it is about an element for each."""
    start = len(sch.trace)
    copy = sch.cache_read(block, buffer.name, "local")
    sch.compute_at(copy, steps)
    around = sch.get_loops(copy)
    own = around[around.index(steps) + 1 :]
    sizes = [sch.state.loop(loop).const_extent for loop in own]
    most = HELD * (sch.state.loop(sch.get_loops(block)[-1]).const_extent or 1)
    if None in sizes or prod(n or 0 for n in sizes) > most:
        sch.undo(len(sch.trace) - start)
        return None
    for loop in own:
        sch.unroll(loop)
    return copy
