"""vector_accesses: 128 bits where they are aligned, less where less is, and else unrolled loops."""

from __future__ import annotations

import pytest
from gpu_programs import BLOCK, X, check_passes, program

from tensorir import For, ForKind, Ramp, Select, Store, parse, walk


def lanes_of(func):
    """The lanes of each vector that is stored."""
    stores = [
        s.indices[0].lanes
        for s in walk(func.body)
        if isinstance(s, Store) and isinstance(s.indices[0], Ramp)
    ]
    kinds = {s.kind for s in walk(func.body) if isinstance(s, For)}
    assert ForKind.VECTORIZED not in kinds
    return stores


def copy(value="A[b, i * 8 + j]", width=64, threads=8, extent=8, place="i * 8 + j", dtype="f32"):
    return program(
        f"""
for b in {BLOCK}2):
    for i in {X}{threads}):
        for j in vectorized({extent}):
            D[b, {place}] = {value}
""",
        f"A: {dtype}[2, {width}], D: {dtype}[2, {width}]",
    )


@pytest.mark.parametrize(
    ("dtype", "lanes"), [("f32", 4), ("f64", 2), ("i32", 4), ("i8", 8), ("f16", 8)]
)
def test_as_wide_as_an_access_can_be(dtype, lanes):
    assert lanes_of(check_passes(copy(dtype=dtype))) == [lanes]


@pytest.mark.parametrize(("width", "lanes"), [(64, [4]), (66, [2]), (68, [4]), (65, [])])
def test_rows_decide_what_is_aligned(width, lanes):
    assert lanes_of(check_passes(written(copy(width=width), width))) == lanes


def test_a_condition_of_all_lanes_is_asked_once():
    """What is beyond an edge is no access at all; the others are whole vectors."""
    func = copy("select(i * 8 + j < 20 and b < 1, A[b, i * 8 + j], 0.0)")
    (store,) = [s for s in walk(check_passes(func).body) if isinstance(s, Store)]
    assert isinstance(store.value, Select)
    assert store.value.cond.dtype == "bool"
    assert isinstance(store.value.a.indices[0], Ramp)


def test_golden(golden):
    golden(str(check_passes(copy("A[b, i * 8 + j] * 2.0 + A[b, i]"))), "copy")


@pytest.mark.parametrize(
    ("value", "extent", "place", "lanes"),
    [
        ("A[b, i * 8 + j]", 6, "i * 8 + j", [2]),
        ("A[b, i * 8 + j]", 3, "i * 8 + j", []),
        ("A[b, i * 8 + j]", 4, "i * 8 + j + 2", [2]),
        ("A[b, i * 8 + j]", 4, "i * 8 + j + 1", []),
        ("A[b, 63 - i * 8 - j]", 4, "i * 8 + j", [4]),  # backwards: elements one by one
        ("A[b, i]", 4, "i * 8 + j", [4]),
        ("A[b, i * 8 + j] + A[b, i * 8 + j + 1]", 4, "i * 8 + j", []),
        ("select(j < 3, A[b, i * 8 + j], 0.0)", 4, "i * 8 + j", [4]),
        ("select(i * 8 + j < 20, A[b, i * 8 + j], 0.0)", 8, "i * 8 + j", [4]),
    ],
)
def test_every_access_decides(value, extent, place, lanes):
    if "j + 1]" in value:
        extent = 2
    assert lanes_of(check_passes(written(copy(value, extent=extent, place=place)))) == lanes


def written(func, width=64):
    """`func`, after a kernel that writes the elements that it leaves out."""
    lines = str(func).splitlines()
    first = f"    for c in {BLOCK}2):\n        for t in {X}{width}):\n            D[c, t] = 0.0"
    return parse("\n".join([*lines[:2], first, *lines[2:]]))


def test_registers_alone_are_unrolled():
    func = program(
        f"""
for b in {BLOCK}2):
    for i in {X}8):
        for u in vectorized(4):
            R[i, u] = 1.0
        for k in vectorized(4):
            D[b, i * 4 + k] = R[i, k]
""",
        "D: f32[2, 32]",
        [("R", "f32[8, 4]", "local")],
    )
    low = check_passes(func)
    assert lanes_of(low) == [4]


def test_a_condition_of_all_lanes_stays():
    func = program(
        f"""
for b in {BLOCK}2):
    for i in {X}16):
        for j in vectorized(4):
            if i < 15:
                D[b, i * 4 + j] = A[b, i * 4 + j]
            else:
                D[b, i * 4 + j] = 0.0
""",
        "A: f32[2, 64], D: f32[2, 64]",
    )
    assert lanes_of(check_passes(func)) == [4, 4]
