"""What decides a time is part of the question, and an answer says what it does not know."""

from __future__ import annotations

import dataclasses
import json

import pytest

from autotune import Database, tune
from autotune.cli import main
from autotune.database.conditions import Conditions
from autotune.database.record_json import content_id
from autotune.database.records import Record, Verdict, Workload
from autotune.machine.machine import this_machine
from autotune.tuning.replay import candidate_of
from backends import host_threads, resolve
from tensorir import te
from tests.brief import BRIEF

HERE = Conditions.here("c")
pytestmark = pytest.mark.usefixtures("all_pretended")
OTHER = {
    "sizes": {"n": 2048}, "threads": 77, "compiler": "cc 1", "flags": "-O0", "caches": "cold",
}  # fmt: skip


def rows():
    """A program with a symbolic size."""
    n = te.var("n")
    a = te.placeholder((n, 8), name="A")
    return te.create_prim_func(
        [a, te.compute((n, 8), lambda i, j: a[i, j] * 2.0, name="B")], name="rows"
    )


def scaled(name: str = "scaled"):
    a = te.placeholder((8, 24), name="A")
    b = te.compute((8, 24), lambda i, j: a[i, j] * 2.0, name="B")
    return te.create_prim_func([a, b], name=name)


def record(**changes) -> Record:
    values = {
        "workload": Workload.of(scaled()), "target": "c", "machine_key": "m", "status": "ok",
        "median": 1.0, "verdict": Verdict(True), "conditions": HERE,
    }  # fmt: skip
    return Record(**{**values, **changes})


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Conditions)])
@pytest.mark.parametrize("known", [True, False])
def test_every_condition_is_part_of_the_key(field, known):
    other = dataclasses.replace(HERE, **{field: OTHER[field] if known else None})
    workload = Workload.of(scaled())
    with Database(":memory:") as db:
        db.add(record(conditions=other))
        assert db.best(workload, "c", "m") is None
        assert db.count_trials(workload, "c", "m") == 0
        assert list(db.ranked(workload, "c", "m")) == []
        miss = db.miss(workload, "c", "m")
        assert [f.name for f in miss.differences] == [field]
        assert f"differs in {field}" in miss.text
        db.add(record())
        assert db.best(workload, "c", "m").conditions == HERE
        if known:
            assert db.best(workload, "c", "m", conditions=other).conditions == other


def test_what_is_not_known_equals_nothing():
    nothing = dataclasses.replace(HERE, threads=None)
    with Database(":memory:") as db:
        db.add(record(conditions=nothing))
        assert db.best(Workload.of(scaled()), "c", "m", conditions=nothing) is None


def test_prune_and_the_export_of_the_best_keep_one_of_each(tmp_path):
    kinds = [dataclasses.replace(HERE, sizes={"n": n}) for n in (1, 2)]
    with Database(":memory:") as db:
        db.add_many([record(conditions=c, median=t) for c in kinds for t in (1.0, 2.0)])
        assert db.export_jsonl(tmp_path / "best.jsonl", best_only=True) == 2
        assert db.prune(keep=1) == 2
        assert sorted(r.conditions.sizes["n"] for r in db.records()) == [1, 2]


