"""hold_reads: what a written-out nest reads again is read once, neighbours in one access."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from gpu_programs import BLOCK, X, check_passes, program

from tensorir import For, Ramp, certain_loads, child_stmts, dtype, int_value, stmt_exprs, walk

ITEMS = {"f32": 4, "f64": 8, "f16": 2, "i8": 1}
EXTENTS = {"k": 3, "i": 2, "j": 4}


ZERO = {item: "0" if item == "i8" else "0.0" for item in ITEMS}


def nest(order="kij", left="A[k, i]", right="B[k, t * 4 + j]", wide=128, item="f32", where=""):
    """Sums of a thread, its loops in any order, each `where` a condition of some loops is true, as
    early as it can be asked."""
    lines = [f"for {v} in unrolled({EXTENTS[v]}):" for v in order]
    if where:
        asked = 1 + max(n for n, v in enumerate(order) if f"{v} " in where)
        lines.insert(asked, f"if {where}:")
    lines.append(f"R[i, j] = R[i, j] + {left} * {right}")
    text = "\n        ".join("    " * n + line for n, line in enumerate(lines))
    return program(
        f"""
for b in {BLOCK}2):
    for t in {X}32):
        for z in unrolled(2):
            for y in unrolled(4):
                R[z, y] = {ZERO[item]}
        {text}
        for z in unrolled(2):
            for y in unrolled(4):
                D[b * 2 + z, t * 4 + y] = R[z, y]
""",
        f"A: {item}[3, 32], B: {item}[3, {wide}], D: {item}[4, 128]",
        [("R", f"{item}[2, 4]", "local")],
    )


def reads(func):
    """Accesses that read a buffer, and elements of each, by name."""
    found = {}

    def visit(stmt, times):
        if isinstance(stmt, For) and stmt.thread is None:
            times *= int_value(stmt.extent)
        for e in stmt_exprs(stmt):
            for load in certain_loads(e):
                lanes = max(dtype.lanes(index.dtype) for index in load.indices)
                count, most = found.get(load.buffer.name, (0, 1))
                found[load.buffer.name] = count + times, max(most, lanes)
        for child in child_stmts(stmt):
            visit(child, times)

    visit(func.body, 1)
    return found


@pytest.mark.parametrize("order", ["".join(p) for p in permutations("kij")])
def test_each_element_is_read_once_whatever_the_order_of_loops(order):
    found = reads(check_passes(nest(order)))
    assert found["B"] == (3, 4), "one vector for each k"
    assert found["A"] == (3, 2)


@pytest.mark.parametrize("item", ITEMS)
def test_neighbours_are_read_as_wide_as_an_access_may_be(item):
    lanes = min(4, 16 // ITEMS[item])
    assert reads(check_passes(nest(item=item)))["B"] == (3 * 4 // lanes, lanes)


@pytest.mark.parametrize(
    ("right", "wide", "count", "lanes"),
    [
        ("B[k, t * 4 + j]", 130, 6, 2),
        ("B[k, t * 4 + j]", 129, 12, 1),
        ("B[k, t * 4 + j + 2]", 132, 6, 2),
        ("B[k, t * 4 + j + 1]", 132, 12, 1),
        ("B[k, 127 - t * 4 - j]", 128, 12, 1),
        ("B[k, t]", 128, 3, 1),
        ("B[j % 3, t * 4 + k]", 128, 12, 1),
    ],
)
def test_alignment_decides(right, wide, count, lanes):
    assert reads(check_passes(nest(right=right, wide=wide)))["B"] == (count, lanes)


def test_what_conditions_guard_stays_where_it_is():
    func = nest(right="select(t + j < 20, B[k, t * 6 + j], 1.0)")
    low = check_passes(func)
    assert "B" not in reads(low), "each element is asked for"
    assert any(isinstance(e, Ramp) for s in walk(low.body) for e in getattr(s, "indices", ()))


def test_what_registers_say_the_place_of_is_read_where_they_do():
    """They may change from one iteration to the next."""
    func = program(
        f"""
for b in {BLOCK}2):
    for t in {X}32):
        R[0] = 0
        for k in unrolled(3):
            for i in unrolled(2):
                R[0] = A[R[0] * 4 + t] + 1
        D[b, t] = R[0]
""",
        "A: i64[64], D: i64[2, 32]",
        [("R", "i64[1]", "local")],
    )
    arrays = [np.arange(64) % 3]
    assert "A" in reads(check_passes(func, arrays=arrays))


@pytest.mark.parametrize("order", ["".join(p) for p in permutations("kij")])
def test_what_is_read_whether_or_not_a_condition_is_true_is_read_once(order):
    """Rows that end within a tile, as of windows: the first of them is there in any case."""
    found = reads(check_passes(nest(order, where="i * 32 + t < 50")))
    assert found["B"] == (3, 4)


@pytest.mark.parametrize("order", ["".join(p) for p in permutations("kij")])
@pytest.mark.parametrize("condition", ["i * 32 + t < 20", "i * 32 + t >= 32"])
def test_what_a_condition_may_keep_from_being_read_is_read_behind_it(order, condition):
    """A thread need not have an iteration that reads it, or not the first one."""
    times, _ = reads(check_passes(nest(order, where=condition)))["B"]
    assert times > 3


def test_what_a_condition_parts_is_read_one_by_one():
    count, lanes = reads(check_passes(nest("kij", where="j * 32 + t < 100")))["B"]
    assert lanes == 1
    assert count == 3 * 4


@pytest.mark.parametrize("order", ["".join(p) for p in permutations("kij")])
@pytest.mark.parametrize(
    ("left", "times"),
    [
        ("A[k, i + j]", 3 * (2 + 4 - 1)),
        ("A[k, i + 4 - j]", 3 * (2 + 4 - 1)),
        ("A[k, i * 2 + j + 1]", 3 * (2 + 4)),
        ("A[k, i + j * 2 + 1]", 3 * 2 * 4),  # no element is there twice
        ("A[k, i * 4 + j + 1]", 3 * 2 * 4),
        ("A[k, i + j * 3 + 1]", 3 * 2 * 4),  # with gaps
    ],
)
def test_windows_of_several_loops_are_read_once(order, left, times):
    """What only the sum of their variables tells."""
    found, _ = reads(check_passes(nest(order, left=left, right="B[k, t]")))["A"]
    assert found == times


def test_windows_behind_conditions_are_right():
    """A condition of some of their loops keeps elements from being read."""
    for order in map("".join, permutations("kij")):
        for where in ("i * 32 + t < 20", "j * 32 + t < 100"):
            found = reads(check_passes(nest(order, left="A[k, i + j]", where=where)))
            assert found["A"][0] >= 3 * 4
