"""compact_registers: no gaps where other threads have what lies in between."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_programs import run

from tensorir import Alloc, parse, walk
from tensorir.passes.gpu.compact_registers import compact_registers

WRITE = """
@prim_func
def f(A: f32[64], D: f32[64]):
    for t in thread("threadIdx.x", 8):
        with alloc(R, f32[36], scope="local"):
            for i in unrolled(2):
                for j in unrolled(4):
                    R[i * 32 + j] = A[i * 32 + t * 4 + j] * 2.0
"""

ALIKE = """
            for v in range(2):
                for w in range(4):
                    D[v * 32 + t * 4 + w] = R[v * 32 + w]
"""

FINER = """
            for v in range(2):
                for w in range(2):
                    for q in range(2):
                        D[v * 32 + t * 4 + w * 2 + q] = R[v * 32 + w * 2 + q]
"""

QUOTIENTS = """
            for v in range(8):
                D[v // 4 * 32 + t * 4 + v % 4] = R[v // 4 * 32 + v % 4]
"""

FARTHER = """
            for v in range(2):
                for w in range(2):
                    D[v * 32 + t * 4 + w * 2] = R[v * 32 + w * 2]
                    D[v * 32 + t * 4 + w * 2 + 1] = R[v * 32 + w * 2]
"""


@pytest.mark.parametrize(("read", "size"), [(ALIKE, 8), (FINER, 8), (QUOTIENTS, 8), (FARTHER, 36)])
def test_rows_of_other_threads_are_left_out(read, size):
    """Loops that go through the same places in other steps do as well, and one loop through rows
    and what is in them; others keep all as it is."""
    func = parse(WRITE + read.removeprefix("\n"))
    made = compact_registers(func)
    (found,) = [s.buffer.const_shape for s in walk(made.body) if isinstance(s, Alloc)]
    assert found == (size,)
    given = np.arange(64, dtype="float32")
    np.testing.assert_array_equal(run(made, given)[0], run(func, given)[0])


TURNS = """
@prim_func
def f(A: f32[24], D: f32[24]):
    for t in thread("threadIdx.x", 8):
        with alloc(R, f32[5, 6], scope="local"):
            for i in unrolled(3):
                R[(i * 8 + t) % 5, (i * 8 + t) // 5] = A[i * 8 + t] * 2.0
            for v in unrolled(3):
                D[v * 8 + t] = R[READ]
"""


@pytest.mark.parametrize(
    ("read", "shape"),
    [
        ("(v * 8 + t) % 5, (v * 8 + t) // 5", (3,)),
        ("(16 - v * 8 + t) % 5, (16 - v * 8 + t) // 5", (5, 6)),
    ],
)
def test_what_threads_have_in_turns(read, shape):
    """Elements by quotients and remainders of whose number each thread has every eighth."""
    func = parse(TURNS.replace("READ", read))
    made = compact_registers(func)
    (found,) = [s.buffer.const_shape for s in walk(made.body) if isinstance(s, Alloc)]
    assert found == shape
    given = np.arange(24, dtype="float32")
    np.testing.assert_array_equal(run(made, given)[0], run(func, given)[0])


def test_turns_at_one_place_share_it():
    """The second turn writes where the first one did, and both read that."""
    func = parse(TURNS.replace("(i * 8 + t) % 5, (i * 8 + t) // 5", "(i + t) % 2, t // 2").replace(
        "READ", "(v + t) % 2, t // 2"))  # fmt: skip
    made = compact_registers(func)
    given = np.arange(24, dtype="float32")
    np.testing.assert_array_equal(run(made, given)[0], run(func, given)[0])
