"""Calls of kernels whose programs need what is in an array that they write."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import TensorIRError, interpret, parse

PARTS = """
@prim_func
def parts(A: f32[4], C: f32[n], D: f32[n, 2]):
    for i in range(n):
        with block("D"):
            vi = spatial(n, i)
            D[vi, 0] = C[vi] * f32(2.0)
            D[vi, 1] = f32(1.0)
    for i in range(n):
        with block("C"):
            vi = spatial(n, i)
            C[vi] = C[vi] + A[vi % 4]
"""

BOOLS = """
@prim_func
def ordered(K: bool[3, 8], N: i32[3]):
    T = alloc(bool[3, 8])
    for i in range(3):
        with block("T"):
            vi = spatial(3, i)
            extern("sort", [part(T[vi, 0], 8)], [part(K[vi, 0], 8)])
    for i, j in grid(3, 8):
        with block("K"):
            vi = spatial(3, i)
            vj = spatial(8, j)
            K[vi, vj] = T[vi, vj]
    for i in range(3):
        with block("N"):
            vi = spatial(3, i)
            N[vi] = i32(K[vi, 7])
"""


@pytest.fixture(scope="module")
def kernel(cache):
    return build(parse(PARTS.strip()), cache=cache)


def test_what_is_needed_is_given_changed_and_returned(kernel):
    a, c = np.arange(4, dtype=np.float32), np.full(6, 10, np.float32)
    expected = interpret(kernel.func, a, c)
    found, made = kernel(a, c)
    assert found is c and made.shape == (6, 2)
    np.testing.assert_array_equal(found, expected[0])
    np.testing.assert_array_equal(made, expected[1])
    given = np.empty((6, 2), np.float32)
    assert kernel(a, c, given)[1] is given and (given[:, 0] == 2 * expected[0]).all()


@pytest.mark.parametrize("count", [1, 4])
def test_the_message_names_what_is_needed(kernel, count):
    with pytest.raises(TensorIRError, match=r"expected 2 \(A, C\).*or 3 .*needs what is in 'C'"):
        kernel(*[np.ones(4, np.float32)] * count)


def test_it_cannot_be_a_constant_or_read_only(kernel):
    c = np.ones(6, np.float32)
    with pytest.raises(TensorIRError, match="'C' is written, so it cannot be a constant"):
        build(kernel.func, constants={"C": c})
    c.flags.writeable = False
    with pytest.raises(TensorIRError, match="'C'.*is read-only"):
        kernel(np.ones(4, np.float32), c)


def test_timing_and_export(kernel, tmp_path):
    assert kernel.time(repeats=1, min_ms=0.01, sizes={"n": 5}).median > 0
    header = kernel.export(tmp_path)[1].read_text()
    assert "C: float32 array of shape [n], read and written: the kernel needs what is in" in header
    assert "const float *A, float *C, float *D" in header
    text = build(Schedule(kernel.func)).source
    assert "reads and writes C: f32[n]" in text and "   writes D" in text


def test_bools_in_place_may_hold_any_byte(cache):
    """Also where an extern function works on them."""
    func = parse(BOOLS.strip())
    held = np.resize(np.array([255, 0, 2, 0, 0, 7], np.uint8), (3, 8)).view(bool)
    expected = interpret(func, held.copy())
    found = build(func, cache=cache)(held)
    assert found[0] is held and set(held.view(np.uint8).ravel()) == {0, 1}
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
