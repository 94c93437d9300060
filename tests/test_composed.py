"""Programs of several operators beside their parts: the same numbers, and the benchmark runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.general import together
from benchmarks.general.composed import composed
from tensorir import TensorIRError, reference, verify

TINY = composed(tiny=True)


@pytest.mark.parametrize("program", TINY, ids=lambda program: program.name)
def test_a_program_means_what_its_parts_mean(program):
    rng = np.random.default_rng(0)
    values = {
        name: rng.uniform(0.5, 1.5, shape).astype(np.float32)
        for name, shape in program.shapes.items()
    }
    whole = program.whole
    verify(whole)
    found = reference(whole, *values.values())
    for step in program.steps:
        (values[step.name],) = reference(
            program.part(step), *[np.asarray(values[name], np.float32) for name in step.given]
        )
    for got, name in zip(found, program.results, strict=True):
        np.testing.assert_allclose(got, values[name], rtol=1e-4, atol=1e-5)


def test_full_sizes_are_of_the_same_programs():
    assert [program.name for program in composed()] == [program.name for program in TINY]
    assert len({program.name for program in TINY}) == len(TINY)


def test_a_run(tmp_path, capsys):
    file = tmp_path / "found" / "out.json"
    options = ["--dry-run", "--rows", "two softmaxes", "--threads", "1", "--json", str(file)]
    assert together.main(options) == 0
    (row,) = json.loads(file.read_text())["rows"]
    ratio, low, high = row["ratio"]
    assert low <= ratio <= high and len(row["whole"]) == 3 and list(row["parts"]) == ["a", "b"]
    assert len(row["in_turn"]) == 3
    said = capsys.readouterr().out
    assert "two softmaxes" in said and "take more than 1.05 of the sum" in said


def test_a_program_that_fails_is_reported(monkeypatch, capsys):
    def refuse(func, *rest):
        raise TensorIRError("no schedule today")

    monkeypatch.setattr(together, "default_schedule", refuse)
    assert together.main(["--dry-run", "--rows", "two softmaxes"]) == 1
    assert "no schedule today" in capsys.readouterr().out


def test_wrong_results_have_no_time():
    with pytest.raises(TensorIRError, match="'a' is off by 0.5 of the largest number"):
        together._same("a", np.ones(3), np.array([1, 2, 1.0]))


def test_wrong_requests_are_refused(capsys):
    assert together.main(["--rows", "nothing like it"]) == 2
    assert "rows are:\n  conv-relu-conv" in capsys.readouterr().err
