"""Every other element, loaded as vectors of neighbours."""

from __future__ import annotations

import re
from textwrap import dedent

import numpy as np
import pytest

from tensorir import Target, format_func, interpret, lower, parse, verify

HALVES = """
@prim_func
def halves(A: f32[{size}], B: f32[{lanes}], C: f32[{lanes}]):
    for i in vectorized({lanes}):
        B[i] = {first}
    for j in vectorized({lanes}):
        C[j] = {second}
"""


def lowered(lanes, first, second, size, bits=256):
    text = HALVES.format(lanes=lanes, first=first, second=second, size=size)
    func = parse(text.strip())
    return func, lower(func, Target("c", vector_bits=bits))


def check(func, low):
    verify(low)
    a = np.arange(func.params[0].shape[0].value, dtype=np.float32)
    for got, want in zip(interpret(low, a), interpret(func, a)):
        np.testing.assert_array_equal(got, want)
    return format_func(low)


@pytest.mark.parametrize("lanes", [4, 8, 13, 16, 19])
def test_nothing_is_read_beyond_the_last_element(lanes):
    """The interpreter checks every index; A ends with the last element that is wanted."""
    func, low = lowered(lanes, "A[i * 2]", "1.0", 2 * lanes - 1)
    assert "shuffle(" in check(func, low)


