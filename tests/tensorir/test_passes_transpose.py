"""Tiles that are transposed by shuffles of vectors."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from tensorir import (
    Const,
    Load,
    Ramp,
    Shuffle,
    Target,
    VerifyError,
    format_func,
    interpret,
    lower,
    parse,
    verify,
)

TILE = """
@prim_func
def tile(A: {dtype}[{cells}], B: {dtype}[{cells}]):
    for i in {outer}:
        for j in {inner}:
            B[i * {width} + j] = {value}
"""


def lowered(value, height, width, kinds=("unrolled", "vectorized"), bits=128, dtype="f32"):
    """A tile of B, with rows of `width`, that is read from A; lowered for vectors of `bits`."""
    outer, inner = (f"{kind}({n})" for kind, n in zip(kinds, (height, width)))
    fields = dict(value=value, width=width, outer=outer, inner=inner, dtype=dtype)
    func = parse(TILE.format(cells=height * width, **fields).strip())
    return func, lower(func, Target("c", vector_bits=bits))


def shuffles(func):
    return format_func(func).count("shuffle(")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kinds", [("unrolled", "vectorized"), ("vectorized", "unrolled")])
@pytest.mark.parametrize(
    ("height", "width", "bits", "count"),
    [
        (4, 4, 128, 8),
        (8, 8, 256, 24),
        (16, 16, 512, 64),
        (4, 16, 512, 4 + 4),  # a vector has four of the 16 rows as it is read
        (4, 16, 256, 2 * (4 + 4 + 4)),  # vectors of 4 grow to 8 lanes, and two rounds follow
        (16, 4, 512, 4 + 4 + 8 + 16),  # two rounds, and vectors of 16 shrink to 4 lanes
        (13, 4, 256, (4 + 4 + 8) + 8 + 8),  # rows of 8, of 4, and the last 4, of which 3 again
        (5, 7, 128, 4 * 8),  # tiles of 4 x 4, which have what is left with some of the others
        (7, 2, 128, 0),
        (3, 3, 128, 0),
        (1, 1, 512, 0),
    ],
)
def test_a_tile_is_read_in_vectors_along_its_columns(height, width, bits, count, kinds):
    func, low = lowered(f"A[j * {height} + i]", height, width, kinds, bits)
    verify(low)
    assert shuffles(low) == count
    again = parse(format_func(low))
    assert format_func(again) == format_func(low)
    a = np.arange(height * width, dtype=np.float32)
    want = a.reshape(width, height).T.ravel()
    for program in (func, low, again):
        np.testing.assert_array_equal(interpret(program, a)[0], want)


MASKS = Target("c", vector_bits=512, features=("avx512bw", "avx512f", "avx512vl"))
BESIDE = """
@prim_func
def beside(A: {dtype}[{cells}], B: {dtype}[{cells}]):
    with alloc(T, {dtype}[{width}, {height}], scope="local"):
        for j in range({width}):
            for i in vectorized({height}):
                T[j, i] = A[j * {height} + i] {more}
        for i in unrolled({height}):
            for j in vectorized({width}):
                B[i * {width} + j] = T[j, i]
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["f32", "i16", "f64"])
@pytest.mark.parametrize("width", [4, 8, 14, 16, 33])
@pytest.mark.parametrize("height", [5, 7, 9, 13, 14, 15, 29, 31])
def test_what_fills_more_than_half_of_a_vector_is_read_as_one(height, width, dtype):
    """And what it is read from is written in such vectors, too: rows have room for all lanes."""
    lanes = {"f32": 16, "i16": 32, "f64": 8}[dtype]
    more = {"f32": "+ 1.0", "i16": "+ i16(1)", "f64": "+ f64(1.0)"}[dtype]
    cells = height * width
    sizes = dict(height=height, width=width, cells=cells)
    func = parse(BESIDE.format(dtype=dtype, more=more, **sizes).strip())
    low = lower(func, MASKS)
    a = np.arange(cells).astype({"f32": "f4", "i16": "i2", "f64": "f8"}[dtype])
    np.testing.assert_array_equal(interpret(low, a)[0], interpret(func, a)[0])
    rest = height % lanes
    if rest > lanes // 2 and rest & (rest - 1):
        assert "T" in low.attrs["whole"] == low.attrs["loose"]


def test_rows_with_gaps_between_them_are_read_one_by_one():
    text = """
@prim_func
def apart(A: f32[144], B: f32[64]):
    for i in unrolled(4):
        for j in vectorized(16):
            B[i * 16 + j] = A[j * 9 + i]
"""
    func = parse(text.strip())
    low = lower(func, Target("c", vector_bits=512))
    assert shuffles(low) == 8 + 4 + 4 + 4 and "_tile" in format_func(low)
    a = np.arange(144, dtype=np.float32)
    np.testing.assert_array_equal(interpret(low, a)[0], a.reshape(16, 9)[:, :4].T.ravel())


