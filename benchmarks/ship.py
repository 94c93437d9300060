"""Tune what ships with the project, and write the winners to tuning_logs/SET.jsonl.

python -m benchmarks.ship [--set NAME] [--only TEXT] [--trials N] [--minutes N] [--folder DIR]

Suite, demo and operators, if nothing is asked for, take twenty minutes on an idle machine: a search
ends where nothing is expected to be gained any more, and no row takes more than thrice its share of
the minutes that are left. A row that was cut off so is named, and answers for the trials that were
made; the same command goes on with it, and finds what is finished in its database. Records of other
kinds of machines stay in the files.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune import Database, MeasureSettings, Record
from autotune.database.jsonl import write_records
from autotune.database.kinds import kind_of
from autotune.database.shipped import FOLDER, all_shipped, trials_of
from benchmarks.operators import make_cases
from benchmarks.peers.kinds import KINDS
from benchmarks.peers.programs import prim_func
from benchmarks.peers.sets import SETS
from benchmarks.searched import searched
from demo import digits, photo
from tensorir import PrimFunc, TensorIRError

TRIALS = 96
"""As many as anything here asks for where nothing is said."""

MINUTES = 20.0
BY_NAME = ("peers",)
"""Sets that are tuned where they are asked for alone."""

CUT = re.compile(r"[\d.e+-]+ s")
"""What the result of a search says that its seconds have ended."""

SHARES = 3.0
"""Of the seconds that are left for each row, at most: most of them take less than one."""


@dataclass(frozen=True)
class Row:
    """A program that is tuned, with the parameters that are constants."""

    name: str
    func: PrimFunc
    constants: tuple[str, ...] = ()


def _suite() -> Iterator[Row]:
    for name, make in make_cases(False).items():
        yield Row(name, make().func)


def _demo() -> Iterator[Row]:
    cases = [*digits.cases(digits.train()), photo.case(photo.load())]
    return (Row(case.name, case.func) for case in cases)


def _peers(name: str) -> Iterator[Row]:
    for row in SETS[name]:
        yield Row(row.name, prim_func(row.kind, row.sizes), KINDS[row.kind].constants)


ROWS: dict[str, Callable[[], Iterator[Row]]] = {
    "suite": _suite,
    "demo": _demo,
    "peers": lambda: _peers("main"),
    "operators": lambda: _peers("operators"),
}
"""Name of a file -> the programs in it; one that an earlier file has is left out of a later."""


def main(argv: Sequence[str] | None = None) -> int:
    """Tune and write; 0 is success, 1 where a row failed, which then does not ship."""
    options = _parser().parse_args(argv)
    chosen = {
        name: [row for row in ROWS[name]() if all(text in row.name for text in options.only)]
        for name in options.set or (n for n in ROWS if n not in BY_NAME)
    }
    clock = Clock(options.minutes * 60, sum(map(len, chosen.values())))
    failures, cut, taken = [], [], set()
    with Database(options.database) as database:
        for name, rows in chosen.items():
            winners = []
            for row in rows:
                try:
                    found = _tuned(row, database, options, clock)
                except TensorIRError as error:
                    failures.append(f"{name}, {row.name}: {error}")
                    print(failures[-1], file=sys.stderr, flush=True)
                    continue
                if trials_of(found) < options.trials:
                    cut.append(f"{row.name} ({trials_of(found)})")
                if found.workload.key not in taken:
                    winners.append(found)
                taken.add(found.workload.key)
            path = options.folder / f"{name}.jsonl"
            print(f"{write(winners, path)} records ship in {path.name}")
    if cut:
        print(f"cut off, with the trials made, until the next call: {', '.join(cut)}")
    return 1 if failures else 0


class Clock:
    """What is left of so many seconds for so many rows."""

    def __init__(self, seconds: float, rows: int) -> None:
        self._end, self._rows, self._done = time.perf_counter() + seconds, rows, 0

    def next(self) -> tuple[str, float]:
        """The number of the next row, and the seconds that its search may take."""
        left = max(self._end - time.perf_counter(), 0.0)
        share = SHARES * left / (self._rows - self._done)
        self._done += 1
        return f"[{self._done}/{self._rows}, {left / 60:.0f} min left]", share


def write(winners: Sequence[Record], path: Path) -> int:
    """Put these records into a file, in place of others of the same program, kind and class."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {_place(s.record): s.record for s in all_shipped(path.parent) if s.file == path}
    kept.update({_place(record): record for record in winners})
    ordered = sorted(kept.values(), key=lambda r: (r.workload.name, r.workload.key, r.id))
    return write_records(path, ordered)


def _place(record: Record) -> tuple[object, ...]:
    return record.workload.key, tuple(sorted(kind_of(record).items())), record.numerics


def _tuned(row: Row, database: Database, options: argparse.Namespace, clock: Clock) -> Record:
    """The winner of a row's search, which says how many trials it answers for."""
    start = time.perf_counter()
    settings = MeasureSettings(min_ms=0.2, repeats=2, build_jobs=1) if options.quick else None
    number, seconds = clock.next()
    result = searched(
        row.func, "c", options.trials, 0, database, constants=row.constants, settings=settings,
        seconds=seconds, until="converged",
    )  # fmt: skip
    wanted = result.trials if CUT.fullmatch(result.ended) else options.trials
    taken = time.perf_counter() - start
    print(f"{number} {row.name}: {result}; {result.ended}; {taken:.0f} s", flush=True)
    return result.record.with_(settings={**result.record.settings, "wanted": wanted})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--set", action="append", default=[], choices=tuple(ROWS), help="(default: all but peers)")
    add("--only", action="append", default=[], metavar="TEXT", help="rows with TEXT in their name")
    add("--trials", type=int, default=TRIALS, help="per row, at most (default: %(default)s)")
    add("--minutes", type=float, default=MINUTES, help="of all searches (default: %(default)g)")
    add("--database", type=Path, default=FOLDER / "ship.db", help="(default: %(default)s)")
    add("--folder", type=Path, default=FOLDER, help="where the files go (default: %(default)s)")
    add("--quick", action="store_true", help="short blocks, to see that it works")
    return parser


if __name__ == "__main__":
    sys.exit(main())
