"""Sums of products of integers of 16 bits are one instruction, and those of larger ones are not."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import interpret, parse, te, verify

KINDS = {"i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32"}

FUNC = """
@prim_func
def products(A: {a}[48], B: {b}[48], S: i32[48]):
    for t in range(3):
        for i in vectorized(16):
            S[t * 16 + i] = {value}
"""

INSIDE = """
@prim_func
def inside(A: {a}[48], B: i16[48], S: i32[48]):
    P = alloc(i32[50])
    for i in range(50):
        P[i] = {stored}
    for t in range(3):
        for i in vectorized(16):
            S[t * 16 + i] = P[t * 16 + i + 1] * i32(B[t * 16 + i]) + i32(7)
"""

FITS = {
    "bytes": ("i8", "i8", "i32(7) + i32(A[t * 16 + i]) * i32(B[t * 16 + i])"),
    "signs": ("u8", "i8", "i32(A[i]) + i32(A[t * 16 + i]) * i32(B[t * 16 + i])"),
    "words": ("i16", "i16", "i32(7) + i32(A[t * 16 + i]) * i32(B[t * 16 + i])"),
    "one of a row": ("i16", "i16", "i32(7) + i32(A[t]) * i32(B[t * 16 + i])"),
    "the other way": ("i16", "i16", "i32(7) + i32(B[t * 16 + i]) * i32(A[t])"),
    "squares": ("i8", "u8", "i32(9) + (i32(A[t * 16 + i]) - i32(B[i])) * (i32(A[t * 16 + i]) "
                "- i32(B[i]))"),
    "constants": ("i16", "i8", "i32(B[i]) + i32(A[t * 16 + i]) * i32(-32768)"),
    "chains": ("i16", "i16", "i32(7) + i32(A[i]) * i32(B[i]) + i32(A[t * 16 + i]) * i32(B[i])"),
    "of three": ("i8", "i8", "i32(7) + i32(A[i]) * i32(B[i]) * i32(A[t * 16 + i])"),
    "sides": ("i16", "i32", "B[i] + i32(A[t * 16 + i]) * i32(A[i])"),
}  # fmt: skip

OTHERS = {
    "large": ("i16", "i32", "i32(7) + i32(A[i]) * B[t * 16 + i]"),
    "no sign": ("u16", "i16", "i32(7) + i32(A[i]) * i32(B[t * 16 + i])"),
    "beyond": ("i16", "i16", "i32(7) + (i32(A[i]) - i32(B[i])) * i32(B[t * 16 + i])"),
    "constants": ("i16", "i8", "i32(B[i]) + i32(A[t * 16 + i]) * i32(32768)"),
    "of three": ("i16", "i16", "i32(7) + i32(A[i]) * i32(B[i]) * i32(A[t * 16 + i])"),
    "differences": ("i16", "i16", "i32(7) - i32(A[i]) * i32(B[t * 16 + i])"),
}

NEEDED = {
    "x86-64": set(), "haswell": {"avx2", "fma"}, "skylake-avx512": {"avx512bw", "avx512vl"},
    "icelake-server": {"avx512_vnni", "avx512_vbmi2"},
}  # fmt: skip


def marches():
    """Processors that this machine can imitate."""
    known = Path("/proc/cpuinfo")
    flags = set(known.read_text().split()) if known.exists() else set()
    on_x86 = platform.machine() in ("x86_64", "AMD64")
    return ["native", *(march for march, needed in NEEDED.items() if on_x86 and needed <= flags)]


def values(kind, count=48):
    """Those at the ends of a type among others."""
    low, high = np.iinfo(KINDS[kind]).min, np.iinfo(KINDS[kind]).max
    made = np.random.default_rng(len(kind)).integers(low, high, count, endpoint=True)
    made[:6] = made[17:23] = low, high, low, 0, high, min(high, -1 % (high + 1))
    return made.astype(KINDS[kind])


def agrees(func, march, *arrays):
    verify(func)
    found = np.zeros(48, "int32")
    kernel = build(func, f"c -march={march} -threads=1")
    kernel(*arrays, found)
    np.testing.assert_array_equal(found, interpret(func, *arrays)[0])
    return kernel


@pytest.mark.parametrize("march", marches())
@pytest.mark.parametrize("name", FITS)
def test_products_of_16_bits_are_added_by_one_instruction(name, march):
    a, b, value = FITS[name]
    func = parse(FUNC.format(a=a, b=b, value=value).strip())
    kernel = agrees(func, march, values(a), values(b))
    assert "add_product" in kernel.source


INSTRUCTIONS = {
    "haswell": "vpmaddwd", "skylake-avx512": "vpmaddwd", "icelake-server": "vpdpwssd",
}  # fmt: skip


@pytest.mark.parametrize(("march", "instruction"), INSTRUCTIONS.items())
def test_processors_have_the_instruction(march, instruction):
    a, b, value = FITS["words"]
    func = parse(FUNC.format(a=a, b=b, value=value).strip())
    lines = build(func, f"c -march={march} -threads=1").asm
    assert instruction in lines and "mulld" not in lines


@pytest.mark.parametrize("march", marches())
@pytest.mark.parametrize("name", OTHERS)
def test_other_products_are_as_wide_as_their_type(name, march):
    a, b, value = OTHERS[name]
    func = parse(FUNC.format(a=a, b=b, value=value).strip())
    assert "add_product" not in agrees(func, march, values(a), values(b)).source


STORED = {
    "i16": "select(i < 1 or i > 48, i32(0), i32(A[max(min(i - 1, 47), 0)]))",
    "i32": "A[max(min(i - 1, 47), 0)]",
    "i8": "i32(A[max(min(i - 1, 47), 0)]) * i32(A[0])",
}


@pytest.mark.parametrize("kind", STORED)
def test_what_buffers_hold_is_known_from_all_that_is_stored_in_them(kind):
    func = parse(INSIDE.format(a=kind, stored=STORED[kind]).strip())
    kernel = agrees(func, "native", values(kind), values("i16"))
    assert ("add_product" in kernel.source) == (kind != "i32")


AHEAD = {
    "converted": ("int16", lambda w, i: w[i].astype("int32"), True),
    "products": ("uint8", lambda w, i: w[47 - i].astype("int32") * -128, True),
    "too large": ("int16", lambda w, i: w[i].astype("int32") * 2, False),
    "large": ("int32", lambda w, i: w[i], False),
}  # fmt: skip


@pytest.mark.parametrize("name", AHEAD)
def test_what_is_made_ahead_of_calls_is_known_in_them(name):
    kind, stored, fits = AHEAD[name]
    x, w = te.placeholder((48,), "int16", name="X"), te.placeholder((48,), kind, name="W")
    p = te.compute((48,), lambda i: stored(w, i), name="P")
    s = te.compute((48,), lambda i: x[i].astype("int32") * p[i] + 7, name="S")
    sch = Schedule(te.create_prim_func([x, w, s]))
    sch.vectorize(sch.split(sch.get_loops("S")[0], [None, 16])[1])
    a, constant = values("i16"), values({k: n for n, k in KINDS.items()}[kind])
    kernel = build(sch, "c -threads=1", constants={"W": constant})
    np.testing.assert_array_equal(kernel(a), interpret(sch.func, a, constant)[0])
    assert ("add_product" in kernel.source) == fits
