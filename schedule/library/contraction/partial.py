"""Partial sums: an axis that is summed over is cut in two, and one part becomes spatial."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from schedule.errors import Refusal
from schedule.library.contraction.axes import Access, Axis, Contraction, Digit, Steps
from schedule.library.contraction.normalise import ordered_axes, sorted_axes
from schedule.library.contraction.places import axis_loops, loops_by_place, own_loops, store_of
from schedule.library.contraction.plan import Partial
from schedule.schedule import Schedule
from tensorir import IterKind, Var

LEFT, ADDED = -1, -2
"""Places of the two axes that come of one, until there is a block."""

FEW = 4
"""Lanes that are added up one after the other."""


def with_partial(c: Contraction, what: Partial) -> Contraction:
    """The contraction of the partial sums as `partial_sums` returns it, but for names and places:
    no schedule is needed."""
    extent, lanes = c.axes[what.axis].extent, what.kind == "lanes"
    outer, inner = what.cut(extent)
    rest, count = (outer, inner) if lanes else (inner, outer)
    apart, scale = (1, what.count) if lanes else (inner, 1)

    def cut(steps: Steps) -> Steps:
        step = steps[what.axis]
        far = 0 if step == 0 else None if step is None or apart is None else step * apart
        left = None if step is None else step * scale
        return (*steps[: what.axis], left, *steps[what.axis + 1 :], far)

    place, made = len(c.axes), c.with_steps(cut)  # of the part that becomes spatial
    both = [o.own | {place} if what.axis in o.own else o.own for o in c.operands]
    sums = _with_dimension(made.sums, count, place, last=lanes)
    axes = [*c.axes, Axis((Digit(ADDED, 1, count),), reduce=False)]
    axes[what.axis] = Axis((Digit(LEFT, 1, rest),), reduce=True)
    missing = 0 if outer is None or inner is None else outer * inner - (extent or 0)
    made = replace(
        made, axes=tuple(axes), sums=sums, result=made.result if lanes else sums,
        operands=tuple(replace(o, own=own) for o, own in zip(made.operands, both)),
        last=c.last if lanes else c.block, missing=missing if lanes else c.missing,
    )  # fmt: skip
    left = [n for n in range(place + 1) if n != what.axis or rest != 1]
    return sorted_axes(ordered_axes(made, left))


def _with_dimension(sums: Access, count: int | None, axis: int, last: bool) -> Access:
    """What is stored with a dimension more, which an axis indexes that moved nothing before."""
    row = tuple(int(n == axis) for n in range(len(sums.strides)))
    known = prod(size or 0 for size in sums.shape) if None not in sums.shape else None
    if last:
        inner = [None if s is None or count is None else s * count for s in sums.strides]
        inner[axis] = 1
        return replace(
            sums, shape=(*sums.shape, count), dims=(*sums.dims, row), strides=tuple(inner)
        )
    outer = tuple(known if n == axis else s for n, s in enumerate(sums.strides))
    return replace(sums, shape=(count, *sums.shape), dims=(row, *sums.dims), strides=outer)


def why_whole(c: Contraction, what: Partial) -> str | None:
    """Why a contraction has no such partial sums; None if it has."""
    if what.axis not in c.reduced:
        return f"axis {what.axis} of block {c.block!r} is not summed over; {list(c.reduced)} are"
    axis, most = c.axes[what.axis], c.axes[what.axis].most
    few = axis.extent is None and most is not None and most <= what.count  # one each, whatever step
    all_lanes = what.kind == "lanes" and most == what.count and len(c.reduced) > 1
    if what.count < 2 or few or 1 in what.cut(most) and not all_lanes:
        return f"{what.count} partial sums of {most} terms of block {c.block!r} save nothing"
    return None


def partial_sums(sch: Schedule, c: Contraction, what: Partial) -> Contraction:
    """Sum up parts or lanes of an axis in a block of its own, and return its contraction; the old
    block adds them up.

    Refusal where an axis has no more terms than that, and where rfactor refuses: of other
    reductions than by one operation, and after loops were annotated.
    """
    reason = why_whole(c, what)
    if reason is not None:
        raise Refusal(reason)
    order, whole = c.written, loops_by_place(sch, c.block)
    places = {digit.place for n in order for digit in c.axes[n].digits}
    terms = [loop for place, loop in whole.items() if place in places]
    sch.reorder(*(loop for loop in own_loops(sch, c.block) if loop not in terms), *terms)
    loops = axis_loops(sch, [c.axes[n] for n in order], whole)
    loop = loops[order.index(what.axis)]
    lanes = what.kind == "lanes"
    factors = what.cut(c.axes[what.axis].extent)
    outer, inner = sch.split(loop, [None, factors[1]] if factors[1] else [factors[0], None])
    left, added = (outer, inner) if lanes else (inner, outer)
    iters = sch.state.block(c.block).iters
    spatial = [n for n, it in enumerate(iters) if it.kind is not IterKind.REDUCE]
    block = str(sch.rfactor(c.block, added, -1 if lanes else 0))
    made = enumerate(sch.state.block(block).iters)
    bound = {it.binding.name: n for n, it in made if isinstance(it.binding, Var)}
    reduce = {c.axes[n].digits: bound[loop] for n, loop in zip(order, loops) if loop in bound}

    def placed(axis: Axis) -> Axis:
        first = axis.digits[0]
        if first.place in (LEFT, ADDED):
            place = bound[left] if first.place == LEFT else bound[added]
            return replace(axis, digits=(replace(first, place=place),))
        if axis.reduce:
            return replace(axis, digits=(Digit(reduce[axis.digits], 1, axis.extent),))
        return replace(
            axis, digits=tuple(replace(d, place=spatial.index(d.place)) for d in axis.digits)
        )

    after = with_partial(c, what)
    buffer = store_of(sch, block).buffer.name
    sums = replace(after.sums, buffer=buffer)
    return replace(
        after, block=block, last=after.last if lanes else block, sums=sums,
        result=after.result if lanes else sums, axes=tuple(placed(axis) for axis in after.axes),
    )  # fmt: skip


def add_lanes(sch: Schedule, block: str, count: int, lanes: int) -> list[str]:
    """Add `count` neighbours up in steps: to one vector, to a quarter of it, and these. Returns the
    blocks in their order; the last one is `block`.

    The sums of a step do not wait for each other, and the last ones are a few terms long.
    """
    found: list[str] = []
    for part in (lanes, max(FEW, lanes // FEW)):
        if part < count:
            _, lane = sch.split(sch.get_loops(block)[-1], [None, part])
            found.append(str(sch.rfactor(block, lane)))
            count = part
    return [*found, block]
