"""Steps of a te.scan that associate, such as running sums: each row in pieces, by many threads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import gcd

from schedule.analysis.uses import accesses, written
from schedule.errors import ScheduleError, require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.places import lay_out
from schedule.library.gpu.elementwise import elementwise
from schedule.library.gpu.in_rows.rows import rows
from schedule.library.gpu.memory.sectors import from_sectors, in_sector
from schedule.library.gpu.steps import bind_kernel
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import Gpu, IterKind, checked, dtype, int_value, variables

SHORT = 4 * Gpu.warp
"""Threads of a block at the least: where rows have fewer it takes several of them."""

Kernel = tuple[LoopRef, list[LoopRef]]
"""The loop of a kernel over blocks of threads, and those over threads."""

AT_ONCE = 4
"""Terms of a sum that a thread has side by side in its code, whose loads are under way at once."""


@checked
def scan(
    sch: Schedule,
    block: str,
    *,
    threads: int = 256,
    elements: int = 9,
    warps: int = 8,
    sectors: bool = False,
    reader: str | None = None,
) -> LoopRef:
    """Schedule the step of an associative recurrence, s[t + 1, i] = s[t, i] + x[t + 1, i] of a
    te.scan or with another operation, for a GPU, by the algorithm `scan_256x9` or its
    like.

    Threads of a block copy a row to shared memory, neighbours in memory side by side, and each
    scans a piece of it. The totals of pieces are scanned in as many steps as they double, and what
    comes before a piece is added on the way out. So a row is read once and written once. Rows that
    are too long for a block are cut: one kernel sums up the pieces, their sums are scanned like
    rows, and the last kernel reads the pieces again. Short rows share a block. Extents need not
    divide.

    threads   of a block at the most
    elements  of the piece of a thread; there are algorithms for some numbers of both
    warps     of a block that sums up
    sectors   whether lanes begin where sectors of memory do, in each row, or of short rows in as
              many as a block has, which fill whole sectors together
    reader    an elementwise block that alone reads the states, to be computed with them: it may
              turn them around, and read the state before its own where rows are of one piece

    Returns the loop over rows, and over the pieces of long ones, bound to blocks of threads.
    Raises ScheduleError where the operation is none that is known to be associative, the number of
    steps is no constant, or `reader` does not keep to the rows and pieces.
    """
    with all_or_nothing(sch, f"gpu.scan({str(block)!r})"):
        require(elements > 0 and warps > 0, block, f"{elements} elements, {warps} warps: too few")
        kernels, sums = _unbound(sch, block, threads, elements, sectors, reader)
        *_, loop = [bind_kernel(sch, [loop], {"threadIdx.x": lanes}) for loop, lanes in kernels]
        for name in sums:
            _sum_up(sch, name, warps * Gpu.warp, sectors and name is sums[-1])
        if reader in sch.get_blocks() and not _is_bound(sch, str(reader)):
            elementwise(sch, str(reader))
        return loop


def _is_bound(sch: Schedule, block: str) -> bool:
    return any(sch.state.loop(loop).thread is not None for loop in sch.get_loops(block))


def _unbound(
    sch: Schedule, block: str, threads: int, elements: int, sectors: bool, reader: str | None
) -> tuple[list[Kernel], list[BlockRef]]:
    """The kernels of a scan, that of its own states last, and the sums of pieces. Nothing is over
    threads yet: each step after that asks what these share."""
    states_in_rows(sch, block)
    before = set(sch.get_blocks())
    last: str = sch.use_algorithm(block, f"scan_{threads}x{elements}")
    made = [b for b in sch.get_blocks() if b not in before or b == last]
    kernels, sums = list[Kernel](), list[BlockRef]()
    if any(sch.state.block(b).is_reduction for b in made):
        total, _, over_blocks, *made = made
        kernels, sums = _unbound(sch, over_blocks, threads, elements, False, None)
        sums.append(total)
    left = _with_reader(sch, last, reader, whole_rows=not sums)
    kernels.append(_by_blocks(sch, [*made[:-1], left], sectors))
    return kernels, sums


def states_in_rows(sch: Schedule, block: str) -> None:
    """Lay out the states of a te.scan row by row, if they are no result: the time last, as one
    dimension if it is several, and none that has one value. So what reads them is found as if a
    reduction or an elementwise stage had made them."""
    node = sch.state.block(block)
    access, *others = [a for a in accesses(node) if a.is_write]
    require(not others, block, f"block {block!r} makes several states")
    times = {it.var for it in node.iters if it.kind is IterKind.OPAQUE}
    steps = [it.extent for it in node.iters if it.var in times]
    if access.buffer in sch.func.params or all(int_value(n) == 1 for n in steps):
        return  # callers know where it lies, and of a single step the time would be gone
    names = [f"d{n}" for n in range(access.buffer.ndim)]
    rows, time = list[str](), ""
    for name, index, size in zip(names, access.indices, access.buffer.shape):
        if times & variables(index):
            time = f"({time}) * {size} + {name}" if time else name
        elif int_value(size) != 1:
            rows.append(name)
    lay_out(sch, block, f"{', '.join(names)}: {', '.join((*rows, time))}")


def _with_reader(sch: Schedule, last: str, reader: str | None, whole_rows: bool) -> str:
    """Compute what reads the states in their place, or them where they are read, or else leave them
    in memory in the order of rows; returns the block that makes what is left."""
    if reader is not None:
        with suppress(ScheduleError):
            sch.reverse_compute_inline(reader)
            return last
        if whole_rows:
            sch.compute_inline(last)
            return reader
    return last


def _by_blocks(sch: Schedule, stages: Sequence[str], sectors: bool) -> Kernel:
    """The kernel of stages that copy a row, scan the pieces of threads, and their totals."""
    terms, first, step, *totals, last = stages
    (row,), (pieces,) = (written(sch.state.block(name)) for name in (terms, step))
    each, _, _, threads = (int_value(n) or 0 for n in pieces.shape)
    for total in totals[:1]:
        sch.compute_inline(total)
    for name in (terms, step, *totals[1:]):
        sch.set_scope(name, 0, "shared")
    lay_out(sch, step, "e, r, b, c: r, b, c, e")
    word = max(1, Gpu.bank_bytes // dtype.itemsize(row.dtype))
    if threads < Gpu.warp:  # lanes have pieces of several rows
        sch.storage_align(terms, row.name, 1, Gpu.banks * word, each * threads % (Gpu.banks * word))
    side = max(1, SHORT // threads)
    if sectors and side > 1:  # rows that fill whole sectors together
        kinds = [a.buffer.dtype for n in (terms, last) for a in accesses(sch.state.block(n))]
        sector = max(map(in_sector, kinds))
        unit = sector // gcd(int_value(row.shape[-1]) or 1, sector)
        side = -(-side // unit) * unit
    if (known := int_value(row.shape[0])) is not None:
        side = min(side, known)
    tasks, shares, lanes = list[LoopRef](), list[list[LoopRef]](), list[LoopRef]()
    names = (terms, first, step, *totals[1:], last)
    for name in names:
        steps, (over, part, within) = _loops(sch, name, pieces.name, each * threads)
        own = [within]
        if side > 1:
            over, several = sch.split(over, [None, side])
            own = [several, within]
        if side > 1 or steps:
            sch.reorder(over, part, *own, *steps)
        tasks.append(sch.fuse(over, part))
        shares.append(own)
    loop = sch.merge(*tasks)
    for name, own in zip(names, shares):
        share = sch.fuse(*own) if side > 1 else own[0]
        if sectors and side == 1 and name in (terms, last):
            share = from_sectors(sch, name, share)
        if sch.state.loop(share).const_extent != side * threads:
            _, share = sch.split(share, [None, side * threads])
        lanes.append(share)
    return loop, lanes


def _sum_up(sch: Schedule, sums: str, threads: int, sectors: bool) -> None:
    """The kernel of the sums of pieces: a block of threads for each, which have terms in turn."""
    if sectors:
        rows(sch, sums, warps=threads // Gpu.warp, keep="shared", sectors=True, stages=())
        return
    row, part, term = sch.get_loops(sums)
    _, turn, thread = sch.split(term, [None, AT_ONCE, threads])
    sch.unroll(turn)
    bind_kernel(sch, [sch.fuse(row, part)], {"threadIdx.x": [thread]})


def _loops(
    sch: Schedule, name: str, pieces: str, together: int
) -> tuple[list[LoopRef], list[LoopRef]]:
    """The loops of a stage over the steps of a thread; and that over rows, over their parts for
    blocks of threads, and over what is in these."""
    node, loops = sch.state.block(name), sch.get_loops(name)
    if written(node)[0].scope == "shared":
        return loops[:-3], loops[-3:]
    place = next(a for a in accesses(node) if a.buffer.name == pieces).indices
    own = variables(place[0])
    of_row = {v for it in node.iters if it.var in own for v in variables(it.binding)}
    nodes = {loop: sch.state.loop(loop) for loop in loops}
    across = [x for x in loops if nodes[x].var in of_row or nodes[x].const_extent == 1]
    times = [loop for loop in loops if loop not in across]
    require(len(times) == 1, name, "its loops are no rows of the states")
    time = times[0]
    if not across:
        across = [sch.add_unit_loop(time)]
    sch.reorder(*across, time)
    row = sch.fuse(*across) if len(across) > 1 else across[0]
    if (nodes[time].const_extent or 0) <= together:
        return [], [row, sch.add_unit_loop(time), time]
    return [], [row, *sch.split(time, [None, together])]
