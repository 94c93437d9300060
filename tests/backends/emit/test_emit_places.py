"""Addresses with names: accesses at fixed distances from one place have constant indices."""

from __future__ import annotations

import numpy as np
import pytest

from backends.c.emit.codegen import emit
from backends.c.flags import ELEMENT, VECTORS
from tensorir import Alloc, Buffer, For, Load, PrimFunc, Ramp, Store, Target, Var, const, seq
from tensorir.text.parser import parse

TARGET = Target(vector_bits=512)

UPDATES = """
@prim_func
def f(A: f32[64], C: f32[64]):
    for i, j in grid(2, 4):
        for k in range(2):
            C[i * 32 + j * 8 + k * 4] = C[i * 32 + j * 8 + k * 4] + A[i * 32 + j * 8 + k * 4]
            C[i * 32 + j * 8 + k * 4 + 1] = C[i * 32 + j * 8 + k * 4 + 1] * 3.0
            C[i * 32 + j * 8 + k * 4 + 3] = C[i * 32 + j * 8 + k * 4 + 3] - 1.0
"""


def body(program: str) -> str:
    text = emit(parse(program), TARGET)
    return text[text.index("int f(") :]


def test_an_address_is_computed_once_and_no_index_is_left(run):
    text = body(UPDATES)
    assert "float *C_at = &C[i * 32 + j * 8 + k * 4];" in text
    assert "C_at[0] += A" in text and "C_at[3] = C_at[3] - 1.0f;" in text
    assert "A_at" not in text
    a, c = np.arange(64, dtype="float32"), np.arange(64, dtype="float32")[::-1].copy()
    expected = c.copy()
    expected[0::4] += a[0::4]
    expected[1::4] *= 3
    expected[3::4] -= 1
    assert run(UPDATES, a, c) == 0
    np.testing.assert_array_equal(c, expected)


def test_what_is_only_read_keeps_const_in_outlined_loops_too(run):
    program = """
@prim_func
def f(A: f32[40], C: f32[16]):
    for i in parallel(8):
        C[i * 2] = A[i * 5] + A[i * 5 + 1]
        C[i * 2 + 1] = A[i * 5 + 2] - A[i * 5 + 4]
"""
    text = emit(parse(program), TARGET)
    assert "const float *A_at = &A[i * 5];" in text and "C_at" not in text
    a, c = np.arange(40, dtype="float32"), np.zeros(16, "float32")
    assert run(program, a, c) == 0
    rows = a.reshape(8, 5)
    expected = np.stack([rows[:, 0] + rows[:, 1], rows[:, 2] - rows[:, 4]], axis=1)
    np.testing.assert_array_equal(c.reshape(8, 2), expected)


@pytest.mark.parametrize("size, memory", [(36, True), (32, False)])
def test_local_arrays_are_memory_where_no_registers_hold_them(size, memory, run):
    i, j, lanes = Var("i"), Var("j"), 16
    x, y = (Buffer(name, (32 * lanes,), "float32") for name in "xy")
    t = Buffer("t", (size,), f"float32x{lanes}", "local")

    def vector(at):
        return (Ramp(at * lanes, const(1), lanes),)

    first = [Store(t, (i * 4 + n,), Load(x, vector(i * 4 + n))) for n in range(4)]
    then = [Store(y, vector(j * 4 + n), Load(t, (j * 4 + (3 - n),))) for n in range(4)]
    loops = seq(For(i, const(8), seq(*first)), For(j, const(8), seq(*then)))
    func = PrimFunc("f", (x, y), (), Alloc(t, loops))
    text = emit(func, TARGET)
    assert ("t_at[3] = LOAD" in text) == memory
    assert set(ELEMENT.findall(text)) <= set(VECTORS.findall(text)), "flags know them as vectors"
    a, found = np.arange(32 * lanes, dtype="float32"), np.zeros(32 * lanes, "float32")
    assert run(func, a, found) == 0
    np.testing.assert_array_equal(found, a.reshape(8, 4, lanes)[:, ::-1].ravel())


