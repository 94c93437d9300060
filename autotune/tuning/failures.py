"""Why trials failed, in a few words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from autotune.database.records import Record

LONGEST = 200

IN_STACK = '  File "'
"""How the lines of a traceback begin that name a place."""


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


def headline(error: str) -> str:
    """The line of an error that says most: the first of the message, after the stack of a traceback
    where there is one, whose head may have been cut off. "" for no error."""
    lines = [line for line in error.splitlines() if line.strip()]
    stack = [n for n, line in enumerate(lines) if line.startswith(IN_STACK)]
    rest = lines[stack[-1] + 1 :] if stack else lines
    message = [line for line in rest if not stack or not line.startswith(" ")]
    return next(iter([*message, *lines[-1:]]), "").strip()


def _reason(record: Record) -> str:
    line = headline(record.error) or "no reason is known"
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."
