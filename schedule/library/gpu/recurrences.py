"""Steps of any te.scan: each row by one thread."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from schedule.analysis.uses import accesses, read_by_others, writers, written
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.places import own_loops
from schedule.library.gpu.cooperative_fetch import split_for_threads
from schedule.library.gpu.memory.sectors import from_sectors, in_sector
from schedule.library.gpu.steps import (
    bind_kernel,
    fuse_for_blocks,
    in_memory,
    in_order_of_reads,
    last_axis,
    write_out,
)
from schedule.schedule import Schedule
from schedule.state import LoopRef
from tensorir import Buffer, Expr, Gpu, IterKind, Var, checked, dtype, variables

HELD = 2
"""Elements of one array that a step may read, for these to be fetched ahead."""


@checked
def recurrence(
    sch: Schedule,
    block: str,
    *,
    threads: int = Gpu.warp,
    ahead: int = 16,
    reader: str | None = None,
) -> LoopRef:
    """Schedule the step of a recurrence, s[t + 1, i] = f(s[t, i], x[t + 1, i]) of a te.scan, for a
    GPU: a thread takes row i through all steps, whatever f is.

    What `ahead` steps read besides the state is fetched at once before them, so that memory is
    waited for once for all of these: into registers, or, where steps that follow each other read
    neighbours in memory, into shared memory by all threads together. Extents need not divide.

    threads  of a block; few of them, so that rows go to many multiprocessors
    ahead    steps that are written out, and fetched for at once
    reader   an elementwise block that alone reads the states, each at its own time and row, to be
             computed with them, in one kernel with the first row: states stay in registers

    Returns the loop over rows, bound to blocks of threads.
    Raises ScheduleError where the block is no step of a scan, or has loops that are bound or were
    split, or `reader` reads states in another way, or stores what follows in time side by side.
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
        if reader is None:
            sch.reorder(*rows, time)
            fused = fuse_for_blocks(sch, rows)
        else:
            row, time = _with_reader(sch, block, rows, time, reader)
            fused = [row]
        steps, turn = sch.split(time, [None, ahead])
        known = sch.state.loop(fused[-1]).const_extent
        part, thread = sch.split(fused[-1], [None, min(threads, known or threads)])
        shared: list[LoopRef] = []
        where, given = steps, _given(sch, block)
        if reader is None and any(_follow(sch, block, buffer) for buffer in given):
            sch.reorder(steps, thread)
            where = thread
            shared = _fetch_rows(sch, block, given, steps, thread)
        left = [buffer for buffer in _given(sch, block) if buffer in given]
        for buffer in left:
            _fetch(sch, block, buffer, where)
        sch.unroll(turn)
        return bind_kernel(sch, [*fused[:-1], part], {"threadIdx.x": [thread, *shared]})


def _given(sch: Schedule, block: str) -> list[Buffer]:
    """What a step reads at its time, of what no step makes."""
    node = sch.state.block(block)
    times = {it.var for it in node.iters if it.kind is IterKind.OPAQUE}
    own = read_by_others(node)
    found = [a for a in accesses(node) if not a.is_write and a.buffer in own]
    return list(
        dict.fromkeys(a.buffer for a in found if any(times & variables(i) for i in a.indices))
    )


def _fetch(sch: Schedule, block: str, buffer: Buffer, steps: LoopRef) -> None:
    """Copy to registers what some steps read, where it is about an element for each."""
    start = len(sch.trace)
    copy = sch.cache_read(block, buffer.name, "local")
    sch.compute_at(copy, steps)
    around = sch.get_loops(copy)
    own = around[around.index(steps) + 1 :]
    sizes = [sch.state.loop(loop).const_extent for loop in own]
    most = HELD * (sch.state.loop(sch.get_loops(block)[-1]).const_extent or 1)
    if None in sizes or prod(n or 0 for n in sizes) > most:
        sch.undo(len(sch.trace) - start)
    else:
        write_out(sch, own)


def _follow(sch: Schedule, block: str, buffer: Buffer) -> bool:
    """Whether steps that follow each other read neighbours in memory of an array."""
    node = sch.state.block(block)
    times = {it.var for it in node.iters if it.kind is IterKind.OPAQUE}
    reads = [a for a in accesses(node) if not a.is_write and a.buffer is buffer]
    return all(times & {*in_memory(a)[-1:]} for a in reads)


