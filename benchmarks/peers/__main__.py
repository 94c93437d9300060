"""Side by side with other libraries, in one run, as ratios.

python -m benchmarks.peers [--set main|other|operators|invented] [--peers NAME,...] [--trials N] ...
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotune.machine.machine import this_machine
from autotune.tuning.options import DEFAULT_DATABASE
from backends import BuildError, compiler_info
from benchmarks.limits import Limits, measure_limits
from benchmarks.peers import report
from benchmarks.peers.catalog import OURS, PEERS
from benchmarks.peers.figures import Figures
from benchmarks.peers.install import pythons
from benchmarks.peers.process import ROOT
from benchmarks.peers.rows import Row
from benchmarks.peers.run import Field, Settings, run_row
from benchmarks.peers.sets import SETS
from benchmarks.peers.turns import PAUSE_S
from benchmarks.table import write_readme

RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
IMAGE = ROOT / "docs" / "images" / "peers.png"
DEFAULT_PEERS = ",".join(n for n, peer in PEERS.items() if n != OURS and not peer.optional)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 1 a failure of our own, 2 a wrong request or a missing compiler."""
    options = _parser().parse_args(argv)
    if options.quick:
        options.set = "quick"
    rows = _rows(options)
    names = [name.strip() for name in options.peers.split(",") if name.strip()]
    unknown = [name for name in names if name not in PEERS]
    if not rows or unknown:
        print(
            f"unknown peers {', '.join(unknown)}; there are {', '.join(PEERS)}" if unknown
            else f"no row of set {options.set!r} has {options.only!r} in its name; rows are:\n  "
            + "\n  ".join(row.name for row in SETS[options.set]), file=sys.stderr,
        )  # fmt: skip
        return 2
    try:
        compiler_info("c")
    except BuildError as error:
        print(error, file=sys.stderr)
        return 2
    chosen = list(dict.fromkeys((OURS, *names)))
    found_pythons, missing = pythons(chosen)
    seconds = 0.02 if options.quick else 1.0
    limits = measure_limits(options.threads, seconds)
    everyone = Field(found_pythons, options.threads, missing=missing)
    everyone.start()
    facts = _facts(options, everyone)
    print("\n".join(f"{name}: {value}" for name, value in facts.items()), flush=True)
    found: list[Figures] = []
    try:
        _run(rows, everyone, options, limits, found)
    except KeyboardInterrupt:
        print(f"stopped after {len(found)} rows; nothing is written\n{report.text(found)}")
        return 130
    finally:
        everyone.close()
    if not options.quick:
        limits = limits.better(measure_limits(options.threads, seconds))
    found = [replace(row, limits=limits) for row in found]
    _publish(found, {**facts, "limits": str(limits)}, limits, options)
    wrong = report.failures(found)
    if wrong:
        print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


def _rows(options: argparse.Namespace) -> list[Row]:
    return [row for row in SETS[options.set] if all(text in row.name for text in options.only)]


def _run(
    rows: Sequence[Row],
    everyone: Field,
    options: argparse.Namespace,
    limits: Limits,
    found: list[Figures],
) -> None:
    """Append the figures of each row to `found`."""
    rounds, min_ms, pause = options.rounds, options.min_ms, PAUSE_S
    if options.quick:
        rounds, min_ms, pause = 3, 0.2, 0.0
    database = str(Path(options.database).resolve())
    settings = Settings(
        rounds, min_ms, pause, not options.no_constants,
        {"trials": options.trials, "seed": options.seed, "database": database},
    )  # fmt: skip
    for number, row in enumerate(rows, 1):
        begun = time.perf_counter()
        figures = run_row(row, everyone, settings, limits)
        found.append(figures)
        gain, best = figures.gain, figures.best_peer
        said = "" if gain is None or best is None else f"{gain.ratio:.2f}x {best.name}"
        taken = time.perf_counter() - begun
        print(f"[{number}/{len(rows)}] {row.name}: {said} ({taken:.0f} s)", flush=True)
        for name, reason in figures.missing.items():
            print(f"    {name}: {reason}", flush=True)


