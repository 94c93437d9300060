"""scattered: sums of which data tell the elements, such as histograms and gradients of tables.

Atomic additions would add in an order that differs from run to run. Here each thread has sums of
its own in shared memory, one for each element that its block has, and no thread waits for another
one: threads that share terms are combined in a fixed order at the end, so are blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.places import Updates, places
from schedule.analysis.uses import accesses, read_by_others, written
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.gpu.columns import columns
from schedule.library.gpu.steps import (
    bind_kernel,
    fuse_for_blocks,
    in_memory,
    last_axis,
    loops_in_memory,
    reduction_of,
    vector_of,
    write_out,
)
from schedule.schedule import Schedule
from schedule.state import LoopRef
from tensorir import Block, Buffer, Expr, Gpu, Load, Var, checked, int_value, variables, walk_exprs

COLUMNS = Gpu.warp
"""Results side by side for one term from which on lanes have these, and not terms."""

COMBINING = 8
"""Warps of a block that adds up what parts have."""


@checked
def scattered(
    sch: Schedule,
    block: str,
    *,
    parts: int = 128,
    warps: int = 4,
    elements: int = 256,
    ahead: int = 1,
    epilogue: str | None = None,
) -> LoopRef:
    """Schedule h[b] = the sum, or another reduction, of the terms that data say are for b.

    Each block of threads has a part of the terms and a range of elements, whose sums fill shared
    memory: one for each thread and element. Threads have terms in turn, 16 bytes each where that is
    aligned; where a term is for a row of 32 results or more, lanes have these and warps the terms.
    A second kernel combines the parts, in order: results are the same bits in every run.

    parts     into which the terms are divided, two at least
    warps     of a block of threads
    elements  of those that data choose among, of one block: others pass over a term
    ahead     terms that warps read together before they add them, whoever they are for; 1 reads
              those of its own elements, one after the other
    epilogue  an elementwise block that alone reads `block`, to be computed with it

    Returns the loop over parts, bound to blocks of threads.
    Raises ScheduleError where `scatter` refuses the sum, or `columns` what combines the parts.
    """
    with all_or_nothing(sch, f"gpu.scattered({str(block)!r})"):
        node = sch.state.block(block)
        counts = f"{parts} parts, {warps} warps, {elements} elements, {ahead} terms"
        require(parts > 1 and min(warps, elements, ahead) > 0, block, f"{counts} are too few")
        require(node.is_reduction, block, f"block {block!r} is no reduction")
        chosen = chosen_by_data(node)
        require(bool(chosen), block, f"no data tell which elements block {block!r} adds to")
        near, wide = _near(node, chosen), columns_of(node) >= COLUMNS
        _, along = reduction_of(sch, block)
        along = loops_in_memory(sch, block, along)
        lanes = terms_at_once(node) if len(along) == 1 else 1
        lanes = ahead if wide else lanes
        term = sch.fuse(*along) if len(along) > 1 else along[0]
        threads = warps if wide else Gpu.warp * warps
        part, _, own, _ = sch.split(term, [parts, None, threads, lanes])
        made = sch.rfactor(block, part, 0)
        mine = sch.rfactor(made, own, 0 if wide else -1)
        if len(chosen) == 1 and not _has_all(node, chosen[0], elements):
            _in_ranges(sch, mine, chosen[0], elements)
        loop = _kernel(sch, made, mine, chosen, near, wide, warps, elements, ahead > 1)
        columns(sch, block, warps=COMBINING, epilogue=epilogue)
        return loop


def chosen_by_data(node: Block) -> tuple[str, ...]:
    """The variables of a reduction whose value data tell for each term."""
    return tuple(place.it.var.name for place in places(node, Updates(node)))


def columns_of(node: Block) -> int:
    """Results side by side in memory that one term is for; 1 where there is one."""
    near = _near(node, ())
    return next((int_value(it.extent) or COLUMNS for it in node.iters if it.var.name == near), 1)


def terms_at_once(node: Block) -> int:
    """Terms in a row that a thread asks for with one access to what has them side by side, if they
    are of one loop."""
    return min([vector_of(buffer) for buffer in _along(node)], default=1)


def _has_all(node: Block, chosen: str, elements: int) -> bool:
    """Whether so many elements are all that a variable has."""
    extent = next(int_value(it.extent) for it in node.iters if it.var.name == chosen)
    return extent is not None and extent <= elements


def _along(node: Block) -> list[Buffer]:
    """What has the terms of a reduction side by side."""
    terms, own = {it.var for it in node.reduced}, read_by_others(node)
    found = [a for a in accesses(node) if not a.is_write and a.buffer in own and a.indices]
    return [a.buffer for a in found if terms & variables(a.indices[last_axis(a.buffer)])]


def _in_ranges(sch: Schedule, own: str, chosen: str, elements: int) -> None:
    """Divide the elements among which data choose into ranges, in the sums of a thread too."""
    node = sch.state.block(own)
    var = next(it.var for it in node.iters if it.var.name == chosen)
    places = [*dict.fromkeys((a.buffer, a.indices) for a in accesses(node) if a.is_write)]
    sch.transform_block_layout(own, _cut([it.var for it in node.iters], var, elements))
    for buffer, indices in places:
        sch.transform_layout(own, buffer.name, _cut(indices, var, elements), pad_value="unset")


def _cut(places: Sequence[Expr], var: Var, size: int) -> str:
    """An index map that divides one place, the number of the range first."""
    names = [f"d{n}" for n in range(len(places))]
    at = next(n for n, place in enumerate(places) if place is var)
    cut = [f"d{at} // {size}", *names[:at], f"d{at} % {size}", *names[at + 1 :]]
    return f"{', '.join(names)}: {', '.join(cut)}"


def _kernel(
    sch: Schedule, parts: str, own: str, chosen: Sequence[str], near: str, wide: bool, warps: int,
    elements: int, ahead: bool,
) -> LoopRef:  # fmt: skip
    """The kernel of parts: sums of threads, cleared, added to and combined in shared memory."""
    node, by = sch.state.block(parts), _loops(sch, parts)
    (thread,) = (it.var.name for it in node.reduced)
    inner = [by[name] for name in chosen]
    grid = [loop for name, loop in by.items() if name not in (*chosen, thread, near)]
    lane = []
    if len(chosen) == 1 and not _has_all(node, chosen[0], elements):
        far, *inner = sch.split(inner[0], [None, elements])
        grid.append(far)
    if wide:
        far, *lane = sch.split(by[near], [None, Gpu.warp])
        grid.append(far)
    elif near:
        inner.append(by[near])
    sch.reorder(*grid, *inner, *lane, by[thread])
    grid = fuse_for_blocks(sch, grid)
    sch.compute_at(own, grid[-1])
    mine = _add(sch, own, thread, grid[-1], near if wide else "", ahead)
    each, few = sch.split(sch.fuse(*inner) if len(inner) > 1 else inner[0], [None, warps])
    if wide:
        sch.reorder(each, few, *lane, by[thread])
        return bind_kernel(sch, grid, {"warp": [mine[0], few], "lane": [mine[1], *lane]})
    far, shared = sch.split(by[thread], [None, Gpu.warp])
    sch.reorder(each, few, far, shared)
    warp, first = sch.split(mine[0], [warps, Gpu.warp])
    return bind_kernel(sch, grid, {"warp": [warp, few], "lane": [first, shared]})


def _add(
    sch: Schedule, own: str, thread: str, grid: LoopRef, lane: str, ahead: bool
) -> list[LoopRef]:
    """The sums of threads inside of a loop over blocks: returns the loops over the threads that
    share terms, and over results side by side. Terms are read `ahead` of what data say of them, or
    those that are for a block."""
    node, by = sch.state.block(own), _loops(sch, own, grid)
    gone = [by[place.it.var.name] for place in places(node, Updates(node))]
    terms = [by[it.var.name] for it in node.reduced if it.var.name in by]
    shared = [by[name] for name in (thread, lane) if name]
    inside = sch.get_loops(own)[sch.get_loops(own).index(grid) + 1 :]
    rest = [loop for loop in inside if loop not in (*gone, *terms, *shared)]
    sch.reorder(*shared, *gone, *terms, *rest)
    data = {load.buffer for place in places(node, Updates(node)) for load in _loads(place.value)}
    sch.scatter(own)
    for buffer in dict.fromkeys(a.buffer for a in accesses(node) if not a.is_write):
        if buffer not in read_by_others(node) or (
            lane and not ahead and buffer not in data
        ):
            continue
        copy = sch.cache_read(own, buffer.name, "local")
        sch.compute_at(copy, terms[0])
        loops = sch.get_loops(copy)[sch.get_loops(copy).index(terms[0]) + 1 :]
        size = sch.state.loop(loops[-1]).const_extent if loops else None
        near = not lane or buffer in data  # others have columns side by side
        if near and size is not None and vector_of(buffer) % size == 0:
            sch.vectorize(loops.pop())
        write_out(sch, loops)
    write_out(sch, terms[1:])
    for n in range(len(written(node))):
        sch.set_scope(own, n, "shared")
    return shared


def _loads(e: Expr) -> list[Load]:
    return [node for node in walk_exprs(e) if isinstance(node, Load)]


def _loops(sch: Schedule, block: str, outer: LoopRef | None = None) -> dict[str, LoopRef]:
    """The loop of each variable of a block, inside of an outer one."""
    around = sch.get_loops(block)
    loops = around[0 if outer is None else around.index(outer) + 1 :]
    used = {it.var.name: variables(it.binding) for it in sch.state.block(block).iters}
    own = [(name, x) for name, v in used.items() for x in loops if sch.state.loop(x).var in v]
    return dict(own)


def _near(node: Block, chosen: Sequence[str]) -> str:
    """The variable of results that lie side by side for one term, "" where there is none."""
    spatial, own = {it.var for it in node.spatial}, read_by_others(node)
    near = [in_memory(a)[-1:] for a in accesses(node) if not a.is_write and a.buffer in own]
    return next((v.name for vs in near for v in vs if v in spatial and v.name not in chosen), "")
