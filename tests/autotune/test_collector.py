"""Collections of garbage wait while schedules are planned, and go on as they did before."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from autotune.rules.collector import paused


@pytest.mark.parametrize("before", [True, False])
def test_collections_go_on_as_before_when_the_last_thread_leaves(before):
    """One thread is still inside when the other one leaves, the second time by an error."""
    meet, found = Barrier(2), []

    def plan(first):
        with paused():
            meet.wait()
            if first:
                raise RuntimeError
            meet.wait()
            found.append(gc.isenabled())

    kept = gc.isenabled()
    (gc.enable if before else gc.disable)()
    try:
        with ThreadPoolExecutor(2) as pool:
            one, other = pool.submit(plan, True), pool.submit(plan, False)
            with pytest.raises(RuntimeError):
                one.result()
            meet.wait()
            other.result()
        assert found == [False]
        assert gc.isenabled() == before
    finally:
        (gc.enable if kept else gc.disable)()
