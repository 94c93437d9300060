"""Records as JSON Lines: one record a line, to ship, review and merge.

A line that cannot be read (torn by a crash, edited by hand, written by a newer version) is
reported with its number and skipped; it never costs the other lines.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import DatabaseError
from autotune.records import Record, canonical


@dataclass(frozen=True)
class ImportReport:
    """What an import did: records added, records known already, and lines it could not read."""

    added: int
    known: int
    problems: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.added} added, {self.known} known already, {len(self.problems)} unreadable"]
        return "\n".join(lines + [f"line {number}: {text}" for number, text in self.problems])


def read_records(path: str | os.PathLike[str], problems: list[tuple[int, str]]) -> Iterator[Record]:
    """The records in the file, in order; unreadable lines are appended to `problems`.

    Raises DatabaseError if the file cannot be opened.
    """
    try:
        stream = open(path, "rb")
    except OSError as error:
        raise DatabaseError(f"cannot read records from {str(path)!r}: {error.strerror}") from error
    with stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                yield decode(line)
            except DatabaseError as error:
                problems.append((number, str(error)))


def write_records(path: str | os.PathLike[str], records: Iterable[Record]) -> int:
    """Write the file anew and return the number of records; it is replaced in one step."""
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise DatabaseError(f"cannot write records to {str(path)!r}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            count = 0
            for record in records:
                stream.write(encode(record) + "\n")
                count += 1
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except OSError as error:
        raise DatabaseError(f"cannot write records to {str(path)!r}: {error.strerror}") from error
    finally:
        Path(temporary).unlink(missing_ok=True)
    return count


def encode(record: Record) -> str:
    """The record as one line of JSON, without the line break."""
    return canonical(record.to_json())


def decode(line: bytes | str) -> Record:
    """The record in a line; raises DatabaseError with the reason if there is none."""
    try:
        data = json.loads(line)
    except ValueError as error:
        raise DatabaseError(f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise DatabaseError("not a tuning record: the line is not an object")
    return Record.from_json(data)
