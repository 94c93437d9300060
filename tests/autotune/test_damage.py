"""What is stored is what is read; damage costs only what is damaged; nothing else is changed."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from made import WORKLOAD, first_version, frozen, later, read_only, record, state

from autotune.cli import main
from autotune.database.database import Database
from autotune.database.jsonl import LONGEST, read_records
from autotune.database.record_json import content_id
from autotune.database.records import Record
from autotune.database.salvage import salvage
from autotune.database.storage import APPLICATION, CREATE, VERSION
from autotune.errors import DatabaseError
from tests.brief import BRIEF


@pytest.fixture
def path(tmp_path):
    """A database of twenty records."""
    file = tmp_path / "tuning.db"
    with Database(file) as db:
        db.add_many([record(i, error="x" * 300 * i) for i in range(20)])
    return file


def edit(path, *statements):
    with sqlite3.connect(path) as connection:
        for statement, *values in statements:
            connection.execute(statement, values)
    connection.close()


def test_fields_of_a_later_version_are_carried_through(tmp_path):
    lines = [later(i) for i in range(3)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Database(tmp_path / "tuning.db") as db:
        assert db.import_jsonl(tmp_path / "in.jsonl").added == 3
        assert [r.median for r in db.records()] == [1.0, 2.0, 3.0]
        db.export_jsonl(tmp_path / "out.jsonl")
        assert db.best(WORKLOAD, "c", "m").to_json() == lines[0]
        changed = db.records()[0].with_(trial=7).to_json()
        assert not db.check()
    assert list(map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())) == lines
    assert changed["nested"] == lines[0]["nested"] and changed["workload"]["shade"]
    assert changed["id"] == content_id(changed) != lines[0]["id"]


DAMAGE = {
    "torn": "UPDATE records SET payload = substr(payload, 1, 100) WHERE seq = 3",
    "changed": "UPDATE records SET payload = replace(payload, '3.0', '0.5') WHERE seq = 3",
    "column": "UPDATE records SET median = 0.001 WHERE seq = 3",
    "column type": "UPDATE records SET believed = 'very' WHERE seq = 3",
    "no payload": "UPDATE records SET payload = NULL WHERE seq = 3",
    "number": "UPDATE records SET payload = 7 WHERE seq = 3",
    "bytes": "UPDATE records SET payload = x'7bff00', id = x'ff' WHERE seq = 3",
    "invalid text": "UPDATE records SET payload = CAST(x'7bff7d' AS TEXT) WHERE seq = 3",
    "no id": "UPDATE records SET id = NULL WHERE seq = 3",
    "newer": "UPDATE records SET payload = replace(payload, '\"schema\":2', '\"schema\":9')"
    " WHERE seq = 3",
    "deep": "UPDATE records SET payload = printf('%.*c', 100000, '[') WHERE seq = 3",
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_row_is_set_aside(path, kind, capsys):
    edit(path, [DAMAGE[kind]])
    with Database(path) as db:
        assert [r.trial for r in db.records()] == [0, 1, *range(3, 20)]
        assert db.best(WORKLOAD, "c", "m").trial == 0
        assert "1 damaged row" in db.note() and "tensorir db check" in db.note()
        assert db.stats()["records"] == db.count_trials(WORKLOAD, "c", "m") == 19
        (line,) = db.check()
        assert line.startswith("row 3")
    words = ["--database", str(path)]
    for action in (["db", "list"], ["report"], ["db", "stats"], ["db", "export", "-"]):
        assert main([*action, *words]) == 0
        assert "1 damaged row" in capsys.readouterr().err
    assert main(["db", "check", *words]) == 1
    assert "row 3" in capsys.readouterr().out
    assert main(["db", "repair", *words]) == 0
    whole = 20 if kind in ("column", "column type", "no id") else 19
    with Database(path) as db:
        assert len(db.records()) == whole and not db.check()
        assert [r.trial for r in db.records()][-1] == 19
    assert main(["db", "check", *words]) == 0


@pytest.mark.parametrize("word", CREATE.split(";")[0].split())
def test_a_damaged_definition_changes_no_order(path, word):
    """One bit of a word: SQLite may take that for another definition than rows were made by."""
    data = bytearray(path.read_bytes())
    definition = data.index(b"CREATE TABLE records")
    data[data.index(word.encode(), definition) + len(word) // 2] ^= 8
    path.write_bytes(data)
    with Database(path) as db:
        assert [r.trial for r in db.records()] == [*range(20)]
        assert "db repair --to NEW.db" in db.note() and db.check()


def test_a_damaged_row_is_deleted_or_healed(path):
    edit(path, [DAMAGE["changed"]], [DAMAGE["torn"].replace("= 3", "= 5")])
    with Database(path) as db:
        assert len(db.records()) == 18
        assert db.delete(rows=[3]) == 1
        assert db.add_many([record(4, error="x" * 1200), record(0)]) == 1
        assert [r.trial for r in db.records()] == [0, 1, *range(3, 20)]
        assert not db.check()


def test_deleting(path, capsys):
    words = ["--database", str(path)]
    with Database(path) as db:
        first, second, *_ = db.records()
    assert main(["db", "delete", first.id[:10], second.id, *words]) == 0
    assert "deleted 2 records" in capsys.readouterr().out
    assert main(["db", "delete", "zzz", *words]) == 1
    assert main(["db", "delete", *words]) == 2
    assert main(["db", "delete", "--row", "3", "4", *words]) == 0
    with Database(path) as db:
        assert [r.trial for r in db.records()] == list(range(4, 20))


@pytest.mark.parametrize("share", [0.35, 0.6, 0.9, 0.999])
def test_a_truncated_file_is_read_as_far_as_it_goes(path, tmp_path, share, capsys):
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with Database(path) as db:
        found = db.records()
        assert found and found == sorted(found, key=lambda r: r.trial)
        assert db.best(WORKLOAD, "c", "m") == found[0]
        assert "db repair --to NEW.db" in db.note()
        with pytest.raises(DatabaseError, match="nothing can be stored: .*db repair --to"):
            db.add(record(99))
    new = str(tmp_path / "new.db")
    assert main(["db", "list", "--database", str(path)]) == 0
    assert main(["db", "repair", "--to", new, "--database", str(path)]) == 0
    assert main(["db", "repair", "--to", new, "--database", str(path)]) == 1
    assert "name one that does not exist" in capsys.readouterr().err
    with Database(new) as db:
        assert db.records() == found and not db.check()


@pytest.mark.parametrize("page", [1, 2, 3, 6])
def test_a_page_overwritten_with_noise(path, page):
    before = {each.record.id: each.pages for each in salvage(path)}
    data = bytearray(path.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = bytes(range(256)) * 16
    path.write_bytes(data)
    with Database(path) as db:
        found = {r.id for r in db.records()}
    whole = {identity for identity, pages in before.items() if page not in pages}
    assert whole <= found and whole


def test_salvage_finds_what_sqlite_finds(path):
    with Database(path) as db:
        db.delete(rows=[2, 20])
        expected = db.records()
    found = salvage(path)
    assert [each.record for each in found] == expected
    assert [each.row for each in found] == [1, *range(3, 20)]
    connection = sqlite3.connect(path)  # records that are still in the log of a writer
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("DELETE FROM records WHERE seq > 10")
    connection.commit()
    assert [each.row for each in salvage(path)] == [1, *range(3, 11)]
    connection.close()


@pytest.mark.parametrize("write_ahead", [False, True])
def test_a_file_of_the_first_version(tmp_path, write_ahead):
    """It is read as it is, in the order of its rows, and migrated by the first record."""
    path = tmp_path / "old.db"
    ids = first_version(path, [record(i) for i in (3, 1, 2)], write_ahead)
    before = state(tmp_path)
    with Database(path) as db:
        assert [r.id for r in db.records()] == ids
        assert state(tmp_path) == before
        assert db.add_many([record(9), db.records()[0]]) == 1
        assert [r.id for r in db.records()][:3] == ids
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
    with Database(path) as db:
        assert [r.trial for r in db.records()] == [3, 1, 2, 9] and not db.check()
        assert [p.name for p in tmp_path.iterdir()] == ["old.db"]


def test_damaged_rows_of_the_first_version_stay_to_be_seen(tmp_path):
    path = tmp_path / "old.db"
    first_version(path, [record(i) for i in range(3)])
    edit(path, ["UPDATE records SET payload = 'x' WHERE rowid = 2"])
    with Database(path) as db:
        db.add(record(9))
        assert [r.trial for r in db.records()] == [0, 2, 9]
        assert db.check() == ["row 2" + line[5:] for line in db.check()]


GOOD = record(1).text
BAD = {
    "an integer of 31 digits": GOOD.replace('"trial":1', f'"trial":{10**30}'),
    "a text for a number": GOOD.replace('"median":2.0', '"median":"two"'),
    "too large for a float": GOOD.replace('"median":2.0', f'"median":{10**400}'),
    "a lone surrogate": GOOD.replace('"name":"scale"', '"name":"\\ud800"'),
    "a lone surrogate deep inside": GOOD.replace('"settings":{}', '"settings":{"a":["\\udfff"]}'),
    "a list for a name": GOOD.replace('"name":"scale"', '"name":["scale"]'),
    "a list for a mapping": GOOD.replace('"settings":{}', '"settings":[]'),
    "a mapping for a list": GOOD.replace('"trace":[]', '"trace":{}'),
    "shapes of something else": GOOD.replace('[["A",[8,4],"float32"]]', '[["A",8]]'),
    "brackets": "[" * 100_000,
    "brackets in a record": GOOD.replace(":null", ":" + "[" * 900 + "]" * 900, 1),
    "not UTF-8": GOOD.encode()[:-1] + b',"a":"\xff"}',
    "a NUL": GOOD.encode()[:200] + b"\0" + GOOD.encode()[200:],
    "a huge number of digits": '{"schema": ' + "9" * 10_000 + "}",
    "no schema": '{"id": "x"}',
    "schema 0": GOOD.replace('"schema":2', '"schema":0'),
    "a true schema": GOOD.replace('"schema":2', '"schema":true'),
    "NaN": GOOD.replace('"median":2.0', '"median":NaN'),
    "a torn line": GOOD[:400],
    "a wrong id": GOOD.replace('"trial":1', '"trial":2'),
    "a list": "[1, 2]",
    "a text": '"record"',
}


def with_id(line):
    """The line with the id that it would have, if it is a record at all."""
    try:
        data = json.loads(line)
        return json.dumps({**data, "id": content_id(data)}).encode()
    except (ValueError, TypeError, DatabaseError, RecursionError):
        return line.encode() if isinstance(line, str) else line


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_line_costs_nothing_else(tmp_path, kind):
    line = BAD[kind]
    bad = (line.encode() if isinstance(line, str) else line) if "id" in kind else with_id(line)
    good = [record(i).text.encode() for i in range(3)]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join([good[0], bad, good[1], b"", good[2]]))
    with Database(tmp_path / "tuning.db") as db:
        report = db.import_jsonl(tmp_path / "in.jsonl")
        assert [r.trial for r in db.records()] == [0, 1, 2] and not db.check()
    assert report.added == 3 and [number for number, _ in report.problems] == [2]
    assert len(str(report)) < 500


def test_line_ends_and_marks(tmp_path):
    bom = b"\xef\xbb\xbf"
    lines = [bom + record(0).text.encode() + b"\r", bom + record(1).text.encode() + b"\r", b"\r"]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines))
    problems = []
    assert [r.trial for r in read_records(tmp_path / "in.jsonl", problems)] == [0, 1]
    assert problems == []


def test_a_line_without_end_is_not_kept_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.database.jsonl.LONGEST", 1 << 12)
    long = b'{"a": "' + b"x" * (1 << 14) + b'"}'
    (tmp_path / "in.jsonl").write_bytes(b"\n".join([long, record(1).text.encode(), long]))
    problems = []
    assert [r.trial for r in read_records(tmp_path / "in.jsonl", problems)] == [1]
    assert [number for number, _ in problems] == [1, 3] and "longer than" in problems[0][1]
    assert LONGEST > 1 << 20


def test_many_unreadable_lines_are_counted(tmp_path):
    (tmp_path / "in.jsonl").write_bytes(b"\x89PNG\n" * 500)
    with Database(tmp_path / "tuning.db") as db:
        text = str(db.import_jsonl(tmp_path / "in.jsonl"))
    assert "500 unreadable" in text and "... and 490 more" in text and len(text) < 2000
    assert not (tmp_path / "tuning.db").exists()


def test_files_that_are_something_else_are_one_message(path, tmp_path, capsys):
    words = ["--database", str(tmp_path / "new.db")]
    assert main(["db", "import", str(path), *words]) == 1
    err = capsys.readouterr().err
    assert "is a database, not an export: write one with `tensorir db export" in err
    assert len(err.splitlines()) == 1
    for head, text in ((b"\x1f\x8b\x08", "compressed"), (b"\xff\xfe{", "UTF-16")):
        (tmp_path / "x").write_bytes(head)
        assert main(["db", "import", str(tmp_path / "x"), *words]) == 1
        assert text in capsys.readouterr().err
    assert not (tmp_path / "new.db").exists()


def test_looking_never_changes_a_foreign_file(tmp_path, capsys):
    path = tmp_path / "cookies.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE moz_cookies (id, value)")
    connection.close()
    before = state(tmp_path)
    words = ["--database", str(path)]
    matmul = ["matmul", "--shape", "m=8", "n=8", "k=8"]
    for action in (
        ["db", "list"], ["db", "stats"], ["db", "check"], ["db", "repair"], ["db", "prune"],
        ["report"], ["best", *matmul], ["tune", *matmul, "--trials", "1", "--quiet"],
    ):  # fmt: skip
        assert main([*action, *words]) == 1
        assert "a file of another program, with the tables moz_cookies" in capsys.readouterr().err
    with pytest.raises(DatabaseError, match="another program"):
        Database(path)
    assert state(tmp_path) == before


def test_looking_changes_nothing(path, capsys):
    before = state(path.parent)
    words = ["--database", str(path)]
    for action in (["db", "list"], ["db", "sessions"], ["db", "check"], ["report"]):
        assert main([*action, *words]) == 0
    with Database(path) as db:
        assert db.records() and db.sessions() and db.best(WORKLOAD, "c", "m")
        assert state(path.parent) == before
    assert state(path.parent) == before


def test_a_database_is_made_by_its_first_record(tmp_path):
    path = tmp_path / "folder" / "tuning.db"
    with Database(path) as db:
        assert db.records() == [] and db.best(WORKLOAD, "c", "m") is None
        assert not path.parent.exists()
        db.add(record())
        assert path.exists() and len(db.records()) == 1


@pytest.mark.parametrize("kind", ["new", "old", "old with a log"])
def test_what_cannot_be_written_can_be_read(kind, capsys):
    with read_only() as folder:
        path = folder / "tuning.db"
        trials = [record(i) for i in range(3)]
        if kind == "new":
            with Database(path) as db:
                db.add_many(trials)
        else:
            first_version(path, trials)
        if kind == "old with a log":
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("DELETE FROM records WHERE rowid = 1")
            connection.commit()
            log = path.with_name("tuning.db-wal").read_bytes()
            connection.close()
            path.with_name("tuning.db-wal").write_bytes(log)
        with Database(path) as db:  # imports what it needs while it can
            expected = [r.trial for r in db.records()]
        with frozen(folder):
            with Database(path) as db:
                assert [r.trial for r in db.records()] == expected
                assert len(expected) == (2 if kind == "old with a log" else 3)
                with pytest.raises(DatabaseError, match="choose a file in a local folder"):
                    db.add(record(9))
                assert [r.trial for r in db.records()] == expected


def test_a_tune_that_has_nothing_to_measure_only_reads(pretended):
    from test_conditions import scaled

    from autotune import tune

    with read_only() as folder:
        path = folder / "tuning.db"
        options = {"database": path, "settings": BRIEF, "progress": False}
        first = tune(scaled(), trials=2, **options)
        assert tune(scaled(), trials=2, **options).from_database
        with frozen(folder):
            assert tune(scaled(), trials=2, **options).record == first.record
            with pytest.raises(DatabaseError, match="choose a file in a local folder"):
                tune(scaled(), trials=3, **options)


def test_a_journal_that_a_killed_writer_left(path):
    """SQLite would roll back in the file; looking does so in a copy."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE records SET payload = 'lost', believed = 0")
    connection.execute("PRAGMA cache_spill = 1")
    journal, data = path.with_name("tuning.db-journal").read_bytes(), path.read_bytes()
    connection.execute("ROLLBACK")
    connection.close()
    path.write_bytes(data)
    path.with_name("tuning.db-journal").write_bytes(journal)
    before = state(path.parent)
    with Database(path) as db:
        assert [r.trial for r in db.records()] == list(range(20))
    assert state(path.parent) == before


