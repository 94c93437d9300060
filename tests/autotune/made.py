"""Small records, files of databases as earlier versions made them, and a user without rights."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from autotune.database.conditions import Conditions
from autotune.database.record_json import content_id
from autotune.database.records import Record, Verdict, Workload

WORKLOAD = Workload("key4", "structure", "scale", "text", (("A", (8, 4), "float32"),))
HERE = Conditions.here("c")


def record(trial: int = 0, **changes: object) -> Record:
    """A believed record of `trial` + 1 seconds."""
    values = {
        "workload": WORKLOAD, "target": "c", "machine_key": "m", "status": "ok",
        "median": trial + 1.0, "times": (trial + 1.0,), "verdict": Verdict(True, 0.0, 0.0),
        "session": "s", "trial": trial, "conditions": HERE, "time": "2026-01-01T00:00:00.000Z",
    }  # fmt: skip
    return Record(**{**values, **changes})


def later(trial: int = 0) -> dict[str, object]:
    """A record as JSON with fields of a later version everywhere, an integer and gaps."""
    data = record(trial).to_json()
    data.update(colour="blue", median=trial + 1, nested={"a": [1, {"b": None}]})
    for part in ("workload", "verdict", "settings", "conditions", "machine"):
        data[part]["shade"] = ["dark", 1]
    for name in ("features", "predicted", "build_seconds", "rules"):
        del data[name]
    return {**data, "id": content_id(data)}


def first_format(records: Iterable[Record]) -> list[dict[str, object]]:
    """These records as the first version of the format had them."""
    found = []
    for each in records:
        data = each.to_json()
        data.pop("conditions", None)
        data.pop("rules", None)
        data["schema"] = 1
        found.append({**data, "id": content_id(data)})
    return found


def first_version(path: Path, records: Iterable[Record], write_ahead: bool = True) -> list[str]:
    """A file as the first version of the database made it; returns the ids in order."""
    connection = sqlite3.connect(path)
    if write_ahead:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript("""
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
        PRAGMA user_version = 1;
    """)
    rows = first_format(records)
    for data in rows:
        text = json.dumps(data, sort_keys=True, separators=(",", ":"))
        connection.execute(
            f"INSERT INTO records VALUES ({', '.join('?' * 14)})",
            (
                data["id"], data["time"], "s", 0, "key4", "structure", "scale", "c", "m", "ok",
                "bitwise", data["median"], 1, text,
            ),
        )  # fmt: skip
    connection.commit()
    connection.close()
    return [str(data["id"]) for data in rows]


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Everything about the files in a folder that looking must not change."""
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}


@contextmanager
def read_only() -> Iterator[Path]:
    """A folder; leave `frozen` of it to the user who may only read."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            yield folder
        finally:
            folder.chmod(0o755)


@contextmanager
def frozen(folder: Path) -> Iterator[None]:
    """Nobody may write to the folder or its files; root becomes another user meanwhile."""
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)
