"""Who is visited when, and what counts. Times are made up; no clock is looked at."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.measure.canary import Canary
from autotune.noise.visits import Visit, Visits
from tests.autotune.made_noise import NoisyMachine

QUIET = {"own": 0.01, "drift": 0.0, "load": 0.0}
BATCH = [t * 1e-3 for t in (1.0, 1.02, 1.05, 1.3, 1.6, 2.0, 3.0, 8.0)]


def visited(times, seed=0, rounds=5, incumbent=None, **noise) -> tuple[Visits, list[int]]:
    """The visits of a batch on a noisy machine, and the order in which they were made."""
    machine = NoisyMachine(seed, **noise)
    visits, order = Visits(len(times), rounds, random.Random(seed), incumbent), []
    while now := visits.next():
        machine.wait(visits.pause)
        for at in now:
            visits.add(at, machine.visit(times[at]))
        order += now
    return visits, order


def test_visits_are_spread_over_the_batch():
    visits, order = visited([1e-3] * 8, **QUIET)
    assert sorted(order) == sorted([*range(8)] * 5)
    rounds = [order[at : at + 8] for at in range(0, 40, 8)]
    assert all(sorted(each) == list(range(8)) for each in rounds)
    assert rounds[0] == list(range(8)) and len({tuple(each) for each in rounds}) == 5


def test_who_is_certainly_slower_gets_one_visit():
    visits, order = visited(BATCH, **QUIET)
    counts = [len(made) for made in visits.made]
    assert counts[:2] == [5, 5] and counts[3] == 2 and counts[4:] == [1] * 4
    assert [len(m) for m in visited(BATCH, incumbent=0.5e-3, **QUIET)[0].made] == [1] * 8


@pytest.mark.parametrize("busy", [False, True])
def test_the_fastest_is_not_given_up(busy):
    """On fifty machines, in a batch with others near it, beside an incumbent that is as fast."""
    noise = {} if busy else QUIET
    for seed in range(50):
        visits, _ = visited(BATCH, seed, incumbent=1.01e-3, **noise)
        assert len(visits.made[0]) >= 5, seed


def test_it_costs_no_more_than_blocks_in_a_row():
    costs = [len(visited(BATCH, seed, **QUIET)[1]) for seed in range(20)]
    busy = [len(visited(BATCH, seed)[1]) for seed in range(20)]
    assert max(costs) <= 5 * len(BATCH) and np.mean(costs) < 3 * len(BATCH)
    assert max(busy) <= 7.5 * len(BATCH)


def test_visits_order_better_than_blocks_in_a_row():
    """Near the best, for the same number of blocks."""
    times = [1e-3 * x for x in (1, 1.03, 1.06, 1.09, 1.12)]
    wrong = {"visits": 0, "in a row": 0}
    for seed in range(60):
        visits, _ = visited(times, seed)
        found = [np.median([v.seconds for v in visits.counting(at)]) for at in range(5)]
        machine = NoisyMachine(seed)
        blocks = [[machine.visit(t).seconds for _ in range(5)] for t in times]
        in_a_row = [np.median(each) for each in blocks]
        for kind, medians in (("visits", found), ("in a row", in_a_row)):
            wrong[kind] += int(np.argmin(medians)) != 0
    assert wrong["visits"] < 0.6 * wrong["in a row"], wrong


def test_disturbed_visits_are_made_again_and_do_not_count():
    visits, sick = Visits(2, 3, random.Random(0)), iter([True, True, False, False, False, False])
    while now := visits.next():
        for at in now:
            bad = at == 1 and next(sick, False)
            visits.add(at, Visit(2e-3 if bad else 1e-3, switches=9 if bad else 0))
    assert [len(made) for made in visits.made] == [3, 5] and visits.pause == 0.0
    assert [v.seconds for v in visits.counting(1)] == [1e-3] * 3


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 6), st.floats(0, 1), st.integers(0, 99))
def test_it_always_ends_within_its_budget(count, rounds, sick, seed):
    """Whatever is disturbed, fails, or takes long; who did not fail has a time."""
    rng = random.Random(seed)
    visits = Visits(count, rounds, random.Random(seed), limit_s=1.0)
    failed, total = set(), 0
    while now := visits.next():
        for at in now:
            total += 1
            if rng.random() < 0.1:
                visits.leave(at)
                failed.add(at)
            else:
                canary = 2.0 if rng.random() < sick else 1.0
                visits.add(at, Visit(rng.uniform(1, 2), canary=canary, lasted=rng.uniform(0, 0.5)))
    assert total <= count * rounds * 1.5 + 1
    for at in set(range(count)) - failed:
        assert 1 <= len(visits.counting(at)) <= rounds
        assert len({bool(v.disturbed) for v in visits.counting(at)}) == 1


def test_rounds_that_are_disturbed_as_a_whole_are_made_later():
    visits, pauses = Visits(2, 4, random.Random(0)), []
    while now := visits.next():
        pauses.append(visits.pause)
        for at in now:
            visits.add(at, Visit(1e-3, canary=2.0 if len(pauses) < 4 else 1.0))
    assert pauses[:5] == [0.0, 0.02, 0.04, 0.08, 0.0] and sum(pauses) <= 0.3
    for_ever = Visits(1, 50, random.Random(0))
    while now := for_ever.next():
        for_ever.add(0, Visit(1e-3, canary=2.0))
        pauses.append(for_ever.pause)
    assert sum(pauses) == pytest.approx(0.14 + 0.3)


def test_what_disturbs():
    assert Visit(1.0, lasted=0.01, switches=2).disturbed == ""
    assert Visit(1.0, lasted=0.01, switches=3).disturbed == "3 context switches"
    assert Visit(1.0, lasted=1.0, switches=100).disturbed == ""
    assert Visit(1.0, lasted=0.01, switches=9, waited=0.0009).disturbed == ""
    waited = Visit(1.0, lasted=0.01, waited=0.0012)
    assert waited.disturbed == "threads waited 1.2 ms for a processor"
    assert Visit(1.0, lasted=0.0002, waited=0.0001).disturbed == ""
    assert Visit(1.0, faults=1).disturbed == "1 page faults"
    assert "1.30 times" in Visit(1.0, canary=1.3).disturbed
    assert Visit.from_json({**Visit(1.0, canary=1.3).to_json(), "later": 1}) == Visit(1, canary=1.3)


class Clock:
    """A clock that a machine's slowness moves."""

    def __init__(self):
        self.now, self.step = 0.0, 1e-3

    def __call__(self):
        self.now += self.step
        return self.now


def test_the_canary_notices_a_slower_machine_and_gets_used_to_it():
    clock = Clock()
    canary = Canary(clock)
    assert canary.slowness() == pytest.approx(1.0)
    clock.step = 1.5e-3
    assert canary.slowness() == pytest.approx(1.5)
    visit = canary.visit(lambda calls: 2.0 * calls, 3)
    assert (visit.seconds, visit.canary) == (2.0, pytest.approx(1.5))
    assert "canary" in visit.disturbed
    for _ in range(64):
        canary.slowness()
    assert canary.slowness() == pytest.approx(1.0)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not tell")
def test_waiting_for_a_processor_is_seen():
    """Two processes on one processor: each waits for about as long as it works."""
    spin = "import time; end = time.time() + 20\nwhile time.time() < end: pass"
    before, here = os.sched_getaffinity(0), min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {here})
    other = subprocess.Popen([sys.executable, "-c", spin])
    try:
        canary = Canary()

        def seconds(calls):
            end = time.perf_counter() + 0.1
            while time.perf_counter() < end:
                pass
            return 0.1

        visits = [canary.visit(seconds, 1) for _ in range(5)]
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, before)
    assert sum("waited" in visit.disturbed for visit in visits) >= 3
