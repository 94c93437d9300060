"""Records as JSON Lines: one record a line, to ship, review and merge.

A line that cannot be read (torn by a crash, edited by hand, written by a newer version) is
reported with its number and skipped; it never costs the other lines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from autotune.database.records import Record
from autotune.database.rows import decode
from autotune.errors import DatabaseError

STANDARD = "-"
"""Standard input or output in place of a file."""

LONGEST = 1 << 26
"""Bytes of a line; more is no record, and is not kept in memory."""

SHOWN = 10
"""Unreadable lines that a report spells out."""

BOM = b"\xef\xbb\xbf"

OTHER_FILES = {
    b"SQLite format 3\0": "a database, not an export: write one with `tensorir db export"
    " FILE.jsonl --database {path}` and import that",
    b"\x1f\x8b": "compressed: unpack it, or `zcat {path} | tensorir db import -`",
    b"\xff\xfe": "in UTF-16: convert it, as with `iconv -f UTF-16 -t UTF-8`",
    b"\xfe\xff": "in UTF-16: convert it, as with `iconv -f UTF-16 -t UTF-8`",
}
"""How files begin that are no JSON Lines in any of their lines, and what to do about them."""

Problem = tuple[int, str]
"""The number of a line, from 1, and why it could not be read."""


@dataclass(frozen=True)
class ImportReport:
    """What an import did: records added, records known already, and lines it could not read."""

    added: int
    known: int
    problems: tuple[Problem, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.added} added, {self.known} known already, {len(self.problems)} unreadable"]
        lines += [f"line {number}: {text}" for number, text in self.problems[:SHOWN]]
        if len(self.problems) > SHOWN:
            lines.append(f"... and {len(self.problems) - SHOWN} more")
        return "\n".join(lines)


def read_records(path: str | os.PathLike[str], problems: list[Problem]) -> Iterator[Record]:
    """The records in the file, in order; unreadable lines are appended to `problems`.

    "-" is standard input. Raises DatabaseError if the file cannot be opened or read, or is
    something else as a whole.
    """
    try:
        if str(path) == STANDARD:
            yield from _records(sys.stdin.buffer, path, problems)
            return
        with open(path, "rb") as stream:
            yield from _records(stream, path, problems)
    except OSError as error:
        raise DatabaseError(f"cannot read records from {str(path)!r}: {error.strerror}") from error


def write_records(path: str | os.PathLike[str], records: Iterable[Record]) -> int:
    """Write the file anew and return the number of records.

    A file is replaced in one step, through a symbolic link the file that it leads to. "-" is
    standard output.
    """
    try:
        with _output(path) as stream:
            count = 0
            for record in records:
                stream.write(encode(record) + "\n")
                count += 1
    except BrokenPipeError:
        raise  # the reader has seen enough
    except OSError as error:
        raise DatabaseError(f"cannot write records to {str(path)!r}: {error.strerror}") from error
    return count


def encode(record: Record) -> str:
    """The record as one line of JSON, without the line break."""
    return record.text


def _records(
    stream: IO[bytes], path: str | os.PathLike[str], problems: list[Problem]
) -> Iterator[Record]:
    number = 0
    while line := stream.readline(LONGEST):
        number += 1
        if number == 1:
            _check_kind(line, path)
        if len(line) == LONGEST and not line.endswith(b"\n"):
            problems.append((number, f"longer than {LONGEST >> 20} MiB"))
            while line and not line.endswith(b"\n"):
                line = stream.readline(LONGEST)
            continue
        line = line.removeprefix(BOM)  # also inside, where exports were put together by `cat`
        if not line.strip():
            continue
        try:
            yield decode(line)
        except DatabaseError as error:
            problems.append((number, str(error)))


def _check_kind(line: bytes, path: str | os.PathLike[str]) -> None:
    for head, text in OTHER_FILES.items():
        if line.startswith(head):
            raise DatabaseError(f"{str(path)!r} is {text.format(path=path)}")


@contextmanager
def _output(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    if str(path) == STANDARD:
        yield sys.stdout
        sys.stdout.flush()
        return
    from tensorir import whole_file  # few searches export

    with whole_file(path) as draft, draft.open("w", encoding="utf-8") as stream:
        yield stream
