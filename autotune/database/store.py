"""The rows of a database file: read whatever is whole in it, written one transaction at a time."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autotune.database.records import Record
from autotune.database.rows import COLUMNS, Damage, decode, record_of, row_of
from autotune.database.storage import (
    INSERT,
    MEMORY,
    SQLITE_ERRORS,
    VERSION,
    check_place,
    in_memory,
    open_reading,
    open_writing,
    remedy,
)
from autotune.errors import DatabaseError

ROW = f"seq, {', '.join(COLUMNS)}"


class Store:
    """The rows in the file `path`, which the first one that is added makes.

    damage   the rows that were set aside by what was read so far, by their number
    salvage  "" or, where the file itself is damaged, what was read in its place

    Raises DatabaseError, with the remedy, where the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: dict[int, Damage] = {}
        self.salvage = ""
        self._lock = threading.RLock()
        self._writing = False
        try:
            check_place(path)
            self._connection: sqlite3.Connection | None = self._opened()
        except OSError as error:
            raise self._unusable(error) from error

    def close(self) -> None:
        """Close the file; after that, everything raises DatabaseError."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def rows(
        self, where: str = "1", values: tuple[Any, ...] = (), order: str = "seq"
    ) -> Iterator[Record]:
        """The records of the intact rows; the damaged ones are noted and set aside."""
        sql = f"SELECT {ROW} FROM records WHERE {where} ORDER BY {order}"
        for number, *row in self._select(sql, values):
            try:
                record = record_of(row)
            except DatabaseError as error:
                self.damage[number] = Damage(number, str(row[0] or ""), str(error))
                continue
            self.damage.pop(number, None)  # it was healed
            yield record

    def insert(self, records: Iterable[Record]) -> int:
        """Store records, all or none, and return how many were new."""
        rows = [row_of(record) for record in records]
        with self._transaction() as connection:
            before = connection.total_changes
            connection.executemany(INSERT, rows)
            return connection.total_changes - before

    def delete(self, ids: Iterable[str] = (), numbers: Iterable[int] = ()) -> int:
        """Delete rows by id and by number, and return how many there were."""
        with self._transaction() as connection:
            before = connection.total_changes
            connection.executemany("DELETE FROM records WHERE id = ?", [(i,) for i in ids])
            connection.executemany("DELETE FROM records WHERE seq = ?", [(n,) for n in numbers])
            deleted = connection.total_changes - before
        for number in numbers:
            self.damage.pop(number, None)
        return deleted

    def replace(self, identity: str, record: Record) -> None:
        """Store a record in place of the one with this id, if that is there."""
        with self._transaction() as connection:
            before = connection.total_changes
            connection.execute("DELETE FROM records WHERE id = ?", (identity,))
            if connection.total_changes > before:
                connection.execute(INSERT, row_of(record))

    def check(self) -> list[str]:
        """What is damaged, one line for each thing."""
        for _ in self.rows():
            pass
        found = [self.salvage]
        if not self.salvage:
            lines = self._select("PRAGMA integrity_check(20)", ())
            found = [f"the file: {line}" for (line,) in lines if line != "ok"]
        found += [str(damage) for damage in self.damage.values()]
        return [line for line in found if line]

    def repair(self) -> tuple[int, int]:
        """Make columns and indexes anew from the records, and delete rows without a record.

        Returns how many rows were mended and how many deleted.
        """
        mended, lost = _mended(self._select(f"SELECT {ROW} FROM records", ()))
        with self._transaction() as connection:
            numbers = [(number,) for number in (*lost, *mended)]
            connection.executemany("DELETE FROM records WHERE seq = ?", numbers)
            marks = ", ".join("?" * (1 + len(COLUMNS)))
            connection.executemany(
                f"INSERT OR IGNORE INTO records ({ROW}) VALUES ({marks})",
                [(number, *row_of(record)) for number, record in mended.items()],
            )
            connection.execute("REINDEX")
        self.damage.clear()
        return len(mended), len(lost)

    def whole(self) -> list[Record]:
        """The records of all rows that have one, whatever their columns say."""
        rows = self._select(f"SELECT {ROW} FROM records ORDER BY seq", ())
        return [record for _, *row in rows if (record := _readable(row)) is not None]

    def require_writable(self) -> None:
        """Make the file if there is none; raises DatabaseError where nothing can be stored."""
        with self._transaction() as connection:
            connection.execute(f"PRAGMA user_version = {VERSION}")  # as it is; but it is written

    def _select(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        with self._guarded() as connection:
            try:
                return connection.execute(sql, values).fetchall()
            except SQLITE_ERRORS as error:
                if "locked" in str(error):
                    raise
                self._connection = self._salvaged(error)
                connection.close()
                return self._connection.execute(sql, values).fetchall()

    def _opened(self) -> sqlite3.Connection:
        try:
            return open_reading(self.path)
        except SQLITE_ERRORS as error:
            if "locked" in str(error):
                raise self._unusable(error) from error
            return self._salvaged(error)

    def _salvaged(self, error: Exception) -> sqlite3.Connection:
        """What can be read of a damaged file, in memory."""
        from autotune.database.salvage import salvage

        found = salvage(self.path)
        if not found:
            raise DatabaseError(
                f"{str(self.path)!r} is no tuning database, or all of it is damaged ({error}): move"
                " it away, and import its last export"
            ) from error
        self._writing = False
        self.salvage = (
            f"the file {str(self.path)!r} is damaged ({error}); {len(found)} whole records were"
            " found in it, and `tensorir db repair --to NEW.db` writes them to a new file"
        )
        return in_memory(each.record for each in found)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._guarded():
            connection = self._writer()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _writer(self) -> sqlite3.Connection:
        """The connection, after it was changed for one that writes."""
        assert self._connection is not None
        if self.salvage:
            raise DatabaseError(f"nothing can be stored: {self.salvage}")
        if not self._writing:
            connection = open_writing(self.path)
            self._connection.close()
            self._connection, self._writing = connection, True
        return self._connection

    @contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._connection is None:
                raise DatabaseError(f"the database {str(self.path)!r} is closed")
            try:
                yield self._connection
            except (*SQLITE_ERRORS, OSError) as error:
                raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> DatabaseError:
        reason = getattr(error, "strerror", None) or error
        if self._writing and self.path != MEMORY and not self.path.exists():
            return DatabaseError(
                f"the tuning database {str(self.path)!r} was removed or moved while it was in use:"
                " put it back, or open it again, which begins a new one"
            )
        return DatabaseError(
            f"the tuning database {str(self.path)!r} cannot be used: {reason}; {remedy(error)}"
        )


def _readable(row: Any) -> Record | None:
    """The record of a row, whatever its columns say."""
    try:
        return decode(row[-1])
    except DatabaseError:
        return None


def _mended(rows: Iterable[Any]) -> tuple[dict[int, Record], list[int]]:
    """The records of rows with wrong columns, and the numbers of rows without a record."""
    mended: dict[int, Record] = {}
    lost = []
    for number, *row in rows:
        record = _readable(row)
        if record is None:
            lost.append(number)
        elif tuple(row) != row_of(record):
            mended[number] = record
    return mended, lost
