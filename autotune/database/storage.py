"""The SQLite file of a tuning database: whose it is, reading it without a trace, writing it.

Reading opens the file read-only. Where that cannot be without writing something (a file of an
earlier version, or one that a killed process left in the middle of something), a copy in memory is
read. Nothing is made or changed before the first record is written.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from autotune.database.records import Record
from autotune.database.rows import COLUMNS, decode, row_of
from autotune.errors import DatabaseError

VERSION = 2
"""`PRAGMA user_version` of the files this version of the project writes."""

APPLICATION = 0x74755231
"""`PRAGMA application_id` of our files, from version 2 on."""

MAGIC = b"SQLite format 3\0"
"""How a file of SQLite begins."""

BUSY_SECONDS = 30.0
"""How long a writer waits for another one."""

SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What the module sqlite3 raises; the latter where names in a damaged file are no text."""

MEMORY = Path(":memory:")

NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs ncpfs afs fuse.sshfs fuse.glusterfs beegfs".split()
)
"""There, the locks that SQLite relies on do not work between machines."""

CREATE = """
    CREATE TABLE records (
        seq INTEGER PRIMARY KEY, id TEXT UNIQUE, session TEXT, workload TEXT, structure TEXT,
        target TEXT, machine TEXT, conditions TEXT, status TEXT, numerics TEXT, median REAL,
        believed INTEGER, payload TEXT
    );
    CREATE INDEX records_workload ON records (workload, target, machine)
"""
"""`seq` is the order in which records were stored. Conditions on columns there are none: what a row
holds is checked when it is read."""

INSERT = (
    f"INSERT INTO records ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
    " ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS)
    + " WHERE payload IS NOT excluded.payload"
)
"""A row with the id of a record, but another text, is damaged, and the record heals it."""


def open_reading(path: Path) -> sqlite3.Connection:
    """A connection to what is in the file, of the current version; empty where there is no file.

    Raises DatabaseError, with the remedy, for what is no tuning database, and sqlite3.Error for a
    damaged one.
    """
    if path == MEMORY or not path.exists() or not path.stat().st_size:
        return in_memory(())
    head = _head(path)
    if not head.startswith(MAGIC):
        raise sqlite3.DatabaseError("file is not a database")
    write_ahead = head[18:20] == b"\2\2"
    if write_ahead and not path.with_name(f"{path.name}-shm").exists():
        return _snapshot(path)  # SQLite would make files beside it
    try:
        connection = _connect(f"{_address(path)}?mode=ro")
        try:
            return _current(connection, path)
        except BaseException:
            connection.close()
            raise
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise
        return _snapshot(path)


def open_writing(path: Path) -> sqlite3.Connection:
    """A connection to the file, which is made or brought to VERSION if need be.

    Transactions are explicit. Raises DatabaseError, with the remedy, for what is no tuning
    database, and sqlite3.Error for one that is damaged or cannot be written.
    """
    check_place(path)
    if path != MEMORY:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DatabaseError(_no_folder(path, error.strerror)) from error
        if path.exists() and path.stat().st_size and not _head(path).startswith(MAGIC):
            raise sqlite3.DatabaseError("file is not a database")
    connection = _connect(str(path) if path == MEMORY else _address(path))
    try:
        version_of(connection, path)  # before anything is written to it
        with suppress(sqlite3.OperationalError):  # others have it open: as it is, then
            connection.execute("PRAGMA journal_mode = DELETE")
        migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def in_memory(records: Iterable[Record]) -> sqlite3.Connection:
    """A database in memory that holds these records."""
    connection = _connect(":memory:")
    migrate(connection, MEMORY)
    connection.executemany(INSERT, map(row_of, records))
    return connection


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file to VERSION, in one transaction that excludes other processes."""
    if version_of(connection, path) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = version_of(connection, path)
        if found == 0:
            _create(connection)
        elif found == 1:
            _from_1(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def version_of(connection: sqlite3.Connection, path: Path) -> int:
    """The version of a file, 0 for an empty one; DatabaseError for what is not ours, or newer.

    All is read in one transaction: another process may be making the file.
    """
    if connection.in_transaction:
        return _version(connection, path)
    connection.execute("BEGIN")
    try:
        return _version(connection, path)
    finally:
        connection.execute("ROLLBACK")


def _version(connection: sqlite3.Connection, path: Path) -> int:
    application = _pragma(connection, "application_id")
    version = _pragma(connection, "user_version")
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = sorted(str(name) for name, _ in rows)
    if application == APPLICATION and version > VERSION:
        raise DatabaseError(
            f"the tuning database {str(path)!r} has version {version}, and this project reads up"
            f" to {VERSION}: update the project, or use another file"
        )
    if application == APPLICATION and version == VERSION:
        connection.execute(f"SELECT seq, {', '.join(COLUMNS)} FROM records LIMIT 0")
        wanted = CREATE.split(";")[0].split()
        if not any(str(sql).split() == wanted for _, sql in rows):
            # SQLite takes "INTEGMR PRIMARY KEY" for a column that is no number of a row.
            raise sqlite3.DatabaseError("the definition of its table has changed")
        return VERSION
    if application == 0 and version == 0 and not tables:
        return 0
    columns = {row[1] for row in connection.execute("PRAGMA table_info(records)")}
    if {"id", "payload", "believed"} <= columns:
        if application == 0 and version == 1:
            return 1
        raise sqlite3.DatabaseError("its records are ours, and its head says something else")
    raise DatabaseError(
        f"{str(path)!r} is a file of another program, with the tables"
        f" {', '.join(tables[:5]) or '(none)'}: name a tuning database, or a file that does not"
        " exist yet"
    )


def check_place(path: Path) -> None:
    """Raise DatabaseError where SQLite's own message would not help."""
    if path == MEMORY:
        return
    if path.is_dir():
        raise DatabaseError(f"{str(path)!r} is a folder: name a file in it, such as 'tuning.db'")
    folder = next((each for each in path.parents if each.exists()), path.parent)
    if not folder.is_dir():
        raise DatabaseError(_no_folder(path, "Not a directory"))
    kind = file_system(folder)
    if kind in NETWORK_FILE_SYSTEMS:
        raise DatabaseError(
            f"the tuning database {str(path)!r} is on a network file system ({kind}), where"
            " several writers would damage it: use a local disk, and exchange records with"
            " export_jsonl and import_jsonl"
        )


