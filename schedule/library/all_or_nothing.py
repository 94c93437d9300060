"""Derived schedules happen as a whole or not at all, and refusals name the call that was made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from schedule.errors import Illegal, ScheduleError

if TYPE_CHECKING:
    from schedule.schedule import Schedule


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
