"""The nests of partial sums, and of what adds them up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedule.library.contraction.axes import Contraction
from schedule.library.contraction.copies import pack, with_panel
from schedule.library.contraction.find import find_contraction
from schedule.library.contraction.nest import make_nest
from schedule.library.contraction.partial import partial_sums
from schedule.library.contraction.places import store_of
from schedule.library.contraction.plan import NestPlan, PartialPlan

if TYPE_CHECKING:
    from schedule.schedule import Schedule

WIDE = 4
"""Vectors of results that parts are added up in."""


def make_partial_nest(sch: Schedule, c: Contraction, plan: PartialPlan) -> None:
    """Schedule a contraction by partial sums, and what adds them up. TensorIRError if refused."""
    for what in plan.packs:
        copy = store_of(sch, pack(sch, c, what, c.written, plan.nest.threads)).buffer
        c = with_panel(c, what.operand, what.axis, copy.name)
    left: list[tuple[str, str]] = []
    for partial in plan.partials:
        after = partial_sums(sch, c, partial)
        if partial.kind == "parts":
            left.append((c.block, c.last))
        c = after
    make_nest(sch, c, plan.nest)
    for block, last in reversed(left):
        adding = find_contraction(sch, block, last)
        nest = adding_up(adding, plan.nest.lanes)
        if nest is not None:
            make_nest(sch, adding, nest)


def adding_up(c: Contraction, lanes: int) -> NestPlan | None:
    """The plan for a contraction that adds parts up: in vectors, on one thread, for there are few.

    None where its results are no neighbours, as a single one is not.
    """
    along = [n for n in c.spatial if c.result.strides[n] == 1]
    if not along:
        return None
    (lane,) = along
    extent = c.axes[lane].extent
    width = WIDE * lanes if extent is None else min(WIDE * lanes, -(-extent // lanes) * lanes)
    tile = tuple(width if n == lane else 1 for n in c.spatial)
    task = tuple(c.axes[n].extent or tile[n] for n in c.spatial)
    return NestPlan(lane, lanes, tile, task, c.written, c.spatial, threads=False)
