"""The rows of a product as one dimension: products of tiles take many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from schedule.errors import Refusal
from schedule.library.contraction.axes import Axis, Contraction
from schedule.library.contraction.normalise import ordered_axes
from schedule.library.contraction.places import store_of
from schedule.library.contraction.plain import plain_form
from schedule.schedule import Schedule
from tensorir import Load, body_loads, variables


class Matrices(NamedTuple):
    """What a product became.

    copy     the block that makes the first matrix, if it is a copy
    others   those that copy the second one
    writer   the block that moves sums to the result, if there is one
    """

    copy: str | None
    others: tuple[str, ...]
    writer: str | None


def matrix_form(sch: Schedule, c: Contraction, order: Sequence[int]) -> Matrices:
    """`plain_form`, with all the rows of the result in one dimension.

    A row is what moves along the first operand and the result, and not along the second one: the
    pixels of a convolution are rows, whose windows the copy of the first operand writes side by
    side. `order` has the axis along which the columns are last.

    Raises ScheduleError where loops were changed before, or extents are not known.
    """
    moving = [o.strides[order[-1]] != 0 for o in c.operands]
    if sorted(moving) != [False, True]:
        raise Refusal(f"block {c.block!r} is no product of two matrices")
    first, second = (c.operands[moving.index(moves)].strides for moves in (False, True))
    rows = [n for n in order if first[n] != 0 and second[n] == 0]
    copies, writer = plain_form(sch, *_joined(c, rows, order))
    load = _first(sch, c.block)
    if load.indices[-1] in {it.var for it in sch.state.block(c.block).spatial}:
        copies.append(str(sch.reindex(c.block, load.buffer.name)))  # with terms as neighbours
        load = _first(sch, c.block)
    copy = next((name for name in copies if store_of(sch, name).buffer is load.buffer), None)
    return Matrices(copy, tuple(name for name in copies if name != copy), writer)


def _first(sch: Schedule, block: str) -> Load:
    """What a product reads of the first matrix, which its last spatial variable does not move."""
    node = sch.state.block(block)
    column = node.spatial[-1].var
    return next(load for load in body_loads(node) if column not in variables(load))


def _joined(
    c: Contraction, rows: Sequence[int], order: Sequence[int]
) -> tuple[Contraction, tuple[int, ...]]:
    """The contraction whose axes of rows are one, of which nothing else is right, and the order
    with that where the first of them was."""
    if any(c.axes[n].extent is None for n in rows[1:]):
        raise Refusal(f"rows of block {c.block!r} are not of known size")
    one = Axis(tuple(digit for n in rows for digit in c.axes[n].digits), reduce=False)
    axes = tuple(one if n in rows[:1] else axis for n, axis in enumerate(c.axes))
    kept = [n for n in range(len(axes)) if n not in rows[1:]]
    made = ordered_axes(replace(c, axes=axes), kept)
    return made, tuple(kept.index(n) for n in order if n in kept)
