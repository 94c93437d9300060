"""What is no argument of the tuner is refused with one sentence, before anything is done."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune import Database, MeasureSettings, default_schedule, tune
from autotune.cli import main
from autotune.errors import MeasureError
from schedule import Schedule
from tensorir import TensorIRError, te
from tests.brief import BRIEF

pytestmark = pytest.mark.usefixtures("pretended")


def scaled(n=64):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    return te.create_prim_func([a, b], name="scaled")


NAN = float("nan")
WRONG = [
    (
        "trials",
        [2.5, "8", True, 0, -1, NAN, [8]],
        "trials must be (an integer|at least 1), not",
    ),
    ("seed", [1.5, "1", None, -1, 2**40, True], "seed must be (an integer|from 0 to 42.*), not"),
    ("target", [None, 5, "", b"c", ["c"]], "is not a target"),
    ("numerics", [None, 5, ["mixed"], "Mixed"], "unknown numerics"),
    ("strategy", [None, 5, ["random"], "luck"], "unknown strategy"),
    ("cost_model", [None, 5, ["auto"], "crystal"], "cost_model|unknown cost model"),
    ("settings", [{}, 5, "fast", MeasureSettings], "settings must be MeasureSettings"),
    ("sizes", [5, "n", [("n", 1)], ("n",)], "sizes must be a mapping such as"),
    ("sizes", [{"m": 4}, {5: 4}], "sizes has .*, which is no symbolic size; it has none"),
    ("constants", [5, None], "constants must be a collection of names"),
    ("constants", ["A", ("X",), [5], ("B",)], "constant"),
    ("database", [5, [], 2.5, b"x.db", "", "a\0b"], "database must be a Database, the path"),
    ("progress", [1, "yes", 0.0], "progress must be True, False or None, not"),
    (
        "seconds",
        ["60", NAN, [], True, -1, -math.inf],
        "seconds must (be a number|not be negat)",
    ),
    (
        "until",
        ["", "never", 5, "0% of roofline", "101% of roofline", "95 % of peak", True, []],
        "until is .*; it is 'converged', or a share such as '95% of roofline'",
    ),
]


@pytest.mark.parametrize(("name", "values", "message"), WRONG)
def test_arguments_of_tune(name, values, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in values:
        with pytest.raises(TensorIRError, match=message) as caught:
            tune(scaled(), **{"database": "new.db", "progress": False, name: value})
        assert len(str(caught.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("func", [None, 5, "scaled", [], te.placeholder((4,), name="A")])
def test_what_is_tuned_is_a_program(func):
    for call in (lambda: tune(func, database=None), lambda: default_schedule(func)):
        with pytest.raises(TensorIRError, match=r"must be a PrimFunc, not .*create_prim_func"):
            call()
    with pytest.raises(TensorIRError, match="must be a PrimFunc.*give the program before sched"):
        tune(Schedule(scaled()), database=None)


def test_sizes_of_a_symbolic_program():
    func = scaled(te.var("n"))
    for sizes in ({"n": 2.5}, {"n": "8"}, {"n": -1}, {"n": None}, {"n": True}):
        with pytest.raises(
            TensorIRError, match=r"sizes\['n'\] must be (an integer|at least 0), not"
        ):
            tune(func, sizes=sizes, database=None)
    with pytest.raises(TensorIRError, match="sizes has 'm', .* those of 'scaled' are n"):
        tune(func, sizes={"n": 8, "m": 8}, database=None)


def test_numbers_of_numpy_are_numbers(tmp_path):
    func, path = scaled(te.var("n")), tmp_path / "tuning.db"
    result = tune(
        func, trials=np.int64(1), seed=np.uint8(3), sizes={"n": np.int32(16)}, database=path,
        seconds=np.float32(60), progress=False,
        settings=replace(BRIEF, repeats=np.int64(2), min_ms=np.float32(0.5)),
    )  # fmt: skip
    assert result.trials == 1
    with Database(Path(path)) as db:
        assert {type(r.seed) for r in db.records()} == {int}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("repeats", [0, 2.5, None, "5", True]),
        ("restart_every", [0, -3, 1.0]),
        ("threads", [0, -1, 1.5, "2", False]),
        ("build_jobs", [0, 1.5, "2"]),
        ("seed", [-1, 1.5, 2**40, None]),
        ("min_ms", [-1, NAN, None, "10"]),
        ("timeout_s", [0, -1.0, NAN, None]),
        ("build_timeout_s", [0, NAN, "60"]),
        ("memory_gib", [0, -1, NAN, "2"]),
        ("prune_factor", [1, 0.5, NAN, None]),
    ],
)
def test_settings(name, values):
    for value in values:
        with pytest.raises(MeasureError, match=f"{name} must (not )?be .*, not "):
            MeasureSettings(**{name: value})


@pytest.mark.parametrize(
    "words",
    [
        "tune matmul --trials 2.5", "tune matmul --trials 0", "tune matmul --more -1",
        "tune matmul --seed -1", "tune matmul --seed 1e3", "tune matmul --seconds nan",
        "tune matmul --seconds -5", "tune matmul --shape m=2.5", "tune matmul --shape m",
        "tune matmul --numerics exact", "tune matmul --strategy luck", "report --limit -3",
        "db prune --keep -1", "db delete --row x", "demo --trials 0", "demo --trials 2.5",
        "demo --time-limit nan", "demo --seed -1",
    ],
)  # fmt: skip
def test_the_command_line(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        status = main(words.split())
    except SystemExit as stop:  # of a parser that the entry of the command line does not catch
        status = stop.code
    told = capsys.readouterr().err
    assert status == 2 and "error: " in told and "Traceback" not in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda db: Database(5), "path must be that of a file, not 5 of type int"),
        (lambda db: Database(None), "path must be that of a file"),
        (lambda db: Database(b"x.db"), "path must be that of a file"),
        (lambda db: Database("a\0b"), "path must be that of a file"),
        (lambda db: db.records(limit=-1), "limit must be at least 0, not -1"),
        (lambda db: db.records(limit=2.5), "limit must be an integer, not 2.5"),
        (lambda db: db.records(workload=5), "workload must be a Workload or its key, not 5"),
        (lambda db: db.records(target=5), "target must be a Target or its text"),
        (lambda db: db.records(conditions=5), r"conditions must be Conditions"),
        (lambda db: db.records(session=5), "session must be a text"),
        (lambda db: db.records(status="fine"), "unknown status 'fine'; known are ok, build_error"),
        (lambda db: db.best("w", "c", 5), "machine must be a Machine or its key"),
        (lambda db: db.best("w", "c", "m", 5), "unknown numerics 5"),
        (lambda db: db.count_trials(None, 5, "m"), "target must be a Target"),
        (lambda db: db.prune(keep="3"), "keep must be an integer, not '3'"),
        (lambda db: db.prune(keep=-1), "keep must be at least 0, not -1"),
        (lambda db: db.delete("abc"), "ids must be a list of ids, not 'abc' of type str"),
        (lambda db: db.delete(rows=3), "rows must be a list of rows"),
        (lambda db: db.add(5), "what is added must be a Record, not 5 of type int"),
        (lambda db: db.add_many(5), "records must be Records, not 5"),
        (lambda db: db.export_jsonl(5), "path must be that of a file"),
        (lambda db: db.import_jsonl(5), "path must be that of a file"),
        (lambda db: db.salvage_to(""), "path must be that of a file"),
    ],
)
def test_arguments_of_a_database(call, message):
    with Database(":memory:") as db, pytest.raises(TensorIRError, match=message):
        call(db)