def file_system(folder: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """The kind of file system that `folder` is on ("ext4"); "" where it cannot be told."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    place, best, kind = folder.resolve(), -1, ""
    for line in lines:
        _, point, found, *_ = line.split(" ")
        root = Path(point.replace("\\040", " "))
        if place.is_relative_to(root) and len(root.parts) >= best:
            best, kind = len(root.parts), found
    return kind


def remedy(error: Exception) -> str:
    """What to do about an error of SQLite or of the system."""
    text = str(error)
    if "locked" in text:
        return "another process keeps it locked: wait for it to end"
    if "full" in text:
        return "make room on the disk, or choose a file on another one"
    return "choose a file in a local folder you can write to"


def _no_folder(path: Path, reason: str | None) -> str:
    return (
        f"cannot create the folder of the tuning database {str(path)!r}: {reason};"
        " choose a folder you can write to"
    )


def _head(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(100)
    except OSError as error:
        raise DatabaseError(
            f"cannot read the tuning database {str(path)!r}: {error.strerror}"
        ) from error


def _address(path: Path) -> str:
    """A file as SQLite wants it, whatever its name: it may be no text."""
    return f"file:{quote(os.fsencode(path.resolve()))}"


def _connect(where: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        where, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False,
        uri=where.startswith("file:"),
    )  # fmt: skip
    # A text that is not UTF-8 would be an error for the whole query; so it is damage of one row.
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def _snapshot(path: Path) -> sqlite3.Connection:
    """What is in the file now, in memory: SQLite tidies up in a copy of it."""
    with tempfile.TemporaryDirectory(prefix="tensorir-db-") as folder:
        copy = Path(folder) / "copy.db"
        try:
            for ending in ("", "-journal", "-wal"):
                if os.path.exists(f"{path}{ending}"):
                    shutil.copyfile(f"{path}{ending}", f"{copy}{ending}")
        except OSError as error:
            raise DatabaseError(
                f"cannot read the tuning database {str(path)!r}: {error.strerror}"
            ) from error
        connection = _connect(str(copy))
        try:
            return _in_memory_copy(connection, path)
        finally:
            connection.close()


def _current(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """`connection`, or one to a copy of the current version."""
    if version_of(connection, path) == VERSION:
        return connection
    copied = _in_memory_copy(connection, path)
    connection.close()
    return copied


def _in_memory_copy(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    version_of(connection, path)
    memory = _connect(":memory:")
    connection.backup(memory)
    migrate(memory, path)
    return memory


def _create(connection: sqlite3.Connection) -> None:
    for statement in CREATE.split(";"):
        connection.execute(statement)


def _from_1(connection: sqlite3.Connection) -> None:
    """Rows keep their order; those without a record stay as they are, to be found as damaged."""
    connection.execute("ALTER TABLE records RENAME TO earlier")
    for name in ("records_best", "records_structure", "records_session"):
        connection.execute(f"DROP INDEX IF EXISTS {name}")
    _create(connection)
    rows = connection.execute("SELECT rowid, id, payload FROM earlier ORDER BY rowid").fetchall()
    marks = ", ".join("?" * (1 + len(COLUMNS)))
    connection.executemany(
        f"INSERT OR IGNORE INTO records (seq, {', '.join(COLUMNS)}) VALUES ({marks})",
        ((row, *_values(identity, payload)) for row, identity, payload in rows),
    )
    connection.execute("DROP TABLE earlier")


def _values(identity: Any, payload: Any) -> tuple[Any, ...]:
    """The values of COLUMNS for a row that had this id."""
    try:
        return (identity, *row_of(decode(payload))[1:])
    except DatabaseError:
        return (identity, *[None] * (len(COLUMNS) - 2), payload)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
