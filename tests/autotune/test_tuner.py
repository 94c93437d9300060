"""tune: what it stores, what it takes from the database, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from autotune import Database, tune
from autotune.database.ranking import outcome
from autotune.phases import PHASES
from autotune.rules import default_candidate
from autotune.tuning.options import Options
from autotune.tuning.replay import candidate_of, replayed
from autotune.tuning.session import start_session
from tensorir import TensorIRError, te
from tests.brief import BRIEF


def matmul(m: int = 16, n: int = 24, k: int = 8, name: str = "matmul"):
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis(k, name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_prim_func([a, b, c], name=name)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A database with six trials, built two at a time, and the result that they gave."""
    path = tmp_path_factory.mktemp("tuning") / "tuning.db"
    settings = replace(BRIEF, build_jobs=2)
    return path, tune(matmul(), trials=6, database=path, settings=settings, progress=False)


def test_the_result_computes_the_function(tuned):
    _, result = tuned
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (16, 8)).astype("float32")
    b = rng.integers(-4, 5, (8, 24)).astype("float32")
    np.testing.assert_array_equal(result.build()(a, b), a @ b)
    assert result.measured == result.trials == 6 and not result.from_database
    assert {"proposing", "timing", "race"} <= set(result.phases) <= set(PHASES)
    assert 0 < sum(result.phases.values()) <= result.seconds
    assert result.record.verdict.checked and result.record.is_final
    assert result.work == 2 * 16 * 24 * 8
    assert str(result.schedule.func) == str(result.build().func)


def test_a_second_run_measures_nothing(tuned):
    path, first = tuned
    again = tune(matmul(), trials=6, database=path, progress=False)
    assert again.from_database and again.record == first.record


def test_the_name_of_the_function_does_not_matter(tuned):
    path, _ = tuned
    assert tune(matmul(name="other"), trials=6, database=path, progress=False).from_database


def test_more_trials_continue(tuned, tmp_path, pretended):
    path, first = tuned
    copy = tmp_path / "copy.db"
    with Database(path) as source, Database(copy) as target:
        target.add_many(source.records())
    more = tune(matmul(), trials=8, database=copy, settings=BRIEF, progress=False)
    assert (more.trials, more.measured) == (8, 2)
    with Database(copy) as db:  # with those whose code is that of an earlier one
        tried = [str(r.decisions) for r in db.records() if not r.is_final]
    assert len(tried) == len(set(tried)) >= 8


def test_a_run_killed_before_its_race_races(tuned, tmp_path):
    path, _ = tuned
    copy = tmp_path / "copy.db"
    with Database(path) as source, Database(copy) as target:
        target.add_many(r for r in source.records() if not r.is_final)
    result = tune(matmul(), trials=6, database=copy, settings=BRIEF, progress=False)
    assert result.measured == 0 and result.record.is_final


def test_the_default_schedule_is_the_first_trial_and_in_the_race(tuned):
    path, _ = tuned
    with Database(path) as db:
        session = start_session(matmul(), "c", db, 0, Options("reassociated", settings=BRIEF))
        records, stored = db.records(), session.stored_best()
    default = default_candidate(session.space)
    assert candidate_of(next(r for r in records if r.trial == 0)) == default
    raced = [r for r in records if r.is_final]
    assert default in map(candidate_of, raced)
    (winner,) = [r for r in raced if outcome(r).won]  # however long its blocks took
    assert stored == winner
    assert candidate_of(winner) == default or outcome(winner).gain.is_certain


def test_equal_times_give_an_equal_search(tuned, tmp_path):
    """What the search proposes next depends on seed and records alone."""
    path, _ = tuned
    import random

    from autotune.search import search_named

    proposals = []
    for _ in range(2):
        with Database(path) as db:
            session = start_session(matmul(), "c", db, 0, Options("reassociated", settings=BRIEF))
            rng = random.Random(f"0:{session.trials}")
            batch = search_named("evolutionary")(session.space, session.state, 6, rng)
        proposals.append([c.key for c in batch])
    assert proposals[0] == proposals[1] and len(proposals[0]) == 6


def test_no_steps_are_applied_to_answer_what_this_search_has_made(pretended, monkeypatch):
    """What it has measured is raced, and given back, as it was made; a later call applies the steps
    of the answer to see whether its code is that of today."""
    applied = []

    def counted(func, record):
        applied.append(json.dumps(record.trace))
        return replayed(func, record)

    for module in ("session", "replay"):
        monkeypatch.setattr(f"autotune.tuning.{module}.replayed", counted)
    with Database(":memory:") as db:
        result = tune(matmul(), trials=3, database=db, settings=BRIEF, progress=False)
        assert result.record.is_final and not applied
        again = tune(matmul(), trials=3, database=db, settings=BRIEF, progress=False)
    assert again.record == result.record and applied == [json.dumps(result.record.trace)]


def test_bitwise_search_keeps_the_order_of_sums(pretended):
    x, w = te.placeholder((2, 64), name="x"), te.placeholder((3, 64), name="w")
    r = te.reduce_axis(64, name="k")
    y = te.compute((2, 3), lambda i, j: te.sum(x[i, r] * w[j, r], axis=r), name="y")
    func = te.create_prim_func([x, w, y], name="rows")
    for program in (func, matmul()):
        result = tune(
            program, trials=3, database=None, numerics="bitwise", settings=BRIEF, progress=False
        )
        assert result.record.numerics == result.schedule.numerics == "bitwise"


def test_a_space_that_is_used_up_ends_the_search(pretended):
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] * 2.0, name="B")
    func = te.create_prim_func([a, b], name="twice")
    result = tune(func, trials=500, database=None, settings=BRIEF, progress=False)
    assert 2 <= result.trials < 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trials": 0}, "trials must be at least 1"),
        ({"numerics": "exact"}, "unknown numerics 'exact'; known are bitwise"),
        ({"strategy": "luck"}, "luck"),
        ({"cost_model": "crystal"}, "crystal"),
        ({"target": "fpga"}, "fpga"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(TensorIRError, match=message):
        tune(matmul(), database=None, progress=False, **arguments)


def test_symbolic_sizes_need_values(pretended):
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    func = te.create_prim_func([a, b], name="symbolic")
    with pytest.raises(TensorIRError, match="symbolic size 'n'"):
        tune(func, trials=2, database=None, progress=False)
    result = tune(func, trials=2, database=None, sizes={"n": 100}, settings=BRIEF, progress=False)
    np.testing.assert_array_equal(result.build()(np.zeros(7, "float32")), np.ones(7))
