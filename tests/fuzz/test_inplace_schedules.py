"""Schedules of programs that read what they write, or write a part: no step may lose the values
that the caller gave, nor those that an earlier instance made."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import interpret, parse, verify

sys.path.insert(0, str(Path(__file__).parent))
from loop_requests import on_cpu  # noqa: E402
from random_schedules import Stress  # noqa: E402
from workloads import draw  # noqa: E402

PROGRAMS = {
    "accumulate": """
    for i, j in grid(5, 7):
        with block("C"):
            vi = spatial(5, i)
            vj = spatial(7, j)
            C[vi, vj] = C[vi, vj] + A[vi, vj]
""",
    "a part": """
    for i, j in grid(3, 7):
        with block("C"):
            vi = spatial(3, i)
            vj = spatial(7, j)
            C[vi + 1, vj] = A[vi, vj] * f32(2.0)
""",
    "a sum onto it": """
    for i, k in grid(5, 7):
        with block("C"):
            vi = spatial(5, i)
            vk = reduce(7, k)
            C[vi, 2] = C[vi, 2] + A[vi, vk]
""",
    "running along rows": """
    for i, j in grid(5, 6):
        with block("C"):
            vi = spatial(5, i)
            vj = opaque(6, j)
            C[vi, vj + 1] = C[vi, vj] + A[vi, vj]
""",
    "kept where": """
    for i, j in grid(5, 7):
        with block("C"):
            vi = spatial(5, i)
            vj = spatial(7, j)
            C[vi, vj] = select(A[vi, vj] > f32(0.0), A[vi, vj], C[vi, vj])
""",
    "a step of an optimizer": """
    T = alloc(f32[5, 7])
    for i, j in grid(5, 7):
        with block("T"):
            vi = spatial(5, i)
            vj = spatial(7, j)
            T[vi, vj] = C[vi, vj] * f32(2.0) + A[vi, vj]
    for p, q in grid(5, 7):
        with block("C"):
            vi = spatial(5, p)
            vj = spatial(7, q)
            C[vi, vj] = C[vi, vj] - T[vi, vj]
    for r, s in grid(5, 7):
        with block("D"):
            vi = spatial(5, r)
            vj = spatial(7, s)
            D[vi, vj] = C[4 - vi, vj] + T[vi, vj]
""",
    "read elsewhere, then written": """
    T = alloc(f32[5, 7])
    for i, j in grid(5, 7):
        with block("T"):
            vi = spatial(5, i)
            vj = spatial(7, j)
            T[vi, vj] = C[4 - vi, vj]
    for p, q in grid(5, 7):
        with block("C"):
            vi = spatial(5, p)
            vj = spatial(7, q)
            C[vi, vj] = T[vi, vj] + A[vi, vj]
""",
}


def program(name):
    body = PROGRAMS[name]
    outputs = "C: f32[5, 7], D: f32[5, 7]" if "D[" in body else "C: f32[5, 7]"
    func = parse(f"@prim_func\ndef inplace(A: f32[5, 7], {outputs}):{body.rstrip()}")
    assert [p.name for p in func.in_outs] == ["C"]
    return func


def arrays(seed):
    rng = np.random.default_rng(seed)
    return [rng.integers(-3, 4, (5, 7)).astype(np.float32) for _ in range(2)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_schedules_keep_what_was_there(name):
    func = program(name)
    a, c = arrays(0)
    expected = interpret(func, a, c)
    for seed in range(40):
        stress = Stress(random.Random(seed).choice)
        sch = Schedule(func)
        stress.run(sch, 8)
        verify(sch.func)
        assert [p.name for p in sch.func.in_outs] == ["C"], sch.trace
        for found, want in zip(interpret(sch.func, a, c, races=True), expected, strict=True):
            np.testing.assert_array_equal(found, want, err_msg=f"{seed}: {sch.trace}\n{sch.func}")
        if seed % 20 == 0:
            kept = c.copy()
            result = build(on_cpu(sch.func))(a, kept)
            made = result if isinstance(result, tuple) else (result,)
            assert made[0] is kept
            for found, want in zip(made, expected, strict=True):
                np.testing.assert_array_equal(found, want, err_msg=f"{seed}: {sch.trace}")


def test_outputs_that_are_made_stay_so_in_any_schedule():
    for seed in range(60):
        pick = random.Random(seed).choice
        work, stress = draw(pick), Stress(pick)
        sch = Schedule(work.func)
        assert work.func.in_outs == ()
        stress.run(sch, 10)
        assert sch.func.in_outs == (), f"{seed}: {sch.trace}\n{sch.func}"
