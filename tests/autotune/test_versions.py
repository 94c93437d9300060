"""Trials of other versions of the project: skipped with a word, and never in the way."""

from __future__ import annotations

import pytest

from autotune import Database, tune
from autotune.cli import main
from autotune.database.ranking import outcome
from autotune.examples import make_example
from autotune.tuning.options import Options
from autotune.tuning.session import start_session
from tests.brief import BRIEF

MATMUL = ["matmul", "--shape", "m=16", "n=16", "k=16"]
FUNC = make_example("matmul", {"m": 16, "n": 16, "k": 16})
pytestmark = pytest.mark.usefixtures("all_pretended")

OTHERS = {
    "a renamed primitive": {"trace": [["slice_it", ["i"], ["i_0"]]], "sketch": "gone"},
    "a trace of another form": {"trace": ["split", 7, None, {"a": 1}], "sketch": "gone"},
    "a renamed sketch": {"sketch": "gone"},
    "another number of choices": {"decisions": [1]},
    "another form of choices": {"decisions": [{"tile": 4}] * 3},
    "choices that are no list": {"decisions": {"tile": [4, 4]}},
    "choices that are a text": {"decisions": "[4, 4]"},
    "no decisions": {"decisions": None},
    "no sketch": {"sketch": ""},
}


@pytest.fixture(scope="module")
def trials():
    with Database(":memory:") as db:
        tune(FUNC, trials=2, database=db, settings=BRIEF, progress=False)
        return db.records()


@pytest.mark.parametrize("kind", OTHERS)
def test_they_are_skipped(trials, kind, tmp_path, capsys):
    path = str(tmp_path / "tuning.db")
    with Database(path) as db:
        db.add_many([trials[0].with_(median=1e-9, session="other", **OTHERS[kind]), *trials])
        session = start_session(FUNC, "c", db, 0, Options(numerics="mixed", settings=BRIEF))
        assert session.skipped == 1 and session.trials == 2
    for words in (["report", "matmul"], ["db", "list"], ["best", *MATMUL]):
        assert main([*words, "--database", path]) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_tune_skips_them_with_a_word(trials):
    foreign = [
        trials[0].with_(median=1e-9, trial=number, **change)
        for number, change in enumerate(OTHERS.values())
    ]
    with Database(":memory:") as db:
        db.add_many([*foreign, *trials])
        result = tune(FUNC, trials=3, database=db, settings=BRIEF, progress=False)
        assert result.measured == 1 and result.best_seconds > 1e-9
        assert f"{len(OTHERS)} stored trials of other versions" in result.notice


@pytest.mark.parametrize("kind", ["a renamed primitive", "a trace of another form"])
def test_the_best_of_another_version_is_not_taken(trials, kind, tmp_path, capsys):
    path = str(tmp_path / "tuning.db")
    final = next(record for record in trials if record.is_final and outcome(record).won)
    with Database(path) as db:
        db.add_many([*trials, final.with_(median=1e-9, times=[1e-9], **OTHERS[kind])])
        again = tune(FUNC, trials=2, database=db, settings=BRIEF, progress=False)
        assert again.from_database and again.best_seconds > 1e-9
    assert main(["best", *MATMUL, "--database", path]) == 0
    out, err = capsys.readouterr()
    assert "skipped 1 record with steps that this version" in err and again.record.id in out
