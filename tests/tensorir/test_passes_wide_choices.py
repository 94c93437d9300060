"""Narrow integers are chosen as wide as what decides, with the same values."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from backends import build, source_text
from tensorir import Target, interpret, parse, te, verify
from tensorir.passes.vectors.wide_choices import wide_choices

FUNC = """
@prim_func
def choices(F: f32[33], D: f64[32], H: f16[32], A: u8[33], W: i32[32], B: u8[32], C: i32[32]):
    for i in vectorized(32):
        {statement}
        {other}
"""
WIDER = {
    "constants": ("B[i] = select(F[i] < 0.0, u8(1), u8(255))", "i32(1), i32(255)))"),
    "one side": ("B[i] = select(F[i] < 0.0, A[i], u8(200))", "i32(A[i]), i32(200)))"),
    "a chain": (
        "B[i] = select(F[i] < 0.0, u8(1), select(F[i + 1] < F[i], u8(2), A[i]))",
        "u8(select(F[i] < 0.0, i32(1), select(F[i + 1] < F[i], i32(2), i32(A[i]))))",
    ),
    "both": ("B[i] = select(F[i] < 0.0 and W[i] == i32(3), u8(1), A[i])", "i32(1), i32(A[i])))"),
    "either": ("B[i] = select(A[i] < u8(9) or F[i] < 1.0, u8(1), A[i])", "i32(1), i32(A[i])))"),
    "inside": ("B[i] = A[i] + select(W[i] < i32(0), u8(1), A[i])", "A[i] + u8(select("),
    "half precision": ("B[i] = select(f32(H[i]) < 0.0, u8(1), A[i])", "i32(1), i32(A[i])))"),
    "double precision": ("C[i] = select(D[i] < f64(0.0), i32(-1), W[i])", "-1, i64(W[i])))"),
}
KEPT = {
    "as wide": "C[i] = select(F[i] < 0.0, i32(1), i32(2))",
    "wider": "C[i] = select(A[i] < u8(9), i32(1), i32(2))",
    "two that are read": "B[i] = select(F[i] < 0.0, A[i], A[i + 1])",
    "an index": "B[i] = select(i < 9, u8(1), A[i])",
    "no choice": "B[i] = u8(F[i] < 0.0)",
}


def program(statement):
    other = "C[i] = i32(7)" if statement.startswith("B") else "B[i] = u8(7)"
    func = parse(FUNC.format(statement=statement, other=other).strip())
    verify(func)
    return func


def data():
    rng = np.random.default_rng(0)
    floats = [rng.integers(-2, 3, n).astype(k) for k, n in (("f4", 33), ("f8", 32), ("f2", 32))]
    floats[0][3] = np.nan
    words = rng.integers(-(2**31), 2**31, 32).astype("i4")
    words[:9] = 3
    return [*floats, rng.integers(0, 256, 33).astype("u1"), words]


@pytest.mark.parametrize("name", WIDER)
def test_choices_are_as_wide_as_what_decides(name):
    statement, text = WIDER[name]
    func = program(statement)
    found = wide_choices(func)
    verify(found)
    assert text in str(found)
    assert wide_choices(found) is found
    for a, b in zip(interpret(found, *data()), interpret(func, *data())):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", KEPT)
def test_other_choices_stay(name):
    func = program(KEPT[name])
    assert wide_choices(func) is func


def test_loops_without_vectors_stay():
    func = parse(str(program(WIDER["constants"][0])).replace("vectorized", "range"))
    assert wide_choices(func) is func


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("kind", ["uint8", "int16"])
@pytest.mark.parametrize("compared", ["float32", "float64", "int32"])
def test_the_steepest_of_some(compared, kind, bits, cache):
    """Where the largest of four differences lies: one conversion of lanes for each vector."""
    x = te.placeholder((6, 77), compared, name="x")

    def steepest(i, j):
        best, at = x[i, j], te.const(0, kind)
        for n, near in enumerate((x[i, j + 1], x[i + 1, j], x[i + 1, j + 1])):
            at = te.if_then_else(near > best, te.const(1 << n, kind), at)
            best = te.max(near, best)
        return at

    func = te.create_prim_func([x, te.compute((5, 76), steepest, name="y")], name="steepest")
    sch = default_schedule(func, Target(vector_bits=bits, threads=1))
    given = np.random.default_rng(0).integers(-3, 4, (6, 77)).astype(compared)
    (want,) = interpret(func, given)
    np.testing.assert_array_equal(build(sch, f"c -vector_bits={bits}")(given), want)
    letter = {"uint8": "u8", "int16": "i16"}[kind]
    assert f"select_{letter}x" not in source_text(sch.func, f"c -vector_bits={bits}")
