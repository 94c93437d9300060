"""The database answers exactly what was asked, explains misses, and loses nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from autotune.database.conditions import Conditions
from autotune.database.database import Database
from autotune.database.records import Record, Verdict, Workload
from autotune.database.storage import VERSION, file_system
from autotune.errors import DatabaseError
from autotune.machine.machine import this_machine
from tensorir import NUMERICS, TensorIRError

FOUR = Workload("key4", "structure", "scale", "text", (("A", (8, 4), "float32"),))
FIVE = Workload("key5", "structure", "scale", "text", (("A", (8, 5), "float32"),))
OTHER = Workload("other", "elsewhere", "copy", "text", (("A", (8,), "float32"),))
CHECKED = Verdict(True, 0.0, 0.0)


def record(median=1.0, **changes) -> Record:
    values = {
        "workload": FOUR, "target": "c", "machine_key": "m", "status": "ok", "median": median,
        "times": (median,) if median else (), "verdict": CHECKED, "session": "s",
        "conditions": Conditions.here("c"),
    }  # fmt: skip
    return Record(**{**values, **changes})


@pytest.fixture
def db(tmp_path):
    with Database(tmp_path / "logs" / "tuning.db") as database:
        yield database


def test_best_is_the_fastest_believed(db):
    best = record(2.0, trial=3)
    db.add_many([
        record(3.0, trial=1),
        record(1.0, trial=2, verdict=Verdict()),
        best,
        record(0.5, trial=4, status="pruned"),
        record(None, trial=5, status="crash", error="SIGSEGV"),
    ])  # fmt: skip
    assert db.best(FOUR, "c", "m") == best
    assert db.best("key4", "c", "m") == best
    assert db.count_trials(FOUR, "c", "m") == 5


@pytest.mark.parametrize(
    "query", [(FIVE, "c", "m"), (FOUR, "c -threads=2", "m"), (FOUR, "c", "other machine")]
)
def test_never_a_record_of_something_else(db, query):
    db.add(record())
    assert db.best(*query) is None
    assert db.count_trials(*query) == 0


def test_numerics_bounds(db):
    db.add_many([
        record(3.0, numerics="bitwise"),
        record(2.0, numerics="reassociated"),
        record(1.5, numerics="algebraic"),
        record(1.0, numerics="mixed"),
    ])  # fmt: skip
    medians = [db.best(FOUR, "c", "m", n).median for n in (*NUMERICS, None)]
    assert medians == [3.0, 2.0, 1.5, 1.0, 1.0]
    with pytest.raises(TensorIRError, match="unknown numerics 'fuzzy'"):
        db.best(FOUR, "c", "m", "fuzzy")


def test_adding_again_changes_nothing(db):
    db.add(record(trial=1))
    assert db.add_many([record(trial=1, time=db.records()[0].time), record(trial=2)]) == 1
    assert [r.trial for r in db.records()] == [1, 2]


def test_records_by_column_in_stored_order(db):
    db.add_many([
        record(time="2026-01-02", trial=1, session="t"),
        record(time="2026-01-01", trial=2),
        record(None, time="2026-01-03", trial=3, status="build_error", error="gcc said no"),
        record(time="2026-01-04", trial=4, workload=FIVE, target="cuda", machine_key="n"),
    ])  # fmt: skip
    trials = lambda **q: [r.trial for r in db.records(**q)]  # noqa: E731
    assert trials() == [1, 2, 3, 4]
    assert trials(limit=2) == [1, 2]
    assert trials(workload=FOUR) == [1, 2, 3]
    assert trials(target="cuda") == trials(machine="n") == [4]
    assert trials(status="ok", workload="key4") == [1, 2]
    assert trials(session="t") == [1]
    assert trials(structure="structure") == [1, 2, 3, 4]
    assert db.records(status="build_error")[0].error == "gcc said no"


def test_sessions_and_stats(db):
    db.add_many([
        record(session="b", time="2026-01-02", trial=1),
        record(session="a", time="2026-01-03", trial=1),
        record(None, session="b", time="2026-01-04", trial=2, status="crash", workload=OTHER),
    ])  # fmt: skip
    first, second = db.sessions()
    assert (first.session, first.trials, first.ok) == ("b", 2, 1)
    assert set(first.names) == {"scale", "copy"} and first.ended == "2026-01-04"
    assert second.session == "a"
    assert db.stats() == {
        "records": 3, "workloads": 2, "targets": 1, "machines": 1, "sessions": 2,
        "status": {"crash": 1, "ok": 2},
    }  # fmt: skip


def test_prune_keeps_the_fastest_of_each(db):
    db.add_many([record(float(i), trial=i) for i in range(1, 6)])
    db.add_many([record(9.0, workload=FIVE), record(9.0, numerics="mixed")])
    db.add(record(None, status="crash"))
    assert db.prune(keep=2) == 4
    assert sorted(r.median for r in db.records()) == [1.0, 2.0, 9.0, 9.0]
    with pytest.raises(DatabaseError, match="not -1"):
        db.prune(-1)


HERE = this_machine()
THERE = {**HERE.to_json(), "cpu": "Abacus 1000"}


@pytest.mark.parametrize(
    "stored, workload, message",
    [
        ([], FOUR, "is empty"),
        ([{"workload": OTHER}], "key4", "none of 1 record is of workload 'key4'"),
        ([{"workload": OTHER}], FOUR, "computes what 'scale' computes, in any shape"),
        ([{"workload": FIVE}], FOUR, r"other shapes: A\[8, 5\] in 'scale', not A\[8, 4\]"),
        ([{"target": "cuda"}], FOUR, "differs in target .target is cuda there and c here"),
        ([{"machine_key": "m", "machine": THERE}], FOUR, "machine cpu is Abacus 1000 there"),
        ([{"machine_key": "m", "target": "q"}], FOUR, "differs in machine and target"),
        (
            [{"status": "crash", "trial": 1}, {"status": "crash"}, {"status": "build_error"}],
            FOUR,
            "3 trials of exactly this, and none succeeded: 2 crash, 1 build_error",
        ),
        ([{"verdict": Verdict()}], FOUR, "1 trials of exactly this succeeded, but no result was"),
        ([{"numerics": "mixed"}], FOUR, "with numerics mixed"),
    ],
)
def test_explain_miss(db, stored, workload, message):
    db.add_many([record(**{"machine_key": HERE.key, **changes}) for changes in stored])
    import re

    assert re.search(message, db.explain_miss(workload, "c", HERE))


def test_export_and_import_are_inverse_and_idempotent(db, tmp_path):
    db.add_many([record(float(i), trial=i) for i in range(1, 4)])
    assert db.export_jsonl(tmp_path / "all.jsonl") == 3
    with Database(tmp_path / "second.db") as other:
        report = other.import_jsonl(tmp_path / "all.jsonl")
        assert (report.added, report.known, report.problems) == (3, 0, ())
        assert other.records() == db.records()
        again = other.import_jsonl(tmp_path / "all.jsonl")
        assert (again.added, again.known) == (0, 3)
    with open(tmp_path / "all.jsonl", "a") as file:
        file.write('{"torn')
    assert "line 4: not JSON" in str(db.import_jsonl(tmp_path / "all.jsonl"))


def test_export_of_the_best(db, tmp_path):
    db.add_many([record(2.0), record(1.0), record(3.0, workload=FIVE), record(9.0, target="q")])
    db.add(record(0.1, verdict=Verdict()))
    assert db.export_jsonl(tmp_path / "best.jsonl", best_only=True) == 3
    with Database(tmp_path / "second.db") as other:
        other.import_jsonl(tmp_path / "best.jsonl")
        assert sorted(r.median for r in other.records()) == [1.0, 3.0, 9.0]


def test_add_many_is_all_or_nothing(db):
    def some():
        yield record()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        db.add_many(some())
    assert db.records() == []


WRITER = """
import sys
from autotune.database.conditions import Conditions
from autotune.database.database import Database
from autotune.database.records import Record, Verdict, Workload
workload = Workload("key4", "structure", "scale", "text", ())
db = Database(sys.argv[1])
for trial in range(int(sys.argv[3])):
    db.add(Record(workload, "c", "m", "ok", median=1.0, verdict=Verdict(True),
                  session=sys.argv[2], trial=trial))
    print(trial, flush=True)
