"""What the records of another size save, of searches that are made here and now.

    python -m benchmarks.tuner.neighbours [--seeds N] [--trials N] [--only NAME] [--write-readme]

The other size of each workload is searched once, and this one with the records of that search and
without, in databases of their own. Afterwards all schedules that could win a race after some trial
of some search are timed in turns, and searches are judged as those on recorded times are: some of
the rounds are the race, and what counts is the winner's time over that of the best known by the
other ones, in the geometric mean over seeds. A single time says little: the fastest by the times
that a search saw were often slower than the default, which loses to none of them in a race. It
wants a quiet machine, and a minute for each workload and seed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autotune import Database
from autotune.database.records import Record, Workload
from autotune.simulate import Recorded, Recording, Simulated
from autotune.tuning.replay import candidate_of, replayed
from autotune.tuning.session import start_session
from autotune.tuning.transfer import hints
from backends import build, interleave
from benchmarks.searched import searched
from benchmarks.tuner.section import chosen, parser_of, publish
from benchmarks.tuner.transfer import Spent, section_of
from benchmarks.tuner.workloads import FAMILIES, NEIGHBOURS
from tensorir import PrimFunc

ROUNDS = 24
"""In which schedules are timed in turns; a third of them judges."""


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
    func, target = FAMILIES[name](), options.target
    with Database(":memory:") as db:
        other = FAMILIES[name](**NEIGHBOURS[name])
        searched(other, target, options.trials, 0, db, progress=False)
        records = db.records()
        session = start_session(func, target, db, 0)
        known, blank = hints(session), Recording(name, {}, (), (session.default,))
    seeds = range(1, options.seeds + 1)
    runs = [[_search(func, options, seed, given) for seed in seeds] for given in ([], records)]
    tried = [[_as_simulated(blank, *each) for each in zip(seeds, some)] for some in runs]
    marks = range(1, options.trials + 1)
    racing = {c for some in tried for run in some for n in marks for c in run.racing(n)}
    ran = {candidate_of(r): r for some in runs for run in some for r in run if r.status == "ok"}
    timed = [record for c, record in ran.items() if c in racing or c in known]
    recording = replace(blank, entries=_timed(func, target, timed))
    found = [e.seconds for e in recording.entries if e.candidate in known and e.seconds]
    alone, hinted = (
        np.array([[min(run.regret(n), 10.0) for n in marks] for run in some])
        for some in ([replace(run, recording=recording) for run in some] for some in tried)
    )
    theirs = min(found) / recording.best_seconds() if found else None
    return Spent(name, (len(known), len(found)), theirs, alone, hinted)


def _search(
    func: PrimFunc, options: argparse.Namespace, seed: int, given: Sequence[Record]
) -> list[Record]:
    """The trials of one search, in order."""
    with Database(":memory:") as db:
        db.add_many(given)
        searched(func, options.target, options.trials, seed, db, progress=False)
        found = db.records(workload=Workload.of(func))
    return [record for record in found if record.is_trial][: options.trials]


def _as_simulated(blank: Recording, seed: int, run: Sequence[Record]) -> Simulated:
    """A search as if it had been simulated: what it tried, and the times that it saw."""
    seen = [r.median if r.status == "ok" else None for r in run]
    found = [(c, s) for r, s in zip(run, seen) if (c := candidate_of(r)) is not None]
    tried, times = tuple(c for c, _ in found), tuple(s for _, s in found)
    return Simulated(blank, seed, tried, times, ended=False)


def _timed(func: PrimFunc, target: str, records: Sequence[Record]) -> list[Recorded]:
    """Their schedules, timed in turns."""
    kernels = [build(replayed(func, record), target) for record in records]
    timings = interleave(kernels, ROUNDS)
    return [
        Recorded(candidate, "ok", visits=each.times)
        for record, each in zip(records, timings)
        if (candidate := candidate_of(record)) is not None
    ]


if __name__ == "__main__":
    sys.exit(main())
