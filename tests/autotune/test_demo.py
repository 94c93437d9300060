"""The demo: its parts, and runs of it on tiny data."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from autotune.examples import make_example
from benchmarks import rivals
from benchmarks.case import check, relative_error
from benchmarks.table import plain_table
from benchmarks.timing import side_by_side
from demo import digits, main, photo, run
from tensorir import TensorIRError, reference

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def trained() -> digits.Digits:
    return digits.train(quick=True)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


def test_numpy_and_scipy_convolve_alike():
    x, weight, bias = floats(1, 7, 6, 3), floats(3, 3, 3, 5), floats(5)
    ours = rivals.convolution(x, weight, bias)()
    assert ours.shape == (1, 7, 6, 5)
    np.testing.assert_allclose(ours, photo.scipy_convolution(x, weight, bias)(), atol=1e-5)


@pytest.mark.parametrize("relu", [True, False])
def test_numpy_linear(relu):
    x, w, bias = floats(4, 3), floats(3, 5), floats(5)
    expected = x @ w + bias
    expected = np.maximum(expected, 0) if relu else expected
    np.testing.assert_allclose(rivals.linear(x, w, bias, relu)(), expected, rtol=1e-5)


def test_the_layers_are_the_network(trained):
    layers = digits.cases(trained)
    assert [a.shape[1] for a, *_ in (c.inputs for c in layers)] == [64, 16]
    scores = digits.numpy_network(layers)()
    assert (digits.answers(trained, scores) == trained.predicted).all()


def test_programs_mean_what_the_libraries_compute(trained):
    for case in [*digits.cases(trained), photo.case(photo.load(quick=True), quick=True)]:
        (found,) = reference(case.func, *case.inputs)
        assert relative_error(np.asarray(found), case.expected) < 1e-6, case.name
        check(case, case.library)


def test_the_command_that_is_recommended_finds_the_photo():
    case = photo.case(photo.load(quick=True), quick=True)
    same = make_example("conv2d_bias_relu", {"n": 1, "h": 16, "w": 20, "c": 3, "k": 4})
    assert run.Workload.of(same).key == run.Workload.of(case.func).key


def test_classic_filters_see_edges_and_nothing_in_a_plain_picture():
    weight, bias = photo.filters()
    assert weight.shape == (3, 3, 3, 32) and bias.shape == (32,)
    plain = np.ones((1, 5, 5, 3), np.float32)
    inner = rivals.convolution(plain, weight, bias)()[0, 2, 2]
    np.testing.assert_allclose(inner[:6], [0, 0, 0, 1, 1, 1], atol=1e-6)


def test_a_wrong_result_is_refused():
    case = photo.case(photo.load(quick=True), quick=True)
    with pytest.raises(TensorIRError, match="'twice' is off by 1 of the largest value"):
        check(case, {"twice": lambda: 2 * case.expected})


def test_nan_is_an_infinite_error():
    assert relative_error(np.array([1.0, np.nan]), np.array([1.0, 2.0])) == float("inf")
    assert relative_error(np.array([1.0, 2.5]), np.array([1.0, 2.0])) == 0.25


@pytest.mark.parametrize("name", ["missing/seen.png", "seen.nothing"])
def test_a_picture_that_cannot_be_written(tmp_path, name):
    with pytest.raises(TensorIRError, match="cannot write the picture .*seen"):
        photo.save(floats(1, 4, 4, 6), tmp_path / name)


def test_side_by_side_takes_slow_calls_less_often(monkeypatch):
    """By a clock that nothing but the calls moves."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    clock = SimpleNamespace(perf_counter=lambda: now[0], sleep=sleep)
    monkeypatch.setattr("benchmarks.timing.time", clock)
    found = side_by_side(
        {"slow": lambda: sleep(0.11), "fast": lambda: sleep(1e-3)},
        rounds=6, min_ms=2, pause_s=0,
    )  # fmt: skip
    assert len(found["slow"].times) == 2 and found["slow"].calls == 1
    assert len(found["fast"].times) == 6 and found["fast"].calls >= 2
    assert found["slow"].median > 0.1 > found["fast"].median


def test_plain_table():
    text = plain_table(("name", "ms"), [("a", "10.5"), ("longer", "2")], "Title")
    assert text.splitlines() == ["Title", "name      ms", "a       10.5", "longer     2"]


def test_missing_packages_are_named(monkeypatch, capsys):
    monkeypatch.setattr(run, "find_spec", lambda name: None if name != "scipy" else object())
    assert main([]) == 2
    error = capsys.readouterr().err
    assert "-m pip install scikit-learn pillow" in error


def test_an_interrupt_says_that_nothing_is_lost(monkeypatch, capsys, tmp_path):
    def interrupted(self: object, picture: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run.Demo, "run", interrupted)
    assert main(["--database", str(tmp_path / "t.db")]) == 130
    assert "the same command goes on from there" in capsys.readouterr().err


def test_an_unusable_database_is_one_message(capsys, tmp_path):
    file = tmp_path / "t.db"
    file.write_text("no database, but longer than a header of SQLite has any right to be" * 20)
    assert main(["--database", str(file)]) == 1
    assert str(file) in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_run_goes_on_and_another_measures_nothing(
    pretended, tmp_path, few_builds_code, capsys, monkeypatch
):
    monkeypatch.setattr("benchmarks.timing.PAUSE_S", 0.0)  # how long things take does not matter
    database = tmp_path / "t.db"
    code = "import sys\nfrom demo import main\nsys.exit(main(sys.argv[1:]))"
    code = few_builds_code + code
    command = [sys.executable, "-c", code, "--quick", "--database", str(database)]
    first = subprocess.Popen([*command, "--trials", "60"], cwd=ROOT, stdout=subprocess.DEVNULL)
    stored = wait_for_trials(database, 1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    picture = tmp_path / "seen.png"
    options = ["--quick", "--database", str(database), "--trials", "2"]
    assert main([*options, "--picture", str(picture)]) == 0
    second = capsys.readouterr().out
    layer = next(line for line in second.splitlines() if "layer 1" in line)
    known = int(layer.split(": ")[2].split()[0])
    assert known >= stored
    assert second.count("0 of 2 trials found stored, measuring 2 more") == 2
    assert f"{6 - min(known, 2)} new trials" in second
    assert "96 of 96 predictions equal scikit-learn's" in second
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(options) == 0
    third = capsys.readouterr().out
    assert third.count(" of 2 trials found stored, nothing to measure") == 3
    assert "all schedules were known, and nothing was measured to find one" in third


def wait_for_trials(database: Path, count: int) -> int:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if database.exists():
            with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
                try:
                    found = connection.execute("SELECT COUNT(*) FROM records").fetchone()[0]
                except sqlite3.OperationalError:
                    found = 0
            if found >= count:
                return int(found)
        time.sleep(0.1)
    pytest.fail("no trials were stored in two minutes")
