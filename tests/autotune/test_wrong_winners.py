"""Whole searches beside a second load, by their statistics alone: visits, finalists, the race.

`python -m benchmarks.wrong_winners` does the same with kernels, on a machine with a load.
"""

from __future__ import annotations

import random

import numpy as np

from autotune.noise.finalists import finalists
from autotune.noise.race import Race
from autotune.noise.visits import Visit, Visits, counting
from tests.autotune.made_noise import NoisyMachine

RUNS, TRIALS, BATCH = 50, 24, 8


def population(seed: int) -> list[float]:
    """Seconds of the default, which is the fastest, and of others: many near it, copies among
    them."""
    rng = np.random.default_rng(seed)
    near = 1 + np.abs(rng.normal(0, 0.02, TRIALS // 2))
    far = 1 + rng.exponential(0.8, TRIALS - len(near) - 1)
    return [1e-3, *(1e-3 * rng.permutation([*near, *far])[: TRIALS - 1])]


def searched(times: list[float], seed: int) -> tuple[int, int]:
    """Who wins on a noisy machine: by the verdict of the race, and by the lowest of the times that
    blocks in a row, four finalists and twenty rounds give."""
    machine, rng = NoisyMachine(seed), random.Random(seed)
    series: list[list[Visit]] = []
    for start in range(0, len(times), BATCH):
        known = [float(np.median([v.seconds for v in counting(each)])) for each in series]
        batch = range(start, min(start + BATCH, len(times)))
        visits = Visits(len(batch), 5, rng, min(known, default=None))
        while order := visits.next():
            machine.wait(visits.pause)
            for at in order:
                visits.add(at, machine.visit(times[batch[at]]))
        series += visits.made
    entered = [0, *(at for at in finalists(series) if at != 0)]
    race = Race(len(entered), 0)
    while race.wanted:
        race.add(machine.rounds([times[entered[at]] for at in race.running], race.wanted))
    verdict = next(entered[at] for at, found in enumerate(race.outcomes()) if found.won)

    rows = [np.median([machine.block(t) for _ in range(5)]) for t in times]
    few = list(dict.fromkeys([0, *map(int, np.argsort(rows)[:4])]))
    medians = np.median(machine.rounds([times[at] for at in few], 20), axis=0)
    return verdict, few[int(np.argmin(medians))]


def test_the_default_is_lost_to_a_slower_schedule_in_none_of_fifty_runs():
    found = [searched(population(seed), seed) for seed in range(RUNS)]
    assert [verdict for verdict, _ in found] == [0] * RUNS
    assert sum(lowest != 0 for _, lowest in found) > RUNS // 4  # what such runs do otherwise


def test_what_is_much_faster_is_found_in_as_many():
    """A schedule that takes three quarters of the time, wherever it is among the trials."""
    missed = []
    for seed in range(RUNS):
        times = population(seed)
        at = 1 + seed % (TRIALS - 1)
        times[at] = 0.75e-3
        if searched(times, seed)[0] != at:
            missed.append(seed)
    assert len(missed) <= 1, missed
