"""Tuning programs that need what is in an array that they write."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import tune
from autotune.measure import Measurer
from backends import build
from tensorir import TensorIRError, parse
from tests.brief import BRIEF

TEXT = """
@prim_func
def accumulate(A: f32[64, 16], C: f32[64, 16]):
    for i, j in grid(64, 16):
        with block("C"):
            vi = spatial(64, i)
            vj = spatial(16, j)
            C[vi, vj] = C[vi, vj] + A[vi, vj]
"""


def test_an_accumulation_is_tuned(tmp_path):
    func = parse(TEXT.strip())
    result = tune(func, trials=3, settings=BRIEF, database=tmp_path / "db.sqlite")
    a, c = np.ones((64, 16), np.float32), np.full((64, 16), 2, np.float32)
    assert build(result.schedule)(a, c) is c and (c == 3).all()


def test_candidates_are_compared_after_one_run():
    """Each begins with the same values, after thousands of timed calls of others too."""
    func = parse(TEXT.strip())
    right = TEXT.strip()
    wrong = [
        right.replace("= C[vi, vj] + A", "= A"),
        right.replace("(64, 16):\n        with", "(64, 15):\n        with").replace(
            "spatial(16, j)", "spatial(15, j)"
        ),
    ]
    with Measurer(func, settings=BRIEF) as measurer:
        results = measurer.measure([right, *wrong, right])
        assert [r.status for r in results] == ["ok", *["wrong_result"] * 2, "ok"], results
        assert len(measurer.race([right, right], rounds=2, min_ms=0.1).times) == 2


def test_when_all_fail_the_first_reason_is_told(tmp_path, monkeypatch):
    broken = TEXT.replace("accumulate", "broken").strip()
    monkeypatch.setattr(
        "autotune.measure.oracle.reference_with_tolerance",
        lambda func, a, c, **more: ((np.zeros_like(a, float),), (np.zeros_like(a, float),)),
    )
    with pytest.raises(TensorIRError, match=r"\d wrong_result \(output 'C' differs at \[0, "):
        tune(parse(broken), trials=1, settings=BRIEF, database=tmp_path / "db.sqlite")