def _fetch_rows(
    sch: Schedule, block: str, given: Sequence[Buffer], steps: LoopRef, thread: LoopRef
) -> list[LoopRef]:
    """Copy to shared memory what some steps read of arrays in which they follow each other; returns
    the loop over threads of each: lanes that copy have neighbours, those that have rows meet in no
    bank. None of what is much more than an element for each step of each row."""
    found: list[LoopRef] = []
    count = sch.state.loop(thread).const_extent or 1
    most = HELD * count * (sch.state.loop(sch.get_loops(block)[-1]).const_extent or 1)
    for buffer in given:
        start = len(sch.trace)
        if not _follow(sch, block, buffer):
            continue
        copy = sch.cache_read(block, buffer.name, "shared")
        sch.compute_at(copy, steps)
        in_order_of_reads(sch, copy)
        own = own_loops(sch, copy)
        sizes = [sch.state.loop(loop).const_extent for loop in own]
        if not own or None in sizes or prod(n or 0 for n in sizes) > most:
            sch.undo(len(sch.trace) - start)
            continue
        begun = from_sectors(sch, copy, own[-1])
        if begun != own[-1]:
            sch.split(begun, [None, in_sector(buffer.dtype)])
        (made,) = written(sch.state.block(copy))
        word = max(1, Gpu.bank_bytes // dtype.itemsize(buffer.dtype))
        if (row := last_axis(made)) > 0:
            sch.storage_align(copy, made.name, row - 1, 2 * word, word)
        part, lanes = split_for_threads(sch, copy, [count], 1)
        found.append(lanes)
        sch.unroll(part)
    return found


def _with_reader(
    sch: Schedule, block: str, rows: Sequence[LoopRef], time: LoopRef, reader: str
) -> tuple[LoopRef, LoopRef]:
    """The loop over rows, and that over steps, of one nest that has the first row of the states as
    well, and what reads them."""
    states = written(sch.state.block(block))[0]
    place, now = _place(sch, block, states), sch.state.loop(time).var
    dims = [place.index(row) for row in (sch.state.loop(each).var for each in rows) if row in place]
    when = next(n for n, index in enumerate(place) if now in variables(index))
    firsts = [str(name) for name in writers(sch.state, states) if name != block]
    fits = len(dims) == len(rows) and len(firsts) == 1
    require(fits, block, f"the states of block {block!r} are not in rows with one first block")
    later = _after_first(sch, reader, _place(sch, reader, states)[when])
    names = (firsts[0], block, reader, later)
    row = sch.merge(*[_rows(sch, name, states, dims) for name in names])
    sch.run_before(reader, block)
    time = sch.merge(sch.get_loops(block)[-1], sch.get_loops(later)[-1])
    sch.set_scope(firsts[0], 0, "local")
    return row, time


def _after_first(sch: Schedule, reader: str, time: Expr) -> str:
    """Take the first time of a reader apart; returns the block of the later ones."""
    node, around = sch.state.block(reader), sch.get_loops(reader)
    along = [loop for loop in around if sch.state.loop(loop).var is time]
    stored = [in_memory(access)[-1:] for access in accesses(node) if access.is_write]
    near = {it.binding for it in node.iters if [it.var] in stored}
    fits = len(along) == 1 and not any(time is each for each in near)
    require(fits, reader, f"block {reader!r} stores what follows in time side by side, or reads it "
            "elsewhere than at its own time")  # fmt: skip
    sch.reorder(*along, *[loop for loop in around if loop not in along])
    _, rest = sch.partition(along[0], [1, None])
    (later,) = sch.get_child_blocks(rest)
    return str(later)


def _place(sch: Schedule, block: str, states: Buffer) -> Sequence[Expr]:
    """Where a block writes the states, or else reads them, by its loops."""
    found = [a for a in accesses(sch.state.block(block)) if a.buffer.name == states.name]
    places = {a.in_loops(): None for a in found if a.is_write} or {a.in_loops() for a in found}
    require(len(places) == 1, block, f"block {block!r} accesses several elements of the states")
    return next(iter(places))


def _rows(sch: Schedule, block: str, states: Buffer, dims: Sequence[int]) -> LoopRef:
    """The loops of a block over rows of the states as one, outside of its others."""
    place, around = _place(sch, block, states), sch.get_loops(block)
    names: dict[Expr, LoopRef] = {sch.state.loop(loop).var: loop for loop in around}
    rows = [names[place[n]] for n in dims if place[n] in names]
    require(len(rows) == len(dims), block, f"block {block!r} is not at its rows of the states")
    sch.reorder(*rows, *[loop for loop in around if loop not in rows])
    return sch.fuse(*rows) if len(rows) > 1 else rows[0]