"""


def writer(path: Path, session: str, count: int) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", WRITER, str(path), session, str(count)]
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_several_processes_write_at_once(tmp_path):
    path = tmp_path / "new.db"
    writers = [writer(path, f"s{i}", 40) for i in range(4)]
    for each in writers:
        _, errors = each.communicate(timeout=60)
        assert each.returncode == 0, errors
    with Database(path) as db:
        assert {s.session: s.trials for s in db.sessions()} == {f"s{i}": 40 for i in range(4)}


def test_a_killed_writer_loses_no_finished_trial(tmp_path):
    path = tmp_path / "killed.db"
    victim = writer(path, "s", 100000)
    for line in victim.stdout:
        if int(line) == 20:
            victim.send_signal(signal.SIGKILL)
            break
    victim.communicate()
    with Database(path) as db:
        trials = [r.trial for r in db.records()]
    assert len(trials) > 20 and trials == list(range(len(trials)))


def test_threads_share_a_database(db):
    def work(name: str) -> None:
        for trial in range(20):
            db.add(record(session=name, trial=trial))

    threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db.stats()["records"] == 80


def test_a_newer_file_is_refused(tmp_path):
    path = tmp_path / "new.db"
    with Database(path) as db:
        db.add(record())
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    with pytest.raises(DatabaseError, match=f"has version {VERSION + 1}.*update the project"):
        Database(path)


def test_unusable_places(tmp_path):
    with pytest.raises(DatabaseError, match="is a folder: name a file in it"):
        Database(tmp_path)
    (tmp_path / "file").write_text("x" * 4096)
    with pytest.raises(DatabaseError, match="cannot create the folder .* you can write to"):
        Database(tmp_path / "file" / "tuning.db")
    with pytest.raises(DatabaseError, match="is no tuning database.*: move it away"):
        Database(tmp_path / "file")


@pytest.mark.parametrize("others", [False, True], ids=["the file alone", "all that is beside it"])
def test_a_file_that_is_removed_while_it_is_in_use(tmp_path, others):
    """What is added later is lost for nobody in silence."""
    path = tmp_path / "own" / "tuning.db"
    with Database(path) as db:
        db.add(record(1.0))
        for file in list(path.parent.iterdir()) if others else [path]:
            file.unlink()
        with pytest.raises(DatabaseError, match="was removed or moved while it was in use: put it"):
            db.add(record(2.0))
    assert not path.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere")
def test_read_only_folder(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(DatabaseError, match="choose a file in a local folder you can write to"):
        Database(tmp_path / "tuning.db")


def test_network_file_systems_are_recognised(tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nhost:/x {tmp_path} nfs4 rw 0 0\n")
    assert file_system(tmp_path, mounts) == "nfs4"
    assert file_system(tmp_path.parent, mounts) == "ext4"
    assert file_system(tmp_path, tmp_path / "none") == ""
    monkeypatch.setattr("autotune.database.storage.file_system", lambda folder: "nfs4")
    with pytest.raises(DatabaseError, match="network file system .nfs4.*export_jsonl"):
        Database(tmp_path / "tuning.db")


def test_a_database_in_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Database(":memory:") as db:
        db.add(record())
        assert db.best(FOUR, "c", "m") is not None
    assert not list(tmp_path.iterdir())


def test_a_closed_database(db):
    db.close()
    with pytest.raises(DatabaseError, match="is closed"):
        db.records()


@pytest.mark.parametrize("name", [b"a ?b#c%41", "é".encode(), b"no text \xff"])
def test_folders_may_have_any_name(tmp_path, name):
    """SQLite takes it as part of an address; that of the last one is no text in any encoding."""
    path = tmp_path / os.fsdecode(name) / "tuning.db"
    with Database(path) as db:
        db.add(record(1.0))
    with Database(path) as db:
        assert len(db.records()) == 1
    assert path.exists()
