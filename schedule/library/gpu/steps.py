"""What schedules for GPUs share: to be one step or none, and loops that threads share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from schedule.analysis.uses import accesses, plain_stores, read_by_others, written
from schedule.errors import require
from schedule.library.contraction.find import flat_index
from schedule.library.contraction.places import lay_out, own_loops
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import (
    Access,
    Analyzer,
    Block,
    Buffer,
    Expr,
    Gpu,
    IterKind,
    Load,
    Var,
    dtype,
    int_value,
    slope,
    variables,
)

PLACES = 1024
"""Places of which is kept how variables move them: steps change bindings, and hardly any place."""

GRID = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
"""Axes of blocks; the first one can be the longest."""


def vector_of(buffer: Buffer) -> int:
    """Elements that one access can move along the last axis: all rows begin at a multiple."""
    lanes = max(1, Gpu.access_bytes // dtype.itemsize(buffer.dtype))
    last = int_value(buffer.shape[last_axis(buffer)]) if buffer.shape else None
    while lanes > 1 and (last is None or last % lanes):
        lanes //= 2
    return lanes


def last_axis(buffer: Buffer) -> int:
    """The last dimension along which an array has neighbours."""
    long = [n for n, extent in enumerate(buffer.shape) if int_value(extent) != 1]
    return max(long, default=len(buffer.shape) - 1)


def in_memory(access: Access) -> list[Var]:
    """The variables at which a block accesses an array, neighbours in memory along the last one,
    whatever its indices are; none where the place is no sum of multiples of them."""
    own = [i for i in access.indices if isinstance(i, Var)]
    rest = [i for i in access.indices if not isinstance(i, Var)]
    if len(set(own)) == len(own) and all(int_value(i) is not None for i in rest):
        return own
    extents = tuple((it.var, it.extent) for it in access.block.iters)
    return list(_by_steps(access.buffer, access.indices, extents))


@lru_cache(maxsize=PLACES)
def _by_steps(
    buffer: Buffer, indices: tuple[Expr, ...], extents: tuple[tuple[Var, Expr], ...]
) -> tuple[Var, ...]:
    """Variables of a place by how far they move it in memory, the largest first."""
    flat, names = flat_index(Load(buffer, indices)), [var for var, _ in extents]
    analyzer, used = Analyzer(dict(extents)), variables(flat)
    order = [v for v in names if v in used] + sorted(used - set(names), key=lambda v: v.name)
    steps = {var: slope(flat, var, analyzer) for var in order}
    known = {var: step for var, step in steps.items() if step is not None and step > 0}
    return tuple(sorted(known, key=lambda v: -known[v])) if len(known) == len(steps) else ()


def turned_reads(
    node: Block, units: bool = False
) -> tuple[list[Var], dict[Access, list[Var]]]:
    """The variables that move what a block stores, and those of each read in which the last of them
    is not the last; neighbours in memory along the last one. Variables of one value move nothing,
    but count with `units`."""
    still = {it.var for it in node.iters if int_value(it.extent) == 1 and not units}
    found = {a: [v for v in in_memory(a) if v not in still] for a in accesses(node)}
    stored = next((order for a, order in found.items() if a.is_write), [])
    reads = {a: order for a, order in found.items() if not a.is_write}
    return stored, {a: order for a, order in reads.items() if {*stored[-1:]} & {*order[:-1]}}


def order_of_reads(node: Block) -> list[Var]:
    """The variables of a block as the array moves that most of them move, neighbours along the last
    one: by its dimensions, whatever functions of variables its indices are."""
    own = [it.var for it in node.iters]
    reads = [a for a in accesses(node) if not a.is_write]
    used = [{v: n for n, i in enumerate(a.indices) for v in variables(i)} for a in reads]
    places = max(used, key=lambda dims: len(dims.keys() & set(own)), default={})
    return sorted(own, key=lambda var: places.get(var, -1))


def dimension_of(access: Access, var: Var) -> int:
    """The last dimension of an array whose index has a variable."""
    return max(n for n, index in enumerate(access.indices) if var in variables(index))


def shared_copy(sch: Schedule, block: str, buffer: str) -> tuple[BlockRef, Access]:
    """A copy in shared memory of what a block reads of an array, and how the block reads that.

    Where it is read at its axes the copy has these, else one for each variable of the block: tiles
    of these are boxes in it, whatever they are in the array.
    """
    reads = _reads(sch, block, buffer)
    plain = all(isinstance(i, Var) or int_value(i) is not None for a in reads for i in a.indices)
    copy = sch.cache_read(block, buffer, "shared") if plain else sch.reindex(block, buffer)
    if not plain:
        sch.set_scope(copy, 0, "shared")
        _lay_out_as_read(sch, copy)
    (made,) = written(sch.state.block(copy))
    return copy, _reads(sch, block, made.name)[0]


def _lay_out_as_read(sch: Schedule, copy: str) -> None:
    """Give what a copy stores at its variables the order in which it reads them."""
    read, stored = (
        next(a for a in accesses(sch.state.block(copy)) if a.is_write is write)
        for write in (False, True)
    )
    order: Sequence[Expr] = in_memory(read) or stored.indices
    dims = [f"d{stored.indices.index(var)}" for var in order]
    lay_out(sch, copy, f"{', '.join(f'd{n}' for n in range(len(dims)))}: {', '.join(dims)}")


def _reads(sch: Schedule, block: str, buffer: str) -> list[Access]:
    found = accesses(sch.state.block(block))
    return [a for a in found if not a.is_write and a.buffer.name == buffer]


def read_once(sch: Schedule, block: str, loop: LoopRef) -> None:
    """Let a block read before all iterations of a loop over threads what is the same in these: a
    number of the row, or of all there is, each thread in a register."""
    outside = {f.var for f in sch.state.loops_outside(loop)}
    node = sch.state.block(block)
    given = set(read_by_others(node))
    reads = [a for a in accesses(node) if a.buffer in given]
    moved = {a.buffer for a in reads if {v for i in a.in_loops() for v in variables(i)} - outside}
    for buffer in dict.fromkeys(a.buffer for a in reads):
        if buffer not in moved and buffer.scope == "global":
            sch.compute_at(sch.cache_read(block, buffer.name, "local"), loop)


def in_order_of_reads(sch: Schedule, copy: str) -> None:
    """Order the loops of a copy as the axes of what it reads: neighbours are read together. Where
    it is computed of several arrays, they are those of the one that most of them move; of none, no
    order is better than another."""
    reads = [a for a in accesses(sch.state.block(copy)) if not a.is_write]
    if not reads:
        return
    use = max(reads, key=lambda a: len({v for i in a.indices for v in variables(i)}))
    bound = {it.var: variables(it.binding) for it in use.block.iters}
    places = [bound[var] for var in in_memory(use)] or [variables(i) for i in use.in_loops()]
    loops = own_loops(sch, copy)
    at = {
        x: next((n for n, v in enumerate(places) if sch.state.loop(x).var in v), -1) for x in loops
    }
    if len(loops) > 1:
        sch.reorder(*sorted(loops, key=lambda loop: at[loop]))


def fuse_for_blocks(sch: Schedule, loops: Sequence[LoopRef]) -> list[LoopRef]:
    """Nested loops, outermost first, as one, or as several where one of symbolic extent is inside:
    as many as there are axes of blocks at the most. Before any are over threads: all that these
    share would be asked for once more."""
    groups: list[list[LoopRef]] = []
    for loop in loops:
        if not groups or sch.state.loop(loop).const_extent is None:
            groups.append([])
        groups[-1].append(loop)
    where = loops[0]
    most = f"{len(groups)} loops from {where!r} on have symbolic extents, and there are 3 axes"
    require(len(groups) <= len(GRID), where, most, "fix some of the sizes")
    return [sch.fuse(*group) if len(group) > 1 else group[0] for group in groups]


def bind_kernel(
    sch: Schedule, grid: Sequence[LoopRef], threads: Mapping[str, Sequence[LoopRef]]
) -> LoopRef:
    """Bind up to three nested loops, outermost first, to blocks of threads, and those over each
    axis of `threads`: in one step, as what threads share is proved at each. Returns the last loop
    over blocks."""
    blocks = [(loop, axis) for loop, axis in zip(grid, GRID[: len(grid)][::-1])]
    within = [(loops, axis) for axis, loops in threads.items() if loops]
    loops, axes = zip(*blocks, *((x[0] if len(x) == 1 else list(x), axis) for x, axis in within))
    sch.bind(list(loops), list(axes))
    return grid[-1]


def write_out(sch: Schedule, loops: Sequence[LoopRef]) -> None:
    """Unroll what loops there are, in one step."""
    if loops:
        sch.unroll(loops[0] if len(loops) == 1 else list(loops))


def reduction_of(sch: Schedule, block: str) -> tuple[list[LoopRef], list[LoopRef]]:
    """The loops around a reduction over its elements, in the order of their axes, and those over
    the terms of each."""
    node, around = sch.state.block(block), sch.get_loops(block)
    kinds = {it.kind for it in node.iters}
    stores = plain_stores(node)
    known = IterKind.REDUCE in kinds and stores is not None
    require(known, block, f"block {block!r} is no reduction to elements of its own")
    assert stores is not None
    bound = {it.var: variables(it.binding) for it in node.iters}
    by = {sch.state.loop(loop).var: loop for loop in around}
    places = [by[v] for i in stores[1] if isinstance(i, Var) for v in bound[i] if v in by]
    terms = {v for it in node.reduced for v in bound[it.var]}
    along = [loop for var, loop in by.items() if var in terms and loop not in places]
    units = [loop for loop in around if loop not in along and loop not in places]
    if not along:  # terms of extent 1
        units, along = units[:-1], units[-1:]
    return [*units, *dict.fromkeys(places)], along


def loops_in_memory(sch: Schedule, block: str, loops: Sequence[LoopRef]) -> list[LoopRef]:
    """Loops over the terms of a reduction, or over its results, nested in the order in which what
    it reads lies in memory: the array which most of them move. Those of one iteration come first.
    """
    node = sch.state.block(block)
    bound = {it.var: variables(it.binding) for it in node.iters}
    wide = [loop for loop in loops if sch.state.loop(loop).const_extent != 1]
    own, read = {sch.state.loop(loop).var: loop for loop in wide}, read_by_others(node)
    orders = [
        list(dict.fromkeys(own[v] for var in in_memory(a) for v in bound[var] if v in own))
        for a in accesses(node)
        if not a.is_write and a.buffer in read
    ]
    most = max(orders, key=len, default=[])
    if list(loops[len(loops) - len(most) :]) == most:
        return list(loops)
    ordered = [*(loop for loop in loops if loop not in most), *most]
    sch.reorder(*ordered)
    return ordered


def end_in(
    sch: Schedule, block: str, epilogue: str, loop: LoopRef, axis: str = "lane", threads: int = 0
) -> None:
    """Compute what alone reads a reduction in the loop over groups of its results, each element by
    a thread that has its sum in a register; there are so many `threads` along an axis, if not as
    many as elements."""
    sch.reverse_compute_at(epilogue, loop)
    own = own_loops(sch, epilogue)
    lane = sch.fuse(*own) if len(own) > 1 else own[0] if own else sch.add_unit_loop(epilogue)
    sch.bind(sch.split(lane, [None, threads])[1] if threads else lane, axis)
    sch.set_scope(block, 0, "local")
