"""Sums of threads: terms that warps or lanes share become sums of their own, one of each thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from schedule.errors import require
from schedule.library.contraction.axes import Access, Axis, Contraction, Operand
from schedule.library.contraction.partial import partial_sums
from schedule.library.contraction.plan import Partial
from schedule.library.gpu.tile_plan import Cut, TilePlan
from schedule.schedule import Schedule

A = TypeVar("A", bound=Access)


def shared_terms(c: Contraction, plan: TilePlan) -> list[int]:
    """The axes that are summed over whose terms warps or lanes share."""
    return [n for n in c.reduced if plan.cuts[n].warps * plan.cuts[n].lanes > 1]


def thread_sums(sch: Schedule, c: Contraction, plan: TilePlan) -> tuple[Contraction, TilePlan]:
    """Sum up what each thread has in a block of its own: its contraction, with an axis for the
    threads, which the result does not have, and the plan for it. The old block adds up what the
    threads have.

    ScheduleError where the elements that are neighbours in a thread do not divide the axis, where
    several axes are shared, or one beside elements of the result; TensorIRError where threads have
    a term each at the most.
    """
    (axis, *more) = shared_terms(c, plan)
    require(not more, c.block, f"threads share terms of several axes of block {c.block!r}")
    for kind in ("warps", "lanes"):
        used = [n for n in c.spatial if getattr(plan.cuts[n], kind) > 1]
        both = f"{kind} of block {c.block!r} share terms, and elements of the result as well"
        require(not used or getattr(plan.cuts[axis], kind) == 1, c.block, both)
    require(not plan.ahead, c.block, "threads that share terms copy nothing ahead")
    c, plan = _in_pieces(c, plan, axis)
    cut = plan.cuts[axis]
    count = cut.warps * cut.lanes
    part = partial_sums(sch, c, Partial(axis, count, "lanes"))
    terms = dict(zip(part.written, c.written))
    elements = {
        (None if s is None else s * count, c.axes[n].extent): plan.cuts[n]
        for n in c.spatial
        for s in [c.sums.strides[n]]
    }
    threads = Cut(cut.warps, 1, cut.lanes, 1)
    cuts = [
        plan.cuts[terms[n]]
        if n in terms
        else elements.get((part.sums.strides[n], each.extent), threads)
        for n, each in enumerate(part.axes)
    ]
    after = {old: new for new, old in terms.items()}
    cuts[after[axis]] = Cut(parts=cut.parts)
    return part, replace(
        operands_of(plan, c, part), cuts=tuple(cuts), steps=tuple(after[n] for n in plan.steps)
    )


def operands_of(plan: TilePlan, c: Contraction, after: Contraction) -> TilePlan:
    """A plan whose operands are those of another contraction that reads the same buffers."""
    places: dict[str, list[int]] = {}
    for n, o in enumerate(after.operands):
        places.setdefault(o.buffer, []).append(n)
    moved = [places[o.buffer].pop(0) for o in c.operands]  # all of one buffer are treated alike
    return replace(
        plan,
        shared=tuple(moved[n] for n in plan.shared),
        gathered=tuple(moved[n] for n in plan.gathered),
        laid=tuple(moved[n] for n in plan.laid),
    )


def _in_pieces(c: Contraction, plan: TilePlan, axis: int) -> tuple[Contraction, TilePlan]:
    """An axis as two, of which the inner one has the neighbours that threads take at once."""
    size, extent = plan.cuts[axis].elements, c.axes[axis].extent
    if size == 1:
        return c, plan
    whole = extent is not None and extent % size == 0
    odd = f"{extent} terms of block {c.block!r} are no multiple of {size} neighbours"
    require(whole, c.block, odd, "give threads single terms")
    *outer, last = c.axes[axis].digits
    high = replace(last, lower=last.lower * size, extent=(last.extent or size) // size)
    low = replace(last, extent=size, top=False)
    split = [Axis((*outer, high), True), Axis((low,), True)]

    def steps(row: Sequence[int | None]) -> tuple[int | None, ...]:
        step = row[axis]
        return (*row[:axis], None if step is None else step * size, *row[axis:])

    def moved(access: A) -> A:
        return replace(
            access, dims=tuple(map(steps, access.dims)), strides=steps(access.strides)
        )

    def place(n: int) -> int:
        return n + (n > axis)

    def twice(order: Sequence[int]) -> tuple[int, ...]:
        return tuple(m for n in order for m in ((n, n + 1) if n == axis else (place(n),)))

    def read(o: Operand) -> Operand:
        return replace(moved(o), own=frozenset(twice(sorted(o.own))))

    made = replace(
        c, axes=(*c.axes[:axis], *split, *c.axes[axis + 1 :]), written=twice(c.written),
        operands=tuple(map(read, c.operands)), sums=moved(c.sums), result=moved(c.result),
        numbers=tuple(map(steps, c.numbers)),
    )  # fmt: skip
    cut = plan.cuts[axis]
    cuts = (cut._replace(elements=1), Cut(elements=size))
    return made, replace(
        plan, cuts=(*plan.cuts[:axis], *cuts, *plan.cuts[axis + 1 :]), steps=twice(plan.steps),
        along=place(plan.along),
    )  # fmt: skip
