"""Loops over registers stand in the order in which conditions are asked seldom."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from tensorir import For, parse, walk
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.gpu.asked_first import asked_first

NEST = """
@prim_func
def f(A: f32[4, 64], B: f32[4, 4, 32]):
    R = alloc(f32[4, 4], scope="{scope}")
    for t in thread("threadIdx.x", 32):
        for k in unrolled(2):
            for i in unrolled(4):
                for j in unrolled(4):
                    if {cond}:
                        {line}
"""


def order(cond, line, scope="local"):
    func = parse(NEST.format(cond=cond, line=line, scope=scope))
    made = asked_first(func.body, function_analyzer(func))
    return "".join(s.var.name for s in walk(made) if isinstance(s, For) and s.thread is None)


@pytest.mark.parametrize(
    ("cond", "line", "scope", "wanted"),
    [
        ("j * 8 + t < 29", "R[i, j] = R[i, j] + A[i, t]", "local", "kji"),
        ("j * 8 + t < 29 and i < t", "R[i, j] = R[i, j] + A[i, t]", "local", "kij"),
        ("i * 8 + t < 29", "R[i, j] = R[i, j] + A[i, t]", "local", "kij"),
        ("i * 32 + t < 99 and j + t < 9", "R[i, j] = R[i, j] + A[i, t]", "local", "kji"),
        ("j * 32 + t < 99 and i + t < 9", "R[i, j] = R[i, j] + A[i, t]", "local", "kij"),
        ("k < t", "R[i, j] = A[i, t]", "local", "kij"),  # the last of the k stays the last
        ("j * 8 + t < 29", "R[j, 0] = R[j, 0] + A[i, t]", "local", "kij"),  # a sum over i
        ("j * 8 + t < 29", "R[i, j] = R[j, i] + A[i, t]", "local", "kij"),
        ("j * 8 + t < 29", "R[i, j] = A[i, t]", "shared", "kij"),
        ("R[0, j] < 1.0", "R[i, j] = A[i, t]", "local", "kij"),
    ],
)
def test_loops_that_a_condition_speaks_of_stand_outside(cond, line, scope, wanted):
    assert order(cond, line, scope) == wanted


def test_a_condition_is_asked_once_for_the_registers_beside_it(cache):
    text = """
@prim_func
def f(A: f32[4, 29], B: f32[4, 29]):
    R = alloc(f32[4, 4], scope="local")
    for t in thread("threadIdx.x", 8):
        for i in unrolled(4):
            for j in unrolled(4):
                if j * 8 + t < 29:
                    R[i, j] = A[i, j * 8 + t] * 2.0
        for i in unrolled(4):
            for j in unrolled(4):
                if j * 8 + t < 29:
                    B[i, j * 8 + t] = R[i, j]
"""
    a, b = np.random.default_rng(0).random((4, 29), "float32"), np.zeros((4, 29), "float32")
    kernel = build(parse(text), "cuda-emulator -check=bounds,uninitialised", cache=cache)
    kernel(a, b)
    np.testing.assert_array_equal(b, a * 2)
    lines = [line for line in kernel.source.splitlines() if "for (" in line or "if (" in line]
    assert [line.split()[0] for line in lines[:3]] == ["for", "if", "for"]
