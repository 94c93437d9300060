"""Places of gathered and scattered elements in 32 bits."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import Target, interpret, lower
from tensorir.passes.vectors.narrow_gathers import narrow_gathers
from tensorir.text.parser import parse
from tensorir.text.printer import format_func
from tensorir.verifier.program import verify

HEAD = "@prim_func\ndef f(I: {kind}[32], A: f32[{size}], C: f32[{out}]):\n"
LOOPS = "    for i in range(2):\n        for j in vectorized(16):\n            "


def lowered(body: str, kind: str = "i32", size: str = "64", out: int = 32):
    func = parse(HEAD.format(kind=kind, size=size, out=out) + LOOPS + body)
    return func, lower(func, Target("c", vector_bits=512))


GATHERED = [
    "C[i * 16 + j] = A[i64(I[i * 16 + j])]",
    "C[i * 16 + j] = A[i64(I[i * 16 + j]) + i * 16 + 3]",
    "C[i * 16 + j] = A[i64(I[i * 16 + j]) * 2 + (j * 7) % 5]",
    "C[i * 16 + j] = A[63 - i64(I[i * 16 + j])]",
    # Sums on the way are no 32 bits, places are.
    "C[i * 16 + j] = A[i64(I[i * 16 + j]) * 3000000000 - i64(I[i * 16 + j]) * 2999999999]",
]


@pytest.mark.parametrize("kind", ["i8", "u16", "i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("body", GATHERED)
def test_places_are_counted_in_32_bits(body, kind):
    func, low = lowered(body, kind)
    verify(low)
    text = format_func(low)
    inside = text[text.index("A[", text.index(":\n")) :].split("\n", 1)[0]
    assert inside.startswith("A[i64x16(") and inside.count("i64") == 1, text
    places = np.random.default_rng(0).permutation(32).astype(parse_type(kind))
    a = np.arange(64, dtype=np.float32)
    for program in (low, parse(text)):
        np.testing.assert_array_equal(
            interpret(program, places, a)[0], interpret(func, places, a)[0]
        )


def parse_type(kind: str) -> str:
    return kind.replace("i", "int").replace("u", "uint")


@pytest.mark.parametrize("size", ["3000000000", "n"])
def test_places_that_may_not_fit_stay_wide(size):
    parameter = "n: i64, " if size == "n" else ""
    head = HEAD.format(kind="i32", size=size, out=32).replace("f(", f"f({parameter}")
    func = parse(head + LOOPS + GATHERED[1])
    assert "i32x16" not in format_func(lower(func, Target("c", vector_bits=512))).split("A[")[-1]


@pytest.mark.parametrize("body", ["C[i * 16 + j] = A[i * 16 + j]", "C[i * 16 + j] = A[i * 3]"])
def test_what_is_no_gather_stays(body):
    _, low = lowered(body)
    assert narrow_gathers(low) is low


def test_places_of_scattered_elements_are_narrow_too():
    func, low = lowered("C[i64(I[i * 16 + j]) + i] = A[i * 16 + j]", out=64)
    assert narrow_gathers(low) is low
    assert "C[i64x16(I[ramp(i * 16, 1, 16)] + broadcast(i32(i), 16))]" in format_func(low)
    places = np.random.default_rng(0).permutation(32).astype("int32")
    a, c = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    np.testing.assert_array_equal(interpret(low, places, a, c)[0], interpret(func, places, a, c)[0])


@pytest.mark.parametrize(("size", "masks", "narrow"), [(256, 1, 1), (256, 0, 0), (257, 1, 0)])
def test_places_in_short_tables_of_bytes_are_bytes(size, masks, narrow):
    """Where processors choose bytes of registers; of wide places the lowest byte counts."""
    text = f"""
@prim_func
def f(I: i32[64], A: u8[{size}], C: u8[64]):
    for i in vectorized(64):
        C[i] = A[i64(I[i]) * 3 - i * 2 - 20]
"""
    func = parse(text.strip())
    features = ("avx512bw", "avx512f", "avx512vl") if masks else ()
    low = lower(func, Target("c", vector_bits=512, features=features))
    verify(low)
    assert ("u8x64(I[" in format_func(low)) == bool(narrow)
    places = np.arange(64, dtype="int32") + 20
    a = np.random.default_rng(0).integers(0, 256, size).astype("uint8")
    np.testing.assert_array_equal(interpret(low, places, a)[0], interpret(func, places, a)[0])
