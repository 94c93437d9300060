"""Searches that are ended by kill -9 at random moments and begun again, beside one that never was.

    python -m benchmarks.tuner.kills [--kills N] [--trials N] [--only NAME ...] [--write-readme]

Nothing is compiled and nothing is timed: programs are dealt recorded times (`dealt.py`). Each
search is a process with a database of its own, which is killed between its start and its end, and
begun again. What it has tried in the end, in which order, and its answer have to be the same.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune import Database
from backends import host_threads
from benchmarks.tuner.record import RECORDED
from benchmarks.tuner.section import ROOT, Section, parser_of, positive, publish
from benchmarks.tuner.workloads import WORKLOADS

KILLS, TRIALS = 20, 24
NAME = "banded"


@dataclass(frozen=True)
class Killed:
    """One search that was killed.

    after   seconds since its start, and `stored`: trials that were in the database then
    racing  whether it had all its trials, and its race was open
    same    whether it ended as the search that nothing ended
    """

    after: float
    stored: int
    racing: bool
    same: bool


@dataclass(frozen=True)
class Task:
    """A search on a recording."""

    recording: Path
    trials: int
    seed: int = 0

    def start(self, database: Path) -> subprocess.Popen[str]:
        words = [self.recording, database, self.trials, self.seed]
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.tuner.dealt", *map(str, words)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    def whole(self, database: Path) -> tuple[Any, float]:
        """What a search finds that nothing ends, and its seconds."""
        begun = time.perf_counter()
        said, failed = (process := self.start(database)).communicate()
        if process.returncode:
            raise SystemExit(f"a search on {self.recording.name} failed:\n{failed}")
        return json.loads(said.splitlines()[-1]), time.perf_counter() - begun

    def killed(self, after: float, expected: Any) -> Killed | None:
        """A search that is killed after so many seconds; None where it had ended before."""
        with tempfile.TemporaryDirectory(prefix="kills-") as folder:
            database = Path(folder, "killed.db")
            process = self.start(database)
            try:
                process.wait(after)
                process.communicate()
                return None
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
            stored = _stored(database)
            found, _ = self.whole(database)
            return Killed(after, stored, stored >= self.trials, found == expected)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 1 where a search ended with another answer."""
    options = _parser().parse_args(argv)
    if options.quick:
        options.kills, options.trials = 1, 4
    name = (options.only or [NAME])[0]
    task = Task(options.recorded / f"{name}.jsonl.gz", options.trials)
    if name not in WORKLOADS or not task.recording.exists():
        print(f"no recording of {name!r} in {options.recorded}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        expected, seconds = task.whole(Path(folder, "whole.db"))
    found, ended = moments(task, options.kills, seconds, expected, options.jobs)
    return publish(_section(task, found, ended, seconds), options)


def moments(
    task: Task, kills: int, seconds: float, expected: Any, jobs: int
) -> tuple[list[Killed], int]:
    """So many searches that were killed between start and end, and how many ended before that."""
    draw, found, tries = random.Random(task.seed), list[Killed](), 0
    with ThreadPoolExecutor(jobs) as pool:
        while len(found) < kills:
            after = [draw.uniform(0, seconds) for _ in range(kills - len(found))]
            tries += len(after)
            some = pool.map(lambda moment: task.killed(moment, expected), after)
            found += [killed for killed in some if killed is not None]
    return found, tries - len(found)


def _section(task: Task, found: Sequence[Killed], ended: int, seconds: float) -> Section:
    def where(killed: Killed) -> str:
        if killed.stored == 0:
            return "before the first trial"
        return "with all trials stored" if killed.racing else "between two trials"

    many, same = Counter(map(where, found)), Counter(where(k) for k in found if k.same)
    lines = [(name, str(many[name]), str(same[name])) for name in many]
    lines.append(("all", str(len(found)), str(sum(same.values()))))
    data = {"recording": task.recording.name, "trials": task.trials, "seconds": seconds,
            "ended before": ended, "kills": [vars(killed) for killed in found]}  # fmt: skip
    wrong = len(found) - sum(same.values())
    return Section(
        "tuner-kills", "kills.json", f"kill -9 in searches of {task.trials} trials",
        ("killed", "searches", "same trials and answer"), lines, data,
        failed=[f"{wrong} searches ended with another answer"] if wrong else [],
    )  # fmt: skip


def _stored(path: Path) -> int:
    """The trials in a database, 0 where it was not made yet."""
    if not path.exists():
        return 0
    with Database(path) as db:
        return sum(r.is_trial for r in db.records())


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("benchmarks.tuner.kills", __doc__, seeds=1, trials=TRIALS)
    parser.add_argument("--kills", type=positive, default=KILLS, help=f"({KILLS})")
    parser.add_argument("--jobs", type=int, default=host_threads(), help="searches at a time")
    parser.add_argument("--recorded", type=Path, default=RECORDED, help=f"({RECORDED})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
