"""tensorir db: look after the tuning database."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from autotune.cli.failure import NOTHING, OK, Failure, WrongUse
from autotune.cli.output import count, milliseconds, show_pairs, show_table
from autotune.cli.program import add_database, add_program, chosen, open_stored
from autotune.cli.report import shapes, show_workloads
from autotune.database import Database
from autotune.machine import this_machine
from autotune.records import Record
from autotune.report import status_text

HELP = "look after the tuning database: list, stats, sessions, export, import, prune, explain, show"
EXAMPLES = """\
examples:
  tensorir db list
  tensorir db export tuning_logs/mine.jsonl --best
  tensorir db import theirs.jsonl
  tensorir db prune --keep 20
  tensorir db explain matmul --shape m=512 n=512 k=512
  tensorir db show 5c1d
"""


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, (function, text, options) in ACTIONS.items():
        sub = actions.add_parser(name, help=text, description=text)
        options(sub)
        add_database(sub)
        sub.set_defaults(perform=function)


def run(args: argparse.Namespace) -> int:
    """Run one action on the database."""
    status: int = args.perform(args)
    return status


def _list(args: argparse.Namespace) -> int:
    with open_stored(args.database) as db:
        records = db.records()
    if not records:
        raise Failure(f"the tuning database {args.database!r} is empty")
    show_workloads(records)
    return OK


def _stats(args: argparse.Namespace) -> int:
    with open_stored(args.database) as db:
        stats = db.stats()
    show_pairs([("database", args.database), *((k, v) for k, v in stats.items() if k != "status")])
    if stats["status"]:
        print(f"status     {status_text(stats['status'])}")
    return OK


def _sessions(args: argparse.Namespace) -> int:
    with open_stored(args.database) as db:
        sessions = db.sessions()
    columns = ("session", "began", "ended", ">trials", ">ok", "functions", "machine")
    rows = [
        (s.session, s.started, s.ended, s.trials, s.ok, ", ".join(s.names), s.machine)
        for s in sessions
    ]
    show_table(columns, rows)
    return OK


def _export(args: argparse.Namespace) -> int:
    with open_stored(args.database) as db:
        number = db.export_jsonl(args.path, best_only=args.best)
    print(f"wrote {count(number, 'record')} to {args.path}")
    return OK


def _import(args: argparse.Namespace) -> int:
    with Database(args.database) as db:
        report = db.import_jsonl(args.path)
    print(report)
    return NOTHING if report.problems else OK


def _prune(args: argparse.Namespace) -> int:
    if args.keep < 0:
        raise WrongUse(f"--keep takes a number of records, not {args.keep}")
    with open_stored(args.database) as db:
        number = db.prune(args.keep)
    print(f"deleted {count(number, 'record')}")
    return OK


def _explain(args: argparse.Namespace) -> int:
    program = chosen(args)
    with open_stored(args.database) as db:
        best = program.best(db, "mixed")
        if best is not None:
            print(f"there is one: {milliseconds(best.median)}, record {best.id}, {best.numerics}")
            return OK
        print(db.explain_miss(program.workload, program.target, this_machine()))
    return NOTHING


def _show(args: argparse.Namespace) -> int:
    with open_stored(args.database) as db:
        found = [r for r in db.records() if r.id.startswith(args.id)]
    if not found:
        raise Failure(f"no record has an id that begins with {args.id!r}")
    if len(found) > 1:
        ids = ", ".join(r.id[:12] for r in found[:5])
        raise WrongUse(f"{len(found)} records have an id that begins with {args.id!r}: {ids}, ...")
    if args.json:
        print(json.dumps(found[0].to_json(), indent=1))
    else:
        show_record(found[0])
    return OK


def show_record(record: Record) -> None:
    """Print everything in a record that reads well."""
    times = ", ".join(f"{t * 1e3:.4g}" for t in record.times)
    compiler = record.toolchain.get("compiler", {})
    show_pairs(
        [
            ("record", record.id),
            ("workload", f"{record.workload.name} {shapes(record.workload)}"),
            ("key", record.workload.key),
            ("status", record.status + (" (final race)" if record.is_final else "")),
            ("time", milliseconds(record.median)),
            ("predicted", milliseconds(record.predicted)),
            ("blocks", f"{times} ms" if times else ""),
            ("checked", "yes" if record.verdict.checked else "no"),
            ("largest error", record.verdict.max_error),
            ("numerics", record.numerics),
            ("sketch", record.sketch),
            ("decisions", json.dumps(record.decisions)),
            ("made", f"{record.time}, trial {record.trial}, seed {record.seed}"),
            ("session", record.session),
            ("target", record.target),
            ("machine", f"{record.machine.get('cpu', '')} ({record.machine_key})"),
            ("compiler", compiler.get("version")),
        ]
    )
    for title, text in (("error", record.error), ("program", record.workload.text)):
        if text:
            print(f"\n{title}\n{text.rstrip()}")
    if record.trace:
        print("\ntrace")
        print("\n".join(json.dumps(step) for step in record.trace))


def _nothing(parser: argparse.ArgumentParser) -> None:
    """An action without options."""


def _path(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="FILE.jsonl")


def _export_options(parser: argparse.ArgumentParser) -> None:
    _path(parser)
    parser.add_argument(
        "--best", action="store_true", help="only the best of each workload, target and machine"
    )


def _prune_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", type=int, default=20, metavar="N", help="default 20")


def _show_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the head of a record's id")
    parser.add_argument("--json", action="store_true", help="the whole record as JSON")


Action = tuple[Callable[[argparse.Namespace], int], str, Callable[[argparse.ArgumentParser], None]]

ACTIONS: dict[str, Action] = {
    "list": (_list, "the workloads, with their best times", _nothing),
    "stats": (_stats, "numbers of records, workloads, machines, sessions", _nothing),
    "sessions": (_sessions, "the tuning runs", _nothing),
    "export": (
        _export,
        "write records as JSON Lines, for review or another machine",
        _export_options,
    ),
    "import": (_import, "add the records of an export", _path),
    "prune": (
        _prune,
        "keep the fastest records of each workload, delete the others",
        _prune_options,
    ),
    "explain": (_explain, "why there is no best record for a program", add_program),
    "show": (_show, "one record", _show_options),
}
"""Action -> what runs it, its help text, and its options."""
