"""Nests whose sums wait in a cache, for operands that memory gives once.

A nest with its sums in registers takes all terms of a few results at a time, and so reads an
operand that no other result needs in short pieces, with gaps. Where the sums of a task stay in
cache instead, and are gone over for every few terms, such an operand is read from its first element
to its last, a few rows side by side. The same is true of one that few other results need: a matrix
times some rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product
from math import prod

from autotune.device import Cpu
from autotune.estimate.facts import SYMBOLIC
from schedule import library
from tensorir import dtype

VECTORS = 4
"""Vectors of one row whose sums are in registers for a few terms."""

DEPTHS = (1, 8, 4, 16)
"""How many these terms are."""

ROWS = 4
"""Uses of an element of an operand that a tile has all of; sums of more wait in the second cache,
sums of as many in either."""


def kept_nests(
    c: library.Contraction, cpu: Cpu, constants: Collection[str] = (), bitwise: bool = False
) -> Iterator[library.NestPlan]:
    """Nests that read the largest operand in its order; none if the second cache may hold it for
    the uses of its elements, where a symbolic axis is not around all others, and where `constants`
    hold it, which are packed in the order in which they are read."""
    whole = all(digit.whole for axis in c.axes for digit in axis.digits)
    if not c.operands or not c.reduced or c.repeated or not whole:
        return
    assumed = [prod(size or SYMBOLIC for size in o.shape) for o in c.operands]
    at = assumed.index(max(assumed))
    if c.operands[at].buffer in constants:
        return
    sizes = [axis.extent or 1 for axis in c.axes]  # a task has one of a symbolic axis
    strides = [step or 0 for step in c.operands[at].strides]
    rows = [n for n in c.spatial if strides[n] == 0]
    uses = prod(sizes[n] for n in rows)
    lane = _lane(c, at)
    size = prod(s or 0 for s in c.operands[at].shape) * dtype.itemsize(c.operands[at].dtype)
    if lane is None or (uses > ROWS and size <= cpu.kept_bytes(2)):
        return
    steps = c.written if bitwise else tuple(sorted(c.reduced, key=lambda n: -strides[n]))
    order = tuple(sorted(c.spatial, key=lambda n: (strides[n] == 0, -strides[n])))
    near = [n for n in reversed(order) if 0 < strides[n] < max(strides[m] for m in c.reduced)]
    if any(c.axes[n].extent is None for n in (*near, *rows, *c.reduced)):
        return
    terms = c.axes[steps[-1]].digits[-1].extent or 1  # parts of other variables have no order
    depths = [few for few in DEPTHS if terms % few == 0]
    each = dtype.itemsize(c.sums.dtype) * uses
    each *= 1 + len(c.operands)  # as many elements of each pass by until a sum is needed again
    rooms = [cpu.kept_bytes(level) // each for level in ((1, 2) if uses <= ROWS else (2,))]
    tiles = _tiles(sizes, lane, rows, cpu.lanes(c.sums.dtype), cpu.registers)
    for (width, tall), room in product(tiles, rooms):
        for count in range(1, len(near) + 1):
            outer = prod(sizes[n] for n in c.spatial if n not in near[:count] and n not in rows)
            task = _task(sizes, near[:count], lane, width, room, -(-cpu.threads // outer))
            if task is None:
                break
            if prod(task.values()) <= width:  # registers hold as many
                continue
            tile = tuple({lane: width, **tall}.get(n, 1) for n in c.spatial)
            parts = tuple(task.get(n, sizes[n] if n in rows else 1) for n in c.spatial)
            for depth in depths:
                yield library.NestPlan(
                    lane, cpu.lanes(c.sums.dtype), tile, parts, steps, order, depth=depth
                )


def _tiles(
    sizes: list[int], lane: int, rows: list[int], lanes: int, registers: int
) -> Iterator[tuple[int, dict[int, int]]]:
    """Elements in a row of a register tile, and the rows: all there are, or as even a cut of the
    longest axis of them as registers have room for beside what they are multiplied with."""
    most = -(-sizes[lane] // lanes)
    if prod(sizes[n] for n in rows) <= ROWS:
        yield min(VECTORS, most) * lanes, {n: sizes[n] for n in rows}
        return
    longest = max(rows, key=lambda n: sizes[n])
    others = prod(sizes[n] for n in rows if n != longest)
    for vectors in range(1, min(VECTORS, most) + 1):
        tall = (registers - 1 - vectors) // vectors // others
        if tall > 0:
            tall = -(-sizes[longest] // -(-sizes[longest] // tall))
            yield vectors * lanes, {n: tall if n == longest else sizes[n] for n in rows}


def _lane(c: library.Contraction, operand: int) -> int | None:
    """The axis whose neighbours are neighbours in an operand and in the result, if all elements of
    the operand are different ones but for rows that stand still."""
    o = c.operands[operand]
    if None in o.strides or o.pad is not None or any(c.is_window(n, operand) for n in c.reduced):
        return None
    if any(o.strides[n] == 0 for n in c.reduced) or min(step or 0 for step in o.strides) < 0:
        return None
    for n in c.spatial:
        near = all(other.strides[n] in (0, 1) for other in c.operands)
        if o.strides[n] == c.result.strides[n] == c.sums.strides[n] == 1 and near:
            return n if (c.axes[n].extent or 0) > 1 else None
    return None


def _task(
    sizes: list[int], axes: list[int], lane: int, width: int, room: int, parts: int
) -> dict[int, int] | None:
    """Whole axes; a lane that is the only one may be cut, into a multiple of so many parts that are
    as large as each other. None if so many sums have no room."""
    others = prod(sizes[n] for n in axes if n != lane)
    most = room // others // width * width
    if others == 1 and most:
        tasks = -(-sizes[lane] // (most * parts)) * parts
        most = -(-sizes[lane] // (tasks * width)) * width
    if most == 0 or (most < sizes[lane] and others > 1):
        return None
    return {n: min(most, -(-sizes[n] // width) * width) if n == lane else sizes[n] for n in axes}
