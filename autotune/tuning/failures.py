"""Why trials failed, in a few words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from autotune.database.records import Record

LONGEST = 200


def describe_failures(records: Iterable[Record]) -> str:
    """How many trials ended in each way that is a failure, with the reason of the first of each:
    "4 wrong_result (output 'C' differs at [0]: ...)". "" where none failed."""
    counts: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    for record in records:
        if record.has_failed:
            counts[record.status] += 1
            reasons.setdefault(record.status, _reason(record))
    return "; ".join(f"{n} {status} ({reasons[status]})" for status, n in sorted(counts.items()))


def _reason(record: Record) -> str:
    """The line that says most: the last of a traceback, the first of other texts."""
    lines = record.error.strip().splitlines() or ["no reason is known"]
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."
