"""How often tuning beside a second load loses the default schedule to a slower one.

    python -m benchmarks.wrong_winners [--runs 50] [--trials 24] [--only banded]

While searches run, another program works in bursts on every processor but one. Afterwards, on the
quiet machine, a long race says how fast each winner is; beside it, the schedule that the lowest
time of a trial would have been. A winner is lost where it is slower than the default for certain.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from autotune import Database, MeasureSettings, default_schedule
from autotune.tuning.replay import replayed
from backends import Comparison, build, compare, host_threads, interleave
from benchmarks.searched import searched
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


@dataclass
class Run:
    """What one search said, and what the schedules are that it could have taken."""

    said: str
    winner: Schedule
    lowest: Schedule


def search_once(func: PrimFunc, seed: int, trials: int, settings: MeasureSettings | None) -> Run:
    """One search in an empty database."""
    with Database(":memory:") as db:
        result = searched(
            func, trials=trials, seed=seed, database=db, settings=settings, progress=False
        )
        tried = [r for r in db.records(status="ok") if not r.is_final]
        lowest = min(tried, key=lambda r: r.median or 0.0)
        return Run(str(result.outcome), result.schedule, replayed(func, lowest))


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


def main() -> int:
    args = arguments()
    func = WORKLOADS[args.only]()
    settings = MeasureSettings(min_ms=1.0, repeats=2, build_jobs=1) if args.quick else None
    with second_load(max(1, host_threads() - 1)):
        runs = []
        for seed in range(args.runs):
            runs.append(search_once(func, seed, args.trials, settings))
            print(f"{seed:4d}  {runs[-1].said}", flush=True)
    rounds, min_ms = (3, 0.5) if args.quick else (60, 5.0)
    found = judged(func, [s for run in runs for s in (run.winner, run.lowest)], rounds, min_ms)
    lost = 0
    print(f"\n{args.only}, {args.runs} runs of {args.trials} trials beside a second load")
    for name in ("winner", "lowest"):
        ratios = [found[str(getattr(run, name).func)] for run in runs]
        slower = sum(ratio.high < 1 for ratio in ratios)
        middle = sorted(ratio.ratio for ratio in ratios)[len(ratios) // 2]
        print(f"{name}: slower than the default in {slower} of {args.runs}, median {middle:.3f} x")
        lost = slower if name == "winner" else lost
    return 0 if lost == 0 or args.quick else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--only", choices=tuple(WORKLOADS), default="matmul")
    parser.add_argument("--quick", action="store_true", help="shows that it works, nothing else")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
