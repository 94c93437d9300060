"""Copies: of operands in panels, of padded images row by row, of tiles that are turned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import gcd, lcm, prod

from schedule.errors import Refusal
from schedule.library.contraction.again import with_own_buffer
from schedule.library.contraction.axes import FAR, Contraction, Digit, Operand, flat_strides
from schedule.library.contraction.digits import digits_read
from schedule.library.contraction.normalise import sorted_axes
from schedule.library.contraction.places import digits_text, loops_by_dimension, own_loops, store_of
from schedule.library.contraction.plan import Pack
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import ForKind, Load, body_loads, dtype, int_value

LONGEST = 256
"""Iterations of a loop that becomes vectors without a loop around them."""

BLOCK = 16
"""Rows and columns of four bytes that are transposed together: they use up lines while these are
there, as more narrow and fewer wide ones do."""


def pack(sch: Schedule, c: Contraction, what: Pack, steps: tuple[int, ...], parallel: bool) -> str:
    """Read an operand through a copy: panels of `width` values of an axis, in each the steps in
    their order, the values of the axis last. Returns the block that copies.

    Requires that the axis is there at values of its own.
    """
    operand, maker = c.operands[what.operand], None
    if len(_read(sch, c, operand)) > 1:  # as other operands
        operand = with_own_buffer(sch, c, what.operand)
        maker = operand.pad
    (load,) = _read(sch, c, operand)
    own = digits_read(sch.state.block(c.block), c, load, sch.state.analyzer())
    rest: list[tuple[int, Digit]] = []  # what else is read, with the step that it belongs to
    names = {at: f"d{at}" for at in range(len(load.indices))}
    for at in names:
        if all(part.place != at for part in own.values()):
            used = [steps.index(n) for n in steps if operand.dims[at][n] != 0]
            rest.append((min(used, default=-1), Digit(at, 1, None)))
    for n, axis in enumerate(c.axes):
        if n != what.axis:
            step = steps.index(n) if n in steps else -1
            rest.extend((step, own[d]) for d in axis.digits if d in own)
    axis = c.axes[what.axis]
    if not all(d in own for d in axis.digits):
        raise Refusal(f"{operand.buffer!r} is not read at values of the axis alone; pack another")
    value = digits_text([own[d] for d in axis.digits], names)
    rest.sort(key=lambda item: item[0])
    dims = [digits_text([digit], names) for _, digit in rest]
    dims = [f"({value}) // {what.width}", *dims, f"({value}) % {what.width}"]
    copier = str(sch.cache_read(c.block, operand.buffer, "global"))
    whole = axis.extent is not None and axis.extent % what.width == 0 and _fills(operand, own)
    text = f"{', '.join(names.values())}: {', '.join(dims)}"
    sch.transform_layout(copier, store_of(sch, copier).buffer.name, text, None if whole else 0)
    if maker is not None:
        sch.compute_inline(maker)
    near = [at for at, (_, d) in enumerate(rest, 1) if d.top and d.place == len(names) - 1]
    _finish(sch, copier, near[0] if near else 0, what.width, parallel)
    return copier


def _read(sch: Schedule, c: Contraction, operand: Operand) -> list[Load]:
    return [x for x in body_loads(sch.state.block(c.block)) if x.buffer.name == operand.buffer]


def _fills(operand: Operand, own: Mapping[Digit, Digit]) -> bool:
    """Whether all of each dimension that digits are parts of is read, so that these give back the
    place of each element and leave none out."""
    for at, size in enumerate(operand.shape):
        here = [d.extent or 0 for d, part in own.items() if part.place == at]
        if here and size is not None and prod(here) not in (0, size):
            return False
    return True


def with_panel(c: Contraction, operand: int, axis: int, buffer: str = "") -> Contraction:
    """The contraction as `pack` leaves it with one panel of all values of an axis, which are then
    neighbours; `buffer` is the name of the copy."""
    o = c.operands[operand]
    moved = [n for n, step in enumerate(o.strides) if step != 0 and n != axis]
    order = [*sorted(moved, key=lambda n: -abs(o.strides[n] or FAR)), axis]
    shape = tuple(c.axes[n].extent for n in order)
    dims = tuple(tuple(int(n == m) for n in range(len(c.axes))) for m in order)
    strides = flat_strides(shape, dims, len(c.axes))
    copy = replace(
        o, buffer=buffer, shape=shape, dims=dims, strides=strides, own=frozenset(order), param=False
    )
    operands = (*c.operands[:operand], copy, *c.operands[operand + 1 :])
    return sorted_axes(replace(c, operands=operands))


def _finish(sch: Schedule, copier: str, row: int, width: int, parallel: bool) -> None:
    """The loops of the copy, in the order of the panels: whole vectors, or blocks of a few rows
    along the dimension `row`, if any, that are transposed: no vector is stored in two panels."""
    loops = loops_by_dimension(sch, copier)
    if not any(loops):  # none is of a dimension alone, as of a size that is computed
        return
    *outer, lane = [*dict.fromkeys(filter(None, reversed(loops)))][::-1]
    rows = (row and loops[row]) or (outer or [lane])[-1]
    around = [loop for loop in outer if loop != rows]
    shared = around or outer
    if row and rows != lane:
        size = min(2 * BLOCK, 4 * BLOCK // dtype.itemsize(store_of(sch, copier).buffer.dtype))
        block, rows = sch.split(rows, [None, size])
        lanes, lane = sch.split(lane, [None, width if width <= size else gcd(width, size)])
        sch.reorder(*around, lanes, block, rows, lane)
        sch.unroll(rows)
        shared = around or [lanes]
    elif own_loops(sch, copier) != [*outer, lane]:
        sch.reorder(*outer, lane)
    sch.vectorize(lane)
    if parallel and shared:
        sch.parallel(shared[0] if len(shared) == 1 else sch.fuse(*shared))


def copy_ahead(sch: Schedule, blocks: Iterable[str], parallel: bool) -> None:
    """`copy_rows` in nests of their own; threads may share what rows have around them, or these."""
    for block in blocks:
        shared, parts = parallel and len(own_loops(sch, block)) > 1, copy_rows(sch, block)
        first, *others = [sch.get_loops(part) for part in parts]
        rows = [loop for loop in first if all(loop in loops for loops in others)]
        tasks = rows[:1] if not rows[2:] else [sch.fuse(*rows[:-1])] if shared else []
        for loop in (tasks or [first[0], *(loops[0] for loops in others)]) if shared else ():
            if sch.state.loop(loop).kind is ForKind.SERIAL:  # else a part copies a vector
                sch.parallel(loop)


def copy_rows(sch: Schedule, block: str) -> list[BlockRef]:
    """Copy in long vectors: of a padded image, what lies before and after its rows apart. Returns
    the blocks that copy.

    In vectors that are partly padding, each lane would have to look for itself. So the innermost
    dimension with padding is cut into what comes before, the image, and what comes after; the
    dimensions inside of it are one run with it.
    """
    loops = loops_by_dimension(sch, block)
    padded, cut = _padded_dimension(sch, block, loops)
    if padded is None:
        if own_loops(sch, block):
            _in_vectors(sch, own_loops(sch, block)[-1])
        return [BlockRef(block)]
    inner, found = [loop for loop in loops[padded:] if loop is not None], []
    for part in sch.partition(inner[0], cut) if len(cut) > 1 else (inner[0],):
        (child,) = sch.get_child_blocks(part)
        around = sch.get_loops(child)
        mine = around[around.index(part) :]
        pixel = prod(sch.state.loop(loop).const_extent or 1 for loop in mine[1:])
        _in_vectors(sch, sch.fuse(*mine) if len(mine) > 1 else part, pixel)
        found.append(child)
    return found


def _padded_dimension(
    sch: Schedule, block: str, loops: list[LoopRef | None]
) -> tuple[int | None, list[int]]:
    """The innermost dimension that a copy moves, and how its loop is to be cut; none if none is."""
    reads, store = body_loads(sch.state.block(block)), store_of(sch, block)
    if len(reads) != 1 or len(reads[0].indices) != len(store.indices):
        return None, []
    analyzer = sch.state.analyzer()
    for at in range(len(loops) - 1, -1, -1):
        loop = loops[at]
        if loop is None:
            continue
        moved = int_value(analyzer.simplify(store.indices[at] - reads[0].indices[at]))
        length = int_value(reads[0].buffer.shape[at])
        extent = sch.state.loop(loop).const_extent
        if moved == 0 and length == extent:
            continue
        if moved is None or length is None or extent is None:
            return None, []
        whole = min(length, extent - moved)
        if not (0 <= moved and 0 < whole < extent):
            return at, [extent]
        return at, [n for n in (moved, whole, extent - moved - whole) if n]
    return None, []


def _in_vectors(sch: Schedule, loop: LoopRef, whole: int = 1) -> None:
    """As many iterations of a loop at a time as `LONGEST` allows, and the rest; runs of `whole`
    iterations, of which there may be more, are one element of an outer dimension: vectors end
    where these do, so that what they write is a box and can be proved to be all that is read."""
    extent, most = sch.state.loop(loop).const_extent, LONGEST
    if 1 < whole <= LONGEST:
        step = lcm(whole, BLOCK)
        most = LONGEST // step * step or LONGEST // whole * whole
    elif whole > LONGEST:
        divisor = max(n for n in range(1, LONGEST + 1) if whole % n == 0)
        most = divisor if divisor >= BLOCK else LONGEST
    if extent is None or extent <= most:
        sch.vectorize(sch.split(loop, [None, most])[1] if extent is None else loop)
        return
    rest = extent % most
    for part in sch.partition(loop, [n for n in (extent - rest, rest) if n]):
        size = sch.state.loop(part).const_extent or 1
        sch.vectorize(sch.split(part, [None, min(size, most)])[1])


def turn(sch: Schedule, row: LoopRef, lane: LoopRef, lanes: int, along_rows: bool = True) -> None:
    """Copy a plane whose lanes lie along another axis there than here.

    Tile by tile: vectors are read along the lanes and written along the rows, or the reverse with
    `along_rows` False. Rows that fill no tile come last, in smaller ones.
    """
    if (extent := sch.state.loop(lane).const_extent) is None or extent > lanes:
        _, lane = sch.split(lane, [None, lanes])
    loops = sch.get_loops(*sch.get_child_blocks(lane))
    inside = loops[min(map(loops.index, (row, lane))) :]  # among units, which are part of no tile
    sch.reorder(*(loop for loop in inside if loop not in (row, lane)), row, lane)
    extent = sch.state.loop(row).const_extent or 0
    rest = extent % lanes
    for part in sch.partition(row, [extent - rest, rest]) if rest and rest < extent else (row,):
        inner = sch.get_loops(*sch.get_child_blocks(part))[-1]
        size = sch.state.loop(part).const_extent or lanes
        _, tile = sch.split(part, [None, max(1, min(size, lanes))])
        if along_rows:
            sch.reorder(inner, tile)
        sch.unroll(inner if along_rows else tile)
        sch.vectorize(tile if along_rows else inner)
