"""boxes: what is read in another order than it is written goes through boxes in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from schedule.analysis.uses import accesses, written
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.places import lay_out, own_loops
from schedule.library.gpu.cooperative_fetch import split_for_threads
from schedule.library.gpu.elementwise import axes_of, stored_at
from schedule.library.gpu.memory.banks import Pitch, best_pitch
from schedule.library.gpu.memory.sectors import from_sectors, in_sector
from schedule.library.gpu.steps import (
    bind_kernel,
    fuse_for_blocks,
    in_memory,
    in_order_of_reads,
    shared_copy,
    turned_reads,
)
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import (
    Access,
    Gpu,
    IterKind,
    Var,
    checked,
    const,
    dtype,
    format_expr,
    substitute,
    variables,
)


@checked
def boxes(
    sch: Schedule,
    block: str,
    sizes: Sequence[int],
    *,
    warps: int = 8,
    sectors: bool = False,
) -> LoopRef:
    """Schedule B[h, w, c] = f(A[c, h, w]) for a GPU: any permutation of any axes, short ones too.

    A block of threads moves a box of some extent along each axis: it is read in the order of A, and
    written in the order of B, so that both are contiguous as far as the box has whole axes. Extents
    need not divide. What is read in the order of B is read where it is needed. Boxes lie in shared
    memory as they are read, or with neighbours in B side by side, and with the pitch at which lanes
    meet in the fewest banks.

    sizes  of a box along the axes of B, in the order of memory
    warps  of a block of threads
    sectors whether lanes that write B, and those that read A, begin where sectors of memory do, in
           rows of B that begin within one: of what a box reads for them some elements at both ends
           are another's. Boxes are to be many sectors long

    Returns the loop over boxes, bound to blocks of threads.
    Raises ScheduleError where the block reads nothing in another order than it writes.
    """
    with all_or_nothing(sch, f"gpu.boxes({str(block)!r})"):
        node = sch.state.block(block)
        reduces = any(it.kind is IterKind.REDUCE for it in node.iters)
        require(not reduces, block, f"block {block!r} is a reduction", "use rows or columns")
        axes = axes_of(sch, block)
        given = f"{len(sizes)} sizes for the {len(axes)} axes of block {block!r}"
        require(len(sizes) == len(axes) and min(sizes) > 0, block, given, "give one for each")
        moving, reads = turned_reads(node)
        turned = {a.buffer.name: a for a in reads}
        require(bool(turned), block, f"block {block!r} reads all in the order that it writes")
        bound = {it.var: it.binding for it in node.iters}
        looped = [i for i in stored_at(node) or () if isinstance(bound.get(i), Var)]
        if sectors:
            axes[-1] = from_sectors(sch, block, axes[-1])
        split = [sch.split(axis, [None, size]) for axis, size in zip(axes, sizes)]
        outer, inner = [pair[0] for pair in split], [pair[1] for pair in split]
        sch.reorder(*outer, *inner)
        box = {var: size for var, size in zip(looped, sizes) if var in moving}
        copies = [_copied(sch, block, read, box, sectors) for read in turned.values()]
        for copy in copies:
            sch.compute_at(copy, outer[-1])
            in_order_of_reads(sch, copy)
            if sectors:
                _from_sector_rows(sch, block, copy, next(reversed(box)))
        threads = min(warps * Gpu.warp, -(-prod(sizes) // Gpu.warp) * Gpu.warp)
        flat = sch.fuse(*inner) if len(inner) > 1 else inner[0]
        part, thread = sch.split(flat, [None, threads])
        sch.reorder(thread, part)
        shared = [split_for_threads(sch, copy, [threads], 1) for copy in copies]
        grid = fuse_for_blocks(sch, outer)
        sch.unroll([part, *(step for step, _ in shared)])
        lanes = [thread, *(lanes for _, lanes in shared)]
        return bind_kernel(sch, grid, {"threadIdx.x": lanes})


def _from_sector_rows(sch: Schedule, block: str, copy: str, last: Var) -> None:
    """Let a copy begin with as many rows before a piece of a result, along the variable `last`, as
    make a multiple of a sector's elements: these begin with a sector, of whatever length."""
    (made,) = written(sch.state.block(copy))
    at = next(a for a in accesses(sch.state.block(block)) if a.buffer is made).indices.index(last)
    store = next(a for a in accesses(sch.state.block(copy)) if a.is_write).in_loops()[at]
    for loop in own_loops(sch, copy):
        var = sch.state.loop(loop).var
        if var in variables(store):
            analyzer = sch.state.analyzer(sch.state.loops_around(copy))
            begin = substitute(store, {var: const(0)}) % in_sector(made.dtype)
            begin = analyzer.simplify(begin)
            if begin is not const(0) and not variables(begin):
                sch.shift(loop, format_expr(begin))


def _copied(
    sch: Schedule, block: str, read: Access, box: dict[Var, int], sectors: bool
) -> BlockRef:
    """A copy in shared memory of what a block reads in another order of its variables than that of
    its results, of which `box` has the sizes. It lies so that threads which write it in this order,
    and read it in that of the results, meet in the fewest banks."""
    copy, use = shared_copy(sch, block, read.buffer.name)
    last, item = next(reversed(box)), dtype.itemsize(use.buffer.dtype)
    held = {**box, last: box[last] + sectors * (in_sector(use.buffer.dtype) - 1)}
    taken = [[(v, sizes[v]) for v in order if v in use.indices and v in sizes]
             for order, sizes in ((in_memory(read), held), (box, box))]  # fmt: skip
    dims, at = list(range(use.buffer.ndim)), use.indices.index(last)

    def met(order: Sequence[int]) -> tuple[int, Pitch | None]:
        along = [use.indices[n] for n in order]
        place = {v: n for n, v in enumerate(along) if isinstance(v, Var)}
        extents = [held.get(v, 1) if isinstance(v, Var) else 1 for v in along]
        return best_pitch(extents, [{place[v]: n for v, n in each} for each in taken], item)

    orders = dims, [*dims[:at], *dims[at + 1 :], at]
    (_, pitch), order = min(((met(order), order) for order in orders), key=lambda way: way[0][0])
    names, laid = (", ".join(f"d{n}" for n in each) for each in (dims, order))
    lay_out(sch, copy, f"{names}: {laid}")
    if pitch is not None:
        sch.storage_align(copy, use.buffer.name, *pitch)
    return copy
