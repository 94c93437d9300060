"""Integers of vectors are as narrow as their values allow, and never narrower."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from backends.c.emit.codegen import emit
from tensorir import Target, any_of, interpret, lower, parse, te, verify
from tensorir.passes.vectors.narrow_integers import narrow_integers

FUNC = """
@prim_func
def narrow(A: u8[34], N: i8[34], W: i32[34], H: u16[34], B: u8[32], C: i16[32]):
    for i in vectorized(32):
        {statement}
        {other}
"""

NARROWED = {
    "sums": ("B[i] = u8(i32(A[i]) + i32(A[i + 1]) == i32(3))", "i16(A[i]) + i16(A[i + 1])"),
    "wide": ("B[i] = u8(i64(A[i]) + i64(A[i + 1]) == 3)", "i16(A[i]) + i16(A[i + 1])"),
    "one": ("B[i] = u8(i32(A[i]) == i32(200))", "A[i] == u8(200)"),
    "signed": ("B[i] = u8(i32(N[i]) - i32(A[i]) < i32(-300))", "i16(N[i]) - i16(A[i])"),
    "product": ("B[i] = u8(i32(N[i]) * i32(A[i]) > i32(5))", "i16(N[i]) * i16(A[i])"),
    "square": ("B[i] = u8(i32(A[i]) * i32(A[i]) > i32(5))", "u16(A[i]) * u16(A[i])"),
    "limits": (
        "B[i] = u8(min(max(i32(A[i]) * i32(2) - i32(7), i32(0)), i32(255)))", "i16(A[i]) * i16(2)"
    ),
    "choice": (
        "B[i] = u8(select(A[i] > A[i + 1], i32(A[i]), i32(N[i])) + i32(1))", "i16(A[i]), i16(N[i])"
    ),
    "truth": ("C[i] = i16(i32(A[i] > u8(3)) + i32(N[i] > i8(3)))", "C[i] = i16("),
    "no conversion": (
        "C[i] = i16(select(A[i] > u8(3), i64(A[i]), 0))", "C[i] = select(u8(3) < A[i], i16(A[i])"
    ),
    "quotient": ("B[i] = u8((i32(A[i]) + i32(A[i + 1])) // i32(3))", "u8((i16(A[i]) +"),
    "quotient below zero": ("B[i] = u8(i32(N[i]) // i32(-3) == i32(7))", "i16(N[i]) // i16(-3)"),
    "remainder": ("B[i] = u8((i32(A[i]) - i32(7)) % i32(5) < i32(2))", "i16(7)) % i16(5)"),
    "halves": ("B[i] = u8((i32(A[i]) + i32(A[i + 1]) >> i32(1)))", "i16(A[i + 1]) >> i16(1)"),
    "twice": ("B[i] = u8((i32(A[i]) << i32(6)) > i32(99))", "i16(A[i]) << i16(6)"),
    "bits": (
        "B[i] = u8((i32(A[i]) & i32(60) | i32(A[i + 1]) ^ i32(3)) > i32(9))",
        "A[i] & u8(60) | A[i + 1] ^ u8(3)",
    ),
    "words": ("B[i] = u8(i64(H[i]) - i64(H[i + 1]) == 3)", "i32(H[i]) - i32(H[i + 1])"),
}  # fmt: skip
KEPT = {
    "loaded": "B[i] = u8(W[i] + i32(A[i]) == i32(3))",
    "wraps": "B[i] = u8(i32(A[i]) * i32(A[i]) * i32(A[i]) * i32(A[i]) > i32(5))",
    "too large": "B[i] = u8(i32(H[i]) * i32(H[i + 1]) > i32(5))",
    "unsigned": "B[i] = u8(u32(N[i]) + u32(A[i]) > u32(5))",
    "a float": "B[i] = u8(f32(A[i]) + f32(A[i + 1]) > f32(5.0))",
    "an index": "B[i] = A[i + i // 32]",
    "division by data": "B[i] = u8(i32(A[i]) // (i32(A[i + 1]) + i32(1)) == i32(3))",
    "remainder by what may be zero": "B[i] = u8(i32(A[i]) % max(i32(N[i]), i32(0)) == i32(3))",
    "shift out": "B[i] = u8(i32(H[i]) << i32(17) == i32(3))",
}


def program(statement):
    other = "C[i] = i16(7)" if statement.startswith("B") else "B[i] = u8(7)"
    func = parse(FUNC.format(statement=statement, other=other).strip())
    verify(func)
    return func


def data():
    rng = np.random.default_rng(0)
    kinds = {"uint8": (0, 255), "int8": (-128, 127), "int32": (-9, 9), "uint16": (0, 65535)}
    found = [rng.integers(a, b, 34, endpoint=True).astype(k) for k, (a, b) in kinds.items()]
    for x, (low, high) in zip(found, kinds.values()):
        x[:4] = low, low, high, high
    found[0][4:7] = 255, 0, 1
    found[3][5:8] = 4, 1, 0
    return found


def same(a, b):
    for found, want in zip(interpret(a, *data()), interpret(b, *data())):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("name", NARROWED)
def test_comparisons_and_conversions_are_narrow(name):
    statement, text = NARROWED[name]
    func = program(statement)
    found = narrow_integers(func)
    verify(found)
    assert text in str(found)
    assert narrow_integers(found) is found
    same(found, func)


@pytest.mark.parametrize("name", KEPT)
def test_what_may_wrap_stays(name):
    func = program(KEPT[name])
    assert narrow_integers(func) is func


def test_loops_without_vectors_stay():
    text = str(program(NARROWED["sums"][0])).replace("vectorized", "range")
    func = parse(text)
    assert narrow_integers(func) is func


def life(kind):
    cells = te.placeholder((40, 300), "uint8", name="cells")

    def step(i, j):
        near = [cells[i + dy, j + dx].astype(kind) for dy in range(3) for dx in range(3)]
        count = near[0]
        for one in near[1:]:
            count = count + one
        alive = any_of(count == 3, (cells[i + 1, j + 1] == 1) & (count == 4))
        return te.if_then_else(alive, te.const(1, "uint8"), te.const(0, "uint8"))

    return te.create_prim_func([cells, te.compute((38, 298), step, name="out")], name="life")


@pytest.mark.parametrize("kind", ["int32", "int64", "uint32"])
def test_sums_of_bytes_take_the_vectors_of_their_values(kind):
    """Whatever type a program counts in: the text is that of 16 bits."""
    target = Target(vector_bits=512, threads=1, features=("avx512f", "avx512bw", "avx512vl"))
    short = "uint16" if kind == "uint32" else "int16"
    text, other = (
        emit(lower(default_schedule(life(k), target).func, target), target) for k in (kind, short)
    )
    assert text.count("x32") > 20
    assert "i32x" not in text
    assert "i64x" not in text
    assert abs(len(text) - len(other)) < 0.02 * len(other)
