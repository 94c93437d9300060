"""tensorir report: the trials of a workload, and what they tell."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping

from autotune.cli.failure import NOTHING, OK, WRONG_USE, Failure
from autotune.cli.numbers import natural
from autotune.cli.output import count, milliseconds, short_target, show_pairs, show_table
from autotune.cli.page import write_page
from autotune.cli.program import add_database, add_shape, open_stored
from autotune.database.conditions import COLD
from autotune.database.records import Record, Workload
from autotune.report import (
    Report,
    headline,
    hints_text,
    places,
    spent_text,
    status_text,
    summarize,
)
from autotune.report.figures import plot

HELP = "show the trials of a workload: times, predictions, failures and their reasons"
EXAMPLES = """\
examples:
  tensorir report                          what is in the database
  tensorir report matmul                   the fastest trials, and why others failed
  tensorir report 3f2a9c --limit 0         all trials of the workload whose key begins so
  tensorir report rows --shape n=48        of a program of symbolic sizes, those with these
  tensorir report matmul --plot curve.png  also draw the best so far (needs matplotlib)
  tensorir report matmul --html page.html  a page with figures and the winner (needs matplotlib)
"""
KEY_DIGITS = 10
TEXT = 60
"""Columns of a decision or error text in the table."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "workload",
        nargs="?",
        metavar="NAME",
        help="name of a function, as FILE.py:NAME too, or the head of its key",
    )
    add_database(parser)
    add_shape(parser)
    parser.add_argument(
        "--limit",
        type=natural,
        default=20,
        metavar="N",
        help="rows to show, 0 for all (default 20)",
    )
    parser.add_argument(
        "--order", choices=("time", "trial"), default="time", help="of the rows (default time)"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw the best so far into a picture")
    parser.add_argument(
        "--html", metavar="FILE", help="write it with figures and the winner as a page"
    )


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
    found = of_sizes(found, dict(args.shape))
    workloads = {r.workload.key for r in found}
    if len(workloads) > 1:
        show_workloads(found)
        if args.workload is None:
            return OK
        print("several workloads have this name: give the head of a key", file=sys.stderr)
        return WRONG_USE
    groups = places(found)
    for number, group in enumerate(groups):
        if number:
            print()
        show_report(args, group, "" if len(groups) == 1 else f"-{number + 1}")
    return OK if any(r.status == "ok" for r in found) else NOTHING


def is_named(record: Record, name: str) -> bool:
    """Whether `name` is the name of the record's workload or the head of its key.

    A file before the name, as other commands take it, tells nothing: records are of programs.
    """
    name = name.rpartition(".py:")[2] or name
    return record.workload.name == name or record.workload.key.startswith(name)


def of_sizes(records: list[Record], sizes: Mapping[str, int]) -> list[Record]:
    """Those that were measured with these symbolic sizes, whatever others there are; Failure where
    there are none."""
    found = [r for r in records if sizes.items() <= (r.conditions.sizes or {}).items()]
    if not found:
        every = dict.fromkeys(sizes_text(r) for r in records)
        asked = ", ".join(f"{name}={value}" for name, value in sizes.items())
        known = "; ".join(filter(None, every)) or "no symbolic sizes"
        raise Failure(f"no records with {asked}; there are records of: {known}")
    return found


def sizes_text(record: Record) -> str:
    return ", ".join(f"{name}={value}" for name, value in (record.conditions.sizes or {}).items())


def show_workloads(records: list[Record]) -> None:
    """Print one line for each workload, target, machine and conditions."""
    rows = []
    for group in places(records):
        report = summarize(group)
        first = group[0]
        rows.append(
            (
                first.workload.key[:KEY_DIGITS],
                first.workload.name,
                shapes(first.workload),
                len(report.trials),
                report.statuses.get("ok", 0),
                milliseconds(best_time(report)),
                conditions_text(first),
                first.machine_key,
            )
        )
    columns = ("key", "name", "shapes", ">trials", ">ok", ">best", "measured with", "machine")
    show_table(columns, rows)


def best_time(report: Report) -> float | None:
    """Seconds of the best: the winner of the races, or else the fastest trial or race there is."""
    if report.best is not None:
        return report.seconds(report.best)
    raced = [race.median for race in report.races.values() if race.median is not None]
    return min(raced, default=None)


def conditions_text(record: Record) -> str:
    """Sizes, threads, compiler, and caches that are cold, in a few words."""
    found = record.conditions
    sizes = list(filter(None, [sizes_text(record)]))
    threads = [] if found.threads is None else [count(found.threads, "thread")]
    words = (found.compiler or "").split()
    compiler = [f"{words[0]} {words[-1]}"] if words else []
    caches = [f"{COLD} caches"] if found.caches == COLD else []
    return ", ".join([*sizes, *threads, *compiler, *caches]) or "unknown"


def when(records: list[Record]) -> str:
    """From when to when they were stored, to the minute."""
    minutes = sorted(record.time[:16].replace("T", " ") for record in records)
    return f"{' to '.join(dict.fromkeys((minutes[0], minutes[-1])))} UTC"


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
    default, best = report.default(), report.best
    rows = report.fastest if args.order == "time" else list(report.trials)
    shown = rows if args.limit <= 0 else rows[: args.limit]
    if default in rows[len(shown) :]:
        shown = [*shown, default]
    details = [
        ("workload", f"{first.workload.name} {shapes(first.workload)} ({first.workload.key})"),
        ("target", short_target(first.target)),
        ("measured with", conditions_text(first)),
        ("machine", f"{first.machine.get('cpu', '')} ({first.machine_key})"),
        ("when", when(records)),
        ("spent in", spent_text(records)),
        ("hints", hints_text(records)),
    ]
    show_pairs(
        [
            *details,
            ("trials", f"{len(report.trials)}: {status_text(report.statuses)}"),
            ("best", time_text(report, best)),
            ("default", time_text(report, default)),
            ("model", report.quality if report.quality.samples > 1 else ""),
            ("noise", str(report.ceiling)),
        ]
    )
    print()
    columns = (">trial", "", "status", ">race ms", ">time ms", ">predicted", "sketch", "decisions")
    show_table(columns, [row(report, record, best, default) for record in shown])
    if len(shown) < len(rows):
        print(f"... {len(rows) - len(shown)} more trials: --limit 0 shows all")
    show_others(report)
    if args.html:
        file = with_suffix(args.html, suffix)
        write_page(report, file, details)
        print(f"wrote {file}", file=sys.stderr)
    if args.plot:
        file = with_suffix(args.plot, suffix)
        plot(report, file, f"{first.workload.name} {shapes(first.workload)}")
        print(f"wrote {file}", file=sys.stderr)


def with_suffix(path: str, suffix: str) -> str:
    """ "out-2.png" of "out.png" and "-2"."""
    stem, dot, ending = path.rpartition(".")
    return f"{stem}{suffix}{dot}{ending}" if stem else f"{path}{suffix}"


def time_text(report: Report, record: Record | None) -> str:
    """The time of a trial that counts, how it was taken, and what part of the best it is."""
    if record is None:
        return ""
    seconds, best = report.seconds(record), report.best
    if record.status != "ok" or seconds is None:
        return f"{record.status} (trial {report.number(record)})"
    how = "in the race" if report.race_of(record) is not None else "alone"
    ratio = ""
    if best is not None and best is not record:
        ratio = f"  {seconds / (report.seconds(best) or seconds):.2f} x the best time"
    return f"{milliseconds(seconds)}{ratio} (trial {report.number(record)}, timed {how})"


def show_others(report: Report) -> None:
    """Print how many trials did not get a time, and why."""
    pruned = report.statuses.get("pruned", 0)
    if pruned or report.failures:
        print("\nwithout a full time")
    if pruned:
        print(f"  {pruned} x pruned: stopped early, far slower than the best so far")
    for (status, text), number in report.failures:
        print(f"  {number} x {status}: {text}")


def row(
    report: Report, record: Record, best: Record | None, default: Record | None
) -> tuple[object, ...]:
    race = report.race_of(record)
    text = json.dumps(record.decisions) if record.status in ("ok", "pruned") else record.error
    marks = [name for name, one in (("best", best), ("default", default)) if one is record]
    return (
        report.number(record),
        ", ".join(marks),
        record.status,
        figure(race.median) if race else "",
        figure(record.median),
        figure(record.predicted),
        record.sketch,
        shortened(headline(text)),
    )


def figure(seconds: float | None) -> str:
    """Milliseconds without their unit."""
    return "" if seconds is None else f"{seconds * 1e3:.4g}"


def shortened(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[: TEXT - 3]}..."
