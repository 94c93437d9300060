"""tensorir report: the trials of a workload, and what they tell."""

from __future__ import annotations

import argparse
import json
import math
import sys

from autotune.cli.failure import NOTHING, OK, WRONG_USE, Failure
from autotune.cli.output import milliseconds, short_target, show_pairs, show_table
from autotune.cli.program import add_database, open_stored
from autotune.records import Record, Workload
from autotune.report import Report, headline, places, plot, status_text, summarize

HELP = "show the trials of a workload: times, predictions, failures and their reasons"
EXAMPLES = """\
examples:
  tensorir report                          what is in the database
  tensorir report matmul                   the fastest trials, and why others failed
  tensorir report 3f2a9c --limit 0         all trials of the workload whose key begins so
  tensorir report matmul --plot curve.png  also draw the best so far (needs matplotlib)
"""
KEY_DIGITS = 10
TEXT = 60
"""Columns of a decision or error text in the table."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "workload", nargs="?", metavar="NAME", help="name of a function, or the head of its key"
    )
    add_database(parser)
    parser.add_argument(
        "--limit", type=int, default=20, metavar="N", help="rows to show, 0 for all (default 20)"
    )
    parser.add_argument(
        "--order", choices=("time", "trial"), default="time", help="of the rows (default time)"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw the best so far into a picture")


def run(args: argparse.Namespace) -> int:
    """Print the report of one workload, or a list of them all."""
    with open_stored(args.database) as db:
        records = db.records()
    found = [r for r in records if args.workload is None or is_named(r, args.workload)]
    if not found:
        if args.workload is None:
            raise Failure(f"the tuning database {args.database!r} is empty")
        names = ", ".join(sorted({r.workload.name for r in records})) or "none"
        raise Failure(f"no records of a workload {args.workload!r}; there are records of: {names}")
    workloads = {r.workload.key for r in found}
    if len(workloads) > 1:
        show_workloads(found)
        if args.workload is None:
            return OK
        print("several workloads have this name: give the head of a key", file=sys.stderr)
        return WRONG_USE
    groups = places(found)
    for number, group in enumerate(groups.values()):
        if number:
            print()
        show_report(args, group, "" if len(groups) == 1 else f"-{number + 1}")
    return OK if any(r.status == "ok" for r in found) else NOTHING


def is_named(record: Record, name: str) -> bool:
    """Whether `name` is the name of the record's workload or the head of its key."""
    return record.workload.name == name or record.workload.key.startswith(name)


def show_workloads(records: list[Record]) -> None:
    """Print one line for each workload, target and machine."""
    rows = []
    for group in places(records).values():
        report = summarize(group)
        workload = group[0].workload
        rows.append(
            (
                workload.key[:KEY_DIGITS],
                workload.name,
                shapes(workload),
                len(report.trials),
                report.statuses.get("ok", 0),
                milliseconds(best_time(report)),
                group[0].machine_key,
            )
        )
    show_table(("key", "name", "shapes", ">trials", ">ok", ">best", "machine"), rows)


def best_time(report: Report) -> float | None:
    """Seconds of the best trial; where candidates were raced, of the best of the races."""
    raced = [r.median for r in report.races.values() if r.median is not None]
    if raced:
        return min(raced)
    best = min(report.curve, default=math.inf)
    return best if math.isfinite(best) else None


def shapes(workload: Workload) -> str:
    """The shapes of the parameters; those of constants are in brackets."""
    words = []
    for name, shape, _ in workload.shapes:
        word = "x".join(map(str, shape)) or "()"
        words.append(f"[{word}]" if name in workload.constants else word)
    return " ".join(words)


def show_report(args: argparse.Namespace, records: list[Record], suffix: str) -> None:
    """Print one workload on one machine, and plot it if asked to."""
    report, first = summarize(records), records[0]
    rows = report.fastest if args.order == "time" else list(report.trials)
    shown = rows if args.limit <= 0 else rows[: args.limit]
    show_pairs(
        [
            ("workload", f"{first.workload.name} {shapes(first.workload)} ({first.workload.key})"),
            ("target", short_target(first.target)),
            ("machine", f"{first.machine.get('cpu', '')} ({first.machine_key})"),
            ("trials", f"{len(report.trials)}: {status_text(report.statuses)}"),
            ("best", milliseconds(best_time(report))),
            ("model", report.quality if report.quality.samples > 1 else ""),
        ]
    )
    print()
    columns = (">trial", "status", ">time ms", ">race", ">predicted", "sketch", "decisions")
    show_table(columns, [row(report, record) for record in shown])
    if len(shown) < len(rows):
        print(f"... {len(rows) - len(shown)} more trials: --limit 0 shows all")
    if report.failures:
        print("\nfailures")
        for (status, text), number in report.failures:
            print(f"  {number} x {status}: {text}")
    if args.plot:
        stem, dot, ending = args.plot.rpartition(".")
        file = f"{stem}{suffix}{dot}{ending}" if stem else f"{args.plot}{suffix}"
        plot(report, file, f"{first.workload.name} {shapes(first.workload)}")
        print(f"wrote {file}", file=sys.stderr)


def row(report: Report, record: Record) -> tuple[object, ...]:
    race = report.race_of(record)
    text = json.dumps(record.decisions) if record.status in ("ok", "pruned") else record.error
    return (
        record.trial,
        record.status,
        figure(record.median),
        figure(race.median) if race else "",
        figure(record.predicted),
        record.sketch,
        shortened(headline(text)),
    )


def figure(seconds: float | None) -> str:
    """Milliseconds without their unit."""
    return "" if seconds is None else f"{seconds * 1e3:.4g}"


def shortened(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[: TEXT - 3]}..."
