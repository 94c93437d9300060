"""What every refused request is held to."""

from __future__ import annotations

import pytest

from schedule import ScheduleError


def refused(call, *args, match, **kwargs):
    """The call is refused with a message that matches, and the schedule is unchanged."""
    schedule = call.__self__
    before, trace = schedule.func, schedule.trace
    with pytest.raises(ScheduleError, match=match) as refusal:
        call(*args, **kwargs)
    assert "\n" not in refusal.value.headline
    assert schedule.func is before and schedule.trace is trace
