"""Tuning programs that are written as statements, alone and as stages."""

from __future__ import annotations

import re

import numpy as np
import pytest

from autotune import tune
from autotune.measure import Measurer
from backends import build
from tensorir import parse, te
from tests.brief import BRIEF

SOLVE = parse(
    """
@prim_func
def solve(L: f32[n, n], b: f32[n, 16], x: f32[n, 16]):
    for i in range(n):
        for j in range(16):
            with block("x"):
                vi = opaque(n, i)
                vj = spatial(16, j)
                x[vi, vj] = b[vi, vj]
        for k in range(i):
            for p in range(16):
                with block("less"):
                    vi = opaque(n, i)
                    vk = reduce(n, k)
                    vj = spatial(16, p)
                    x[vi, vj] = x[vi, vj] - L[vi, vk] * x[vk, vj]
        for q in range(16):
            with block("quotient"):
                vi = opaque(n, i)
                vj = spatial(16, q)
                x[vi, vj] = x[vi, vj] / L[vi, vi]
"""
)
N = 12


def stage():
    L, b = te.placeholder((N, N), name="L"), te.placeholder((N, 16), name="b")
    scaled = te.compute((N, N), lambda i, j: L[i, j] + te.if_then_else(i < j, 0.0, 20.0), name="S")
    x = SOLVE(scaled, b)
    out = te.compute((N, 16), lambda i, j: x[i, j] * 2.0, name="out")
    return te.create_prim_func([L, b, out])


@pytest.mark.parametrize("make", [stage, lambda: SOLVE], ids=["a stage", "alone"])
def test_statements_are_tuned(pretended, make, tmp_path):
    func = make()
    sizes = {"n": N} if func is SOLVE else None
    result = tune(func, trials=2, settings=BRIEF, database=tmp_path / "db.sqlite", sizes=sizes)
    rng = np.random.default_rng(0)
    L = np.tril(rng.random((N, N), np.float32)) + 20 * np.eye(N, dtype=np.float32)
    b = rng.random((N, 16), np.float32)
    whole = L + 20 * np.tri(N, dtype=np.float32) if func is not SOLVE else L
    expected = np.linalg.solve(whole, b) * (1 if func is SOLVE else 2)
    np.testing.assert_allclose(build(result.schedule)(L, b), expected, rtol=1e-4)


def test_a_candidate_that_misses_a_step_is_found():
    func = stage()
    right = str(func)
    wrong = re.sub(r"grid\((i\w*), ", r"grid(\1 - \1 % 2, ", right)
    assert wrong != right
    with Measurer(func, settings=BRIEF) as measurer:
        found = [r.status for r in measurer.measure([right, wrong])]
    assert found == ["ok", "wrong_result"]
