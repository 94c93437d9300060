"""Opening the SQLite file of a tuning database: checks, journal mode, schema."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from autotune.errors import DatabaseError

VERSION = 1
"""`PRAGMA user_version` of the files this version of the project writes."""

BUSY_SECONDS = 30.0
"""How long a writer waits for another one."""

NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs ncpfs afs fuse.sshfs fuse.glusterfs beegfs".split()
)
"""There, the locks and the shared memory that SQLite relies on do not work between machines."""

MIGRATIONS = {
    0: """
        CREATE TABLE records (
            id TEXT PRIMARY KEY, time TEXT NOT NULL, session TEXT NOT NULL,
            trial INTEGER NOT NULL, workload TEXT NOT NULL, structure TEXT NOT NULL,
            name TEXT NOT NULL, target TEXT NOT NULL, machine TEXT NOT NULL,
            status TEXT NOT NULL, numerics TEXT NOT NULL, median REAL,
            believed INTEGER NOT NULL, payload TEXT NOT NULL
        );
        CREATE INDEX records_best ON records (workload, target, machine, believed, median);
        CREATE INDEX records_structure ON records (structure, target, machine);
        CREATE INDEX records_session ON records (session, trial);
    """,
}
"""`MIGRATIONS[n]` turns a file of version n into one of version n + 1."""


def connect(path: Path) -> sqlite3.Connection:
    """An open connection to a file of the current version, created or migrated if need be.

    Transactions are explicit. ":memory:" is gone when it is closed. Raises DatabaseError with the
    remedy.
    """
    _check_place(path)
    connection = None
    try:
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        migrate(connection, path)
    except (sqlite3.Error, DatabaseError) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, DatabaseError):
            raise
        raise DatabaseError(
            f"cannot open the tuning database {str(path)!r}: {error}; {_remedy(error)}"
        ) from error
    return connection


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file to VERSION, in one transaction that excludes other processes."""
    if _version(connection) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = _version(connection)
        if found > VERSION:
            raise DatabaseError(
                f"the tuning database {str(path)!r} has version {found}, and this project reads up"
                f" to {VERSION}: update the project, or use another file"
            )
        for version in range(found, VERSION):
            for statement in MIGRATIONS[version].split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging. SQLite does not wait when two processes switch at once."""
    deadline = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone()[0] not in ("wal", "memory"):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _check_place(path: Path) -> None:
    """Raise DatabaseError where SQLite's own message would not help."""
    if str(path) == ":memory:":
        return
    if path.is_dir():
        raise DatabaseError(f"{str(path)!r} is a folder: name a file in it, such as 'tuning.db'")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseError(
            f"cannot create the folder of the tuning database {str(path)!r}: {error.strerror};"
            " choose a folder you can write to"
        ) from error
    kind = file_system(path.parent)
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


def _remedy(error: sqlite3.Error) -> str:
    text = str(error)
    if "not a database" in text or "malformed" in text:
        return "it is damaged or something else: move it away, and import its last export"
    if "locked" in text:
        return "another process keeps it locked: wait for it to end"
    return "choose a file in a local folder you can write to"
