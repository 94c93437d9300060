"""tensorir best: the best schedule that is stored for a program."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import chain, takewhile
from pathlib import Path

from autotune.calibration.roofline import share_of_peak
from autotune.cli.failure import NOTHING, OK
from autotune.cli.output import count, short_target, show_pairs
from autotune.cli.program import (
    Program,
    add_cache,
    add_database,
    add_numerics,
    add_program,
    chosen,
    open_stored,
)
from autotune.cli.script import as_script
from autotune.cli.tune import best_text, signature
from autotune.database.database import Database
from autotune.database.records import Record
from autotune.database.shipped import Shipped, shipped_here
from autotune.machine.machine import this_machine
from autotune.tuning.replay import is_current, replayed
from autotune.tuning.shipped import is_whole
from backends import build
from schedule import Schedule
from tensorir import TensorIRError

HELP = "show or export the best schedule that is stored for a program"
EXAMPLES = """\
examples:
  tensorir best matmul --shape m=512 n=512 k=512
  tensorir best matmul --show schedule > matmul.py   a program that runs and checks itself
  tensorir best matmul --show source                 the C text
  tensorir best matmul --export out/                 stand-alone matmul.c and matmul.h

The status is 1 where nothing is stored for exactly this program, target and machine; the message
says what there is instead.
"""

STALE = (
    "this version of the project makes other code of the schedule than was timed; time it again"
    " with"
)
FOREIGN = "with steps that this version of the project cannot make"


def configure(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_database(parser)
    add_numerics(parser)
    add_cache(parser)
    parser.add_argument(
        "--show",
        choices=tuple(SHOWN),
        help="print only the program, its steps, its source, or all of it as a Python file",
    )
    parser.add_argument("--export", metavar="DIR", help="write source and header into a folder")


def run(args: argparse.Namespace) -> int:
    """Print the best record, a form of its schedule, or write its kernel."""
    program = chosen(args)
    ships = shipped_best(program, args.numerics)
    found, origin = None, "" if ships is None else str(ships)
    if ships is None or Path(args.database).exists():
        with open_stored(args.database) as db:
            found = stored_best(program, db, args.numerics)
            if found is not None:
                trials = count(len(program.trials(db)), "trial")
                origin = f"{found[0].time}, one of {trials}, seed {found[0].seed}"
            elif ships is None:
                print(f"nothing stored: {program.miss(db).text}", file=sys.stderr)
                print(f"tune it with: {program.command('tune')}", file=sys.stderr)
                return NOTHING
    if found is None:
        assert ships is not None
        found = ships.record, replayed(program.func, ships.record)
    record, schedule = found
    if args.show:
        print(SHOWN[args.show](program, record, schedule))
    if args.export:
        kernel = build(schedule, program.target, constants=program.constants)
        files = kernel.export(args.export)
        print("\n".join(f"wrote {file}" for file in files), file=sys.stderr)
    if not args.show and not args.export:
        show_record(program, record, origin)
    return OK


def shipped_best(program: Program, numerics: str) -> Shipped | None:
    """The best record that ships with the project and counts on this kind of machine."""
    found = shipped_here(
        program.workload, program.target, this_machine(), program.conditions, numerics
    )
    return next(filter(is_whole, found), None)


def stored_best(program: Program, db: Database, numerics: str) -> tuple[Record, Schedule] | None:
    """The best record whose steps still make the code that was timed, with its schedule.

    Where there is none, the best one that this version can make, with a note.
    """
    skipped: list[Record] = []

    def made() -> Iterator[tuple[Record, Schedule]]:
        for record in program.ranked(db, numerics):
            try:
                yield record, replayed(program.func, record)
            except TensorIRError:
                skipped.append(record)

    found = made()
    first = next(found, None)
    raced = takewhile(lambda pair: pair[0].is_final, found)
    several = chain([first] if first is not None else [], raced)
    exact = next((pair for pair in several if is_current(pair[0], program.target)), None)
    if exact is None and first is not None:
        print(f"note: {STALE}: {program.command('tune')}", file=sys.stderr)
    if skipped:
        print(f"note: skipped {count(len(skipped), 'record')} {FOREIGN}", file=sys.stderr)
    return exact or first


def _ir(program: Program, record: Record, schedule: Schedule) -> str:
    return str(schedule.func)


def _trace(program: Program, record: Record, schedule: Schedule) -> str:
    return json.dumps(schedule.trace.as_json(), indent=1)


def _source(program: Program, record: Record, schedule: Schedule) -> str:
    return build(schedule, program.target, constants=program.constants).source


def _schedule(program: Program, record: Record, schedule: Schedule) -> str:
    return as_script(program, record, schedule, signature(program))


SHOWN = {"ir": _ir, "trace": _trace, "source": _source, "schedule": _schedule}


def show_record(program: Program, record: Record, origin: str) -> None:
    """Print a record: its time, where it was found, and why it can be believed."""
    assert record.median is not None
    share = share_of_peak(program.func, record.median, program.target)
    verdict = record.verdict
    checked = "" if verdict.max_error is None else f"largest error {verdict.max_error:.3g}"
    if verdict.tolerance is not None:
        checked += f", allowed {verdict.tolerance:.3g}"
    show_pairs(
        [
            ("program", signature(program)),
            ("time", best_text(record, share, None)),
            ("blocks", f"{len(record.times)} from {_range(record)}"),
            ("checked", checked),
            ("numerics", record.numerics),
            ("sketch", record.sketch),
            ("decisions", json.dumps(record.decisions)),
            ("found", origin),
            ("target", short_target(record.target)),
            ("machine", f"{record.machine.get('cpu', '')} ({record.machine_key})"),
            ("record", record.id),
            ("look", program.command("best", "--show", "schedule")),
        ]
    )


def _range(record: Record) -> str:
    if not record.times:
        return "-"
    return f"{min(record.times) * 1e3:.4g} to {max(record.times) * 1e3:.4g} ms"
