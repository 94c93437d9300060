"""The moves that come along: sums in lanes or parts, and operands copied into one panel."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from schedule.library.contraction.ahead import SYMBOLIC
from schedule.library.contraction.axes import Contraction
from schedule.library.contraction.copies import pack, with_panel
from schedule.library.contraction.find import find_contraction
from schedule.library.contraction.move import Move
from schedule.library.contraction.nest import make_nest
from schedule.library.contraction.partial import partial_sums, why_whole, with_partial
from schedule.library.contraction.places import store_of
from schedule.library.contraction.plan import NestPlan, Pack, Partial
from schedule.schedule import Schedule
from tensorir import Cpu, Device, dtype

WIDE = 4
"""Vectors of results that parts are added up in."""

Lanes = tuple[int, int]
"""An axis and a count."""

Parts = tuple[int, int, int, int]
"""An axis, a count, what parts are whole multiples of, and the lanes in which they are added up."""

Panel = tuple[int, int, bool]
"""An operand, an axis, and whether threads share the copy."""


def _in_lanes(option: Lanes) -> Partial:
    return Partial(*option, "lanes")


def _in_parts(option: Parts) -> Partial:
    return Partial(*option[:2], "parts", option[2])


def _part(sch: Schedule, c: Contraction, option: Parts) -> Contraction:
    after = partial_sums(sch, c, _in_parts(option))
    adding = find_contraction(sch, c.block, c.last)
    nest = adding_up(adding, option[-1])
    if nest is not None:
        make_nest(sch, adding, nest)
    return after


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


def _fills(c: Contraction, option: Panel) -> str | None:
    operand, axis, _ = option
    if c.axes[axis].extent is None:
        return f"a panel of all of axis {axis}, whose size is symbolic, has no size"
    if not c.can_pack(operand, axis):
        name = c.operands[operand].buffer
        return f"{name!r} is not read at one place, at values of axis {axis} alone"
    return None


def _copied(sch: Schedule, c: Contraction, option: Panel) -> Contraction:
    operand, axis, threads = option
    copier = pack(sch, c, Pack(operand, axis, c.axes[axis].extent or 1), c.written, threads)
    return with_panel(c, operand, axis, store_of(sch, copier).buffer.name)


def _adding(c: Contraction, option: Parts, device: Device, constants: Collection[str]) -> float:
    """Of few results, which are near."""
    assert isinstance(device, Cpu)
    _, count, _, lanes = option
    extents = ((c.axes[n].extent or SYMBOLIC, c.result.strides[n]) for n in c.spatial)
    vectors = prod(-(-extent // lanes) if step == 1 else extent for extent, step in extents)
    return device.costs.tile + vectors * count * device.costs.latency / 2


def _copying(c: Contraction, option: Panel, device: Device, constants: Collection[str]) -> float:
    assert isinstance(device, Cpu)
    operand, _, threads = option
    o = c.operands[operand]
    size = prod(a.extent or SYMBOLIC for n, a in enumerate(c.axes) if o.strides[n] != 0)
    cycles = device.packing(size, dtype.itemsize(o.dtype), turned=True)
    return 0.0 if o.buffer in constants else cycles / (device.threads if threads else 1)


lanes = Move(
    "lanes",
    apply=lambda sch, c, option: partial_sums(sch, c, _in_lanes(option)),
    requires=lambda c, option: why_whole(c, _in_lanes(option)),
    numerics="reassociated",
    foresee=lambda c, option: with_partial(c, _in_lanes(option)),
)
"""(axis, count): neighbouring terms of an axis side by side. They are added up with each tile."""

parts = Move(
    "parts",
    apply=_part,
    requires=lambda c, option: why_whole(c, _in_parts(option)),
    cycles=_adding,
    numerics="reassociated",
    foresee=lambda c, option: with_partial(c, _in_parts(option)),
)
"""(axis, count, step, lanes): runs of the terms of an axis, for threads or caches, whole multiples
of `step` terms long. They are added up after all, in vectors of so many `lanes`."""

panel = Move(
    "panel",
    apply=_copied,
    requires=_fills,
    cycles=_copying,
    foresee=lambda c, option: with_panel(c, option[0], option[1]),
)
"""(operand, axis, threads): an operand is copied ahead, all values of an axis side by side."""
