"""What tests cost is counted, and told beside what it may be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def counter(request):
    """A counter of its own, of nothing so far."""
    return type(request.config.pluginmanager.get_plugin("cpu-times"))()


def test_each_folder_of_tests_has_its_share(counter):
    folders = {path.relative_to(HERE).parts[0] for path in HERE.glob("*/**/test_*.py")}
    assert set(counter.MOST) == folders | {"."}
    assert sum(counter.MOST.values()) <= 660, "two processors take longer than six minutes"


def test_the_time_of_a_test_and_its_processes_counts(counter, request):
    run = counter.pytest_runtest_protocol(request.node)
    next(run)
    end = sum(os.times()[:2]) + 0.05
    while sum(os.times()[:2]) < end:  # which counts in hundredths of a second
        pass
    with pytest.raises(StopIteration):
        run.send(None)
    assert list(counter.seconds) == ["."] and counter.seconds["."] >= 0.04


def test_workers_are_added_up_and_what_is_too_much_is_said(counter):
    for seconds in ({"fuzz": 40.0, "schedule": 10.0}, {"fuzz": 30.0}):
        node = type("Node", (), {"workeroutput": {"cpu_seconds": seconds}})
        counter.pytest_testnodedown(node)
    assert counter.seconds == {"fuzz": 70, "schedule": 10}
    marked = [line.split()[0] for line in counter.table() if "too much" in line]
    assert marked == ["fuzz"]
    assert counter.table()[-1].split()[:2] == ["all", "80"]
