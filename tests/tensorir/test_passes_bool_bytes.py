"""Bools of the caller are bytes, and so are those that are moved; others stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import (
    Buffer,
    Expr,
    For,
    Load,
    PrimFunc,
    Select,
    Store,
    Target,
    Var,
    interpret,
    lower,
    parse,
    verify,
)
from tensorir.expr import FALSE, const
from tensorir.passes.vectors.bool_bytes import bool_bytes

FUNC = """
@prim_func
def moves(A: bool[10], N: bool[10], X: f32[10], B: bool[10], C: f32[10]):
    for i in range(10):
        {first}
        C[i] = select(A[i], X[i], f32(0.0))
"""

MOVES = [
    "B[i] = A[9 - i]",
    "B[i] = select(i < 7, A[i + 3], True)",
    "B[i] = select(N[i], A[i], select(i < 4, N[9 - i], False))",
]
COMPUTED = ["B[i] = X[i] < f32(0.5)", "B[i] = A[i] and N[i]", "B[i] = not A[i]", "B[i] = False"]


def program(first: str) -> PrimFunc:
    func = parse(FUNC.format(first=first).strip())
    verify(func)
    return func


@pytest.mark.parametrize("first", MOVES)
def test_what_is_moved_becomes_bytes(first):
    func = program(first)
    changed = bool_bytes(func)
    verify(changed)
    assert changed.buffer("A").dtype == changed.buffer("B").dtype == "uint8"
    assert "select(bool(A[i]), X[i]" in str(changed)
    assert bool_bytes(changed) is changed
    rng = np.random.default_rng(0)
    a, n = (rng.integers(0, 2, 10).astype(bool) for _ in range(2))
    x = rng.random(10, np.float32)
    expected = interpret(func, a, n, x)
    for true in (1, 2, 255):
        held = {"A": a, "N": n}
        for name, values in held.items():
            held[name] = values if changed.buffer(name).dtype == "bool" else values * np.uint8(true)
        found = interpret(changed, *held.values(), x)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("first", COMPUTED)
def test_what_is_computed_stays(first):
    func = program(first)
    changed = bool_bytes(func)
    assert changed.buffer("A").dtype == "uint8" and changed.buffer("B").dtype == "bool"
    assert bool_bytes(changed) is changed


def test_a_condition_is_not_moved():
    changed = bool_bytes(program("B[i] = select(N[i], A[i], False)"))
    assert "min(select(bool(N[i]), A[i], u8(0)), u8(1))" in str(changed)
    made = "N[i] = X[i] < f32(0.5)\n        B[i] = select(N[i] or X[i] < f32(0.2), A[i], False)"
    assert "select(bool(N[i]) or X[i] < " in str(bool_bytes(program(made)))


def test_what_else_is_stored_there_is_converted():
    text = "B[i] = A[i]\n        if X[i] < f32(0.5):\n            B[i] = X[i] < f32(0.25)"
    changed = bool_bytes(program(text))
    verify(changed)
    assert "B[i] = u8(X[i] < " in str(changed)


def test_extern_functions_get_what_they_were_made_for():
    func = parse(
        """
@prim_func
def sorted(A: bool[6], T: bool[6], B: bool[6]):
    for i in range(6):
        T[i] = A[5 - i]
    extern("sort", [part(B[0], 6)], [part(T[0], 6)])
""".strip()
    )
    changed = bool_bytes(func)
    verify(changed)
    assert [b.dtype for b in changed.params] == ["uint8", "bool", "bool"]
    assert "T[i] = bool(A[5 - i])" in str(changed)


def test_selects_with_several_users_are_rewritten_once():
    i = Var("i", "int64")
    a, b = (Buffer(name, (10,), "bool") for name in "AB")
    value: Expr = Load(a, (i,))
    for n in range(60):  # as a tree this has 2 to the power of 60 leaves
        value = Select(i < n, Select(i < n + 99, value, FALSE), value)
    changed = bool_bytes(PrimFunc("f", (a, b), (), For(i, const(10), Store(b, (i,), value))))
    assert changed.buffer("B").dtype == "uint8"


@pytest.mark.parametrize("kind", ["c", "cuda", "opencl"])
def test_every_target_moves_bytes(kind):
    assert lower(program(MOVES[0]), Target(kind)).buffer("A").dtype == "uint8"