@pytest.mark.parametrize(("lanes", "bits"), [(8, 256), (16, 512), (35, 512)])
@pytest.mark.parametrize("stride", [3, 4])
def test_strides_of_three_and_four(stride, lanes, bits):
    func, low = lowered(lanes, f"A[i * {stride}]", "1.0", stride * (lanes - 1) + 1, bits)
    assert check(func, low).count("shuffle(") == (stride - 1) * (lanes // (bits // 32))


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("dtype", ["u8", "i16", "f32", "f64"])
@pytest.mark.parametrize("parts", [(0,), (1, 2), None], ids=["one", "two", "all"])
@pytest.mark.parametrize("stride", range(2, 9))
def test_parts_of_any_stride_share_what_lies_in_the_same_vectors(stride, parts, dtype, bits):
    """Whether or not it pays, nothing outside is read and nothing else computed."""
    parts = range(stride) if parts is None else [p for p in parts if p < stride]
    size = bits // (int(dtype[1:]) if dtype != "u8" else 8)
    rows = [f"B[n, i] = A[i * {stride} + {part}]" for part in parts]
    stores = "\n            ".join(row.replace("n", str(n), 1) for n, row in enumerate(rows))
    text = f"""
    @prim_func
    def parts(A: {dtype}[{stride * (size - 1) + parts[-1] + 1}], B: {dtype}[{len(parts)}, {size}]):
        for i in vectorized({size}):
            {stores}
    """
    func = parse(dedent(text).strip())
    low = lower(func, Target("c", vector_bits=bits))
    verify(low)
    given = func.params[0]
    a = np.random.default_rng(stride).integers(0, 127, given.shape[0].value).astype(given.dtype)
    (got,) = interpret(low, a)
    np.testing.assert_array_equal(got, np.concatenate([a[p::stride][:size] for p in parts]))
    text = format_func(low)
    if bits == 512 and len(parts) == stride:
        assert "shuffle(" in text and f", {stride}, {size})]" not in text
        assert len(set(re.findall(r"A\[ramp\(\d+, 1, \d+\)\]", text))) == stride


def _windows(taps, stride, dtype, bits, vectors=1):
    """Sums of elements at `taps` from places so far apart, as it is lowered, and its text."""
    size = vectors * bits // (int(dtype[1:]) if dtype != "u8" else 8)
    value = " + ".join(f"A[i * {stride} + {tap}]" for tap in taps)
    text = f"""
    @prim_func
    def windows(A: {dtype}[{stride * (size - 1) + taps[-1] + 1}], B: {dtype}[{size}]):
        for i in vectorized({size}):
            B[i] = {value}
    """
    func = parse(dedent(text).strip())
    low = lower(func, Target("c", vector_bits=bits))
    verify(low)
    given = func.params[0]
    a = np.random.default_rng(stride).integers(0, 9, given.shape[0].value).astype(given.dtype)
    np.testing.assert_array_equal(interpret(low, a)[0], interpret(func, a)[0])
    return format_func(low)


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("dtype", ["u8", "i16", "f32", "f64"])
@pytest.mark.parametrize("taps", [range(3), range(5), (0, 2, 4), (0, 3), (1, 4, 9), (0, 8, 9, 17)])
@pytest.mark.parametrize("stride", [2, 3, 4, 8])
def test_windows_that_overlap_share_what_they_read(stride, taps, dtype, bits):
    """Nothing outside is read, and nothing else computed, whether or not the windows share."""
    _windows(tuple(taps), stride, dtype, bits)


@pytest.mark.parametrize("vectors", [1, 2])
@pytest.mark.parametrize(("stride", "taps"), [(2, 5), (2, 9), (3, 7), (4, 16)])
def test_a_window_takes_one_vector_more_than_elements_are_apart(stride, taps, vectors):
    """Of two side by side the first one ends with what the second one begins with."""
    text = _windows(tuple(range(taps)), stride, "f32", 512, vectors)
    loads = set(re.findall(r"A\[ramp\(\d+, 1, 16\)\]", text))
    assert len(loads) == vectors * stride + 1


@pytest.mark.parametrize("dtype", ["u8", "i16", "f32", "f64"])
@pytest.mark.parametrize("turn", [0, 1], ids=["in order", "turned"])
@pytest.mark.parametrize("stride", range(2, 9))
def test_stores_that_fill_memory_are_vectors_of_neighbours(stride, turn, dtype):
    size = 512 // (int(dtype[1:]) if dtype != "u8" else 8)
    rows = [f"B[i * {stride} + {n} + 3] = A[i + {n * size}]" for n in range(stride)]
    stores = "\n            ".join(rows[turn:] + rows[:turn])
    text = f"""
    @prim_func
    def parts(A: {dtype}[{stride * size}], B: {dtype}[{stride * size + 3}]):
        for j in vectorized(3):
            B[j] = A[j]
        for i in vectorized({size}):
            {stores}
    """
    func = parse(dedent(text).strip())
    low = lower(func, Target("c", vector_bits=512))
    verify(low)
    given = func.params[0]
    a = np.random.default_rng(stride).integers(0, 127, given.shape[0].value).astype(given.dtype)
    (got,) = interpret(low, a)
    np.testing.assert_array_equal(got[3:], a.reshape(stride, size).T.ravel())
    assert f", {stride}, {size})] =" not in format_func(low)


@pytest.mark.parametrize(
    ("stores", "why"),
    [
        (["B[i * 3] = A[i]", "B[i * 3 + 1] = A[i + 16]"], "a gap"),
        (["B[i * 2] = A[i]", "B[i * 2 + 2] = A[i + 16]"], "the same twice"),
        (["B[i * 2] = A[i]", "B[i * 2 + 1] = B[i * 2]"], "what is stored is read"),
    ],
)
def test_stores_that_leave_or_read_something_stay(stores, why):
    body = "".join(f"\n        for i in vectorized(16):\n            {store}" for store in stores)
    text = f"""
    @prim_func
    def parts(A: f32[48], B: f32[48]):
        for j in vectorized(16):
            B[j] = 0.0
            B[j + 16] = 0.0
            B[j + 32] = 0.0{body}
    """
    func = parse(dedent(text).strip())
    low = lower(func, Target("c", vector_bits=512))
    verify(low)
    assert "_parts" not in format_func(low), why
    a = np.random.default_rng(0).random(48, dtype=np.float32)
    np.testing.assert_array_equal(interpret(low, a)[0], interpret(func, a)[0])


def test_both_halves_share_their_vectors():
    func, low = lowered(8, "A[i * 2]", "A[j * 2 + 1]", 16)
    text = check(func, low)
    assert "A[ramp(0, 1, 8)], A[ramp(8, 1, 8)], 0, 2, 4, 6, 8, 10, 12, 14)" in text
    assert "A[ramp(0, 1, 8)], A[ramp(8, 1, 8)], 1, 3, 5, 7, 9, 11, 13, 15)" in text


def test_of_three_neighbours_two_share():
    func, low = lowered(8, "A[i * 2 + 2]", "A[j * 2] + A[j * 2 + 1]", 18)
    assert check(func, low).count("A[ramp(9, 1, 8)]") == 1


@pytest.mark.parametrize(
    "second",
    ["select(1.0 < A[0], A[j * 2 + 1], 0.0)", "A[j * 3 + 1]", "A[15 - j * 2]"],
    ids=["guarded", "three apart", "backwards"],
)
def test_what_may_not_be_read_is_not_shared(second):
    func, low = lowered(8, "A[i * 2]", second, 23 if "3" in second else 16)
    assert "A[ramp(0, 1, 8)], A[ramp(8, 1, 8)]" not in check(func, low)


def test_short_vectors_and_gpus_stay():
    func, low = lowered(2, "A[i * 2]", "1.0", 3)
    assert "shuffle(" not in check(func, low)
    func, _ = lowered(8, "A[i * 2]", "1.0", 15)
    assert "shuffle(" not in format_func(lower(func, Target("cuda", arch="sm_90")))
