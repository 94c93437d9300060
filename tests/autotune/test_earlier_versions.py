"""Files and records of each version there was are read, and brought up to date by the first write.

`earlier/version_N.sql` is a file as version N of the project wrote it, as text. Who raises the
version of the file or of records adds one, made before.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from made import record

from autotune.database.database import Database
from autotune.database.records import SCHEMA
from autotune.database.storage import VERSION

FOLDER = Path(__file__).parent / "earlier"
FILES = sorted(FOLDER.glob("version_*.sql"))


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def earlier(request, tmp_path) -> Path:
    path = tmp_path / "earlier.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(request.param.read_text())
    connection.close()
    return path


def test_there_is_one_of_each_version():
    versions = {int(path.stem.rpartition("_")[2]) for path in FILES}
    assert versions == set(range(1, VERSION + 1))
    schemas = {n for path in FILES for n in re.findall(r'"schema":(\d+)', path.read_text())}
    assert schemas == {str(n) for n in range(1, SCHEMA + 1)}


def test_all_is_read_and_looking_changes_nothing(earlier):
    before = earlier.read_bytes()
    with Database(earlier) as db:
        found = db.records()
        assert [r.trial for r in found] == [3, 1, 2], "in the order in which they were stored"
        assert [r.median for r in found] == [4.0, 2.0, 3.0]
        assert {r.conditions.compiler for r in found} <= {None, "gcc (Debian 12.2.0-14) 12.2.0"}
        assert db.check() == [] and db.note() == ""
    assert earlier.read_bytes() == before


def test_the_first_write_brings_it_up_to_date(earlier):
    with Database(earlier) as db:
        texts = [r.text for r in db.records()]
        db.add(record(9))
        assert [r.text for r in db.records()] == [*texts, db.records()[-1].text]
    raw = sqlite3.connect(earlier)
    assert raw.execute("PRAGMA user_version").fetchone() == (VERSION,)
    raw.close()
    with Database(earlier) as db:
        assert [r.trial for r in db.records()] == [3, 1, 2, 9] and db.check() == []


def test_they_are_merged(earlier, tmp_path):
    with Database(tmp_path / "new.db") as db:
        assert db.merge(earlier).added == 3
        assert db.merge(earlier).added == 0
