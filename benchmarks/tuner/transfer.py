"""What the records of another size save: trials until winners are within 5 % of the best known.

    python -m benchmarks.tuner.transfer [--seeds N] [--only NAME ...] [--write-readme]
    python -m benchmarks.tuner.transfer --record [--trials N] [--only NAME ...]

Searches run on recorded times, and are judged as those of `benchmarks.tuner.searches` are: who wins
the race after each trial, by visits that no search has seen; what counts is the geometric mean over
seeds. What they are given is what may have been faster than the default in a search of another size
of the same workload, put into the space of this size as `tune` does it. Where the recording has
none of it nothing can be told: `record build` compiles them. `--record` makes the searches of the
other sizes, on a machine that is left alone, of the kind that the recordings are of: half a minute
for each workload.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from autotune import Database
from autotune.machine.machine import this_machine
from autotune.search.state import Hint
from autotune.simulate import Recording, simulate
from autotune.space import Candidate
from autotune.tuning.session import start_session
from autotune.tuning.transfer import hints
from backends import host_threads
from benchmarks.searched import searched
from benchmarks.tuner.compare import NEAR
from benchmarks.tuner.record import FILE, RECORDED, Made, candidate_of, neighbours, recorded
from benchmarks.tuner.section import Section, chosen, parser_of, publish
from benchmarks.tuner.workloads import NEIGHBOURS, WORKLOADS

NOTHING, UNKNOWN, NEITHER = "nothing to save", "not recorded", "reached by neither"

DRAWS = 500
"""Of seeds, to tell what the share of saved trials owes to them."""


@dataclass(frozen=True)
class Spent:
    """One workload: what winners take over what the best known takes, float64 [seeds, trials], by
    searches alone and with the records.

    hints  how many candidates of the other size there are, and how many of them are recorded
    theirs how many times as long as the best the fastest of these takes here; None where there is
           none: beyond 1.05 it saves nothing by itself
    """

    name: str
    hints: tuple[int, int]
    theirs: float | None
    alone: np.ndarray
    hinted: np.ndarray

    @property
    def trials(self) -> tuple[int, int]:
        """How many it takes alone, and with the records; all where that is never enough."""
        most = self.alone.shape[1]
        return trials_to(self.alone) or most, trials_to(self.hinted) or most

    @property
    def kind(self) -> str:
        """What there is to save: "nothing" where the default is as good, or the share."""
        if self.trials[0] == 1:
            return NOTHING
        if not trials_to(self.alone) and not trials_to(self.hinted):
            return NEITHER
        return f"{_share([self]):.0%}" if self.hints[1] or not self.hints[0] else UNKNOWN


def trials_to(regrets: np.ndarray) -> int:
    """After how many trials winners are within 5 % of the best, in the geometric mean over seeds;
    0 where they never are."""
    near = np.log(regrets).mean(axis=0) <= log(NEAR)
    return int(near.argmax()) + 1 if near.any() else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 2 a wrong request."""
    options = _parser().parse_args(argv)
    if options.record:
        return record(options.recorded / FILE, chosen(list(WORKLOADS), options.only), options)
    known = neighbours(options.recorded / FILE)
    paths = {name: options.recorded / f"{name}.jsonl.gz" for name in known}
    names = [n for n in chosen(list(known), options.only) if paths[n].exists()]
    if not names:
        print(f"nothing of neighbours in {options.recorded / FILE}: --record", file=sys.stderr)
        return 2
    seeds = 1 if options.quick else options.seeds
    found = _spent(names[:1] if options.quick else names, paths, known, seeds, options)
    title = f"transfer: trials to within 5 % of the best known, {seeds} seeds"
    return publish(section_of("tuner-transfer", "transfer.json", title, found, seeds), options)


def section_of(mark: str, file: str, title: str, found: Sequence[Spent], seeds: int) -> Section:
    """The table of what was saved."""
    lines = [
        (s.name, "{1} of {0}".format(*s.hints), "" if s.theirs is None else f"{s.theirs:.2f}",
         *map(str, s.trials), s.kind)
        for s in found
    ]  # fmt: skip
    header = ("workload", "recorded", "best of them / best", "alone", "with records", "saved")
    least = sum(s.kind == NOTHING for s in found)
    told = [s for s in found if s.kind not in (NOTHING, UNKNOWN, NEITHER)]
    notes = [
        f"{seeds} seed{'s' * (seeds > 1)}. {least} of {len(found)} workloads begin within 5 % of"
        " the best known, with the default: there is nothing to save."
    ]
    if told:
        low, high = _interval(told)
        sure = f"{low:.0%} to {high:.0%} with 95 % confidence" if seeds > 1 else "one seed: unsure"
        notes.append(
            f"Of {len(told)} others, records of another size save {_share(told):.0%} of the trials"
            f" ({sure})."
        )
    data = {
        "saved": _share(told) if told else None,
        "workloads": [_figures(s) for s in found],
    }
    return Section(mark, file, title, header, lines, data, notes)


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
            best = [
                [c.sketch, session.space.decisions(c), h.ratio, h.usual.sketch if h.usual else ""]
                for c, h in hints(session).items()
            ]
        stored["workloads"][name] = {"sizes": NEIGHBOURS[name], "trials": result.trials,
                                     "best": best}  # fmt: skip
        stored["machine"] = this_machine().to_json()
        path.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
        print(f"{name} {NEIGHBOURS[name]}: {result}", flush=True)
    return 0


