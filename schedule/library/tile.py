"""tile: two loops into four; a loop into two, whatever its extent; and several into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from schedule.library.all_or_nothing import all_or_nothing

if TYPE_CHECKING:
    from schedule.schedule import Schedule
    from schedule.state import LoopRef


def tile(sch: Schedule, x: str, y: str, x_factor: int, y_factor: int) -> tuple[LoopRef, ...]:
    """Split two nested loops and order the parts x_outer, y_outer, x_inner, y_inner.

    Returns (x_outer, x_inner, y_outer, y_inner). Factors need not divide the extents;
    if one of the steps is refused, none is taken.
    """
    with all_or_nothing(sch, f"tile({x!r}, {y!r}, {x_factor!r}, {y_factor!r})"):
        x_outer, x_inner = sch.split(x, [None, x_factor])
        y_outer, y_inner = sch.split(y, [None, y_factor])
        sch.reorder(x_outer, y_outer, x_inner, y_inner)
    return x_outer, x_inner, y_outer, y_inner


def split_at_most(sch: Schedule, loop: LoopRef, factor: int) -> tuple[LoopRef, LoopRef]:
    """Split off `factor` iterations, or all there are; both loops exist in any case."""
    extent = sch.state.loop(loop).const_extent
    size = factor if extent is None else max(1, min(factor, extent))
    outer, inner = sch.split(loop, [None, size])
    return outer, inner


def one_loop(
    sch: Schedule, loops: Sequence[LoopRef], inside: Sequence[LoopRef] = ()
) -> tuple[LoopRef, LoopRef]:
    """Loops of a nest as one over tasks, outside of those `inside`; returns it and the innermost.

    A loop of symbolic extent is fused outermost only, and others stay inside of the one: what
    iterations touch cannot be told from a quotient by a symbol.
    """
    first, *alone = [n for n in loops if sch.state.loop(n).const_extent is None] or [loops[0]]
    shared = [first, *(loop for loop in loops if loop not in (first, *alone))]
    nested = sorted(loops, key=lambda loop: len(sch.state.loops_outside(loop)))
    if [*shared, *alone] != nested or inside:
        sch.reorder(*shared, *alone, *inside)
    task = sch.fuse(*shared) if len(shared) > 1 else first
    return task, [task, *alone][-1]