@pytest.mark.parametrize(
    "value",
    [
        "A[i * 8 + j]",  # contiguous along the store
        "A[i]",  # the same all along the store
        "A[(j * 8 + i) * 2 % 64]",  # no steps of one
        "select(1 <= i, A[j * 8 + i - 1], 0.0)",  # a condition that changes along the reads
        "B[j * 8 + i]",  # what it stores to
    ],
)
def test_what_is_no_tile_stays(value):
    func, low = lowered(value, 8, 8, bits=256)
    verify(low)
    assert "_tile" not in format_func(low)
    if "B[" not in value:
        a = np.arange(64, dtype=np.float32)
        np.testing.assert_array_equal(interpret(low, a)[0], interpret(func, a)[0])


def test_conditions_of_a_whole_tile_are_read_with_it():
    text = """
@prim_func
def strips(A: f32[32], B: f32[64]):
    for t in range(4):
        for i in unrolled(4):
            for j in vectorized(4):
                B[t * 16 + i * 4 + j] = max(select({inside}, A[t * 16 + j * 4 + i - 16], 0.0), -1.0)
"""
    func = parse(text.replace("{inside}", "1 <= t and t < 3").strip())
    low = lower(func, Target("c", vector_bits=128))
    verify(low)
    assert shuffles(low) > 0
    a = np.random.default_rng(0).standard_normal(32).astype(np.float32) * 2
    np.testing.assert_array_equal(interpret(low, a)[0], interpret(func, a)[0])


@pytest.mark.parametrize("rows", [1, 7, 8, 13, 16])
def test_rows_that_fill_up_a_panel_are_not_read(rows):
    """Conditions on whole rows of what is read are asked for each, also of tiles without one."""
    text = f"""
@prim_func
def panel(A: f32[{rows * 8}], B: f32[128]):
    for t in range(2):
        for i in unrolled(8):
            for j in vectorized(8):
                B[i * 16 + t * 8 + j] = select(t * 8 + j < {rows}, A[(t * 8 + j) * 8 + i], -1.0)
"""
    func = parse(text.strip())
    low = lower(func, Target("c", vector_bits=256))
    verify(low)
    assert shuffles(low) > 0
    a = np.random.default_rng(0).standard_normal((rows, 8)).astype(np.float32)
    wanted = np.full((16, 8), -1, np.float32)
    wanted[:rows] = a
    np.testing.assert_array_equal(interpret(low, a.ravel())[0], wanted.T.ravel())
    kernel = build(func, "c -threads=1 -vector_bits=256")
    np.testing.assert_array_equal(kernel(a.ravel()), wanted.T.ravel())


def test_two_tiles_in_one_store_and_other_parts_along_it():
    text = """
@prim_func
def mix(A: f32[16], C: f32[16], D: f32[4], B: f32[16]):
    for i in unrolled(4):
        for j in vectorized(4):
            B[i * 4 + j] = A[j * 4 + i] * C[j * 4 + i] + D[j]
"""
    func = parse(text.strip())
    low = lower(func, Target("c", vector_bits=128))
    assert shuffles(low) == 16
    rng = np.random.default_rng(0)
    a, c, d = (rng.standard_normal(n).astype(np.float32) for n in (16, 16, 4))
    np.testing.assert_array_equal(interpret(low, a, c, d)[0], interpret(func, a, c, d)[0])


@pytest.mark.parametrize("kind", ["i8", "i16", "f16", "u8"])
def test_what_is_converted_to_the_size_of_the_result_is_turned_afterwards(kind):
    to = "f32" if kind == "f16" else "i32"
    text = f"""
@prim_func
def wider(A: {kind}[64], B: {to}[64]):
    for i in unrolled(8):
        for j in vectorized(8):
            B[i * 8 + j] = {to}(A[j * 8 + i]) + {to}(A[j * 8 + i])
"""
    func = parse(text.strip())
    low = lower(func, Target("c", vector_bits=256))
    verify(low)
    assert shuffles(low) == 24  # of vectors of the result: one square
    a = np.arange(64).astype({"i8": "int8", "i16": "int16", "f16": "float16", "u8": "uint8"}[kind])
    np.testing.assert_array_equal(interpret(low, a)[0], interpret(func, a)[0])


def test_gpus_keep_their_own_ways():
    func, _ = lowered("A[j * 4 + i]", 4, 4)
    assert shuffles(lower(func, Target("cuda", arch="sm_90"))) == 0


def test_shuffles_take_lanes_that_exist():
    _, low = lowered("A[j * 4 + i]", 4, 4)
    (load,) = {Load(low.params[0], (Ramp(Const(0, "int64"), Const(1, "int64"), 4),))}
    assert Shuffle(load, load, (7, 0)).dtype == "float32x2"
    text = format_func(low)
    assert "0, 4, 1, 5)" in text
    with pytest.raises(VerifyError, match="lanes outside of 0 to 7"):
        verify(parse(text.replace("0, 4, 1, 5)", "0, 4, 1, 8)")))
