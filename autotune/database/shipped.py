"""Records that ship with the project: the JSON Lines in `tuning_logs`, found without a database.

They are looked at line by line and only those of the program that is asked for are read, so that
looking costs a millisecond however many there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autotune.database.conditions import Conditions
from autotune.database.kinds import differences, kind_here, kind_of
from autotune.database.records import Record, Workload
from autotune.database.rows import believed, decode
from autotune.errors import DatabaseError
from autotune.machine.machine import Machine
from tensorir import allows, check_numerics

BESIDE = Path(__file__).resolve().parents[2] / "tuning_logs"
"""Where they are: beside the packages, in a checkout; an installed copy has none."""

FOLDER = Path(os.environ.get("TENSORIR_SHIPPED") or BESIDE)
"""Where they are looked for: another folder is named in TENSORIR_SHIPPED."""


@dataclass(frozen=True)
class Shipped:
    """A record with its place, for whoever wants to look: file and line, from 1."""

    record: Record
    file: Path
    line: int

    @property
    def trials(self) -> int:
        """How many trials the search was allowed of which this is the winner, or else made."""
        return trials_of(self.record)

    @property
    def place(self) -> str:
        """ "tuning_logs/suite.jsonl, line 3"."""
        return f"{self.file.parent.name}/{self.file.name}, line {self.line}"

    def __str__(self) -> str:
        cpu = self.record.machine.get("cpu") or self.record.machine_key
        return f"{self.place}: found on {cpu} in {self.record.trial} trials"


def trials_of(record: Record) -> int:
    """How many trials a record that ships answers for: those that its search made, or was allowed
    where it ended before them because nothing was left, or nothing was expected to be gained."""
    wanted = record.settings.get("wanted")
    return max(record.trial, wanted if isinstance(wanted, int) else 0)


def all_shipped(folder: Path | None = None) -> list[Shipped]:
    """All of them; raises DatabaseError, with file and line, for a line that is no record."""
    return [_read(*place) for place in _lines(folder)]


def shipped_of(workload: Workload | str, folder: Path | None = None) -> list[Shipped]:
    """Those of one program, of whatever machine; raises as `all_shipped`."""
    key = workload if isinstance(workload, str) else workload.key
    found = (_read(*place) for place in _lines(folder, key.encode()))
    return [each for each in found if each.record.workload.key == key]


def shipped_like(workload: Workload) -> list[Shipped]:
    """Those of all programs of the same structure; raises as `all_shipped`."""
    found = (_read(*place) for place in _lines(None, workload.structure.encode()))
    return [each for each in found if each.record.workload.structure == workload.structure]


def shipped_here(
    workload: Workload | str,
    target: object,
    machine: Machine,
    conditions: Conditions,
    numerics: str = "mixed",
    folder: Path | None = None,
) -> list[Shipped]:
    """Those that count on this kind of machine, best first: see `kinds`.

    Of this very machine before others of its kind, raced before others, then by time.
    """
    check_numerics(numerics)
    here = kind_here(target, machine, conditions)
    good = [
        each
        for each in shipped_of(workload, folder)
        if believed(each.record)
        and allows(numerics, each.record.numerics)
        and not differences(here, kind_of(each.record))
    ]

    def rank(each: Shipped) -> tuple[bool, int, float, str]:
        record = each.record
        other = record.machine_key != machine.key
        return other, -believed(record), record.median or 0.0, record.id

    return sorted(good, key=rank)


def _lines(folder: Path | None, holding: bytes = b"") -> Iterator[tuple[Path, int, bytes]]:
    """File, number and text of each line that holds these bytes."""
    for file in sorted((folder or FOLDER).glob("*.jsonl")):
        try:
            data = file.read_bytes()
        except OSError as error:
            raise DatabaseError(f"cannot read {str(file)!r}: {error.strerror}") from error
        if holding in data:
            for number, line in enumerate(data.splitlines(), 1):
                if holding in line and line.strip():
                    yield file, number, line


def _read(file: Path, number: int, line: bytes) -> Shipped:
    try:
        return Shipped(decode(line), file, number)
    except DatabaseError as error:
        raise DatabaseError(f"{file.parent.name}/{file.name}, line {number}: {error}") from error
