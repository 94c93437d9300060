"""Terms that a place leaves out are not computed, in whatever words they are left out."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from tensorir import For, Select, Target, interpret, lower, te
from tensorir.passes.skip_stores import skip_stores
from tensorir.text.parser import parse
from tensorir.visit import stmt_exprs, walk, walk_exprs

N, TARGET = 37, Target(threads=1)
FUNC = """
@prim_func
def f(A: {t}[37], C: {t}[37]):
    {declared}
    for i in range(37):
        {begin}
        for k in range(37):
            C[i] = {value}
"""
SKIPPED = {
    "own": ("f32", "0.0", "select(k < i, C[i] + A[k], C[i])"),
    "sum": ("f32", "0.0", "C[i] + select(k < i, A[k], 0.0)"),
    "integers": ("i32", "i32(7)", "C[i] + select(k < i, A[k], i32(0))"),
    "product": ("f32", "-0.0", "C[i] * select(k < i, A[k], 1.0)"),
    "max": ("f32", "-0.0", 'max(C[i], select(k < i, A[k], float("-inf")))'),
    "min": ("u8", "u8(9)", "min(C[i], select(k <= i, A[k], u8(255)))"),
}
KEPT = {
    "begins below zero": ("f32", "-0.0", "C[i] + select(k < i, A[k], 0.0)"),
    "other number": ("f32", "0.0", "C[i] + select(k < i, A[k], 1.0)"),
    "other sign": ("f32", "0.0", "C[i] - select(k < i, A[k], 0.0)"),
    "a finite least": ("f32", "0.0", "max(C[i], select(k < i, A[k], -1e30))"),
    "data": ("f32", "0.0", "C[i] + select(A[k] < 0.5, A[k], 0.0)"),
}


def program(dtype: str, begin: str, value: str):
    words = {"t": dtype, "value": value, "begin": f"C[i] = {begin}", "declared": ""}
    return parse(FUNC.format(**words).strip().replace("    \n", ""))


def selects(func) -> int:
    return sum(isinstance(e, Select) for s in walk(func.body) for r in stmt_exprs(s)
               for e in walk_exprs(r))  # fmt: skip


@pytest.mark.parametrize("name", SKIPPED)
def test_terms_that_change_nothing_are_left_out(name: str) -> None:
    func = program(*SKIPPED[name])
    made = skip_stores(func)
    assert selects(made) < selects(func)
    a = np.random.default_rng(0).integers(0, 2, N).astype(func.params[0].dtype)
    np.testing.assert_array_equal(interpret(made, a), interpret(func, a))
    lengths = [s.extent for s in walk(lower(func, TARGET).body) if isinstance(s, For)]
    assert any(not hasattr(extent, "value") for extent in lengths), "runs all terms"


@pytest.mark.parametrize("name", KEPT)
def test_terms_that_may_change_something_stay(name: str) -> None:
    func = program(*KEPT[name])
    assert skip_stores(func) is func


def test_what_a_caller_gives_may_be_minus_zero() -> None:
    """-0.0 + 0.0 is 0.0: sums that go on from an argument add all their zeros."""
    text = FUNC.format(t="f32", declared="", begin="", value="C[i] + select(k < i, A[k], 0.0)")
    func = parse("\n".join(line for line in text.splitlines() if line.strip()))
    assert [p.name for p in func.in_outs] == ["C"]
    assert skip_stores(func) is func


FORMS = {
    "where": lambda a, b, i, j, k, none: te.sum(a[i, k] * b[k, j], axis=k, where=k <= i),
    "a choice": lambda a, b, i, j, k, none: te.sum(
        te.if_then_else(k <= i, a[i, k] * b[k, j], none), axis=k
    ),
    "the other choice": lambda a, b, i, j, k, none: te.sum(
        te.if_then_else(i < k, none, a[i, k] * b[k, j]), axis=k
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("form", FORMS)
def test_a_triangle_of_a_product_is_all_that_is_computed(form: str, dtype: str) -> None:
    """Tiles of rows end their sums where the last of their rows does."""
    n = 96
    a, b = (te.placeholder((n, n), dtype, name=name) for name in "ab")
    k, none = te.reduce_axis(n, "k"), te.const(0, dtype)
    out = te.compute((n, n), lambda i, j: FORMS[form](a, b, i, j, k, none), name="out")
    func = te.create_prim_func([a, b, out], name="triangle")
    schedule = default_schedule(func, TARGET)
    loops = [s for s in walk(lower(schedule.func, TARGET).body) if isinstance(s, For)]
    terms = [loop for loop in loops if loop.var.name.startswith("k")]
    assert terms and not any(loop.const_extent == n for loop in terms)
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, (n, n)).astype(dtype) for _ in range(2))
    np.testing.assert_array_equal(build(schedule, TARGET)(x, y), np.tril(x) @ y)
