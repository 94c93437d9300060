"""The reasons of failures are told where nothing else can be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autotune import tune
from autotune.database.records import Record, Workload
from autotune.examples import make_example
from autotune.measure import MeasureResult
from autotune.measure.busy import Neighbours
from autotune.tuning.failures import describe_failures
from tensorir import TensorIRError

ROOT = Path(__file__).parents[2]
FUNC = make_example("matmul", {"m": 4, "n": 4, "k": 4})


def record(status: str, error: str = "") -> Record:
    return Record(Workload.of(FUNC), "c", "m", status, error=error)


def test_each_kind_has_its_number_and_its_first_reason():
    found = describe_failures(
        [
            record("wrong_result", "output 'C' differs at [0]: found 1, expected 2\nmore"),
            record("pruned", "slower than 1 s"),
            record("crash", "in phase 'check', the process died of SIGSEGV"),
            record("wrong_result", "another"),
            record("error", 'Traceback (most recent):\n  File "x", line 1\nValueError: no'),
            record("build_timeout"),
            record("build_error", "x" * 1000),
        ]
    )
    assert found == (
        f"1 build_error ({'x' * 197}...); 1 build_timeout (no reason is known); "
        "1 crash (in phase 'check', the process died of SIGSEGV); 1 error (ValueError: no); "
        "2 wrong_result (output 'C' differs at [0]: found 1, expected 2)"
    )
    assert describe_failures([record("pruned")]) == ""


class Failing:
    """A measurer for which everything fails."""

    def __init__(self, *args, **options):
        self.neighbours = Neighbours()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        pass

    def measure(self, programs, incumbent, known, on_result):
        for index in range(len(programs)):
            on_result(index, MeasureResult("wrong_result", "output 'C' differs at [0, 0]"))

    def begin(self, *args):
        return

    def features(self, *args):
        return None


def test_a_search_without_a_result_says_why(monkeypatch):
    monkeypatch.setattr("autotune.tuning.search.Measurer", Failing)
    with pytest.raises(
        TensorIRError,
        match=r"no candidate of 'matmul' ran correctly in 3 trials: 3 wrong_result \(output 'C'",
    ):
        tune(FUNC, trials=3, database=None, strategy="random", progress=False)


def test_a_process_without_standard_streams_tunes(tmp_path):
    """A daemon has none of them: pipes to workers get their numbers then."""
    program = f"""
import traceback
try:
    from autotune import MeasureSettings, tune
    from autotune.examples import make_example
    func = make_example("matmul", {{"m": 4, "n": 4, "k": 4}})
    brief = MeasureSettings(min_ms=0.5, build_jobs=2)
    told = str(tune(func, trials=2, database=None, shipped=False, settings=brief).trials)
except BaseException:
    told = traceback.format_exc()
open({str(tmp_path / "told")!r}, "w").write(told)
"""
    words = [sys.executable, "-c", program]
    subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=240,
    )  # fmt: skip
    assert (tmp_path / "told").read_text() == "2"
