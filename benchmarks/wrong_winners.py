"""How often tuning beside a second load loses the default schedule to a slower one.

    python -m benchmarks.wrong_winners [--runs 50] [--trials 8] [--only banded]

One search finds programs, four times as many as trials are wanted. Each run is `tune` on a part of
these, drawn at random and with the default, so that it times and races, which is what another load
disturbs, and hardly proposes or compiles: some ten seconds. While they run, another program works
in bursts on every processor but one. Afterwards, on the quiet machine, a long race says how fast
each winner is; beside it, the schedule that the lowest time of a trial would have been. A winner is
lost where it is slower than the default for certain.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

from autotune import Database, MeasureSettings, default_schedule
from autotune.cli.numbers import positive
from autotune.search import DEFAULT_STRATEGY, STRATEGIES, Proposals, SearchState
from autotune.space import Candidate, Space
from autotune.tuning.replay import candidate_of, replayed
from backends import Comparison, build, compare, host_threads, interleave
from benchmarks.searched import searched
from benchmarks.tuner.section import Section, chosen, parser_of, publish
from benchmarks.tuner.workloads import WORKLOADS
from schedule import Schedule
from tensorir import PrimFunc

BUSY = """
import os, random, time
parent = os.getppid()
while os.getppid() == parent:
    end = time.monotonic() + random.uniform(0.02, 0.5)
    while time.monotonic() < end:
        pass
    time.sleep(random.uniform(0.02, 0.5))
"""
"""The second load: it works half of the time, and ends when its parent is gone."""


POOL = 4
"""Programs that are found before, for each trial of a run."""


@dataclass
class Run:
    """What one search said, and what the schedules are that it could have taken."""

    said: str
    winner: Schedule
    lowest: Schedule


def search_once(
    func: PrimFunc, seed: int, trials: int, settings: MeasureSettings | None,
    among: Sequence[Candidate] | None = None,
) -> tuple[Run, list[Candidate]]:  # fmt: skip
    """One search in an empty database, and what it tried; `among` are proposed, none else, if
    there are any."""
    some = {} if among is None else {DEFAULT_STRATEGY: partial(drawn, among)}
    with Database(":memory:") as db, patch.dict(STRATEGIES, some):
        result = searched(
            func, trials=trials, seed=seed, database=db, settings=settings, progress=False
        )
        tried = [r for r in db.records(status="ok") if not r.is_final]
        lowest = min(tried, key=lambda r: r.median or 0.0)
        run = Run(str(result.outcome), result.schedule, replayed(func, lowest))
        return run, [c for record in tried if (c := candidate_of(record)) is not None]


def drawn(
    among: Sequence[Candidate], space: Space, state: SearchState, count: int, rng: random.Random
) -> list[Candidate]:
    """A strategy: some of these at random, after the default."""
    made = Proposals(space, state, count)
    made.offer_all(rng.sample(among, len(among)))
    return made.chosen


@contextmanager
def second_load(processes: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many processes that work in bursts, while inside."""
    started = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def judged(
    func: PrimFunc, schedules: Sequence[Schedule], rounds: int, min_ms: float
) -> dict[str, Comparison]:
    """The default's time over that of each program, by its text, in one race."""
    programs = {str(schedule.func): schedule for schedule in schedules}
    kernels = [build(schedule, "c") for schedule in (default_schedule(func), *programs.values())]
    default, *others = interleave(kernels, rounds, min_ms)
    return {text: compare(default, other) for text, other in zip(programs, others)}


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 1 where a winner is slower than the default for certain."""
    args = arguments(argv)
    name = chosen(list(WORKLOADS), args.only or ["matmul"])[0]
    func, count = WORKLOADS[name](), 2 if args.quick else args.runs
    settings = MeasureSettings(min_ms=1.0, repeats=2, build_jobs=1) if args.quick else None
    trials = min(args.trials, 4) if args.quick else args.trials
    _, among = search_once(func, 0, POOL * trials, settings)
    with second_load(max(1, host_threads() - 1)):
        runs = []
        for seed in range(count):
            runs.append(search_once(func, seed, trials, settings, among)[0])
            print(f"{seed:4d}  {runs[-1].said}", flush=True)
    rounds, min_ms = (3, 0.5) if args.quick else (60, 5.0)
    found = judged(func, [s for run in runs for s in (run.winner, run.lowest)], rounds, min_ms)
    data: dict[str, Any] = {"workload": name, "trials": trials}
    lines, lost = [], 0
    for chooser, field in (("the search", "winner"), ("lowest time of a trial", "lowest")):
        ratios = [found[str(getattr(run, field).func)] for run in runs]
        slower = sum(ratio.high < 1 for ratio in ratios)
        data[field] = [[ratio.ratio, ratio.low, ratio.high] for ratio in ratios]
        middle = sorted(ratio.ratio for ratio in ratios)[len(ratios) // 2]
        lines.append((chooser, f"{slower} of {count}", f"{middle:.3f}"))
        lost = slower if field == "winner" else lost
    failed = [f"{lost} winners are slower than the default"] if lost and not args.quick else []
    title = f"beside a second load: {name}, {count} searches of {trials} trials"
    header = ("winner by", "slower than the default for certain", "default / winner, median")
    section = Section("tuner-load", "load.json", title, header, lines, data, failed=failed)
    return publish(section, args)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_of("benchmarks.wrong_winners", __doc__, seeds=1, trials=8)
    parser.add_argument("--runs", type=positive, default=50, help="searches (50)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