def test_vectors_and_strided_stores_start_at_a_named_address(run):
    program = """
@prim_func
def f(A: f32[40], C: f32[40]):
    for i in range(2):
        C[ramp(i * 16 + 2, 1, 4)] = A[ramp(i * 8 + 3, 1, 4)]
        C[ramp(i * 16 + 6, 2, 4)] = A[ramp(i * 8, 1, 4)]
        C[i * 16] = A[i * 8 + 20]
        C[i * 16 + 1] = A[i * 8 + 19]
"""
    text = body(program)
    assert "&C_at[6]" in text and "&C_at[2]" in text and "C_at[1]" in text
    a, c, expected = np.arange(40, dtype="float32"), *np.zeros((2, 40), "float32")
    assert run(program, a, c) == 0
    for i in range(2):
        expected[i * 16 + 2 : i * 16 + 6] = a[i * 8 + 3 : i * 8 + 7]
        expected[i * 16 + 6 : i * 16 + 14 : 2] = a[i * 8 : i * 8 + 4]
        expected[i * 16 : i * 16 + 2] = a[i * 8 + 20], a[i * 8 + 19]
    np.testing.assert_array_equal(c, expected)


def test_guarded_accesses_registers_and_indices_from_memory_do_not_count():
    text = body(
        """
@prim_func
def f(A: f32[64], N: i64[8], C: f32[64]):
    with alloc(T, f32[8], scope="local"):
        for i in range(2):
            T[i * 4] = 0.0
            T[i * 4 + 1] = select(1 <= i, A[i * 32 - 32], 0.0)
            T[i * 4 + 2] = select(1 <= i, A[i * 32 - 31], 0.0)
            T[i * 4 + 3] = select(1 <= i, A[i * 32 - 30], 0.0)
        for i in range(2):
            C[N[i] * 4] = T[0]
            C[N[i] * 4 + 1] = T[1]
            C[N[i] * 4 + 2] = T[2]
"""
    )
    assert "A_at" not in text and "C_at" not in text and "T_at" not in text


def test_a_pointer_lies_in_its_buffer_where_the_place_does_not(run):
    """What compilers may take for granted, and what sanitizers ask for."""
    program = """
@prim_func
def f(A: f32[8], C: f32[12]):
    for i in range(3):
        if 2 <= i:
            C[i * 4] = A[i * 12 - 24]
            C[i * 4 + 1] = A[i * 12 - 22]
            C[i * 4 + 2] = A[i * 12 - 17]
"""
    text = body(program)
    assert "A_at = &A[i * 12 - 24];" in text and "A_at[2]" in text and "A_at[7]" in text
    a, c = np.arange(8, dtype="float32"), np.zeros(12, "float32")
    assert run(program, a, c) == 0
    np.testing.assert_array_equal(c[8:], [0, 2, 7, 0])


def test_what_is_read_backwards_has_no_pointer_before_its_buffer(run):
    """gcc 12.2 concludes from one before a local array that stores to its start do not happen."""
    program = """
@prim_func
def f(A: f32[16], C: f32[12]):
    with alloc(T, f32[16]):
        for i in range(16):
            T[i] = A[i] * 2.0
        for i in range(4):
            C[i * 3] = T[0 - i * 4 + 12]
            C[i * 3 + 1] = T[0 - i * 4 + 13]
            C[i * 3 + 2] = T[0 - i * 4 + 15]
"""
    text = body(program)
    assert "C_at = &C[i * 3]" in text and "T_at" not in text
    a, c = np.arange(16, dtype="float32"), np.zeros(12, "float32")
    assert run(program, a, c) == 0
    np.testing.assert_array_equal(c, 2 * a.reshape(4, 4)[::-1, [0, 1, 3]].ravel())
