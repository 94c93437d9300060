"""tune_all: who is next, what is found, and what is refused."""

from __future__ import annotations

import sys
from functools import partial
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from autotune import Database, tune, tune_all
from autotune.cli.entry import main
from autotune.tasks.allocation import HOPELESS, Spent, next_task
from tensorir import TensorIRError, te
from tests.brief import BRIEF
from tests.fuzz.killed_searches import FakeMeasurer, Killed, Run, products, row_sums, twice

pytestmark = pytest.mark.usefixtures("all_pretended")

GIVEN = {"settings": BRIEF, "progress": False, "shipped": False, "cost_model": "random"}


def spent(*best, seconds=1.0):
    return Spent((seconds,) * len(best), best)


def test_all_begin_and_then_the_largest_gain_per_second_is_next():
    ones = {"a": 1.0, "b": 1.0}
    assert next_task({"a": spent(9.0), "b": spent()}, ones) == "b"
    assert next_task({"a": spent(), "b": spent()}, ones) == "a"
    assert next_task({"a": spent(9.0, 8.0), "b": spent(9.0, 1.0)}, ones) == "a"  # more is left
    assert next_task({"a": spent(9.0), "b": spent(8.0, seconds=0.5)}, ones) == "b"  # and is cheaper
    assert next_task({"a": spent(2.0), "b": spent(1.0)}, {"a": 1.0, "b": 3.0}) == "b"
    assert next_task({"a": spent(2.0), "b": spent(1.0)}, ones, begun=["b"]) == "b"
    flat, falling = spent(*[1.0] * 40), spent(*[2.0] * 30, *[1.0] * 10)
    assert next_task({"a": flat, "b": falling}, ones) == "b"
    assert next_task({"a": spent(*[None] * HOPELESS), "b": spent(1e-9)}, ones) == "b"
    assert next_task({"a": spent(None), "b": spent(1.0)}, ones) == "a"


def test_seconds_go_to_what_gains_and_the_sum_is_less_than_by_equal_shares():
    curves = {
        "flat": lambda n: 1.0, "soon": lambda n: 1 + 0.5 ** (n / 4), "late": lambda n: 5 * 0.98**n,
    }  # fmt: skip
    weights = dict.fromkeys(curves, 1.0)
    given = {name: 0 for name in curves}
    for _ in range(30):
        known = {n: spent(*map(curve, range(given[n]))) for n, curve in curves.items()}
        given[next_task(known, weights)] += 8
    assert given["late"] > 1.5 * given["flat"] and min(given.values()) >= 8
    equal = sum(curve(80) for curve in curves.values())
    assert sum(curve(given[name]) for name, curve in curves.items()) < equal


def test_the_cost_of_a_trial_is_what_its_record_tells():
    visits = ({"lasted": 0.25}, {"lasted": 0.5})
    record = SimpleNamespace(status="ok", median=2.0, build_seconds=1.0, visits=visits)
    failed = SimpleNamespace(status="crash", median=None, build_seconds=None, visits=())
    found = Spent.of([failed, record, failed])
    assert found.best == (None, 2.0, 2.0)
    assert found.in_all == pytest.approx(1.75 + 3 * 0.02)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    path = tmp_path_factory.mktemp("tasks") / "tuning.db"
    funcs = [products(), row_sums(), twice()]
    return path, funcs, tune_all(funcs, trials=7, database=path, weights=[1, 2, 1], **GIVEN)


def test_each_function_has_its_result(tuned):
    path, funcs, results = tuned
    assert list(results) == ["products", "row_sums", "twice"] and not results.failed
    assert sum(result.trials for result in results.values()) == 7
    assert all(result.record.is_final for result in results.values())
    lines = repr(results).splitlines()
    assert lines[0].split()[:2] == ["function", "weight"] and lines[2].split()[1] == "2"
    assert "in all" in lines[-1] and "ended: 7 trials" in lines[-1]
    total = sum(w * results[n].best_seconds for n, w in results.weights.items())
    assert results.best_seconds == total and results.speedup >= 1.0
    again = tune_all(funcs, trials=7, database=path, **GIVEN)
    assert {n: r.record for n, r in again.items()} == {n: r.record for n, r in results.items()}
    assert all(result.from_database for result in again.values())
    one = tune(funcs[0], trials=results["products"].trials, database=path, **GIVEN)
    assert one.from_database and one.record == results["products"].record


def test_sizes_of_one_program_are_different_functions():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    func = te.create_prim_func([a, te.compute((n,), lambda i: a[i] * 2.0, name="B")])
    given = {"trials": 2, "database": None, **GIVEN}
    results = tune_all({"s": func, "l": func}, sizes={"s": {"n": 8}, "l": {"n": 64}}, **given)
    assert [results[name].record.conditions.sizes for name in "sl"] == [{"n": 8}, {"n": 64}]
    with pytest.raises(TensorIRError, match="'s' and 'l' are the same program: give it once"):
        tune_all({"s": func, "l": func}, sizes=[{"n": 8}, {"n": 8}], **given)


