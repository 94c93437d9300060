"""Padded copies of pictures whose channels lie last."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

from schedule.library.copies import LONGEST
from schedule.library.lanes import own_loops, read_by, split_at_most
from tensorir import Store, Var, int_value

if TYPE_CHECKING:
    from schedule.schedule import Schedule
    from schedule.state import LoopRef


def copy_pictures(sch: Schedule, block: str, where: LoopRef | None, parallel: bool) -> None:
    """Copy what iterations of `where` read, or all that is read: rows in long vectors.

    What lies before and after the rows of the picture is filled apart: nothing is asked for each
    pixel. Without `where`, threads share the rows if it is to be `parallel`.
    """
    if where is not None:
        sch.compute_at(block, where)
    own = own_loops(sch, block)
    names = _axes(sch, block)
    column, channel = own.get(names[-2]), own.get(names[-1])
    if column is None or channel is None or column == channel:
        _in_vectors(sch, sch.get_loops(block)[-1], LONGEST)
    else:
        _copy_row(sch, block, column, channel)
    if where is None and parallel:
        rows = [own[name] for name in names[:-2] if name in own]
        if rows:
            sch.parallel(sch.fuse(*rows) if len(rows) > 1 else rows[0])


def _copy_row(sch: Schedule, block: str, column: LoopRef, channel: LoopRef) -> None:
    """The pixels of a row with their channels, as one loop if these are few."""
    channels = sch.state.loop(channel).const_extent or 0
    extent = sch.state.loop(column).const_extent or 0
    before, inside = moved_rows(sch, block)
    whole = min(inside, extent - before)
    cut = [extent]
    if 0 <= before and 0 < whole < extent:
        cut = [size for size in (before, whole, extent - before - whole) if size]
    if channels > LONGEST:
        for part in sch.partition(column, cut):
            (child,) = sch.get_child_blocks(part)
            _in_vectors(sch, sch.get_loops(child)[-1], LONGEST)
        return
    together = lcm(channels, 16)
    together = together if together <= LONGEST else channels
    for part in sch.partition(sch.fuse(column, channel), [size * channels for size in cut]):
        _in_vectors(sch, part, LONGEST // together * together)


def _in_vectors(sch: Schedule, loop: LoopRef, longest: int) -> None:
    """Long loops as such of `longest` iterations, and the rest.

    A predicate instead would hide that a task makes all it reads.
    """
    extent = sch.state.loop(loop).const_extent or 0
    rest = extent % longest
    for part in sch.partition(loop, [size for size in (extent - rest, rest) if size]):
        sch.vectorize(split_at_most(sch, part, longest)[1])


def _axes(sch: Schedule, block: str) -> list[str]:
    """Names of the variables that the dimensions of the copy are, without the leading v."""
    body = sch.state.block(block).body
    assert isinstance(body, Store)
    return [i.name.removeprefix("v") if isinstance(i, Var) else "" for i in body.indices]


def moved_rows(sch: Schedule, block: str) -> tuple[int, int]:
    """How far a row is moved by padding, and how long it was; (0, 0) where that is not plain."""
    loads = read_by(sch, block)
    body = sch.state.block(block).body
    assert isinstance(body, Store)
    if len(loads) != 1 or len(loads[0].indices) != len(body.indices):
        return 0, 0
    moved = int_value(sch.state.analyzer().simplify(body.indices[-2] - loads[0].indices[-2]))
    return (0, 0) if moved is None else (moved, int_value(loads[0].buffer.shape[-2]) or 0)
