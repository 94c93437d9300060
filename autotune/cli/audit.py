"""tensorir db audit, tensorir db check: whether records still are what they say."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from autotune.cli.failure import NOTHING, OK, Failure, WrongUse
from autotune.cli.output import count, show_table
from autotune.cli.program import existing
from autotune.cli.report import figure, is_named, shapes
from autotune.database.database import Database
from autotune.database.ranking import competing
from autotune.database.records import Record
from autotune.database.shipped import all_shipped
from autotune.tuning.audit import FAILED, SOUND, Finding, audit, standing, withdrawn


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "workload", nargs="?", metavar="NAME", help="name of a function, or the head of its key"
    )
    parser.add_argument(
        "--retime", action="store_true", help="time the best again, in turns with the default"
    )
    parser.add_argument(
        "--mark", action="store_true", help="have records that fail count as failures from now on"
    )
    parser.add_argument(
        "--shipped", action="store_true", help="those that ship, in place of the database"
    )


def run(args: argparse.Namespace) -> int:
    """Audit records, print what was found, and withdraw what fails if that is asked for."""
    if args.shipped and args.mark:
        raise WrongUse("--mark changes a database; mend what ships by `python -m benchmarks.ship`")
    records = _shipped() if args.shipped else _stored(args.database)
    chosen = [r for r in records if args.workload is None or is_named(r, args.workload)]
    if not competing(chosen):
        raise Failure("there is no successful record to audit")
    findings = list(audit(chosen, retime=args.retime, report=_told))
    shown = [f for f in findings if f.state != SOUND or f.status or f.detail]
    show_table(
        ("state", "workload", ">then ms", ">now ms", ">drift", ">default ms", "why"),
        [_row(finding) for finding in shown],
    )
    states = Counter(finding.state for finding in findings)
    listed = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
    print(f"\n{count(len(findings), 'record')}: {listed}")
    failed = [finding for finding in findings if finding.state == FAILED]
    if failed and args.mark:
        with Database(args.database) as db:
            for finding in failed:
                db.replace(finding.record, withdrawn(finding))
        print(f"withdrew {count(len(failed), 'record')}")
    elif failed and not args.shipped:
        print("`tensorir db audit --mark` has those that failed count as failures", file=sys.stderr)
    return OK if set(states) == {SOUND} else NOTHING


def stale(records: list[Record]) -> str:
    """How many of the best records are of another version of the project; "" for none."""
    best = [group[0] for group in competing(records)]
    number = sum(standing(record).state != SOUND for record in best)
    if not number:
        return ""
    return (
        f"{number} of the {len(best)} best records are of another version of the project: `tensorir"
        " db audit` says which, and `tune` times their schedules again"
    )


def _row(finding: Finding) -> tuple[object, ...]:
    record, drift = finding.record, finding.drift
    return (
        finding.state,
        f"{record.workload.name} {shapes(record.workload)}",
        figure(record.median),
        figure(finding.seconds),
        "" if drift is None else f"{drift - 1:+.0%}",
        figure(finding.default),
        finding.detail,
    )


def _stored(path: str) -> list[Record]:
    with Database(existing(path)) as db:
        return db.records()


def _shipped() -> list[Record]:
    return [each.record for each in all_shipped()]


def _told(text: str) -> None:
    print(text, file=sys.stderr)
