"""Operands of tiles that are made: filled up with what changes nothing, where extents do not
divide, or computed of others, as they are fetched, or ahead, by a kernel of its own that lays them
out in rows of whole sectors of memory.

A tile of rows that begin anywhere within a sector touches one more with each access of a warp, and
is moved in single elements. Laying an operand out costs as much as reading and writing it once,
which is little beside a product that reads it once for each tile of the result. A mask or a factor
of each term takes as many operations for a term as the product by itself; rows of an image that go
on beyond its edges, and those of a band around each query, are the same for several elements of the
result, which no strides say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from math import lcm, prod

from schedule.analysis.einsum import padded_form
from schedule.library.contraction.ahead import as_stage, size_apart, values_apart
from schedule.library.contraction.axes import Contraction, Operand
from schedule.library.contraction.factors import groupings
from schedule.library.contraction.places import store_of
from schedule.library.gpu.elementwise import elementwise
from schedule.library.gpu.memory.sectors import in_sector
from schedule.library.gpu.steps import last_axis
from schedule.library.gpu.tile_plan import TilePlan
from schedule.schedule import Schedule
from tensorir import (
    Analyzer,
    Block,
    Expr,
    Load,
    Var,
    body_loads,
    dtype,
    int_value,
    moved_together,
    variables,
    walk_places,
)

Place = tuple[int, ...]
"""Of a part of the value that a block stores: which operand of it, which one of that, and so on."""

ITEMS = 4
"""Elements of a thread that lays an operand out, asked for together."""


def fill(sch: Schedule, c: Contraction, plan: TilePlan, ends: bool) -> Contraction:
    """Round the axes of a contraction up to its tiles, as far as what is fetched can be filled up;
    what is too much of the result is cut off by its last block. Returns what is left.

    So no thread asks for each term whether it is there, and all steps are alike, which copies that
    run ahead have to be. ScheduleError where they do, and terms cannot be filled up. With `ends`
    what stores the sums may be another block than now. Operands that are laid out ahead are filled
    up there.
    """
    node = sch.state.block(c.block)
    plain = all(isinstance(it.binding, Var) for it in node.iters)  # parts of sums may not be
    form = padded_form(node) if ends and plain else None
    counts, axes = [1] * len(node.iters), list(c.axes)
    for n, axis in enumerate(c.axes):
        size, extent = plan.cuts[n].total, axis.extent
        if form is not None and _is_free(c, plan, n) and (not axis.reduce or form.is_neutral):
            size = lcm(size, *_rows(c, plan, n))
        elif not (plan.ahead and axis.reduce):
            continue
        if size == 1 or extent is not None and (
            extent % size == 0 or axis.reduce and extent < plan.cuts[n].total
        ):
            continue
        *outer, digit = axis.digits
        counts[digit.place] = size
        grown = None if extent is None else -(-extent // size) * size
        axes[n] = replace(axis, digits=(*outer, replace(digit, extent=grown)))
    made = list(map(str, sch.pad_einsum(c.block, counts))) if max(counts) > 1 else []
    last = c.last
    if any(axes[n] is not c.axes[n] for n in c.spatial):
        cut = made.pop()
        if last == c.block:
            last = cut
        else:
            sch.compute_inline(cut)
    pads = {body_loads(sch.state.block(pad))[0].buffer.name: pad for pad in made}
    operands = []
    for n, o in enumerate(c.operands):
        pad = pads.get(o.buffer)
        if n in plan.laid:
            operands.append(lay_out_ahead(sch, c, n, pad))
        elif pad is None:
            operands.append(o)
        else:
            operands.append(replace(o, buffer=store_of(sch, pad).buffer.name, pad=pad))
    return replace(c, axes=tuple(axes), last=last, operands=tuple(operands))


def _rows(c: Contraction, plan: TilePlan, axis: int) -> list[int]:
    """Elements of a sector of the operands laid out ahead whose rows an axis goes along."""
    laid = [c.operands[n] for n in plan.laid]
    return [in_sector(o.dtype) for o in laid if o.dims[o.row][axis] == 1]


def _is_free(c: Contraction, plan: TilePlan, axis: int) -> bool:
    """Whether each operand that an axis moves, each one if it is summed over, has an index that is
    this axis alone, and goes through shared memory."""
    (digit, *more) = c.axes[axis].digits
    for n, o in enumerate(c.operands):
        rows = [row for row in o.dims if row[axis] != 0]
        alone = [[step for step in row if step != 0] for row in rows] == [[1]]
        if (rows or c.axes[axis].reduce) and not (alone and n in plan.shared):
            return False
    return digit.whole and not more


def laid_out(c: Contraction, operands: Collection[int]) -> Contraction:
    """A contraction as it is when some of its operands are laid out ahead: of known shape, in rows
    of whole sectors, padded by nobody else. Tiles may make these and other dimensions longer."""
    made = [_in_sectors(o) if n in operands else o for n, o in enumerate(c.operands)]
    return replace(c, operands=tuple(made))


def _in_sectors(o: Operand) -> Operand:
    """Strides are None along an axis that goes on from row to row. A single number is no row."""
    if not o.shape:
        return o
    shape = [size or 1 for size in o.shape]
    row = shape[o.row]
    longer = shape[o.row] = -(-row // in_sector(o.dtype)) * in_sector(o.dtype)

    def apart(axis: int, step: int | None) -> int | None:
        if o.dims[o.row][axis] == 0:
            return None if step is None else step // row * longer
        return step if all(dim[axis] == 0 for dim in others) else None

    others = [dim for n, dim in enumerate(o.dims) if n != o.row]
    strides = tuple(apart(axis, step) for axis, step in enumerate(o.strides))
    return replace(o, shape=tuple(shape), strides=strides, pad=None)


def copied_bytes(c: Contraction, operand: int) -> int:
    """What laying an operand out moves: it is read and written once."""
    o = c.operands[operand]
    count = sum(prod(size or 1 for size in x.shape) for x in (o, _in_sectors(o)))
    return count * dtype.itemsize(o.dtype)


def lay_out_ahead(sch: Schedule, c: Contraction, operand: int, pad: str | None) -> Operand:
    """Have a block of its own make an operand: `pad`, which fills it up, else what pads it anyway,
    else a copy. `copy_ahead` schedules it, once all that reads it is known."""
    o = c.operands[operand]
    copy = pad or o.pad or str(sch.cache_read(c.block, o.buffer, "global"))
    in_whole_sectors(sch, copy)
    return replace(_in_sectors(o), buffer=store_of(sch, copy).buffer.name, pad=copy)


def in_whole_sectors(sch: Schedule, block: str) -> None:
    """Lay out what a block makes for others so that its rows begin with sectors of memory."""
    buffer = store_of(sch, block).buffer
    last, sector = last_axis(buffer), in_sector(buffer.dtype)
    if last > 0 and (int_value(buffer.shape[last]) or 1) % sector:
        sch.storage_align(block, buffer.name, last - 1, sector)


def copy_ahead(sch: Schedule, copy: str) -> None:
    """The kernel that lays an operand out."""
    elementwise(sch, copy, items=ITEMS)


def ways_apart(sch: Schedule, c: Contraction, bitwise: bool = False) -> list[int]:
    """The axes along which `values_fetched` can take products apart, -1 for as they are written,
    the one first by which the least is made; none where there is nothing to make but conversions.
    """
    ways = [-1 if axis is None else axis for axis in groupings(c, bitwise)]
    sizes = {n: size_apart(c, n, False) for n in ways}
    found = sorted((n for n in ways if sizes[n]), key=lambda n: sizes[n])
    return found or [-1] * any(True for _ in _read_elsewhere(sch, c))


def values_fetched(sch: Schedule, c: Contraction, apart: int) -> Iterator[str]:
    """Let blocks of their own make what several elements of the result share of the terms, one by
    one, but conversions, products being taken apart along an axis, or as they are written if it is
    -1; and what is read where steps of axes do not lead, at each place once. ScheduleError if
    refused."""
    yield from values_apart(sch, c, apart, False)
    while (place := next(_read_elsewhere(sch, c), None)) is not None:
        yield as_stage(sch, c.block, place)


def _read_elsewhere(sch: Schedule, c: Contraction) -> Iterator[Place]:
    """Where in its value a contraction has what is the same for several values of its variables,
    but in no strides: loads along indices that are no sums of multiples of variables, and floats
    that are computed of variables alone, such as a distance."""
    elsewhere = {o.buffer for o in c.operands if None in o.strides}
    node, store = sch.state.block(c.block), store_of(sch, c.block)

    def is_value(e: Expr) -> bool:
        return not isinstance(e, Load) and not _is_of_variables(node, e)

    for value, place in walk_places(store.value, into=is_value):
        if isinstance(value, Load):
            if value.buffer.name in elsewhere and _is_again(node, value):
                yield place
        elif not is_value(value):
            yield place


def _is_of_variables(node: Block, value: Expr) -> bool:
    """Whether a float is computed of variables, terms among them, but not of all."""
    used, free = variables(value), {it.var for it in node.spatial if int_value(it.extent) != 1}
    if value.has_loads or not value.operands or not dtype.is_float(value.dtype):
        return False
    return any(it.var in used for it in node.reduced) and not free <= used


def _is_again(node: Block, load: Load) -> bool:
    sums = (Analyzer().linear(index).terms for index in load.indices)
    stepped = all(isinstance(atom, Var) for terms in sums for atom in terms)
    if stepped or any(index.has_loads for index in load.indices):
        return False
    return bool(moved_together(load, {it.var: it.extent for it in node.iters}))