@pytest.mark.parametrize(
    ("target", "settings", "variable", "threads"),
    [
        ("c -threads=3", None, "5", 3),
        ("c -threads=3", 4, "5", 3),
        ("c", 4, "5", 4),
        ("c", None, "5", 5),
        ("c", None, "6,2", 6),
        ("c", None, "", host_threads()),
        ("c", None, "many", host_threads()),
    ],
)
def test_threads(monkeypatch, target, settings, variable, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert Conditions.here(target, threads=settings).threads == threads


def test_the_first_format_knows_less():
    """Records of schema 1 are read, keep their ids, and are exact where they can be."""
    data = record(
        settings={"threads": 2}, toolchain={"compiler": {"version": "gcc 12", "flags": ["-O2"]}}
    ).to_json()
    del data["conditions"], data["rules"]
    data["schema"] = 1
    data["id"] = content_id(data)
    old = Record.from_json(data)
    assert old.to_json() == data
    assert old.conditions == Conditions({}, 2, "gcc 12", "-O2", "warm")
    data["workload"]["shapes"][0][1][0] = "n"
    data["id"] = content_id(data)
    assert Record.from_json(data).conditions.sizes is None


def test_another_size_is_measured():
    with Database(":memory:") as db:
        options = {"trials": 2, "database": db, "settings": BRIEF, "progress": False}
        first = tune(rows(), sizes={"n": 16}, **options)
        second = tune(rows(), sizes={"n": 40}, **options)
        assert second.measured == 2 and second.record.conditions.sizes == {"n": 40}
        again = tune(rows(), sizes={"n": 16}, **options)
        assert again.from_database and again.record == first.record


@pytest.fixture(scope="module")
def stored_trials():
    """What tuning leaves in a database."""
    with Database(":memory:") as db:
        tune(scaled(), trials=2, database=db, settings=BRIEF, progress=False)
        return db.records()


@pytest.fixture
def tuned_again(stored_trials):
    """tune in a database that has the answer, a change of the world, and tune again."""

    def tuned(change, **changed):
        with Database(":memory:") as db:
            db.add_many(stored_trials)
            options = {"trials": 2, "database": db, "settings": BRIEF, "progress": False}
            assert tune(scaled(), **options).from_database
            change(db)
            return tune(scaled(), **{**options, **changed}), db.records()

    return tuned


def test_another_number_of_threads_is_measured(tuned_again):
    one = dataclasses.replace(BRIEF, threads=1)
    second, _ = tuned_again(lambda db: None, settings=one)
    assert second.measured == 2 and second.record.conditions.threads == 1


def test_another_compiler_is_measured(monkeypatch, tuned_again):
    info = {"version": "gcc 99", "flags": ["-O2"]}

    def change(db):
        monkeypatch.setattr("autotune.database.conditions.compiler_info", lambda target: info)

    second, _ = tuned_again(change)
    assert second.measured == 2 and second.record.conditions.compiler == "gcc 99"


def test_trials_of_other_rules_are_remembered_and_do_not_count(monkeypatch, tuned_again):
    def change(db):
        monkeypatch.setattr("autotune.tuning.session.outline", lambda space, target: "other rules")

    second, records = tuned_again(change)
    assert second.trials == second.measured == 2
    trials = [candidate_of(r) for r in records if not r.is_final]
    assert len(set(trials)) == len(trials) == 4


def test_a_schedule_that_makes_other_code_now_is_timed_again(tuned_again):
    def change(db):
        stale = [r.with_(source_hash="of another version") for r in db.records()]
        db.delete([r.id for r in db.records()])
        db.add_many(stale)

    second, records = tuned_again(change)
    assert second.measured == 0 and second.record.is_final
    assert second.record.source_hash != "of another version"
    raced = [r for r in records if r.is_final and r.source_hash != "of another version"]
    checked = [r for r in records if not r.is_final and r.source_hash == raced[0].source_hash]
    assert checked and checked[0].verdict.checked


def test_trials_of_another_class_of_numerics_do_not_count():
    x, w = te.placeholder((2, 64), name="x"), te.placeholder((3, 64), name="w")
    r = te.reduce_axis(64, name="k")
    y = te.compute((2, 3), lambda i, j: te.sum(x[i, r] * w[j, r], axis=r), name="y")
    func = te.create_prim_func([x, w, y], name="rows")
    with Database(":memory:") as db:
        options = {"trials": 3, "database": db, "settings": BRIEF, "progress": False}
        tune(func, **options)
        bitwise = tune(func, numerics="bitwise", **options)
    assert bitwise.trials == 3 and bitwise.measured > 0


def test_the_name_of_the_program_is_no_part_of_the_code(stored_trials):
    with Database(":memory:") as db:
        db.add_many(stored_trials)
        again = tune(scaled("other"), trials=2, database=db, settings=BRIEF, progress=False)
        assert again.from_database


def test_explain_shows_what_differs_side_by_side(tmp_path, capsys):
    from autotune.examples import make_example

    path = str(tmp_path / "tuning.db")
    workload = Workload.of(make_example("matmul", {"m": 16, "n": 16, "k": 16}))
    with Database(path) as db:
        db.add(
            record(
                workload=workload, target=str(resolve("c")), machine_key=this_machine().key,
                conditions=dataclasses.replace(HERE, threads=77),
            )
        )  # fmt: skip
    words = ["db", "explain", "matmul", "--shape", "m=16", "n=16", "k=16", "--database", path]
    assert main(words) == 1
    lines = capsys.readouterr().out.splitlines()
    marked = [line.split() for line in lines if line.startswith("!=")]
    assert marked == [["!=", "threads", str(HERE.threads), "77"]]
    unmarked = [line.split()[0] for line in lines[4:] if line and not line.startswith("!=")]
    assert {"machine", "target", "sizes", "compiler", "flags"} <= set(unmarked)
    json.dumps(lines)
