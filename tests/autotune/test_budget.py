"""When a search ends, and that it says why."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace

import pytest

from autotune import tune
from autotune.calibration import roofline
from autotune.calibration.roofline import Share
from autotune.search.convergence import LEAST, has_converged, recent_gain
from autotune.tuning.budget import Budget
from tensorir import TensorIRError, te
from tests.brief import BRIEF


def session_of(times=(), trials=None):
    measured = {n: s for n, s in enumerate(times)}
    best = min((s for s in times if s), default=None)
    state = SimpleNamespace(measured=measured, best_seconds=lambda: best)
    func = SimpleNamespace(name="f")
    count = len(measured) if trials is None else trials
    return SimpleNamespace(state=state, trials=count, func=func, target="c")


def test_trials_are_bounded_unless_something_else_says_when_to_end():
    assert Budget.of(None, None, None) == Budget(64)
    assert Budget.of(None, 60, None) == Budget(None, 60.0)
    assert Budget.of(None, None, "converged") == Budget(None, converged=True)
    assert Budget.of(8, 1, "97.5% of roofline") == Budget(8, 1.0, 0.975)
    assert Budget(None).left(session_of()) == math.inf
    assert Budget(8).left(session_of(trials=5)) == 3
    assert Budget(8).reached(session_of(trials=9)) == "9 trials"
    assert Budget(8).reached(session_of(trials=7)) == ""


def test_a_share_of_the_roofline_is_enough(monkeypatch):
    shares = lambda func, seconds, target: Share(1 / seconds, 10.0, "GFLOP/s")  # noqa: E731
    monkeypatch.setattr(roofline, "share_of_peak", shares)
    enough = Budget.of(None, None, "50% of roofline")
    assert enough.reached(session_of([None, 0.25])) == ""
    assert enough.reached(session_of([None, 0.25, 0.16])) == "62% of roofline"
    assert enough.reached(session_of([None])) == ""
    monkeypatch.setattr(roofline, "share_of_peak", lambda *given: None)
    with pytest.raises(TensorIRError, match=r"'f' has no roofline on 'c': .*until='converged'"):
        enough.reached(session_of([]))


def test_a_search_has_converged_where_its_last_half_gained_nothing():
    assert recent_gain([]) is None and recent_gain([1.0] * LEAST) is None
    assert recent_gain([None] * 9 + [1.0] * LEAST) is None
    assert has_converged([1.0] * (LEAST + 1))
    assert not has_converged([1.0] + [0.9] * LEAST)
    assert has_converged([1.0] * 40 + [0.995] + [1.0] * 40)
    assert recent_gain([1.0] * 50 + [None, 0.8] + [1.0] * 46) == pytest.approx(0.2)
    late = [2.0] * 20 + [1.0] * 30
    assert not has_converged(late[:44]) and has_converged(late + [1.0] * 10)


def test_searches_converge_though_times_are_noisy():
    for seed in range(20):
        rng, times = random.Random(seed), []
        while not has_converged(times):
            floor = 1.0 + 0.5 * 0.97 ** len(times)
            times.append(floor * rng.lognormvariate(0, 0.02))
        assert 40 < len(times) < 400 and min(times) < 1.1


def doubled():
    a = te.placeholder((64,), name="A")
    return te.create_prim_func([a, te.compute((64,), lambda i: a[i] * 2.0, name="B")])


def test_results_say_why_the_search_ended(pretended, tmp_path, monkeypatch):
    given = {"settings": BRIEF, "progress": False, "shipped": False}
    path = tmp_path / "tuning.db"
    first = tune(doubled(), "c", 2, database=path, **given)
    assert (first.trials, first.ended) == (2, "2 trials")
    assert tune(doubled(), "c", 2, database=path, **given).ended == "2 trials"
    timed = tune(doubled(), database=path, seconds=0, **given)
    assert timed.ended == "0 s" and timed.trials > 2
    enough = lambda times: len(list(times)) >= timed.trials  # noqa: E731
    monkeypatch.setattr("autotune.search.convergence.has_converged", enough)
    done = tune(doubled(), database=path, until="converged", **given)
    assert done.from_database and done.ended.startswith("converged")
