"""The tuning database: every trial that was ever made, in one SQLite file.

Columns hold what is asked for; the record itself is one JSON text, so that a new field needs no
migration. Each `add` is committed when it returns: a killed tuner loses no finished trial. Several
processes may write at once.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.errors import DatabaseError
from autotune.jsonl import ImportReport, decode, encode, read_records, write_records
from autotune.machine import Machine
from autotune.miss import explain
from autotune.records import Record, Workload
from autotune.storage import connect
from tensorir import NUMERICS, allows

COLUMNS = (
    "id", "time", "session", "trial", "workload", "structure", "name", "target", "machine",
    "status", "numerics", "median", "believed", "payload",
)  # fmt: skip

WorkloadLike = str | Workload
"""A workload or its key."""

MachineLike = str | Machine
"""A machine or its key."""


KIND = "workload, target, machine, numerics"
RANK = "believed DESC, median, id"
"""Records that compete with one another, and the best of them first."""

CHECKED, RACED = 1, 2
"""Values of the column `believed`: a correct trial, and one that was also timed in a race."""


@dataclass(frozen=True)
class SessionSummary:
    """One call of `tune`, as its records show it."""

    session: str
    started: str
    ended: str
    trials: int
    ok: int
    names: tuple[str, ...]
    target: str
    machine: str


class Database:
    """Records in the SQLite file `path`, which is created if it does not exist; ":memory:" is a
    database that is gone when it is closed.

    Raises DatabaseError if the file or its folder cannot be used, and says what to do.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = connect(self.path)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Database({str(self.path)!r})"

    def close(self) -> None:
        """Close the file; a closed database raises DatabaseError when it is used."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def add(self, record: Record) -> None:
        """Store one record; a record that is there already is left as it is."""
        self.add_many([record])

    def add_many(self, records: Iterable[Record]) -> int:
        """Store records in one transaction, all or none, and return how many were new."""
        rows = [_row(record) for record in records]
        marks = ", ".join("?" * len(COLUMNS))
        sql = f"INSERT OR IGNORE INTO records ({', '.join(COLUMNS)}) VALUES ({marks})"
        with self._transaction() as connection:
            before = connection.total_changes
            connection.executemany(sql, rows)
            return connection.total_changes - before

    def best(
        self,
        workload: WorkloadLike,
        target: object,
        machine: MachineLike,
        numerics: str | None = None,
    ) -> Record | None:
        """The fastest trial whose result was found correct, on exactly this machine and target.

        Times from a race of several candidates go before times that were taken one by one.

        `numerics` bounds what the schedule may do to the result: "bitwise" accepts only bitwise
        equal schedules, "reassociated" and "algebraic" more, "mixed" or None any. `explain_miss`
        tells why the answer is None.
        """
        bound = "mixed" if numerics is None else numerics
        allowed = [each for each in NUMERICS if allows(bound, each)]
        where, values = _where(workload=workload, target=target, machine=machine)
        where += f" AND believed > 0 AND numerics IN ({', '.join('?' * len(allowed))})"
        rows = self._select(
            f"SELECT payload FROM records WHERE {where} ORDER BY {RANK} LIMIT 1",
            (*values, *allowed),
        )
        return decode(rows[0][0]) if rows else None

    def records(
        self,
        workload: WorkloadLike | None = None,
        target: object | None = None,
        machine: MachineLike | None = None,
        status: str | None = None,
        limit: int | None = None,
        *,
        session: str | None = None,
        structure: str | None = None,
    ) -> list[Record]:
        """The records that agree with everything given, oldest first."""
        where, values = _where(
            workload=workload, target=target, machine=machine, status=status,
            session=session, structure=structure,
        )  # fmt: skip
        rows = self._select(
            f"SELECT payload FROM records WHERE {where} ORDER BY time, trial, id LIMIT ?",
            (*values, -1 if limit is None else limit),
        )
        return [decode(payload) for (payload,) in rows]

    def count_trials(self, workload: WorkloadLike, target: object, machine: MachineLike) -> int:
        """How many trials were made, failed ones included."""
        where, values = _where(workload=workload, target=target, machine=machine)
        where += f" AND believed != {RACED}"
        return int(self._select(f"SELECT COUNT(*) FROM records WHERE {where}", values)[0][0])

    def explain_miss(self, workload: WorkloadLike, target: object, machine: MachineLike) -> str:
        """Why `best` has no answer: the nearest records and the first thing that differs."""
        return explain(self, workload, str(target), machine)

    def sessions(self) -> list[SessionSummary]:
        """A summary of each tuning session, oldest first."""
        rows = self._select(
            "SELECT session, MIN(time), MAX(time), COUNT(*), SUM(status = 'ok'),"
            " GROUP_CONCAT(DISTINCT name), MIN(target), MIN(machine)"
            " FROM records GROUP BY session ORDER BY MIN(time), session",
            (),
        )
        return [
            SessionSummary(session, started, ended, trials, ok, tuple(names.split(",")), *place)
            for session, started, ended, trials, ok, names, *place in rows
        ]

    def stats(self) -> dict[str, Any]:
        """Numbers of records, workloads, targets, machines, sessions, and records per status."""
        counts = self._select(
            "SELECT COUNT(*), COUNT(DISTINCT workload), COUNT(DISTINCT target),"
            " COUNT(DISTINCT machine), COUNT(DISTINCT session) FROM records",
            (),
        )[0]
        names = ("records", "workloads", "targets", "machines", "sessions")
        by_status = self._select(
            "SELECT status, COUNT(*) FROM records GROUP BY status ORDER BY status", ()
        )
        return {**dict(zip(names, counts, strict=True)), "status": dict(by_status)}

    def prune(self, keep: int = 20) -> int:
        """Delete all but the `keep` fastest believed records of each workload, target, machine
        and numerics class, and return how many were deleted. Failures are deleted as well."""
        if keep < 0:
            raise DatabaseError(f"prune keeps a number of records, not {keep!r}")
        with self._transaction() as connection:
            cursor = connection.execute(
                "DELETE FROM records WHERE id NOT IN (SELECT id FROM (SELECT id, ROW_NUMBER() OVER"
                f" (PARTITION BY {KIND} ORDER BY {RANK}) AS place"
                " FROM records WHERE believed > 0) WHERE place <= ?)",
                (keep,),
            )
            return cursor.rowcount

    def export_jsonl(self, path: str | os.PathLike[str], best_only: bool = False) -> int:
        """Write records as JSON Lines and return their number.

        With `best_only`, the fastest believed record of each workload, target, machine and
        numerics class: a small file whose lines keep their order, fit for review.
        """
        if not best_only:
            return write_records(path, self.records())
        rows = self._select(
            "SELECT payload FROM (SELECT *, ROW_NUMBER() OVER"
            f" (PARTITION BY {KIND} ORDER BY {RANK}) AS place FROM records WHERE believed > 0)"
            f" WHERE place = 1 ORDER BY name, {KIND}",
            (),
        )
        return write_records(path, (decode(payload) for (payload,) in rows))

    def import_jsonl(self, path: str | os.PathLike[str]) -> ImportReport:
        """Add the records of an export. Importing twice adds nothing the second time."""
        problems: list[tuple[int, str]] = []
        records = list(read_records(path, problems))
        added = self.add_many(records)
        return ImportReport(added, len(records) - added, tuple(problems))

    def _select(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        with self._guarded() as connection:
            return connection.execute(sql, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._guarded() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._connection is None:
                raise DatabaseError(f"the database {str(self.path)!r} is closed")
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise DatabaseError(
                    f"the database {str(self.path)!r} cannot be used: {error}"
                ) from error


def _row(record: Record) -> tuple[Any, ...]:
    believed = CHECKED if record.status == "ok" and record.verdict.checked else 0
    believed = RACED if believed and record.is_final else believed
    return (
        record.id, record.time, record.session, record.trial, record.workload.key,
        record.workload.structure, record.workload.name, record.target, record.machine_key,
        record.status, record.numerics, record.median, believed, encode(record),
    )  # fmt: skip


def _where(**given: Any) -> tuple[str, tuple[Any, ...]]:
    """The condition that the columns have these values; None means any value."""
    texts = {name: _text(value) for name, value in given.items() if value is not None}
    return " AND ".join(["1", *(f"{name} = ?" for name in texts)]), tuple(texts.values())


def _text(value: Any) -> str:
    return value.key if isinstance(value, (Workload, Machine)) else str(value)
