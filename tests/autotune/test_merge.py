"""Merging databases is a union: in any order, twice, from files and exports, damaged ones too."""

from __future__ import annotations

import os
import sqlite3
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from made import first_version, record

from autotune.cli import main
from autotune.database.database import Database
from autotune.errors import DatabaseError


@pytest.fixture
def files(tmp_path):
    """Two databases with two records each, one of them the same, and an export of the second."""
    for name, trials in (("a", (1, 2)), ("b", (2, 3))):
        with Database(tmp_path / f"{name}.db") as db:
            db.add_many(record(trial) for trial in trials)
            db.export_jsonl(tmp_path / f"{name}.jsonl")
    return tmp_path


@pytest.mark.parametrize("ending", ["db", "jsonl"])
def test_a_union(files, ending):
    with Database(files / "a.db") as db:
        report = db.merge(files / f"b.{ending}")
        assert (report.added, report.known, report.problems) == (1, 1, ())
        assert db.merge(files / f"b.{ending}").added == 0
        assert [r.trial for r in db.records()] == [1, 2, 3]
    with Database(files / "new.db") as db:
        db.merge(files / "b.db")
        db.merge(files / "a.db")
        assert sorted(r.trial for r in db.records()) == [1, 2, 3]


def test_earlier_versions_are_merged_and_left_as_they_are(files):
    first_version(files / "old.db", [record(7)])
    before = (files / "old.db").read_bytes()
    with Database(files / "a.db") as db:
        assert db.merge(files / "old.db").added == 1
    assert (files / "old.db").read_bytes() == before


def test_damage_is_left_out_and_told(files):
    with sqlite3.connect(files / "b.db") as raw:
        raw.execute("UPDATE records SET payload = '{}' WHERE seq = 1")
    with Database(files / "a.db") as db:
        report = db.merge(files / "b.db")
        assert report.added == 1 and [number for number, _ in report.problems] == [1]
        (files / "cut.db").write_bytes((files / "b.db").read_bytes()[:5000])
        before = db.records()
        try:
            assert db.merge(files / "cut.db").problems
        except DatabaseError as error:
            assert "damaged" in str(error)
        assert db.records() == before


def test_a_file_that_is_not_there(files):
    with Database(files / "a.db") as db, pytest.raises(DatabaseError, match="no tuning database"):
        db.merge(files / "none.db")
    assert not (files / "none.db").exists()


def test_the_command(files, capsys):
    words = ["db", "merge", str(files / "a.db"), str(files / "b.jsonl"), "--database"]
    assert main([*words, str(files / "all.db")]) == 0
    out = capsys.readouterr().out
    assert "a.db: 2 added, 0 known already" in out and "b.jsonl: 1 added, 1 known" in out
    assert "has 3 records" in out
