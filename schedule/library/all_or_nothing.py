"""Derived schedules happen as a whole or not at all, and refusals name the call that was made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from schedule.errors import Illegal, Refusal, ScheduleError

if TYPE_CHECKING:
    from schedule.schedule import Schedule


@contextmanager
def all_or_nothing(sch: Schedule, call: str) -> Iterator[None]:
    """Undo all steps of a derived schedule where one is refused, or a contraction is none that it
    takes, and say which call it was."""
    start = len(sch.trace)
    try:
        yield
    except BaseException as refusal:
        sch.undo(len(sch.trace) - start)
        if isinstance(refusal, ScheduleError) or not isinstance(refusal, Illegal | Refusal):
            raise
        found = refusal if isinstance(refusal, Illegal) else Illegal(call, str(refusal))
        where, reason, hint = found.where, found.reason, found.hint
        raise ScheduleError(call, where, reason, hint, sch.state, sch.trace, found.detail) from None
