"""Moves that say a contraction in its axes: its variables, and where operands are read."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.uses import is_output
from schedule.errors import Refusal
from schedule.library.contraction.again import read_apart
from schedule.library.contraction.axes import Contraction
from schedule.library.contraction.find import find_contraction
from schedule.library.contraction.places import axis_texts, followers, lay_out, layout, store_of
from schedule.library.contraction.stage import stage_axes
from schedule.schedule import Schedule
from tensorir import Buffer, IterKind, Load, Var, body_loads, checked


def on_axes(
    sch: Schedule, c: Contraction, order: Sequence[int] = (), terms: bool = True
) -> str | None:
    """Give the block of a contraction, and the user of its sums, one variable for each axis, the
    spatial ones in `order`, or as they are in the contraction.

    Where the block does not store at these, and nothing else uses its sums, these get a dimension
    for each axis; the stage that copies them to the result is returned.

    terms  whether the variables of the reduction are its axes too, which adds terms in another
           order than they are written in. Else these stay as they are

    Raises ScheduleError where the loops of these blocks were changed before.
    """
    spatial, block = list(order or c.spatial), c.block
    text = layout(sch, c, [block], spatial, None)
    if c.last != block:
        _in_order(sch, c, c.last, spatial)
    _in_order(sch, c, block, [*spatial, *c.reduced] if terms else spatial)
    names, _, dims = text.partition(": ")
    if c.last == block and names != dims:
        return str(sch.reindex(block, store_of(sch, block).buffer.name))
    lay_out(sch, block, text)
    return None


def plain_form(
    sch: Schedule, c: Contraction, order: Sequence[int] = ()
) -> tuple[list[str], str | None]:
    """`on_axes`, and copies of the operands that are not read at variables, or are of a buffer that
    another one is of, with a dimension for each axis; return these, and what `on_axes` returns.

    So the product that stores at `[i, j // 16, j % 16]` or `[j, i]` is one of matrices again, and
    so is that of a matrix and itself.

    Raises ScheduleError as `on_axes` does.
    """
    writer = on_axes(sch, c, order)
    node = sch.state.block(c.block)
    own = {it.var for it in node.iters}
    first: dict[Buffer, Load] = {}
    again = [x for x in body_loads(node) if first.setdefault(x.buffer, x) is not x]
    copies = [read_apart(sch, c.block, load) for load in again]
    odd = [load for load in first.values() if not own.issuperset(load.indices)]
    copies += [_copied(sch, c, load, order or c.spatial) for load in odd]
    return copies, writer


def _copied(sch: Schedule, c: Contraction, load: Load, order: Sequence[int]) -> str:
    """Read an operand through a copy with a dimension for each axis. Neighbours along the last
    spatial axis stay neighbours: the copy would turn them, and what packs it would turn them back.
    """
    iters = sch.state.block(c.block).iters
    axes = [n for it, n in zip(iters, (*order, *c.reduced)) if it.var in load.variables]
    copy = str(sch.reindex(c.block, load.buffer.name))
    last = order[-1]
    near = (o.strides[last] for o in c.operands if o.buffer == load.buffer.name)
    if last in axes and next(near, None) == 1:
        places = sorted(range(len(axes)), key=lambda at: axes[at] == last)
        names, moved = (", ".join(f"d{at}" for at in each) for each in (range(len(axes)), places))
        sch.transform_layout(copy, store_of(sch, copy).buffer.name, f"{names}: {moved}")
        loops = sch.get_loops(copy)
        sch.reorder(*(loops[at] for at in places))
    return copy


@checked
def in_axes(
    sch: Schedule, block: str, merged: bool = True, parts: bool = True, terms: bool = False
) -> bool:
    """Give a stage one variable for each of its axes (`stage_axes`), in the order of the memory
    that it writes; return whether that changes anything.

    merged  whether axes side by side in every access are one
    parts   whether variables that are accessed in parts are several
    terms   whether the variables of a sum are those of its contraction. Else they stay as they are

    Raises ScheduleError where its loops were changed before, and Refusal for terms of no sum.
    """
    iters = sch.state.block(block).iters
    params = [f"p{n}" for n in range(len(iters))]
    axes = stage_axes(sch, block, merged, parts)
    if terms:
        c = find_contraction(sch, block, merged=merged)
        axes = (*axes, *(c.axes[n] for n in c.reduced))
    results = axis_texts(axes, dict(enumerate(params)))
    if not terms:
        results += [p for p, it in zip(params, iters) if it.kind is IterKind.REDUCE]
    if results:
        _give_variables(sch, block, params, results)
    return bool(results) and results != params


def with_result_on_axes(sch: Schedule, block: str) -> bool:
    """`in_axes` of an elementwise stage, `on_axes` of a sum, whose result gets these axes too where
    it is none of the program; return whether that changes anything.

    Raises Refusal as these do, for a sum that would have to be copied to its place, and for
    a stage that stores elsewhere than at its variables.
    """
    node, steps = sch.state.block(block), len(sch.trace)
    inner = not is_output(sch.state, store_of(sch, block).buffer)
    if node.is_reduction:
        c = find_contraction(sch, block)
        text = layout(sch, c, [block], c.spatial, None)
        names, _, dims = text.partition(": ")
        if names != dims and not inner:
            raise Refusal(f"block {block!r} stores its sums elsewhere than at its axes")
        _in_order(sch, c, block, [*c.spatial, *c.reduced])
    else:
        text = _stage_layout(sch, block) if inner else ""
        in_axes(sch, block)
    if inner:
        lay_out(sch, block, text)
    return len(sch.trace) > steps


def _stage_layout(sch: Schedule, block: str) -> str:
    """The index map for what an elementwise stage stores at its variables: a dimension an axis."""
    places = {it.var: n for n, it in enumerate(sch.state.block(block).iters)}
    indices = store_of(sch, block).indices
    names = {places[i]: f"d{n}" for n, i in enumerate(indices) if isinstance(i, Var)}
    axes = stage_axes(sch, block)
    if any(d.place not in names for axis in axes for d in axis.digits):
        raise Refusal(f"block {block!r} stores elsewhere than at its variables")
    params = ", ".join(f"d{n}" for n in range(len(indices)))
    return f"{params}: {', '.join(axis_texts(axes, names))}"


def _in_order(sch: Schedule, c: Contraction, stage: str, order: Sequence[int]) -> None:
    """One variable for each axis, in order; those of a reduction stay if none of it is there."""
    iters = sch.state.block(stage).iters
    names: dict[Var, str] = {it.var: f"p{n}" for n, it in enumerate(iters)}
    own = {place: names[var] for place, var in followers(sch, c, stage).items() if var in names}
    axes = [c.axes[n] for n in order]
    made = axis_texts(axes, own)
    if not any(axis.reduce for axis in axes):
        made += [names[it.var] for it in iters if it.kind is IterKind.REDUCE]
    _give_variables(sch, stage, [*names.values()], made)


def _give_variables(sch: Schedule, stage: str, old: list[str], new: list[str]) -> None:
    """`transform_block_layout`, if that changes anything."""
    if new != old:
        sch.transform_block_layout(stage, f"{', '.join(old)}: {', '.join(new)}")
