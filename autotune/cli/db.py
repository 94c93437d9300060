"""tensorir db: look after the tuning database."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

import autotune.cli.audit as audit
from autotune.cli.failure import NOTHING, OK, Failure, WrongUse
from autotune.cli.numbers import natural
from autotune.cli.output import count, milliseconds, show_pairs, show_table
from autotune.cli.program import (
    add_cache,
    add_database,
    add_program,
    chosen,
    existing,
    open_stored,
)
from autotune.cli.report import conditions_text, shapes, show_workloads
from autotune.database.database import Database
from autotune.database.miss import Miss
from autotune.database.records import Record
from autotune.machine.machine import this_machine
from autotune.report import status_text
from autotune.tuning.expect import expected_by_records

HELP = (
    "look after the tuning database: list, stats, sessions, export, import, merge, prune, delete,"
    " check, audit, repair, explain, show"
)
EXAMPLES = """\
examples:
  tensorir db list
  tensorir db export tuning_logs/mine.jsonl --best
  tensorir db export - --best | ssh other tensorir db import -
  tensorir db import theirs.jsonl
  tensorir db prune --keep 20
  tensorir db explain matmul --shape m=512 n=512 k=512
  tensorir db show 5c1d
  tensorir db delete 5c1d 77aa
  tensorir db merge theirs.db yours.jsonl
  tensorir db check                        what is damaged
  tensorir db audit --retime               replay, check results, time the best ones again
  tensorir db repair                       remove damaged rows
  tensorir db repair --to new.db           what can be read of a damaged file, in a new one
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
    # Standard output may be where the records went.
    print(f"wrote {count(number, 'record')} to {args.path}", file=sys.stderr)
    return OK


def _import(args: argparse.Namespace) -> int:
    with Database(args.database) as db:
        report = db.import_jsonl(args.path)
    print(report)
    return NOTHING if report.problems else OK


def _merge(args: argparse.Namespace) -> int:
    problems = 0
    with Database(args.database) as db:
        for path in args.paths:
            report = db.merge(path)
            problems += len(report.problems)
            print(f"{path}: {report}")
        print(f"{args.database} has {count(db.stats()['records'], 'record')}")
    return NOTHING if problems else OK


def _prune(args: argparse.Namespace) -> int:
    if args.keep < 0:
        raise WrongUse(f"--keep takes a number of records, not {args.keep}")
    with open_stored(args.database) as db:
        number = db.prune(args.keep)
    print(f"deleted {count(number, 'record')}")
    return OK


def _explain_options(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_cache(parser)


def _explain(args: argparse.Namespace) -> int:
    program = chosen(args)
    with open_stored(args.database) as db:
        best = next(program.ranked(db, "mixed"), None)
        if best is not None:
            print(f"there is one: {milliseconds(best.median)}, record {best.id}, {best.numerics}")
            return OK
        show_miss(program.miss(db))
        place = program.workload, str(program.target), this_machine(), program.conditions
        expectation = expected_by_records(db, *place)
        if expectation is not None:
            print(f"\nexpected: {expectation}")
    return NOTHING


def _check(args: argparse.Namespace) -> int:
    with Database(existing(args.database)) as db:
        problems, records = db.check(), db.records()
    for problem in problems:
        print(problem)
    print(f"{count(len(records), 'whole record')}, {count(len(problems), 'problem')}")
    print(audit.stale(records) or "the best ones make the code today that was timed")
    if problems:
        print("`tensorir db repair` mends columns and removes what is no record", file=sys.stderr)
    return NOTHING if problems else OK


def _repair(args: argparse.Namespace) -> int:
    with Database(existing(args.database)) as db:
        if args.to:
            print(f"wrote {count(db.salvage_to(args.to), 'record')} to {args.to}")
            return OK
        mended, deleted = db.repair()
    print(f"mended {count(mended, 'row')}, deleted {count(deleted, 'row')}")
    return OK


def _delete(args: argparse.Namespace) -> int:
    if not args.ids and not args.row:
        raise WrongUse("name records by the heads of their ids, or rows by --row")
    with open_stored(args.database) as db:
        number = db.delete([one_record(db, head).id for head in args.ids], args.row)
    print(f"deleted {count(number, 'record')}")
    return OK


def _show(args: argparse.Namespace) -> int:
    with open_stored(args.database) as db:
        record = one_record(db, args.id)
    if args.json:
        print(json.dumps(record.to_json(), indent=1))
    else:
        show_record(record)
    return OK


def one_record(db: Database, head: str) -> Record:
    """The record whose id begins with `head`; raises Failure for none, WrongUse for several."""
    found = [r for r in db.records() if r.id.startswith(head)]
    if not found:
        raise Failure(f"no record has an id that begins with {head!r}")
    if len(found) > 1:
        ids = ", ".join(r.id[:12] for r in found[:5])
        raise WrongUse(f"{len(found)} records have an id that begins with {head!r}: {ids}, ...")
    return found[0]


def show_miss(miss: Miss) -> None:
    """Print why there is no exact record, and what was asked beside the nearest one there is."""
    print(miss.text)
    if miss.record is None:
        return
    print()
    rows = [("!=" if f.differs else "", f.name, f.asked, f.stored) for f in miss.fields]
    show_table(("", "what decides", "asked for", f"record {miss.record.id[:12]}"), rows)


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
            ("made", f"{record.time}, trial {record.trial + 1}, seed {record.seed}"),
            ("session", record.session),
            ("target", record.target),
            ("machine", f"{record.machine.get('cpu', '')} ({record.machine_key})"),
            ("measured with", conditions_text(record)),
            ("compiler", compiler.get("version") if isinstance(compiler, dict) else None),
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
    parser.add_argument(
        "path", metavar="FILE.jsonl", help="- for standard output, or input of an import"
    )


def _export_options(parser: argparse.ArgumentParser) -> None:
    _path(parser)
    parser.add_argument(
        "--best", action="store_true", help="only the best of each workload, target and machine"
    )


def _merge_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", nargs="+", metavar="FILE", help="databases, or exports (.jsonl); they stay"
    )


def _prune_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", type=natural, default=20, metavar="N", help="default 20")


def _repair_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to", metavar="NEW.db", help="leave the file and write its whole records to a new one"
    )


def _delete_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="the heads of records' ids")
    parser.add_argument(
        "--row", nargs="+", action="extend", default=[], type=natural, metavar="N",
        help="rows, damaged ones too, by the numbers that `check` shows",
    )  # fmt: skip


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
    "merge": (_merge, "add the records of other databases", _merge_options),
    "prune": (
        _prune,
        "keep the fastest records of each workload, delete the others",
        _prune_options,
    ),
    "delete": (_delete, "delete records", _delete_options),
    "check": (_check, "what is damaged, row by row, and how much is stale", _nothing),
    "audit": (
        audit.run,
        "replay records, check the best ones' results, and time them again",
        audit.configure,
    ),
    "repair": (_repair, "mend damaged rows, or save what a damaged file holds", _repair_options),
    "explain": (_explain, "why there is no best record for a program", _explain_options),
    "show": (_show, "one record", _show_options),
}
"""Action -> what runs it, its help text, and its options."""
