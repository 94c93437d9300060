"""What a search is expected to reach: by the nearest record and the work, or by the estimate."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from made import record

from autotune import tune
from autotune.cli import main
from autotune.database import shipped
from autotune.database.conditions import Conditions
from autotune.database.database import Database
from autotune.database.jsonl import write_records
from autotune.database.records import Workload
from autotune.examples import make_example
from autotune.machine.machine import this_machine
from autotune.tuning.expect import expected, expected_by_records
from autotune.tuning.options import Options
from autotune.tuning.session import start_session
from backends import resolve
from tensorir import te
from tests.brief import BRIEF

pytestmark = pytest.mark.usefixtures("pretended")

HERE = this_machine()
TARGET = str(resolve("c"))


@pytest.fixture(autouse=True)
def nothing_ships(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "tuning_logs")
    shipped.FOLDER.mkdir()
    return shipped.FOLDER


def matmul(m: int):
    return make_example("matmul", {"m": m, "n": 16, "k": 16})


def stored(func, median: float, **changes: object):
    facts = {"machine": HERE.to_json(), "machine_key": HERE.key, "target": TARGET}
    return record(workload=Workload.of(func), median=median, **{**facts, **changes})


def asked(db: Database, func, conditions: Conditions | None = None):
    found = conditions or Conditions.here(TARGET)
    return expected_by_records(db, Workload.of(func), TARGET, HERE, found)


def test_the_nearest_time_by_the_work():
    with Database(":memory:") as db:
        assert asked(db, matmul(64)) is None
        db.add_many([stored(matmul(128), 4e-3), stored(matmul(1024), 1.0)])
        found = asked(db, matmul(64))
        assert found.seconds == pytest.approx(2e-3)
        assert str(found) == "about 2 ms, by the record of matmul 128x16, 16x16, 128x16"


def test_bytes_where_nothing_is_computed_and_symbolic_sizes():
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    copy = te.create_prim_func([a, te.compute((n,), lambda i: a[i], name="b")])
    with Database(":memory:") as db:
        db.add(stored(copy, 1e-3, conditions=Conditions.here(TARGET, {"n": 100})))
        found = asked(db, copy, Conditions.here(TARGET, {"n": 300}))
        assert found.seconds == pytest.approx(3e-3)


def test_what_ships_counts_and_damage_of_it_does_no_harm(nothing_ships):
    path = nothing_ships / "made.jsonl"
    far = {**HERE.to_json(), "caches": {"L2": 1}}
    write_records(path, [stored(matmul(128), 4e-3, machine=far, machine_key="far")])
    with Database(":memory:") as db:
        assert str(asked(db, matmul(64))).endswith("128x16; ships; another caches")
        path.write_text(path.read_text().replace("128", "129"))
        assert asked(db, matmul(64)) is None


def test_the_estimate_where_there_is_no_record():
    found = {
        expected(start_session(matmul(64), "c", Database(":memory:"), 0, Options(cost_model=name)))
        for name in ("auto", "random")  # whatever proposes candidates
    }
    assert [each.source for each in found] == ["the estimate for the default schedule"]
    assert 0 < found.pop().seconds < 1e-3


def test_the_result_says_what_was_expected(tmp_path, capsys):
    with Database(tmp_path / "t.db") as db:
        db.add(stored(matmul(32), 4e-3))
        result = tune(matmul(16), trials=1, database=db, settings=BRIEF, progress=False)
        assert result.expectation.seconds == pytest.approx(2e-3)
        again = tune(matmul(16), trials=1, database=db, settings=BRIEF, progress=False)
        assert again.expectation is None, "what was measured is known"
    words = ["matmul", "--shape", "m=64", "n=16", "k=16", "--database", str(tmp_path / "t.db")]
    assert main(["db", "explain", *words]) == 1
    assert "expected: about 8 ms, by the record of matmul 32x16" in capsys.readouterr().out
