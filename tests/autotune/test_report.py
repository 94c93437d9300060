"""What trials tell, as data and as a picture."""

from __future__ import annotations

import math

import pytest

from autotune.database.conditions import Conditions
from autotune.database.database import Database
from autotune.examples import make_example
from autotune.report import default_time, headline, places, status_text, summarize
from autotune.report.figures import plot
from backends import resolve
from tensorir import TensorIRError

SIZES = {"m": 16, "n": 16, "k": 16}


@pytest.fixture(scope="module")
def records(made_records):
    return made_records(make_example("matmul", SIZES))


def test_statuses_and_failures(records):
    report = summarize(records)
    assert report.statuses == {"ok": 6, "crash": 1, "wrong_result": 1}
    assert report.failures[0] == (("crash", "died of SIGSEGV"), 1)
    assert status_text(report.statuses) == "6 ok, 1 crash, 1 wrong_result"


def test_the_fastest_come_first_and_failures_last(records):
    fastest = summarize(records).fastest
    assert [r.trial for r in fastest] == [7, 6, 3, 2, 1, 0, 4, 5]


def test_the_curve_falls_and_skips_failures(records):
    curve = summarize(records).curve
    assert curve == pytest.approx([8e-3, 7e-3, 6e-3, 5e-3, 5e-3, 5e-3, 2e-3, 1e-3])
    assert summarize(records[4:5]).curve == (math.inf,)


def test_the_quality_of_perfect_predictions(records):
    assert summarize(records).quality.spearman == pytest.approx(1.0)
    assert summarize(records).quality.samples == 6


def test_races_are_no_trials(records):
    final = records[7].with_(settings={"final": True}, median=3e-3)
    report = summarize([*records, final])
    assert len(report.trials) == 8
    assert report.race_of(records[7]) == final
    assert report.race_of(records[6]) is None


def test_the_order_is_that_of_best(records):
    """Raced ones first, by the fastest of their races; pruned ones before failures."""
    races = [
        (7, 3e-3), (7, 5e-3), (2, 2e-3), (0, 6e-3),
    ]  # fmt: skip
    finals = [
        records[n].with_(settings={"final": True}, median=seconds) for n, seconds in races
    ]
    pruned = records[1].with_(status="pruned", median=1e-4, trial=8)
    report = summarize([*records, pruned, *finals])
    assert [report.number(r) for r in report.fastest] == [3, 8, 1, 7, 4, 2, 9, 5, 6]
    assert report.best == records[2] and report.seconds(report.best) == 2e-3
    assert report.race_of(records[7]).median == 3e-3
    assert report.default() is records[0]
    with Database(":memory:") as db:
        db.add_many([*records, pruned, *finals])
        first = records[0]
        best = db.best(first.workload, first.target, first.machine_key)
        assert best.median == 2e-3


def test_the_default_schedule_is_found_and_its_race_preferred(records):
    func, target = make_example("matmul", SIZES), resolve("c")
    assert default_time(func, target, records) == records[0]
    final = records[0].with_(settings={"final": True}, median=9e-3)
    assert default_time(func, target, [final, *records]) == final
    assert default_time(func, target, records[1:]) is None


def test_places_keep_machines_apart(records):
    other = records[0].with_(machine_key="elsewhere")
    threads = records[0].with_(conditions=Conditions.here("c -threads=77"))
    groups = places([*records, other, threads, *records])
    assert [len(group) for group in groups] == [16, 1, 1]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("one\ntwo", "one"),
        ('Traceback (most recent):\n  File "x", line 1\nValueError: no\n', "ValueError: no"),
        ('call last):\n  File "x", line 1\n    f()\n    ^^^\nE: a\n  more\n', "E: a"),
        ('  File "x", line 1\nE: a\n\nDuring:\n\n  File "y", line 1\nF: b\nmore', "F: b"),
    ],
)
def test_headline(text, line):
    assert headline(text) == line


def test_plot(records, tmp_path):
    pytest.importorskip("matplotlib")
    plot(summarize(records), tmp_path / "curve.png", "matmul")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_plot_without_matplotlib(records, tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.report.figures.find_spec", lambda name: None)
    with pytest.raises(TensorIRError, match="pip install matplotlib"):
        plot(summarize(records), tmp_path / "curve.png")


def test_plot_of_nothing(records, tmp_path):
    with pytest.raises(TensorIRError, match="no trial succeeded"):
        plot(summarize(records[4:6]), tmp_path / "curve.png")


def test_plot_where_nothing_can_be_written(records, tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(TensorIRError, match="cannot write the plot"):
        plot(summarize(records), tmp_path / "none" / "curve.png")
