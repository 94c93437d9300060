"""The rows of a product as one dimension: products of tiles take many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from schedule.errors import Refusal
from schedule.library.contraction.axes import Contraction
from schedule.library.contraction.places import store_of
from schedule.library.contraction.plain import plain_form
from schedule.schedule import Schedule
from schedule.state import LoopRef
from tensorir import Expr, Load, Var, body_loads, int_value, variables


class Matrices(NamedTuple):
    """What a product became.

    copy     the block that makes the first matrix, if it is a copy
    others   those that copy the second one
    writer   the block that moves sums to the result, if there is one
    """

    copy: str | None
    others: tuple[str, ...]
    writer: str | None


def matrix_form(
    sch: Schedule, c: Contraction, order: tuple[int, ...], epilogue: str | None
) -> Matrices:
    """`plain_form`, with all the rows of the result in one dimension.

    A row is what moves along the first operand and the result, and not along the second one: the
    pixels of a convolution are rows, whose windows the copy of the first operand writes side by
    side. `order` has the axis along which the columns are last.

    Raises ScheduleError where loops were changed before, or extents are not known.
    """
    mine, writer = plain_form(sch, c, order)
    data, weight = _operands(sch, c.block)
    rows = _rows(sch, c.block, data, weight)
    made_here = any(store_of(sch, name).buffer is data.buffer for name in mine)
    turned = bool({*rows} & {*data.indices[-1:]})
    if not made_here and (turned or len(rows) > 1):
        mine.append(str(sch.reindex(c.block, data.buffer.name)))
    if len(rows) > 1:
        if writer is None and epilogue is None:
            store = store_of(sch, c.block)
            writer = str(sch.reindex(c.block, store.buffer.name))
        _join(sch, c.block, rows, mine, writer or epilogue or "")
    first = _operands(sch, c.block)[0].buffer
    copy = next((name for name in mine if store_of(sch, name).buffer is first), None)
    return Matrices(copy, tuple(name for name in mine if name != copy), writer)


def _join(sch: Schedule, block: str, rows: list[Var], copies: list[str], last: str) -> None:
    """One dimension for the rows of all that has them; `last` alone reads the sums."""
    sizes = {it.var: int_value(it.extent) for it in sch.state.block(block).iters}
    extents = [sizes[var] for var in rows]
    if None in extents[1:]:
        raise Refusal(f"rows of block {block!r} are not of known size")
    (data, _), sums = _operands(sch, block), store_of(sch, block)
    copy = next(name for name in copies if store_of(sch, name).buffer is data.buffer)
    reads = [x for x in body_loads(sch.state.block(last)) if x.buffer is sums.buffer]
    follows = dict(zip(sums.indices, reads[0].indices))
    after = [follows[var] for var in rows]
    loops, later = _loops_of(sch, block, rows), _loops_of(sch, last, after)
    own = tuple(it.var for it in sch.state.block(last).iters)
    sch.transform_layout(copy, data.buffer.name, _joined(rows, extents, data.indices))
    sch.transform_layout(block, sums.buffer.name, _joined(rows, extents, sums.indices))
    if tuple(it.var for it in sch.state.block(last).iters) == own:
        sch.transform_block_layout(last, _joined(after, extents, own))
    else:
        _fuse(sch, last, later)
    _fuse(sch, block, loops)


def _loops_of(sch: Schedule, stage: str, rows: Sequence[Expr]) -> list[LoopRef]:
    """The loops that variables of a stage are bound to."""
    bound = {it.var: it.binding for it in sch.state.block(stage).iters}
    loops = [bound[row] for row in rows if isinstance(row, Var)]
    return [LoopRef(loop.name) for loop in loops if isinstance(loop, Var)]


def _fuse(sch: Schedule, stage: str, loops: list[LoopRef]) -> None:
    """The loops of the rows as one: the variables of the stage were joined with a layout."""
    rest = [loop for loop in sch.get_loops(stage) if loop not in loops]
    sch.reorder(*loops, *rest)
    sch.fuse(*loops)


def _joined(rows: Sequence[Expr], sizes: Sequence[int | None], places: Sequence[Expr]) -> str:
    """The index map that has one place for the rows, where the first of them was."""
    names = {place: f"p{n}" for n, place in enumerate(places)}
    row = names[rows[0]]
    for var, size in zip(rows[1:], sizes[1:]):
        row = f"({row}) * {size} + {names[var]}"
    first = next(place for place in places if place in rows)
    kept = [place for place in places if place is first or place not in rows]
    dims = [row if place is first else names[place] for place in kept]
    return f"{', '.join(names.values())}: {', '.join(dims)}"


def _rows(sch: Schedule, block: str, data: Load, weight: Load) -> list[Var]:
    """The variables of the rows, in the order of the result."""
    used, other = variables(data), variables(weight)
    places = store_of(sch, block).indices
    return [v for v in places if isinstance(v, Var) and v in used and v not in other]


def _operands(sch: Schedule, block: str) -> tuple[Load, Load]:
    """What is read of the first matrix, and of the second one, which moves with the last dimension
    of the result."""
    column = store_of(sch, block).indices[-1]
    found: dict[bool, list[Load]] = {False: [], True: []}
    for load in body_loads(sch.state.block(block)):
        found[column in variables(load)].append(load)
    if any(len(loads) != 1 for loads in found.values()):
        raise Refusal(f"block {block!r} is no product of two matrices")
    return found[False][0], found[True][0]
