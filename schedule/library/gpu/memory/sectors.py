"""sectors: lanes begin where memory does, in rows whose length is no multiple of a sector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import prod

from schedule.library.contraction.find import flat_index
from schedule.library.contraction.places import own_loops
from schedule.library.gpu.steps import last_axis
from schedule.schedule import Schedule
from schedule.state import LoopRef, State, loops_below
from tensorir import (
    Access,
    Block,
    Buffer,
    Expr,
    For,
    Gpu,
    Load,
    Select,
    Store,
    accesses,
    const,
    dtype,
    format_expr,
    int_value,
    slope,
    substitute,
    variables,
)

LONG = 512
"""Elements of a row from which on others that lie beside it have no part in it: a sector more at
its end is little."""


def begins_within(block: Block) -> bool:
    """Whether rows of an array that a block accesses begin within a sector of memory, or may."""
    return any(before_rows(access) for access in accesses(block))


def before_rows(access: Access) -> int:
    """Elements of a sector in which rows of an array begin, 0 where they begin with one."""
    last = last_axis(access.buffer)
    if all(int_value(size) == 1 for size in access.buffer.shape[:last]):
        return 0
    length, sector = int_value(access.buffer.shape[last]), in_sector(access.buffer.dtype)
    return sector if length is None or (length > 1 and length % sector) else 0


def from_sectors(
    sch: Schedule, block: str, loop: LoopRef, alike: Sequence[str] = ()
) -> LoopRef:
    """Shift a loop over neighbours in memory so that what it is split into begins where sectors do,
    in each row of what `block` accesses in global memory; returns the loop, itself where rows begin
    there anyway or are no neighbours along it.

    A warp whose lanes have 32 elements from the middle of a sector on asks for one sector more.
    Where iterations are some elements apart, parts begin less than that behind a sector. Where
    arrays have rows of different lengths, it is for as many of them as can be. Arrays themselves
    are taken to begin with a sector. Blocks `alike`, in the same loops, are shifted as `block` is.
    """
    begin, own = _begin(sch.state, block, sch.state.loop(loop)), own_loops(sch, block)
    if begin is None or begin is const(0):
        return loop
    for other in alike:
        theirs = own_loops(sch, other)
        names = {sch.state.loop(a).var: sch.state.loop(b).var for a, b in zip(own, theirs)}
        sch.shift(theirs[own.index(loop)], format_expr(substitute(begin, names)))
    return sch.shift(loop, format_expr(begin))


def _begin(state: State, block: str, loop: For) -> Expr | None:
    """Iterations from a border of sectors to where a loop begins; None where it is along none."""
    inner = {f.var: const(0) for f in loops_below(loop)}
    outside = {f.var for f in state.loops_outside(loop.name)} | set(state.func.size_vars)
    analyzer, node = state.analyzer(state.loops_around(block)), state.block(block)
    known, stored = dict[tuple[Buffer, tuple[Expr, ...]], Expr](), False
    for access in accesses(node):
        flat = flat_index(Load(access.buffer, access.in_loops()))
        step, sector = slope(flat, loop.var, analyzer), in_sector(access.buffer.dtype)
        if access.buffer.scope == "global" and step and step > 0 and sector % step == 0:
            begin = analyzer.simplify(substitute(flat, inner) % sector // step)
            if variables(begin) <= outside:
                known[access.buffer, access.indices] = begin
                stored |= access.is_write
    values = {it.var: it.binding for it in node.iters}

    def taken(e: Expr) -> Expr | None:
        """Where what a value is made of begins; of several arrays that which is read there."""
        if isinstance(e, Load):
            return known.get((e.buffer, e.indices))
        if isinstance(e, Select) and not e.cond.has_loads:
            cond, (a, b) = substitute(e.cond, values), map(taken, (e.a, e.b))
            if a is not None and b is not None and a is not b and variables(cond) <= outside:
                return Select(cond, a, b)
        return _most_common(map(taken, e.operands))

    if not stored and isinstance(node.body, Store):
        return taken(node.body.value)
    return _most_common(known.values())


def _rows_as_one(sch: Schedule, copy: str) -> list[LoopRef]:
    """The loops of a copy, the inner ones as one as far as they move as one in memory, whatever
    dimensions that is, until it is long."""
    loops, around = own_loops(sch, copy), sch.state.loops_around(copy)
    (store,) = (a for a in accesses(sch.state.block(copy)) if a.is_write)
    flat, analyzer = flat_index(Load(store.buffer, store.in_loops())), sch.state.analyzer(around)
    steps = [slope(flat, sch.state.loop(loop).var, analyzer) for loop in loops]
    length, count = sch.state.loop(loops[-1]).const_extent, 1
    while count < len(loops) and length and length < LONG and steps[-count - 1] == length:
        count += 1
        length *= sch.state.loop(loops[-count]).const_extent or 0
    return [*loops[:-count], sch.fuse(*loops[-count:])] if count > 1 else loops


def _most_common(found: Iterable[Expr | None]) -> Expr | None:
    counts = Counter(each for each in found if each is not None)
    return max(counts, key=counts.__getitem__, default=None)


def sectors_first(sch: Schedule, block: str, dims: int, sector: int) -> None:
    """Let neighbours among threads copy a sector of a row each, of the next rows first: the last
    so many dimensions are one row."""
    own = [x for x in own_loops(sch, block) if sch.state.loop(x).const_extent != 1]
    row = sch.fuse(*own[-dims:]) if dims > 1 else own[-1]
    part, beside = sch.split(row, [None, sector])
    sch.reorder(part, *own[:-dims], beside)


def rows_for_warps(sch: Schedule, block: str, row: LoopRef, warps: int) -> list[LoopRef]:
    """The loops of a copy whose lanes have neighbours in a row each: over rows, parts of one, warps
    and lanes. Warps take turns along a dimension that they divide, or that divides them, if there
    is one: so where an element is can be told from the loops, with no quotient of their sum."""
    rows = [x for x in own_loops(sch, block) if x != row]
    sizes = [sch.state.loop(x).const_extent or 1 for x in rows]
    part, lane = sch.split(row, [None, Gpu.warp])
    even = [x for x, size in zip(rows, sizes) if size % warps == 0 or warps % size == 0]
    near = max(even, key=lambda x: sizes[rows.index(x)]) if even else rows[-1]
    rows.remove(near)
    sch.reorder(*rows, near, part, lane)
    turn, warp = sch.split(sch.fuse(*rows, near) if rows else near, [None, warps])
    sch.reorder(turn, part, warp, lane)
    return [turn, part, warp, lane]


def write_from_sectors(
    sch: Schedule, copy: str, warps: int, apart: bool = False
) -> tuple[LoopRef, LoopRef]:
    """Let warps of a block of threads write a box that is in shared memory, each lane neighbours of
    the others', from one sector to the next; returns the loops over warps and over lanes. Rows that
    the box has as a whole lie side by side in memory, and are one, unless they are long, or `apart`
    in shared memory."""
    *rows, row = own_loops(sch, copy) if apart else _rows_as_one(sch, copy)
    part, lane = sch.split(from_sectors(sch, copy, row), [None, Gpu.warp])
    count = prod(sch.state.loop(loop).const_extent or 1 for loop in rows)
    if count % warps:  # else each takes whole rows, whose places are told once
        rows, part = [], sch.fuse(*rows, part) if rows else part
    over = sch.fuse(*rows) if len(rows) > 1 else rows[0] if rows else part
    turn, warp = sch.split(over, [None, warps])
    if rows:
        sch.reorder(turn, part, warp, lane)
        sch.unroll(part)
    return warp, lane


def ends_apart(sch: Schedule, loop: LoopRef, full: int) -> tuple[LoopRef, ...]:
    """Cut what the shift of a row leaves out off a loop over pieces of it, `full` of which end
    within the row wherever it begins: the first piece, and those after them. Those between have no
    conditions. Returns the loops, one where none is between."""
    count = sch.state.loop(loop).const_extent
    if count is None or full < 2:
        return (loop,)
    return sch.partition(loop, [1, full - 1, None] if full < count else [1, None])


def in_sector(kind: str) -> int:
    """Elements of a type that a sector of memory has."""
    return max(1, Gpu.sector_bytes // dtype.itemsize(kind))
