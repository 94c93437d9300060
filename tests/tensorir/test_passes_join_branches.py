"""What both branches of a test do stands once."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import If, PrimFunc, Store, interpret, parse
from tensorir.passes import partition_loops
from tensorir.passes.conditions.join_branches import join_branches
from tensorir.visit import walk

ROWS = """
@prim_func
def f(A: f32[{size}], C: f32[{size}]):
    for t in parallel({tasks}):
        for i in range({tiles}):
            for x in range(8):
                for r in unrolled(6):
                    if t * {rows} + i * 6 + r < {all}:
                        for v in vectorized(16):
                            C[((t * {rows} + i * 6 + r) * 8 + x) * 16 + v] = A[{at}] + 1.0
"""


def rows(tasks: int, tiles: int, all_rows: int) -> PrimFunc:
    """Tiles of six rows, dealt out to tasks; the last task ends within a tile."""
    at = f"((t * {tiles * 6} + i * 6 + r) * 8 + x) * 16 + v"
    return parse(
        ROWS.format(
            size=all_rows * 128, tasks=tasks, tiles=tiles, rows=tiles * 6, all=all_rows, at=at
        ).strip()
    )


def count(func: PrimFunc, kind: type) -> int:
    return sum(isinstance(s, kind) for s in walk(func.body))


def same_values(func: PrimFunc, other: PrimFunc) -> None:
    given = np.arange(1, func.params[0].shape[0].value + 1, dtype=np.float32)
    np.testing.assert_array_equal(interpret(other, given), interpret(func, given))


@pytest.mark.parametrize(
    "tasks, tiles, all_rows, extents",
    [
        (2, 6, 64, "6 - t * 2, 8"),  # both branches know which task it is, so places are of t
        (
            4,
            6,
            142,
            "select(t < 3, 6, 5), 8",
        ),  # places of the others hold for the last
        (2, 6, 66, "6 - t, 8"),  # nothing is left beside the whole tiles
    ],
)
def test_whole_tiles_of_uneven_tasks_stand_once(
    tasks: int, tiles: int, all_rows: int, extents: str
) -> None:
    func = partition_loops(rows(tasks, tiles, all_rows))
    joined = join_branches(func)
    assert f"grid({extents})" in str(joined)
    assert count(joined, Store) == count(func, Store) - 1
    same_values(func, joined)


BOTH = """
@prim_func
def f(A: f32[4096], C: f32[4096]):
    for z in parallel(4096):
        C[z] = 0.0
    for t in {kind}(2):
        if {test}:
            {around}
                for k in range(9):
                    for x in {lanes}(16):
                        C[t * 2048 + k * 16 + x] = {sum}
                {first}
        else:
            {around}
                for k in range({tiles}):
                    for x in {lanes}(16):
                        C[t * 2048 + k * 16 + x] = {sum}
                {second}
"""
"""Nests that are the same but for how often they run, with what else they do."""

MORE = """for x in range({times}):
                    C[t * 2048 + x + {at}] = 3.0"""

FREE: dict[str, object] = {
    "kind": "parallel", "test": "t < 1", "around": "for y in range(2):", "lanes": "range",
    "tiles": 8, "sum": "A[k] + 1.0", "first": "pass", "second": MORE.format(times=32, at=1024),
}  # fmt: skip


def both(**other: object) -> PrimFunc:
    text = BOTH.format(**{**FREE, **other})
    return parse("\n".join(line for line in text.strip().split("\n") if line.strip() != "pass"))


def test_branches_are_joined_below_loops_and_keep_what_is_their_own() -> None:
    func = both(first=MORE.format(times=64, at=512))
    joined = join_branches(func)
    assert count(joined, Store) == 4 and count(joined, If) == 2
    same_values(func, joined)


@pytest.mark.parametrize(
    "why, other",
    [
        ("the test reads what the branches write", {"test": "C[0] < 1.0", "sum": "2.0"}),
        ("little work follows", {"second": MORE.format(times=8, at=1024)}),
        ("lanes stay without tests", {"around": "for y in vectorized(2):"}),
        ("threads share the loop", {"kind": "range", "around": "for y in parallel(2):"}),
        ("registers stay without tests", {"around": 'with alloc(P, f32[8], scope="local"):'}),
    ],
)  # fmt: skip
def test_branches_stay_apart(why: str, other: dict[str, object]) -> None:
    func = both(**other)
    assert join_branches(func) is func, why
    assert join_branches(both()) is not func
