"""What the records of another size save: trials until something within 5 % of the best was tried.

    python -m benchmarks.tuner.transfer [--seeds N] [--only NAME ...] [--write-readme]
    python -m benchmarks.tuner.transfer --record [--trials N] [--only NAME ...]

Searches run on recorded times. What they are given are the two best candidates of a search of
another size of the same workload, each as the recorded candidate that is most like it. `--record`
makes that search, on a machine that is left alone: half a minute for each workload.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from statistics import mean
from typing import Any

from autotune import Database
from autotune.machine.machine import this_machine
from autotune.simulate import Recording, simulate
from autotune.simulate.space import RecordedSpace
from autotune.space import Candidate
from autotune.tuning.replay import candidate_of
from autotune.tuning.transfer import EACH
from backends import host_threads
from benchmarks.searched import searched
from benchmarks.tuner.compare import NEAR
from benchmarks.tuner.record import RECORDED
from benchmarks.tuner.section import Section, chosen, parser_of, publish
from benchmarks.tuner.workloads import NEIGHBOURS, WORKLOADS

FILE = "neighbours.json"
STRATEGY = "policy"
SHORT = 16
"""Trials after which most searches are there."""


@dataclass(frozen=True)
class Spent:
    """Trials of one workload until a search has tried something within 5 % of the best, for each
    seed; all trials where it has not."""

    name: str
    plain: Sequence[int]
    hinted: Sequence[int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 2 a wrong request."""
    options = _parser().parse_args(argv)
    if options.record:
        return record(options.recorded / FILE, chosen(list(NEIGHBOURS), options.only), options)
    known = neighbours(options.recorded / FILE)
    paths = {name: options.recorded / f"{name}.jsonl.gz" for name in known}
    names = [n for n in chosen(list(known), options.only) if paths[n].exists()]
    if not names:
        print(f"nothing of neighbours in {options.recorded / FILE}: --record", file=sys.stderr)
        return 2
    seeds = 1 if options.quick else options.seeds
    names = names[:1] if options.quick else names
    without, anew = (_spent(names, paths, known, seeds, options, kept) for kept in (True, False))
    lines = [
        (s.name, *[f"{mean(n):.1f}" for n in (s.plain, s.hinted, t.plain, t.hinted)])
        for s, t in zip(without, anew)
    ]
    header = ("workload", "alone", "with records", "no default, alone", "with records")
    shares = [_share(found) for found in (without, anew)]
    notes = (
        f"Means over {seeds} seeds. Records of another size save {shares[0]:.0%} of the trials, and"
        f" {shares[1]:.0%} where the search has no default schedules to begin with.",
    )
    title = f"transfer: trials to within 5 % of the best known, means over {seeds} seeds"
    data = {"saved": shares, "with defaults": _json(without), "without": _json(anew)}
    given = "tuner-transfer", "transfer.json", title, header, lines, data, notes
    return publish(Section(*given), options)


def neighbours(path: Path) -> dict[str, list[Candidate]]:
    """The best candidates of another size of each workload, best first; none without the file."""
    if not path.exists():
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))["workloads"]
    return {name: [Candidate.from_json(c) for c in each["best"]] for name, each in stored.items()}


def record(path: Path, names: Sequence[str], options: argparse.Namespace) -> int:
    """Search the neighbours and store their best candidates; what the file has of others stays."""
    stored: dict[str, Any] = {"workloads": {}}
    if path.exists():
        stored = json.loads(path.read_text(encoding="utf-8"))
    for name in names:
        func = WORKLOADS[name](**NEIGHBOURS[name])
        with Database(":memory:") as db:
            result = searched(func, "c", options.trials, 0, db, progress=False)
            ranked = [r for r in db.records(status="ok") if r.is_trial]
            ranked.sort(key=lambda r: (r.trace != result.record.trace, r.median or math.inf))
        best = [c.as_json() for r in ranked[:EACH] if (c := candidate_of(r)) is not None]
        stored["workloads"][name] = {"sizes": NEIGHBOURS[name], "trials": result.trials,
                                     "best": best}  # fmt: skip
        stored["machine"] = this_machine().to_json()
        path.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
        print(f"{name} {NEIGHBOURS[name]}: {result}", flush=True)
    return 0


def _spent(
    names: Sequence[str],
    paths: Mapping[str, Path],
    known: Mapping[str, list[Candidate]],
    seeds: int,
    options: argparse.Namespace,
    defaults: bool,
) -> list[Spent]:
    """The trials of all searches of these workloads, with the default schedules or without."""
    tasks = [
        (paths[name], hints, seed)
        for name in names
        for hints in ([], known[name])
        for seed in range(seeds)
    ]
    one: Callable[[Any], int] = partial(_trials, most=options.trials, defaults=defaults)
    if options.jobs == 1:
        found = list(map(one, tasks))
    else:
        with ProcessPoolExecutor(options.jobs) as pool:
            found = list(pool.map(one, tasks, chunksize=seeds))
    parts = [found[at : at + seeds] for at in range(0, len(found), seeds)]
    return [Spent(n, *parts[2 * at : 2 * at + 2]) for at, n in enumerate(names)]


def _trials(task: tuple[Path, list[Candidate], int], most: int, defaults: bool) -> int:
    """Trials of one search until something within 5 % of the best was tried."""
    path, hints, seed = task
    recording = _read(path, defaults)
    space = RecordedSpace(recording)
    like = dict.fromkeys(c for hint in hints if (c := space.like(hint)) is not None)
    limit = NEAR * recording.best_seconds()
    for trials in (min(SHORT, most), most):  # a longer search begins as a shorter one
        run = simulate(recording, STRATEGY, trials, seed, hints=tuple(like))
        for count, candidate in enumerate(run.tried, 1):
            seconds = recording.entry(candidate).seconds
            if seconds is not None and seconds <= limit:
                return count
    return most


@lru_cache(maxsize=16)
def _read(path: Path, defaults: bool) -> Recording:
    recording = Recording.read(path)
    return recording if defaults else replace(recording, defaults=())


def _share(found: Sequence[Spent]) -> float:
    """The share of all trials that were saved."""
    return 1 - sum(sum(s.hinted) for s in found) / sum(sum(s.plain) for s in found)


def _json(found: Sequence[Spent]) -> dict[str, Any]:
    return {s.name: {"alone": list(s.plain), "with records": list(s.hinted)} for s in found}


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("benchmarks.tuner.transfer", __doc__, seeds=10, trials=64)
    parser.add_argument("--jobs", type=int, default=host_threads(), help="processes")
    parser.add_argument("--recorded", type=Path, default=RECORDED, help=f"({RECORDED})")
    parser.add_argument("--record", action="store_true", help="search the neighbours")
    return parser


if __name__ == "__main__":
    sys.exit(main())
