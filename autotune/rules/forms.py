"""Elementwise stages on the axes of what they access, whatever variables they were written with."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from autotune.rules.group import Group, in_scan, output_store
from schedule import Schedule, ScheduleError, library
from tensorir import Block, IterKind

SHORT = 64
"""Elements below which a part of a variable is no row: it is written out with the others."""


def bring_on_axes(
    sch: Schedule, groups: Iterable[Group], taken: Callable[[Schedule, Group], bool], rest: bool
) -> None:
    """Give elementwise stages a variable for each of their axes, in the order of the memory that
    they write: `out[v] = a[v % 64, v // 64]` is a transpose, and is scheduled as one.

    taken  whether a better rule than the one for the rest takes a group of a schedule
    rest   whether that one takes stages that store elsewhere than at their variables. Else only
           what another takes then is brought on its axes
    """
    for group in groups:
        trial = sch.copy()
        if not moved_on_axes(trial, group.block):
            continue
        if rest and not _has_short_parts(sch, group.block):
            moved_on_axes(sch, group.block)
        elif taken(trial, group) and not (rest and taken(sch, group)):
            moved_on_axes(sch, group.block)
        elif rest:
            moved_on_axes(sch, group.block, parts=False)


def moved_on_axes(sch: Schedule, name: str, parts: bool = True) -> bool:
    """Give a stage a variable for each axis, if it is elementwise; tell whether that changes it."""
    block = sch.state.block(name)
    if not _is_elementwise(block) or in_scan(sch, block):
        return False
    try:
        return library.in_axes(sch, name, parts=parts)
    except ScheduleError:  # its loops are not its own: it stays as it is written
        return False


def _has_short_parts(sch: Schedule, name: str) -> bool:
    """Whether the last axis of a stage is a short part of a variable."""
    *_, last = library.stage_axes(sch, name)
    return not last.digits[-1].top and (last.extent or 0) < SHORT


def _is_elementwise(block: Block) -> bool:
    spatial = all(it.kind is IterKind.SPATIAL for it in block.iters)
    return spatial and output_store(block) is not None
