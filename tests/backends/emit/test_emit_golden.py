"""The C text of three small programs, kept to be read."""

from __future__ import annotations

import pytest

from backends.c.emit.codegen import emit
from tensorir import Target, lower
from tensorir.text.parser import parse

PROGRAMS = {
    "matmul": """
@prim_func
def matmul(A: f32[64], B: f32[256], C: f32[256]):
    for i in parallel(4):
        with alloc(acc, f32x16[4], scope="local"):
            acc[0] = broadcast(0.0, 16)
            acc[1] = broadcast(0.0, 16)
            acc[2] = broadcast(0.0, 16)
            acc[3] = broadcast(0.0, 16)
            for k in range(16):
                acc[0] = acc[0] + broadcast(A[i * 32 + k], 16) * B[ramp(k * 32, 1, 16)]
                acc[1] = acc[1] + broadcast(A[i * 32 + k], 16) * B[ramp(k * 32 + 16, 1, 16)]
                acc[2] = acc[2] + broadcast(A[i * 32 + 16 + k], 16) * B[ramp(k * 32, 1, 16)]
                acc[3] = acc[3] + broadcast(A[i * 32 + 16 + k], 16) * B[ramp(k * 32 + 16, 1, 16)]
            C[ramp(i * 64, 1, 16)] = max(acc[0], broadcast(0.0, 16))
            C[ramp(i * 64 + 16, 1, 16)] = max(acc[1], broadcast(0.0, 16))
            C[ramp(i * 64 + 32, 1, 16)] = max(acc[2], broadcast(0.0, 16))
            C[ramp(i * 64 + 48, 1, 16)] = max(acc[3], broadcast(0.0, 16))
""",
    "softmax_row": """
@prim_func
def softmax_row(X: f32[n], Y: f32[n]):
    with alloc(T, f32[2], scope="local"):
        with alloc(E, f32[n]):
            T[0] = float("-inf")
            for i in range(n):
                T[0] = max(T[0], X[i])
            T[1] = 0.0
            for i in range(n):
                E[i] = exp(X[i] - T[0])
                T[1] = T[1] + E[i]
            for i in range(n):
                Y[i] = E[i] / T[1]
""",
    "pad": """
@prim_func
def pad(X: u8[100], M: bool[144], Y: bf16[144]):
    for i in unrolled(12):
        for j in range(12):
            if 1 <= i and i < 11:
                M[i * 12 + j] = 1 <= j and j < 11 or X[0] == u8(7)
            else:
                M[i * 12 + j] = False
            Y[(i + 3) // 5 * 12 + (j - 3) % 5] = bf16(f32(X[i // 2 * 10 + j % 10]))
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_text(golden, run, name):
    golden(emit(parse(PROGRAMS[name]), Target(threads=2, vector_bits=512)), f"{name}.c")


def test_masked_tail(golden):
    """A size that is not known: whole vectors, and then one of which the first lanes count."""
    text = """
@prim_func
def scale(X: f32[n], Y: f32[n]):
    for i in range((n + 15) // 16):
        for j in vectorized(16):
            if i * 16 + j < n:
                Y[i * 16 + j] = X[i * 16 + j] * 2.0
"""
    target = Target(vector_bits=512, features=("avx512bw", "avx512f", "avx512vl"))
    golden(emit(lower(parse(text), target), target), "masked_tail.c")