def test_exports_go_through_links_and_to_standard_output(path, tmp_path, capsys, monkeypatch):
    words = ["--database", str(path)]
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "file.jsonl", tmp_path / "link.jsonl"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    assert main(["db", "export", str(link), *words]) == 0
    assert link.is_symlink() and len(target.read_text().splitlines()) == 20
    assert target.stat().st_mode & 0o777 == 0o600
    capsys.readouterr()
    assert main(["db", "export", "-", *words]) == 0
    out, err = capsys.readouterr()
    assert out == target.read_text() and "wrote 20 records" in err
    assert not (tmp_path / "-").exists()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(out.encode())))
    assert main(["db", "import", "-", "--database", str(tmp_path / "new.db")]) == 0
    assert "20 added" in capsys.readouterr().out
    assert main(["db", "export", "/dev/null", *words]) == 0
    assert not os.path.isfile("/dev/null")


def test_a_clock_that_is_set_back_reorders_nothing(tmp_path):
    times = ["2026-03-01", "2026-01-01", "2026-02-01"]
    made = [record(i, time=t, session=f"s{i}") for i, t in enumerate(times)]
    with Database(tmp_path / "a.db") as db:
        for each in made:
            db.add(each)
        assert [r.trial for r in db.records()] == [0, 1, 2]
        assert [s.session for s in db.sessions()] == ["s0", "s1", "s2"]
        db.export_jsonl(tmp_path / "a.jsonl")
    with Database(tmp_path / "b.db") as db:
        db.add(record(7, time="2025-01-01"))
        db.import_jsonl(tmp_path / "a.jsonl")
        assert [r.trial for r in db.records()] == [7, 0, 1, 2]
        assert [s.session for s in db.sessions()] == ["s", "s0", "s1", "s2"]


def test_records_are_written_with_what_can_be_written():
    made = record(error="gcc said \udc80", machine={"cpu": "\ud800"}, decisions=["\udfff"])
    assert Record.from_json(made.to_json()) == made
    assert made.error == "gcc said \\udc80"
