"""What the records of another size save, of searches that are made here and now.

    python -m benchmarks.tuner.neighbours [--seeds N] [--trials N] [--only NAME] [--write-readme]

The other size of each workload is searched once, and this one with the records of that search and
without, in databases of their own. Afterwards all schedules that were the fastest so far after some
trial of some search are timed in turns: the fastest of them is the best known, and what counts is
after how many trials a search had one that takes at most 5 % longer, in the geometric mean over
seeds. It wants a quiet machine, and a minute for each workload and seed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from statistics import median

import numpy as np

from autotune import Database
from autotune.database.records import Record, Workload
from autotune.tuning.replay import replayed
from autotune.tuning.session import start_session
from autotune.tuning.transfer import hints
from backends import build, interleave
from benchmarks.searched import searched
from benchmarks.tuner.section import chosen, parser_of, publish
from benchmarks.tuner.transfer import Spent, section_of
from benchmarks.tuner.workloads import NEIGHBOURS, WORKLOADS
from tensorir import PrimFunc

ROUNDS = 20
"""In which schedules are timed in turns."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 2 a wrong request."""
    parser = parser_of("benchmarks.tuner.neighbours", __doc__, seeds=3, trials=32)
    parser.add_argument("--target", default="c", help="(c)")
    options = parser.parse_args(argv)
    names = chosen(list(NEIGHBOURS), options.only)
    if options.quick:
        names, options.seeds, options.trials = names[:1], 1, 8
    found = []
    for name in names:
        found.append(_spent(name, options))
        print(f"{name}: {found[-1].trials} trials alone, with records", flush=True)
    title = f"transfer, live: trials to within 5 % of the best known, {options.seeds} seeds"
    section = section_of("tuner-neighbours", "neighbours.json", title, found, options.seeds)
    return publish(section, options)


def _spent(name: str, options: argparse.Namespace) -> Spent:
    """The searches of one workload."""
    func, target = WORKLOADS[name](), options.target
    with Database(":memory:") as db:
        other = WORKLOADS[name](**NEIGHBOURS[name])
        searched(other, target, options.trials, 0, db, progress=False)
        records = db.records()
        many = len(hints(start_session(func, target, db, 0)))
    known: tuple[list[Record], ...] = ([], records)
    runs = [
        [_search(func, options, seed, given) for seed in range(1, options.seeds + 1)]
        for given in known
    ]
    times = _times(func, target, [run for some in runs for run in some])
    best = min(times.values())
    alone, hinted = (
        np.array([[times[r.code] / best if r else 10.0 for r in _fastest(run)] for run in some])
        for some in runs
    )
    return Spent(name, (many, many), None, alone, hinted)


def _search(
    func: PrimFunc, options: argparse.Namespace, seed: int, given: Sequence[Record]
) -> list[Record]:
    """The trials of one search, in order."""
    with Database(":memory:") as db:
        db.add_many(given)
        searched(func, options.target, options.trials, seed, db, progress=False)
        found = db.records(workload=Workload.of(func))
    return [record for record in found if record.is_trial][: options.trials]


def _fastest(run: Sequence[Record]) -> list[Record | None]:
    """Of a search after each trial, by the times that it saw; None before anything ran."""
    found: list[Record | None] = []
    best: Record | None = None
    for record in run:
        ran = record.status == "ok" and record.median is not None
        if ran and (best is None or record.median < best.median):  # type: ignore[operator]
            best = record
        found.append(best)
    return found


def _times(func: PrimFunc, target: str, runs: Sequence[Sequence[Record]]) -> dict[str, float]:
    """Seconds of all that were the fastest after some trial, timed in turns, by their code."""
    some = {r.code: r for run in runs for r in _fastest(run) if r is not None}
    kernels = [build(replayed(func, record), target) for record in some.values()]
    timings = interleave(kernels, ROUNDS)
    return {code: median(each.times) for code, each in zip(some, timings)}


if __name__ == "__main__":
    sys.exit(main())