@pytest.mark.parametrize(
    ("funcs", "given", "message"),
    [
        ([], {}, "there are no functions"),
        (twice(), {}, "funcs must be a list of functions"),
        ([twice(), 3], {}, "what is tuned must be a PrimFunc"),
        ([twice(), twice()], {}, "two functions are called 'twice': give a mapping"),
        ({"a": twice(), "b": twice()}, {}, "'a' and 'b' are the same program"),
        ([twice()], {"weights": {"x": 1}}, "weights has 'x', but functions are twice"),
        ([twice()], {"weights": [1, 2]}, "weights has 2 entries for 1 functions"),
        ([twice()], {"weights": [0]}, r"weights\['twice'\] must be positive"),
        ([twice()], {"sizes": [{"n": 1}]}, "sizes has 'n', which is no symbolic size"),
        ([twice(), row_sums()], {"trials": 1}, "trials must be at least 2"),
        ([twice()], {"seconds": -1}, "seconds must not be negative"),
    ],
)
def test_arguments_that_are_refused(funcs, given, message):
    with pytest.raises(TensorIRError, match=message):
        tune_all(funcs, database=None, **{**GIVEN, **given})


class Fake(FakeMeasurer):
    """Times by the text of programs; those of `broken` crash. It is killed after `run.after`
    programs of all functions."""

    reference = None

    def __init__(self, run, broken, func, *args, **options):
        failing = 1.4 if func.name == broken else 0.0
        super().__init__(SimpleNamespace(seed=0, failing=failing), run)

    def measure(self, programs, **options):
        self.left = self.run.after
        try:
            super().measure(programs, **options)
        finally:
            self.run.after = self.left


def searched(monkeypatch, path, after=-1, broken="", trials=24):
    run = Run(0, "killed" if after >= 0 else "", after)
    monkeypatch.setattr("autotune.tuning.search.Measurer", partial(Fake, run, broken))
    monkeypatch.setattr("autotune.tuning.session.is_current", lambda *given: True)
    given = {"trials": trials, "database": path, "cost_model": "random", **GIVEN}
    return tune_all([products(), row_sums(), twice()], **given)


def tried(path):
    with Database(path) as db:
        return [(r.workload.name, r.decisions, r.batch, r.median) for r in db.records()]


def test_killed_at_any_moment_it_goes_on_with_the_same_trials(monkeypatch, tmp_path):
    searched(monkeypatch, tmp_path / "whole.db")
    whole = tried(tmp_path / "whole.db")
    assert len(whole) > 24
    for after in (0, 8, 11):
        path = tmp_path / f"{after}.db"
        with pytest.raises(Killed):
            searched(monkeypatch, path, after)
        assert len(tried(path)) == after
        searched(monkeypatch, path)
        assert tried(path) == whole


def test_a_function_of_which_nothing_runs_does_not_stop_the_others(monkeypatch, tmp_path):
    results = searched(monkeypatch, tmp_path / "t.db", broken="row_sums", trials=40)
    assert list(results) == ["products", "twice"] and list(results.failed) == ["row_sums"]
    with pytest.raises(TensorIRError, match="'row_sums' has no result: no candidate .* crash"):
        results["row_sums"]
    assert "row_sums: no candidate" in repr(results)
    assert sum(r.trials for r in results.values()) >= 40 - HOPELESS - 8
    monkeypatch.setattr("autotune.tuning.search.Measurer", partial(Fake, Run(0), "twice"))
    with pytest.raises(TensorIRError, match="nothing ran: twice: no candidate"):
        tune_all([twice()], trials=3, database=None, **GIVEN)


FILE = """
from tensorir import te

def double(n=64):
    a = te.placeholder((n,), name="A")
    return [a, te.compute((n,), lambda i: a[i] * 2.0, name="B")]

def triple(m=64):
    a = te.placeholder((m,), name="A")
    return [a, te.compute((m,), lambda i: a[i] * 3.0, name="B")]
"""


def test_all_functions_of_a_file(tmp_path, capsys):
    file = tmp_path / "kernels.py"
    file.write_text(FILE)
    words = ["tune", str(file), "--database", str(tmp_path / "t.db"), "--quiet", "--trials", "2"]
    assert main([*words, "--shape", "n=32"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()[:1]] == ["function"]
    assert "double" in out and "triple" in out and "ended: 2 trials" in out
    for more, message in (
        (["--shape", "q=3"], "no function of .*kernels.py has a size 'q'"),
        (["--constants", "C"], "no function of .* has 'C'"),
        (["--knobs", "x"], "--knobs is for one function: name it, as .*kernels.py:NAME"),
        (["--until", "converged"], "--until is for one function: name it, as .*kernels.py:NAME"),
    ):
        assert main([*words, *more]) == 2
        import re

        assert re.search(message, capsys.readouterr().err)


def test_options_of_the_command_line_reach_the_search_of_a_file(tmp_path, capsys, monkeypatch):
    def asked(*args, settings, runner=None, **options):
        raise TensorIRError(f"asked for {settings.cache} by {type(runner).__name__}")

    def client(address, timeout):
        if address != "there":
            raise OSError("refused")
        return MagicMock()

    monkeypatch.setattr("autotune.cli.tune_file.tune_all", asked)
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=client))
    file = tmp_path / "kernels.py"
    file.write_text(FILE)
    words = ["tune", str(file), "--database", str(tmp_path / "t.db"), "--cache", "cold"]
    for more, message in (
        ([], "asked for cold by NoneType"),
        (["--dask", "there"], "asked for cold by DaskRunner"),
        (["--dask", "elsewhere"], "--dask elsewhere: no scheduler answers there: refused"),
    ):
        assert main([*words, *more]) == 1
        assert message in capsys.readouterr().err
