"""What a search takes, all in, and where its seconds go: new processes, empty caches and databases.

    python -m benchmarks.tuner.seconds [--seeds N] [--only NAME ...] [--write-readme]

Leave the machine alone: half an hour for five seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from autotune import Database
from autotune.phases import PHASES
from benchmarks.peers.programs import prim_func
from benchmarks.peers.rows import MAIN, QUICK
from benchmarks.searched import searched
from benchmarks.tuner.section import ROOT, Section, chosen, parser_of, publish

START, REST = "starting", "else"


@dataclass(frozen=True)
class Task:
    """A search of a row of `benchmarks.peers`, and the seconds that it may take."""

    row: str
    trials: int
    goal: float

    @property
    def name(self) -> str:
        return f"{self.row}, {self.trials} trials"


TASKS = (
    Task("matmul 1024", 64, 12.0),
    Task("conv 64->64 3x3 56", 64, 20.0),
    Task("matmul 1024", 256, 40.0),
)
TINY = Task("matmul 24", 3, 60.0)
"""Shows that it works."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 1 where a program was measured twice, 2 a wrong request."""
    options = _parser().parse_args(argv)
    if options.child:
        row, trials, seed = options.child
        print(json.dumps(search(row, int(trials), int(seed))))
        return 0
    tasks = {task.name: task for task in ((TINY,) if options.quick else TASKS)}
    names = chosen(list(tasks), options.only)
    seeds = 1 if options.quick else options.seeds
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="bytecode-") as bytecode:
        in_process(TINY, 0, bytecode)
        for seed in range(seeds):  # seeds outside: what drifts on the machine hits all alike
            for name in names:
                found[name].append(in_process(tasks[name], seed, bytecode))
                print(f"seed {seed}, {name}: {found[name][-1]['wall']:.1f} s", flush=True)
    lines = [_cells(tasks[name], runs) for name, runs in found.items()]
    header = ("search", "s", "wanted", START, *PHASES, REST, "of one program twice")
    repeated = sum(run["repeated"] for runs in found.values() for run in runs)
    failed = [f"{repeated} trials measured a program again"] if repeated else []
    title = f"seconds, all in, medians of {seeds} seeds; shares of them by phase"
    section = Section("tuner-seconds", "seconds.json", title, header, lines, found, failed=failed)
    return publish(section, options)


def in_process(task: Task, seed: int, bytecode: str) -> dict[str, Any]:
    """One search in a process of its own, with no object compiled before; `wall` is all of it.

    bytecode  where Python keeps that of modules: who tunes twice has it, and without it each search
              compiles a thousand modules of the libraries, which takes seconds
    """
    words = [sys.executable, "-m", "benchmarks.tuner.seconds", "--child", task.row]
    with tempfile.TemporaryDirectory(prefix="seconds-") as folder:
        env = {**os.environ, "TENSORIR_CACHE": folder, "PYTHONPATH": str(ROOT)}
        env |= {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        begun = time.perf_counter()
        done = subprocess.run(
            [*words, str(task.trials), str(seed)], env=env, capture_output=True, text=True
        )
        wall = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{task.name}, seed {seed} failed:\n{done.stderr}")
    return {**json.loads(done.stdout.splitlines()[-1]), "wall": wall}


def search(row: str, trials: int, seed: int) -> dict[str, Any]:
    """One search here: its seconds, by phase too, and how often a program was measured again."""
    func = next(prim_func(r.kind, r.sizes) for r in (*MAIN, *QUICK) if r.name == row)
    with Database(":memory:") as db:
        begun = time.perf_counter()
        result = searched(func, "c", trials, seed, db, progress=False)
        seconds = time.perf_counter() - begun
        tried = [r.identity for r in db.records() if not r.is_final and r.is_trial]
    return {
        "search": seconds, "phases": dict(result.phases), "trials": len(tried),
        "repeated": len(tried) - len(set(tried)), "best": result.best_seconds,
        "others": result.notice,
    }  # fmt: skip


def _cells(task: Task, runs: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    wall = median(run["wall"] for run in runs)

    def share(of: Callable[[Mapping[str, Any]], float]) -> str:
        return f"{median(of(run) / run['wall'] for run in runs):.0%}"

    shares = [share(lambda run: run["wall"] - run["search"])]
    shares += [share(lambda run, name=name: run["phases"].get(name, 0.0)) for name in PHASES]
    shares += [share(lambda run: run["search"] - sum(run["phases"].values()))]
    repeated = str(sum(run["repeated"] for run in runs))
    return task.name, f"{wall:.1f}", f"{task.goal:g}", *shares, repeated


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("benchmarks.tuner.seconds", __doc__, seeds=5, trials=64)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
