"""How much longer programs take that are written in another way, in one run, as ratios.

python -m benchmarks.general [--rows TEXT] [--forms KIND,...] [--tuned N] [--dry-run] ...
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.machine.machine import this_machine
from autotune.tuning.options import DEFAULT_DATABASE
from backends import BuildError, compiler_info
from benchmarks.general import report
from benchmarks.general.measure import Found, Settings, measure
from benchmarks.general.rewritings import REWRITINGS, forms_of
from benchmarks.general.workloads import rows, workload
from benchmarks.peers.rows import Row
from benchmarks.table import show_table, write_readme

RESULTS = Path(__file__).resolve().parent.parent / "results"


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 1 a form that failed, 2 a wrong request or a missing compiler."""
    options = _parser().parse_args(argv)
    every = rows(options.dry_run)
    chosen = [r for r in every if any(text in r.name for text in options.rows or [""])]
    kinds = [kind.strip() for kind in options.forms.split(",")]
    unknown = [kind for kind in kinds if kind not in REWRITINGS]
    if not chosen or unknown:
        print(
            f"unknown forms {', '.join(unknown)}; there are {', '.join(REWRITINGS)}" if unknown
            else f"no row has one of {options.rows} in its name; rows are:\n  "
            + "\n  ".join(row.name for row in every), file=sys.stderr,
        )  # fmt: skip
        return 2
    try:
        info = compiler_info("c")
    except BuildError as error:
        print(error, file=sys.stderr)
        return 2
    machine = this_machine()
    facts = {
        "machine": f"{machine.cpu}, {machine.cores} processors, {machine.key}",
        "compiler": f"{info['version']}, {' '.join(info['flags'])}",
        "threads": f"{options.threads}, timed in compiled code, Python {platform.python_version()}",
        "search": f"{options.tuned} trials per form, seed {options.seed}",
    }
    settings = _settings(options)
    print("\n".join(f"{name}: {value}" for name, value in facts.items()), flush=True)
    found: list[Found] = []
    try:
        for number, row in enumerate(chosen, 1):
            found.append(_measured(row, kinds, settings, f"[{number}/{len(chosen)}]"))
    except KeyboardInterrupt:
        print(f"stopped after {len(found)} rows")
    _publish(found, facts, settings, options)
    return 1 if any(row.failures for row in found) else 0


def _settings(options: argparse.Namespace) -> Settings:
    rounds, min_ms = (3, 0.2) if options.dry_run else (options.rounds, options.min_ms)
    database = str(Path(options.database).resolve())
    return Settings(
        options.threads, options.tuned, rounds, min_ms, options.seconds, options.seed, database
    )


def _measured(row: Row, kinds: Sequence[str], settings: Settings, place: str) -> Found:
    begun = time.perf_counter()
    plain = workload(row)
    forms = list(forms_of(plain.func, kinds))
    found = measure(plain, forms, settings)
    slow = sum(f.ratio.ratio > report.bound(f) for f in found.figures)
    said = f", {len(found.failures)} without a time" if found.failures else ""
    taken = time.perf_counter() - begun
    print(f"{place} {row.name}: {slow} of {len(found.figures)} forms slow{said} ({taken:.0f} s)",
          flush=True)  # fmt: skip
    return found


def _publish(
    found: Sequence[Found], facts: dict[str, str], settings: Settings, options: argparse.Namespace
) -> None:
    if not found:
        return
    for schedule in settings.schedules:
        lines = [report.cells(row, found, schedule) for row in found]
        print()
        show_table(report.header(found, schedule), [*lines, report.means(found, schedule)])
        print("\n".join(report.notes(found, schedule)))
    path = options.json
    if path is None and not (options.dry_run or options.rows):
        path = RESULTS / f"general-{options.threads}t.json"
    if path is not None:
        report.write(path, facts, found, settings.schedules)
        print(f"written: {path}, with .md and .png beside it")
    if options.write_readme:
        table = report.summary(facts, found, settings.schedules)
        marked = write_readme(RESULTS.parent.parent / "README.md", "general", table)
        print("written: the table in README.md" if marked else "README.md has no place for it")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.general", description=(__doc__ or "").split("\n")[0]
    )
    add: Any = parser.add_argument
    add("--rows", action="append", metavar="TEXT", help="rows with TEXT in their name")
    add("--forms", default=",".join(REWRITINGS), metavar="KIND,...", help="(default: %(default)s)")
    add("--tuned", type=int, default=0, metavar="N", help="tune each form so (default: 0, not)")
    add("--threads", type=int, default=this_machine().cores, help="(default: all)")
    add("--rounds", type=int, default=15, help="blocks of each form (default: 15)")
    add("--min-ms", type=float, default=5.0, help="of a block (default: 5)")
    add("--seconds", type=float, default=60.0, help="no round of a row begins after (default: 60)")
    add("--seed", type=int, default=0, help="of the search (default: 0)")
    add("--database", default=DEFAULT_DATABASE, help="of tuning records (default: %(default)s)")
    add("--json", type=Path, metavar="FILE", help="default: in benchmarks/results, not for --rows")
    add("--write-readme", action="store_true", help="renew the table of kinds in README.md")
    add("--dry-run", action="store_true", help="tiny sizes: shows that it works, not how fast")
    return parser


if __name__ == "__main__":
    sys.exit(main())
