"""Rows of the database: the record as text, and columns made of it to find it by.

The text is what counts. A row whose columns do not say what its text says is damaged, and so is one
whose text is no record.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from autotune.database.conditions import Conditions
from autotune.database.record_json import canonical
from autotune.database.records import Record
from autotune.errors import DatabaseError

COLUMNS = (
    "id", "session", "workload", "structure", "target", "machine", "conditions", "status",
    "numerics", "median", "believed", "payload",
)  # fmt: skip

CHECKED, RACED = 1, 2
"""Values of the column `believed`: a correct trial, and one that was also timed in a race."""


@dataclass(frozen=True)
class Damage:
    """A row that was set aside: its number, the id that it claims, and what is wrong with it."""

    row: int
    id: str
    reason: str

    def __str__(self) -> str:
        return f"row {self.row}{f' (id {self.id[:12]})' if self.id else ''}: {self.reason}"


def row_of(record: Record) -> tuple[Any, ...]:
    """The values of COLUMNS."""
    return (
        record.id, record.session, record.workload.key, record.workload.structure, record.target,
        record.machine_key, conditions_key(record.conditions), record.status, record.numerics,
        record.median, believed(record), record.text,
    )  # fmt: skip


def believed(record: Record) -> int:
    """How much the time of a record counts; 0 for none."""
    if record.status != "ok" or not record.verdict.checked:
        return 0
    return RACED if record.is_final else CHECKED


def conditions_key(conditions: Conditions) -> str:
    return canonical(conditions.to_json())


def record_of(row: Sequence[Any]) -> Record:
    """The record in the values of COLUMNS; raises DatabaseError with what is wrong."""
    return _record_of(tuple(row))


@lru_cache(maxsize=1024)
def _record_of(row: tuple[Any, ...]) -> Record:
    """A search asks for its rows again and again, and most of the work is in their hashes."""
    record = decode(row[-1])
    expected = row_of(record)
    wrong = [name for name, a, b in zip(COLUMNS[:-1], row, expected) if a != b]
    if wrong:
        raise DatabaseError(f"the columns {', '.join(wrong)} are not those of its record")
    return record


def decode(text: Any) -> Record:
    """The record in a line of JSON; raises DatabaseError with the reason if there is none."""
    if not isinstance(text, (str, bytes)):
        raise DatabaseError(f"not JSON: there is {type(text).__name__} in place of a text")
    try:
        data = json.loads(text)
    except ValueError as error:
        raise DatabaseError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise DatabaseError("not a tuning record: it is nested too deep") from error
    if not isinstance(data, dict):
        raise DatabaseError("not a tuning record: it is no JSON object")
    return Record.from_json(data)