def _publish(
    found: Sequence[Figures], facts: dict[str, str], limits: Limits, options: argparse.Namespace
) -> None:
    print()
    print(report.text(found))
    table = report.markdown(facts, found)
    path = options.json
    if path is None and not options.quick and not options.only:
        path = RESULTS / f"peers-{options.set}-{options.threads}t.json"
    if path is not None:
        known = {"gops": dict(limits.gops), "gbps": dict(limits.gbps), "bytes": dict(limits.bytes)}
        report.write(path, report.as_json(facts, known, found), table)
        _draw(found, path.with_suffix(".png"), options)
        print(f"written: {path}, with .md and .png beside it")
    page: Path | None = options.write_readme
    if page is not None:
        main = options.set == "main"
        if main and page == README:
            _draw(found, IMAGE, options)
            print(f"written: {IMAGE}")
        name = "peers" if main else f"peers-{options.set}"
        if write_readme(page, name, table):
            print(f"written: the table in {page.name}")
        else:
            print(f"{page} has no place for it: put <!-- {name} --> and <!-- /{name} --> there")


def _draw(found: Sequence[Figures], path: Path, options: argparse.Namespace) -> None:
    from benchmarks.peers.plot import draw

    draw(found, path, f"{options.threads} threads, {this_machine().cpu}")


def _facts(options: argparse.Namespace, everyone: Field) -> dict[str, str]:
    """What the figures depend on, in words."""
    machine = this_machine()
    info = compiler_info("c")
    versions = (f"{n} {v}" for n, v in everyone.versions.items() if n != OURS)
    return {
        "machine": f"{machine.cpu}, {machine.cores} processors, {machine.key}",
        "compiler": f"{info['version']}, {' '.join(info['flags'])}",
        "threads": f"{options.threads}, everything called from Python {platform.python_version()}",
        "weights": "arguments of every call" if options.no_constants else "known ahead of the call",
        "search": f"{options.trials} trials per row, seed {options.seed}",
        "libraries": ", ".join(versions) or "none",
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=(__doc__ or "").split("\n")[0]
    )
    add: Any = parser.add_argument
    sets = [name for name in SETS if name != "quick"]
    add("--set", choices=sets, default="main", help="which rows (default: main)")
    add("--only", action="append", default=[], metavar="TEXT", help="rows with TEXT in their name")
    add(
        "--peers", default=DEFAULT_PEERS, metavar="NAME,...",
        help=f"of {', '.join(n for n in PEERS if n != OURS)} (default: %(default)s)",
    )  # fmt: skip
    add("--trials", type=int, default=0, help="of our tuner per row; 0 (default): no tuned column")
    add("--threads", type=_positive, default=this_machine().cores, help="(default: all)")
    add("--rounds", type=int, default=20, help="blocks of each form (default: 20)")
    add("--min-ms", type=float, default=10.0, help="of a block (default: 10)")
    add("--seed", type=int, default=0, help="of the search (default: 0)")
    add("--no-constants", action="store_true", help="weights are arguments for everybody")
    add("--database", default=DEFAULT_DATABASE, help="of tuning records (default: %(default)s)")
    add("--json", type=Path, metavar="FILE", help="default: in benchmarks/results")
    add(
        "--write-readme", nargs="?", const=README, type=Path, metavar="PAGE",
        help="renew the table in README.md, and the image, or the table in another page",
    )  # fmt: skip
    add("--quick", action="store_true", help="tiny sizes: shows that it works, not how fast")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    if number > (os.cpu_count() or number):
        raise argparse.ArgumentTypeError(f"this machine has only {os.cpu_count()} processors")
    return number


if __name__ == "__main__":
    sys.exit(main())
