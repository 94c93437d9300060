"""Tiles filled up with elements and terms that change nothing, where extents do not divide."""

from __future__ import annotations

from dataclasses import replace

from schedule.analysis.einsum import is_einsum
from schedule.library.contraction.axes import Contraction
from schedule.library.contraction.places import store_of
from schedule.library.gpu.tile_plan import TilePlan
from schedule.schedule import Schedule
from tensorir import Var, body_loads


def fill(sch: Schedule, c: Contraction, plan: TilePlan, ends: bool) -> Contraction:
    """Round the axes of a contraction up to its tiles, as far as what is fetched can be filled up;
    what is too much of the result is cut off by its last block. Returns what is left.

    So no thread asks for each term whether it is there, and all steps are alike, which copies that
    run ahead have to be. ScheduleError where they do, and terms cannot be filled up. With `ends`
    what stores the sums may be another block than now.
    """
    node = sch.state.block(c.block)
    plain = all(isinstance(it.binding, Var) for it in node.iters)  # parts of sums may not be
    free = ends and plain and is_einsum(node)
    counts, axes = [1] * len(node.iters), list(c.axes)
    for n, axis in enumerate(c.axes):
        size, extent = plan.cuts[n].total, axis.extent
        needed = plan.ahead and axis.reduce
        if not (needed or free and _is_free(c, plan, n)):
            continue
        if extent is not None and (extent % size == 0 or axis.reduce and extent < size):
            continue
        *outer, digit = axis.digits
        counts[digit.place] = size
        grown = None if extent is None else -(-extent // size) * size
        axes[n] = replace(axis, digits=(*outer, replace(digit, extent=grown)))
    if max(counts) == 1:
        return c
    made = list(map(str, sch.pad_einsum(c.block, counts)))
    last = c.last
    if any(axes[n] is not c.axes[n] for n in c.spatial):
        cut = made.pop()
        if last == c.block:
            last = cut
        else:
            sch.compute_inline(cut)
    pads = {body_loads(sch.state.block(pad))[0].buffer.name: pad for pad in made}
    operands = [
        o if pad is None else replace(o, buffer=store_of(sch, pad).buffer.name, pad=pad)
        for o in c.operands
        for pad in [pads.get(o.buffer)]
    ]
    return replace(c, axes=tuple(axes), last=last, operands=tuple(operands))


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
