"""Elementwise stages on the axes of what they access, whatever variables they were written with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from autotune.rules.group import Group, Refused, attempt, in_scan, output_store
from schedule import Schedule, library
from tensorir import IterKind

SHORT = 64
"""Elements below which a part of a variable is no row: it is written out with the others."""


def bring_on_axes(
    sch: Schedule, groups: Iterable[Group], taken: Callable[[Schedule, Group], bool], rest: bool
) -> Refused:
    """Give elementwise stages a variable for each of their axes, in the order of the memory that
    they write: `out[v] = a[v % 64, v // 64]` is a transpose, and is scheduled as one. Returns those
    of which that is refused: their loops are not their own.

    taken  whether a better rule than the one for the rest takes a group of a schedule
    rest   whether that one takes stages that store elsewhere than at their variables. Else only
           what another takes then is brought on its axes
    """
    refused: Refused = {}
    for group in groups:
        trial, own = sch.copy(), refused.setdefault(group.block, {})
        if not moved_on_axes(trial, group.block, own):
            continue
        *_, last = library.stage_axes(sch, group.block)
        whole = rest and (last.digits[-1].top or (last.extent or 0) >= SHORT)
        if whole or taken(trial, group) and not (rest and taken(sch, group)):
            went_on = sch.follow(trial)
            assert went_on  # what was done to a copy
        elif rest:
            moved_on_axes(sch, group.block, own, parts=False)
    return refused


def moved_on_axes(sch: Schedule, name: str, refused: dict[str, str], parts: bool = True) -> bool:
    """Give a stage a variable for each axis, if it is elementwise; tell whether that changes it,
    and `refused` why it stays as it is written."""
    block = sch.state.block(name)
    spatial = all(it.kind is IterKind.SPATIAL for it in block.iters)
    if not spatial or output_store(block) is None or in_scan(sch, block):
        return False
    steps = len(sch.trace)
    attempt(refused, f"{name!r} on its axes", partial(library.in_axes, sch, name, parts=parts))
    return len(sch.trace) > steps
