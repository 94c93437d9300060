"""Choices between what lanes read: by data beside bounds, in whatever words, of any type."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from tensorir import BinOp, Cast, Expr, Load, PrimFunc, Store, Target, interpret, lower
from tensorir.dtype import lanes
from tensorir.passes import vectorize
from tensorir.text.parser import parse
from tensorir.vector_expr import Ramp
from tensorir.visit import stmt_exprs, walk, walk_exprs

N = 75
ALL = (8, 16, 32, 64)
WITH_MASKS = Target(vector_bits=512, features=("avx512bw", "avx512f", "avx512vl"))
HEAD = "@prim_func\ndef f(A: {t}[{size}], M: {t}[{size}], K: i64[8], C: {t}[{written}]):\n"
HERE = "M[i * {n} + j] < A[i * {n} + j]"

CHOICES = {
    "bound first": "select(1 <= j and {here}, A[i * {n} + j - 1], M[i * {n} + j])",
    "data first": "select({here} and 1 <= j, A[i * {n} + j - 1], M[i * {n} + j])",
    "two bounds": "select(1 <= j and i < {last} and {here}, A[i * {n} + {n} + j - 1], "
    "M[i * {n} + j])",
    "or": "select(j == {n} - 1 or {here}, M[i * {n} + j], A[i * {n} + j + 1])",
    "not the last": "select(j != {n} - 1 and {here}, A[i * {n} + j + 1], M[i * {n} + j])",
    "not the first": "select(0 != j and {here}, A[i * {n} + j - 1], M[i * {n} + j])",
    "in a choice": "select(1 <= j, select({here}, A[i * {n} + j - 1], M[i * {n} + j]), "
    "M[i * {n} + j])",
    "read anyway": "M[K[i] + j] + select({here}, M[K[i] + j], A[i * {n} + j])",
}


@pytest.mark.parametrize("dtype", ["u8", "i16", "f32", "f64"])
@pytest.mark.parametrize("choice", CHOICES)
def test_lanes_that_data_choose_are_loaded_as_neighbours(choice: str, dtype: str) -> None:
    """What is read in some lanes alone lies side by side, and none of it beyond the buffer."""
    rows = 6
    words = {"n": N, "last": rows - 1, "here": HERE.format(n=N)}
    store = f"C[i * {N} + j] = " + CHOICES[choice].format(**words)
    body = f"for i in range({rows}):\n    for j in vectorized({N}):\n        {store}\n"
    func = _func(body, rows * N, rows * N, dtype)
    _neighbours_and_equal(func, lower(func, WITH_MASKS))


@pytest.mark.parametrize("dtype", ["u8", "i16", "f32", "f64"])
@pytest.mark.parametrize("inside", [False, True])
def test_statements_conditions_are_known_to_their_lanes(inside: bool, dtype: str) -> None:
    """Rows that an `if` leaves out are no reason to ask whether elements exist."""
    choice = f"select({HERE.format(n=N)}, A[i * {N} + {N} + j], M[i * {N} + j])"
    lines = ["if i < 5:", f"for j in vectorized({N}):", f"C[i * {N} + j] = {choice}"]
    lines = [lines[1], lines[0], lines[2]] if inside else lines
    body = "for i in range(6):\n" + "\n".join("    " * n + x for n, x in enumerate(lines, 1))
    func = _func(body, 6 * N, 5 * N, dtype)
    _neighbours_and_equal(func, vectorize(func, 512))


GUARDED = {
    "beside a bound": "select(1 <= j and j + K[0] < {n}, A[j + K[0]], M[j])",
    "inside of a bound": "select(1 <= j, select(j + K[0] < {n}, A[j + K[0]], M[j]), M[j])",
    "or": "select(j == {n} - 1 or {n} <= j + K[0], M[j], A[j + K[0]])",
    "by other data": "select(1 <= j and M[j] < A[j], A[j + K[0]], M[j])",
}


@pytest.mark.parametrize("guard", GUARDED)
def test_what_exists_where_data_say_so_is_read_in_no_other_lane(guard: str) -> None:
    """Lanes that bounds leave need not exist: what is read there may lie beyond the buffer."""
    body = f"for j in vectorized({N}):\n    C[j] = {GUARDED[guard].format(n=N)}\n"
    func = _func(body, N, N, "f32")
    a = np.arange(N, dtype=np.float32)
    moved = [index for index in _indices(vectorize(func, 512, ALL)) if index.has_loads]
    assert moved and not any(isinstance(index, Ramp) for index in moved)
    for shift in (N - 5, 30, 0):
        k, m = np.full(8, shift), np.full(N, N, np.float32)
        m[: N - shift] = -1
        want = interpret(func, a, m, k)
        for made in (lower(func, WITH_MASKS), vectorize(func, 512, ALL)):
            np.testing.assert_array_equal(interpret(made, a, m, k), want)


REMAINDERS = {
    "board": "select((i + j) % {c} == 0, A[i * {n} + j], M[i * {n} + j])",
    "backwards": "select({last} <= (i - j) % {c}, A[i * {n} + j], M[i * {n} + j])",
    "far steps": "select((i + {far} * j) % {c} != {last}, A[i * {n} + j], M[i * {n} + j])",
    "a number": "A[i * {n} + j] + {t}((3 * j + i) % {c})",
    "a distance": "A[i * {n} + j] + {t}(i - j) + {t}(j % {c})",
    "a number that falls": "A[i * {n} + j] + {t}((i - 3 * j) % {c})",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["u8", "i16", "f32", "f64"])
@pytest.mark.parametrize("divisor", [2, 3, 7, 8, 63, 1000])
@pytest.mark.parametrize("form", REMAINDERS)
def test_remainders_of_indices_are_narrow(form: str, divisor: int, dtype: str) -> None:
    """What a number leaves of indices is smaller than it: no lanes of 64 bits to ask for it."""
    words = {"c": divisor, "last": divisor - 1, "far": 2 * divisor + 5}
    store = REMAINDERS[form].format(n=N, t=dtype, **words)
    body = f"for i in range(6):\n    for j in vectorized({N}):\n        C[i * {N} + j] = {store}\n"
    func = _func(body, 6 * N, 6 * N, dtype)
    made = lower(func, WITH_MASKS)
    _neighbours_and_equal(func, made)
    values = (e for s in walk(made.body) if isinstance(s, Store) for e in walk_exprs(s.value))
    wide = [e for e in values if isinstance(e, (BinOp, Cast)) and "int64x" in e.a.dtype]
    assert not wide


def _func(body: str, size: int, written: int, dtype: str) -> PrimFunc:
    head = HEAD.format(size=size, written=written, t=dtype)
    return parse(head + textwrap.indent(body, "    "))


def _indices(func: PrimFunc) -> list[Expr]:
    """Where loads read."""
    roots = (root for stmt in walk(func.body) for root in stmt_exprs(stmt))
    return [e.indices[0] for root in roots for e in walk_exprs(root) if isinstance(e, Load)]


def _neighbours_and_equal(func: PrimFunc, made: PrimFunc) -> None:
    found = _indices(made)
    assert any(isinstance(index, Ramp) for index in found)
    assert all(isinstance(index, Ramp) or lanes(index.dtype) == 1 for index in found)
    generator = np.random.default_rng(1)
    size = func.params[0].shape[0].value
    a, m = (generator.integers(0, 100, size).astype(func.params[0].dtype) for _ in range(2))
    k = np.arange(8)
    np.testing.assert_array_equal(interpret(made, a, m, k), interpret(func, a, m, k))
