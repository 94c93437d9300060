"""What the records of another size save: trials until something within 5 % of the best was tried.

    python -m benchmarks.tuner.transfer [--seeds N] [--only NAME ...] [--write-readme]
    python -m benchmarks.tuner.transfer --record [--trials N] [--only NAME ...]

Searches run on recorded times. What they are given is what was better than the default in a search
of another size of the same workload, two candidates at most, put into the space of this size as
`tune` does it. Where the recording has none of them nothing can be told: `record build` compiles
them. `--record` makes the searches of the other sizes, on a machine that is left alone: half a
minute for each workload.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from autotune import Database
from autotune.machine.machine import this_machine
from autotune.simulate import simulate
from autotune.space import Candidate
from autotune.tuning.session import start_session
from autotune.tuning.transfer import hints
from backends import host_threads
from benchmarks.searched import searched
from benchmarks.tuner.compare import NEAR
from benchmarks.tuner.record import FILE, RECORDED, neighbours, recorded
from benchmarks.tuner.section import Section, chosen, parser_of, publish
from benchmarks.tuner.workloads import NEIGHBOURS, WORKLOADS

NOTHING, UNKNOWN = "nothing to save", "not recorded"


@dataclass(frozen=True)
class Spent:
    """Trials of one workload until a search has tried something within 5 % of the best, for each
    seed; all trials where it has not.

    hints  how many candidates of the other size there are, and how many of them are recorded
    theirs how many times as long as the best the fastest of these takes here; None where there is
           none: beyond 1.05 it saves nothing by itself
    """

    name: str
    hints: tuple[int, int]
    theirs: float | None
    plain: Sequence[int]
    hinted: Sequence[int]

    @property
    def kind(self) -> str:
        """What there is to save: "nothing" where the default is as good, or the share."""
        if max(self.plain) == 1:
            return NOTHING
        return f"{_share([self]):.0%}" if self.hints[1] or not self.hints[0] else UNKNOWN


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
    found = _spent(names[:1] if options.quick else names, paths, known, seeds, options)
    lines = [
        (s.name, "{1} of {0}".format(*s.hints), "" if s.theirs is None else f"{s.theirs:.2f}",
         f"{mean(s.plain):.1f}", f"{mean(s.hinted):.1f}", s.kind)
        for s in found
    ]  # fmt: skip
    header = ("workload", "recorded", "best of them / best", "alone", "with records", "saved")
    least = sum(s.kind == NOTHING for s in found)
    told = [s for s in found if s.kind not in (NOTHING, UNKNOWN)]
    notes = [
        f"Means over {seeds} seeds. {least} of {len(found)} searches begin within 5 % of the best,"
        " with the default: there is nothing to save."
    ]
    if told:
        near = sum(s.theirs is not None and s.theirs <= NEAR for s in told)
        notes.append(
            f"Of the others, {len(told)} have what was best for another size in the recording: it"
            f" saves {_share(told):.0%} of the trials. Of {near} of them it is within 5 % of the"
            " best here too."
        )
    title = f"transfer: trials to within 5 % of the best known, means over {seeds} seeds"
    data = {"saved": _share(told) if told else None, "workloads": [vars(s) for s in found]}
    given = "tuner-transfer", "transfer.json", title, header, lines, data, notes
    return publish(Section(*given), options)


def record(path: Path, names: Sequence[str], options: argparse.Namespace) -> int:
    """Search the neighbours and store what is best there, as candidates of the workloads' own
    sizes; what the file has of others stays."""
    stored: dict[str, Any] = {"workloads": {}}
    if path.exists():
        stored = json.loads(path.read_text(encoding="utf-8"))
    for name in names:
        func = WORKLOADS[name](**NEIGHBOURS[name])
        with Database(":memory:") as db:
            result = searched(func, "c", options.trials, 0, db, progress=False)
            session = start_session(WORKLOADS[name](), "c", db, 0)
            best = [candidate.as_json() for candidate in hints(session)]
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
) -> list[Spent]:
    """The trials of all searches of these workloads."""
    every = {n: recorded(paths[n]) for n in names}
    there = {n: {e.candidate: e.seconds for e in every[n].entries} for n in names}
    like = {n: tuple(c for c in known[n] if c in there[n]) for n in names}
    tasks = [(paths[n], c, seed) for n in names for c in ((), like[n]) for seed in range(seeds)]
    one: Callable[[Any], int] = partial(_trials, most=options.trials)
    if options.jobs == 1:
        found = list(map(one, tasks))
    else:
        with ProcessPoolExecutor(options.jobs) as pool:
            found = list(pool.map(one, tasks))
    parts = [found[at : at + seeds] for at in range(0, len(found), seeds)]
    counts = [(len(known[name]), len(like[name])) for name in names]
    theirs = [min((s for c in like[n] if (s := there[n][c])), default=None) for n in names]
    off = [s and s / every[n].best_seconds() for n, s in zip(names, theirs)]
    return [
        Spent(n, counts[at], off[at], *parts[2 * at : 2 * at + 2]) for at, n in enumerate(names)
    ]


def _trials(task: tuple[Path, tuple[Candidate, ...], int], most: int) -> int:
    """Trials of one search until something within 5 % of the best was tried."""
    path, like, seed = task
    recording = recorded(path)
    limit = NEAR * recording.best_seconds()

    def near(candidate: Candidate) -> bool:
        seconds = recording.entry(candidate).seconds
        return seconds is not None and seconds <= limit

    run = simulate(recording, trials=most, seed=seed, hints=like, enough=near)
    return next((count for count, c in enumerate(run.tried, 1) if near(c)), most)


def _share(found: Sequence[Spent]) -> float:
    """The share of all trials that were saved."""
    return 1 - sum(sum(s.hinted) for s in found) / sum(sum(s.plain) for s in found)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("benchmarks.tuner.transfer", __doc__, seeds=10, trials=64)
    parser.add_argument("--jobs", type=int, default=host_threads(), help="processes")
    parser.add_argument("--recorded", type=Path, default=RECORDED, help=f"({RECORDED})")
    parser.add_argument("--record", action="store_true", help="search the neighbours")
    return parser


if __name__ == "__main__":
    sys.exit(main())
