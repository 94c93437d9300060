"""What schedules for GPUs share: to be one step or none, and loops that threads share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from schedule.analysis import accesses
from schedule.errors import Illegal, ScheduleError
from tensorir import Buffer, dtype, int_value, variables

if TYPE_CHECKING:
    from schedule.schedule import Schedule
    from schedule.state import LoopRef

ACCESS_BYTES = 16
"""What one access moves at the most."""
LANES = 32


@contextmanager
def all_or_nothing(sch: Schedule, call: str) -> Iterator[None]:
    """Undo all steps of a derived schedule where one is refused, and say which call it was."""
    start = len(sch.trace)
    try:
        yield
    except (Illegal, ScheduleError) as refusal:
        sch.undo(len(sch.trace) - start)
        if isinstance(refusal, ScheduleError):
            raise
        where, reason, hint = refusal.where, refusal.reason, refusal.hint
        raise ScheduleError(
            call, where, reason, hint, sch.state, sch.trace, refusal.detail
        ) from None


def vector_of(buffer: Buffer) -> int:
    """Elements that one access can move along the last axis: all rows begin at a multiple."""
    lanes = max(1, ACCESS_BYTES // dtype.itemsize(buffer.dtype))
    last = int_value(buffer.shape[-1]) if buffer.shape else None
    while lanes > 1 and (last is None or last % lanes):
        lanes //= 2
    return lanes


def own_loops(sch: Schedule, block: str) -> list[LoopRef]:
    """The loops around a block alone."""
    return [x for x in sch.get_loops(block) if list(sch.get_child_blocks(x)) == [block]]


def in_order_of_reads(sch: Schedule, copy: str) -> None:
    """Order the loops of a copy as the axes of what it reads: neighbours are read together."""
    (use,) = [a for a in accesses(sch.state.block(copy)) if not a.is_write]
    places = [variables(index) for index in use.in_loops()]
    loops = own_loops(sch, copy)
    at = {
        x: next((n for n, v in enumerate(places) if sch.state.loop(x).var in v), -1) for x in loops
    }
    if len(loops) > 1:
        sch.reorder(*sorted(loops, key=lambda loop: at[loop]))


def bind_all(sch: Schedule, loops: Sequence[LoopRef], axis: str) -> None:
    """Bind loops that keep to the rules only together."""
    sch.bind(loops[0] if len(loops) == 1 else list(loops), axis)
