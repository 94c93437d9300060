"""Seconds of a search by phase."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import accumulate, count

import pytest

from autotune.phases import Phases, in_words


def test_each_second_is_of_the_innermost_phase():
    """Also where a lock is waited for, and where what happens inside fails."""
    phases = Phases(clock=accumulate(count(1)).__next__)  # 1, 3, 6, 10, ...: seconds 2, 3, 4, ...

    @contextmanager
    def lock():
        yield

    with pytest.raises(KeyError), phases("race"):  # from 1
        with phases.holding(lock(), "timing"):  # waiting from 3 to 6, timing from 10 to 15
            pass
        raise KeyError  # at 21
    with phases("race"):  # from 28
        pass  # to 36
    assert phases.seconds == {"race": 2 + 4 + 6 + 8, "waiting": 3, "timing": 5}


def test_the_phase_that_is_running_counts_so_far():
    phases = Phases(clock=count(1.0).__next__)
    with phases("race"):  # from 1
        assert phases.so_far() == {"race": 1.0} and phases.so_far() == {"race": 2.0}
    assert phases.seconds == phases.so_far() == {"race": 3.0}


def test_seconds_are_divided_as_work_was():
    phases = Phases()
    phases.seconds = {"building": 8.0, "lowering": 1.0}
    phases.divide("building", [{"lowering": 1.0}, {"compiling": 3.0}, {}])
    assert phases.seconds == {"lowering": 3.0, "compiling": 6.0}
    phases.seconds = {"building": 6.0}
    phases.divide("building", [{}])  # of builders that tell nothing
    assert phases.seconds == {"compiling": 6.0}
    phases.seconds = {"lowering": 3.0, "compiling": 6.0}
    assert in_words(phases.seconds, 12.0) == "lowering 25%, compiling 50%"
    assert in_words({"race": 0.001}, 12.0) == in_words({}, 0.0) == ""