def _spent(
    names: Sequence[str],
    paths: Mapping[str, Path],
    known: Mapping[str, list[Made]],
    seeds: int,
    options: argparse.Namespace,
) -> list[Spent]:
    """The winners of all searches of these workloads."""
    every = {name: recorded(paths[name]) for name in names}
    like = {name: _in(every[name], known[name]) for name in names}
    given = {name: [{}, like[name]] if like[name] else [{}] for name in names}
    tasks = [(paths[n], c, seed) for n in names for c in given[n] for seed in range(seeds)]
    one: Callable[[Any], list[float]] = partial(_regrets, trials=options.trials)
    if options.jobs == 1:
        found = list(map(one, tasks))
    else:
        with ProcessPoolExecutor(options.jobs) as pool:
            found = list(pool.map(one, tasks))
    parts = iter(np.array(found).reshape(-1, seeds, options.trials))
    spent = []
    for name in names:
        times = [s for c in like[name] if (s := every[name].entry(c).seconds) is not None]
        off = min(times) / every[name].best_seconds() if times else None
        alone, *hinted = [next(parts) for _ in given[name]]
        counts = len(known[name]), len(like[name])
        spent.append(Spent(name, counts, off, alone, (hinted or [alone])[0]))
    return spent


def _in(recording: Recording, known: Sequence[Made]) -> dict[Candidate, Hint]:
    """Those that are recorded, by the choices that the recording has."""
    there = {entry.candidate for entry in recording.entries}
    usual = {default.sketch: default for default in reversed(recording.defaults)}
    found: dict[Candidate, Hint] = {}
    for made in known:
        candidate = candidate_of(made, recording.choices)
        if candidate in there:
            found.setdefault(candidate, Hint("", made.ratio, usual.get(made.usual)))
    return found


def _regrets(task: tuple[Path, Mapping[Candidate, Hint], int], trials: int) -> list[float]:
    """The winner's time over the best known one's after each trial; ten at most, as where nothing
    was found that runs."""
    path, like, seed = task
    run = simulate(recorded(path), trials=trials, seed=seed, hints=like)
    return [min(run.regret(n), 10.0) for n in range(1, trials + 1)]


def _share(found: Sequence[Spent]) -> float:
    """The share of all trials that were saved."""
    alone, hinted = np.sum([s.trials for s in found], axis=0)
    return float(1 - hinted / alone)


def _interval(found: Sequence[Spent]) -> tuple[float, float]:
    """Of that share, with 95 % confidence, by bootstrap over the seeds of each workload."""
    rng, shares = np.random.default_rng(0), []
    for _ in range(DRAWS):
        picks = [rng.integers(len(s.alone), size=len(s.alone)) for s in found]
        drawn = (replace(s, alone=s.alone[at], hinted=s.hinted[at]) for s, at in zip(found, picks))
        shares.append(_share(list(drawn)))
    low, high = np.quantile(shares, (0.025, 0.975))
    return float(low), float(high)


def _figures(spent: Spent) -> dict[str, Any]:
    """As JSON: of winners' times the geometric means over seeds."""
    means = {"alone": spent.alone, "hinted": spent.hinted}
    return {
        "name": spent.name, "hints": spent.hints, "theirs": spent.theirs,
        **{k: np.exp(np.log(v).mean(axis=0)).round(4).tolist() for k, v in means.items()},
    }  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("benchmarks.tuner.transfer", __doc__, seeds=20, trials=64)
    parser.add_argument("--jobs", type=int, default=host_threads(), help="processes")
    parser.add_argument("--recorded", type=Path, default=RECORDED, help=f"({RECORDED})")
    parser.add_argument("--record", action="store_true", help="search the neighbours")
    return parser


if __name__ == "__main__":
    sys.exit(main())
