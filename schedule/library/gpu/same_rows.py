"""same_rows: elementwise stages that read something for all rows alike, such as a bias."""

from __future__ import annotations

from schedule.analysis.uses import accesses
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.gpu.elementwise import axes_of, widest
from schedule.library.gpu.steps import bind_kernel, fuse_for_blocks
from schedule.schedule import Schedule
from schedule.state import LoopRef
from tensorir import Buffer, Gpu, IterKind, Var, variables


def same_rows(
    sch: Schedule, block: str, *, threads: int = 8 * Gpu.warp, rows: int = 8
) -> LoopRef:
    """Schedule B[.., i, j] = f(A[.., i, j], v[j]) for a GPU: what only the last axes move, one or
    several of them, is read once for some rows and stays in registers.

    Each thread has the same elements of `rows` rows, 16 bytes of each where rows begin at multiples
    of that; short rows lie side by side in a block. Extents need not divide.

    threads  of a block, about
    rows     that a thread computes one after the other

    Returns the loop that is bound to blocks of threads.
    Raises ScheduleError where the block is a reduction, stores elsewhere than at its own variables,
    or reads nothing for all rows alike.
    """
    with all_or_nothing(sch, f"gpu.same_rows({str(block)!r})"):
        node = sch.state.block(block)
        reduces = any(it.kind is not IterKind.SPATIAL for it in node.iters)
        require(not reduces, block, f"block {block!r} is a reduction", "use rows or columns")
        require(threads > 0 and rows > 1, block, f"{threads} threads of {rows} rows are too few")
        axes = axes_of(sch, block)
        common, depth = alike(sch, block, axes)
        none = f"block {block!r} reads nothing for all rows alike"
        require(bool(common), block, none, "use elementwise")
        outer, inner = axes[:depth], axes[depth:]
        width = min(Gpu.access_bytes, widest(sch, block))
        lanes: list[LoopRef] = []
        if width > 1:
            inner[-1], lane = sch.split(inner[-1], [None, width])
            lanes = [lane]
        row, column = (fuse_for_blocks(sch, loops) for loops in (outer, inner))
        several = f"axes of block {block!r} have symbolic extents inside"
        require(len(row) == len(column) == 1, block, several, "fix some of the sizes")
        length = sch.state.loop(column[0]).const_extent
        wide = threads if length is None else min(threads, max(1, length))
        over, turn, beside = sch.split(row[0], [None, rows, max(1, threads // wide)])
        part, place = sch.split(column[0], [None, wide])
        sch.reorder(over, part, beside, place, turn, *lanes)
        thread = sch.fuse(beside, place)
        for buffer in common:
            copy = sch.cache_read(block, buffer.name, "local")
            sch.compute_at(copy, thread)
            own = sch.get_loops(copy)
            if lanes and own[-1] != thread:
                sch.vectorize(own[-1])
        sch.unroll(turn)
        for lane in lanes:
            sch.vectorize(lane)
        grid = fuse_for_blocks(sch, [over, part])
        return bind_kernel(sch, grid, {"threadIdx.x": [thread]})


def alike(sch: Schedule, block: str, axes: list[LoopRef]) -> tuple[list[Buffer], int]:
    """What an elementwise block reads at the last of its axes alone, and how many axes are before
    these; none where nothing is so."""
    node = sch.state.block(block)
    names = {it.var: it.binding for it in node.iters}
    order = [sch.state.loop(axis).var for axis in axes]
    found: dict[Buffer, int] = {}
    for access in accesses(node):
        used = {v for i in access.indices for v in variables(i) if isinstance(v, Var)}
        loops = {v for own in used & set(names) for v in variables(names[own]) if v in order}
        if access.is_write or not loops or order[-1] not in loops:
            continue
        first = min(order.index(v) for v in loops)
        found[access.buffer] = min(first, found.get(access.buffer, first))
    first = min((n for n in found.values() if n > 0), default=0)
    return [buffer for buffer, n in found.items() if n >= first > 0], first
