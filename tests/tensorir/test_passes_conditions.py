"""Conditions that are not asked, or asked once, so that no copies of loops are made for them."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import PrimFunc, Store, interpret, parse
from tensorir.passes import partition_loops
from tensorir.passes.conditions.hoist_conditions import hoist_conditions
from tensorir.passes.conditions.implied_conditions import implied_conditions
from tensorir.visit import walk

ROWS = """
@prim_func
def f(A: f32[{size}], C: f32[{size}]):
    for p in parallel(4):
        for y in range(16):
            for x in range({columns}):
                for v in vectorized(4):
                    C[{at}] = select({inside}, A[{at} - {row}], 0.0)
"""
"""A copy of rows, with zeros where it is not `inside`."""

TOP = "1 <= p * 16 + y"
BOTTOM = "p * 16 + y < 57"


def rows(inside: str, columns: int = 16) -> PrimFunc:
    row = columns * 4
    at = f"(p * 16 + y) * {row} + x * 4 + v"
    text = ROWS.format(size=64 * row, columns=columns, at=at, inside=inside, row=row)
    return parse(text.strip())


def stores(func: PrimFunc) -> int:
    return sum(isinstance(s, Store) for s in walk(func.body))


def same_values(func: PrimFunc, *others: PrimFunc) -> None:
    size = func.params[0].shape[0].value
    given = np.arange(1, size + 1, dtype=np.float32)
    for other in others:
        np.testing.assert_array_equal(interpret(other, given), interpret(func, given))


def test_rows_of_padding_are_tested_and_not_copied() -> None:
    """Without the test there are three copies: both ends, and what lies between."""
    func = rows(f"{TOP} and {BOTTOM}")
    hoisted = hoist_conditions(func)
    assert f"if {TOP} and {BOTTOM}:" in str(hoisted)
    cut = partition_loops(hoisted)
    assert stores(cut) == stores(hoisted) == 2
    assert stores(partition_loops(func)) > 3
    same_values(func, hoisted, cut)


def test_what_else_is_asked_stays_where_it_is() -> None:
    """The inner condition is of lanes, and its loop is cut as before."""
    func = rows(f"{TOP} and x < 15")
    hoisted = hoist_conditions(func)
    assert f"if {TOP}:" in str(hoisted) and "select(x < 15, A[" in str(hoisted)
    same_values(func, hoisted, partition_loops(hoisted))


@pytest.mark.parametrize("columns, inside", [(15, TOP), (16, "p * 16 + y < 64"), (16, "x < 15")])
def test_little_work_and_what_is_certain_are_not_tested(columns: int, inside: str) -> None:
    func = rows(inside, columns)
    assert hoist_conditions(func) is func


DIVIDED = """
@prim_func
def f(n: i64, A: f32[64], C: f32[64]):
    for y in range(4):
        for x in range(16):
            C[y * 16 + x] = select(1 <= n, select(y // {by} < 1, A[y * 16 + x], 0.0), 0.0)
"""


@pytest.mark.parametrize("by, tested", [("2", True), ("n", False)])
def test_what_may_divide_by_zero_is_asked_where_it_stands(by: str, tested: bool) -> None:
    func = parse(DIVIDED.format(by=by).strip())
    hoisted = hoist_conditions(func)
    assert (hoisted is not func) is tested
    given = np.arange(64, dtype=np.float32)
    for n in (0, 3):
        np.testing.assert_array_equal(interpret(hoisted, n, given), interpret(func, n, given))


@pytest.mark.parametrize("tile, tested", [(16, False), (2048, True)])
def test_sums_in_registers_have_no_tests_among_them(tile: int, tested: bool) -> None:
    func = parse(
        f"""
@prim_func
def f(A: f32[2048], C: f32[2048]):
    with alloc(T, f32[{tile}], scope="local"):
        for i in range(16):
            T[i] = 0.0
        for r in range(8):
            for i in range(16):
                T[i] = T[i] + select(3 <= r, A[r * 16 + i], 0.0)
        for i in range(16):
            C[i] = T[i]
        for i in range(2032):
            C[16 + i] = 0.0
""".strip()
    )
    hoisted = hoist_conditions(func)
    assert ("if 3 <= r:" in str(hoisted)) is tested
    same_values(func, hoisted, partition_loops(hoisted))


@pytest.mark.parametrize(
    "asked, left",
    [
        ("p * 14 + i < 56 and i < 14", "i < 14"),
        ("i < 14 and p * 14 + i < 56", "i < 14"),
        ("p * 14 + i < 55 and i < 14", None),  # the last one of all is missing
        ("p * 14 + i < 56 and i < 15", None),  # that reaches beyond
        ("i < 14 and i < 14 + p", "i < 14"),
        ("i < 14 and i <= 13", "i <= 13"),  # one of them stays
        ("i < 14 and p < 3", None),  # they say nothing of each other
        ("1 <= i and i < 14", None),
        ("3 <= i and 1 <= i and i < 14", "3 <= i and i < 14"),
    ],
)
def test_what_follows_from_the_rest_is_not_asked(asked: str, left: str | None) -> None:
    func = parse(
        f"""
@prim_func
def f(A: f32[60], C: f32[60]):
    for j in range(60):
        C[j] = 0.0
    for p in range(4):
        for i in range(15):
            if {asked}:
                C[p * 14 + i] = A[p * 14 + i]
""".strip()
    )
    shorter = implied_conditions(func)
    assert f"if {left or asked}:" in str(shorter)
    assert (shorter is func) is (left is None)
    same_values(func, shorter, partition_loops(shorter))
