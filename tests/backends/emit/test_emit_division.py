"""Floor division of vectors of integers, by numbers and by variables, is NumPy's."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from emulator import ARM, emulated, needs_emulator

from backends import build
from backends.c.emit.division import SMALL
from schedule import Schedule
from tensorir import te

TYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DIVISORS = (3, 7, 10, 641, 2**31 - 1, 2**33 + 1, 2**63 - 1, 2**64 - 1)


@cache
def operands(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of numbers near the ends of the type, zero and powers of two, and random ones."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    near = {0, 1, 2, 3, 7, low, low + 1, low + 2, high, high - 1, -1, -2, -3}
    near |= {2**k + d for k in range(0, 64, 5) for d in (-1, 0, 1)}
    edges = np.array(sorted(v for v in near if low <= v <= high), dtype)
    a, b = (v.ravel() for v in np.meshgrid(edges, edges))
    rng, count = np.random.default_rng(3), 4096 - a.size
    more = rng.integers(low, high, (2, count), dtype, endpoint=True)
    more[1] >>= rng.integers(0, 8 * np.dtype(dtype).itemsize, count).astype(dtype)
    return np.concatenate([a, more[0]]), np.concatenate([b, more[1]])


def divisions(dtype: str, lanes: int) -> tuple[Schedule, list[np.ndarray]]:
    """Quotients and remainders of a by b and by numbers, and what NumPy has for them."""
    a, b = operands(dtype)
    x, y = (te.placeholder(a.shape, dtype, name=n) for n in "AB")
    outputs, wanted = [], []

    def divide(label, by, divisor):
        with np.errstate(all="ignore"):
            wanted.extend([a // by, a % by])
        outputs.append(te.compute(a.shape, lambda i: x[i] // divisor(i), name=f"quotient_{label}"))
        outputs.append(te.compute(a.shape, lambda i: x[i] % divisor(i), name=f"rest_{label}"))

    divide("b", b, lambda i: y[i])
    for number in (n for n in DIVISORS if n <= np.iinfo(dtype).max):
        divide(number, np.array(number, dtype), lambda _, n=number: n)
    sch = Schedule(te.create_prim_func([x, y, *outputs], name="divisions"))
    for out in outputs:
        sch.vectorize(sch.split(sch.get_loops(out.name)[0], [None, lanes])[1])
    return sch, wanted


def lanes_of(dtype: str, size: int) -> int:
    return size // np.dtype(dtype).itemsize


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("march", "size"), [("native", 64), ("x86-64", 16)])
def test_quotients_and_rests(dtype, march, size):
    sch, wanted = divisions(dtype, lanes_of(dtype, size))
    found = [np.zeros_like(w) for w in wanted]
    build(sch, f"c -march={march}")(*operands(dtype), *found)
    for block, result, expected in zip(sch.func.outputs, found, wanted):
        np.testing.assert_array_equal(result, expected, err_msg=block.name)


@needs_emulator
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "uint64"])
def test_on_the_emulator_of_arm(dtype, cache, tmp_path):
    sch, wanted = divisions(dtype, lanes_of(dtype, 16))
    found = [np.zeros_like(w) for w in wanted]
    with emulated(build(sch, ARM, cache=cache), tmp_path) as call:
        call(*operands(dtype), *found)
    for block, result, expected in zip(sch.func.outputs, found, wanted):
        np.testing.assert_array_equal(result, expected, err_msg=block.name)


def test_indices_of_a_loop_are_divided_without_their_sign():
    c = te.compute((128,), lambda i: (i // 7) * 100 + i % 7, name="C")
    sch = Schedule(te.create_prim_func([c]))
    sch.vectorize(sch.split("i", [None, 8])[1])
    kernel = build(sch, "c -vector_bits=512")
    assert "natural_div_i64x8_by_7" in kernel.source
    i = np.arange(128)
    np.testing.assert_array_equal(kernel(), i // 7 * 100 + i % 7)


@pytest.mark.parametrize("d", [3, 5, 7, 255, 641, 65535, 1_000_003, SMALL - 65536])
@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_all_small_numbers_are_divided_as_floats(dtype, d):
    """Every sum of 16 bits and a multiple of them that is small beside the divisor."""
    count = min(32, (SMALL - d) // 65536)
    x = te.placeholder((65536,), "uint16", name="A")
    out = te.compute(
        (count, 65536), lambda i, j: (x[j].astype(dtype) + i.astype(dtype) % count * 65536) // d
    )
    rest = te.compute((65536,), lambda j: x[j].astype(dtype) % d, name="rest")
    sch = Schedule(te.create_prim_func([x, out, rest]))
    for block in sch.get_blocks():
        sch.vectorize(sch.split(sch.get_loops(block)[-1], [None, 16])[1])
    kernel = build(sch, "c -threads=1")
    a = np.arange(65536, dtype=np.uint16)
    got, rests = kernel(a)
    want = (np.arange(count * 65536) // d).reshape(count, 65536)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(rests, np.arange(65536) % d)
    assert "small_div_" in kernel.source


def test_numbers_that_may_be_larger_or_negative_are_not():
    x = te.placeholder((64,), "int16", name="A")
    y = te.placeholder((64,), "uint16", name="B")
    outs = [
        te.compute((64,), lambda i: x[i].astype("int32") // 3),
        te.compute((64,), lambda i: (y[i].astype("int32") * 33) // 3),
    ]
    sch = Schedule(te.create_prim_func([x, y, *outs]))
    for block in sch.get_blocks():
        sch.vectorize(sch.split(sch.get_loops(block)[-1], [None, 16])[1])
    kernel = build(sch, "c -threads=1")
    a = np.arange(-32000, 32000, 1000).astype(np.int16)
    b = np.arange(0, 65536, 1024).astype(np.uint16)
    first, second = kernel(a, b)
    np.testing.assert_array_equal(first, a.astype(np.int32) // 3)
    np.testing.assert_array_equal(second, b.astype(np.int32) * 33 // 3)
    assert "small_div_" not in kernel.source and "natural_div_" in kernel.source


@pytest.mark.parametrize("dtype", ["int32", "int16", "uint8"])
def test_no_division_of_integers_is_left(dtype):
    sch, _ = divisions(dtype, lanes_of(dtype, 64))
    lines = build(sch, "c -march=skylake-avx512 -threads=1").asm.splitlines()
    assert not [line for line in lines if line.startswith(("\tidiv", "\tdiv"))]
