"""edges: one copy of the body, conditions where they cost little, and zeros where nothing is."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_programs import (
    BLOCK,
    X,
    check_passes,
    doubled,
    inputs_of,
    program,
    run,
    tiled_matmul,
)
from test_barriers import syncs

from tensorir import For, If, Store, Target, child_stmts, loads, lower, variables, walk


def conditions_around(func, name):
    """The conditions around the stores to a buffer."""
    found = []

    def visit(stmt, above):
        if isinstance(stmt, If):
            above = [*above, stmt.cond]
        if isinstance(stmt, Store) and stmt.buffer.name == name:
            found.extend(above)
        for child in child_stmts(stmt):
            visit(child, above)

    visit(func.body, [])
    return found


def copies(func, name):
    """How many statements read a buffer."""
    return sum(
        any(load.buffer.name == name for load in loads(s.value))
        for s in walk(func.body)
        if isinstance(s, Store)
    )


@pytest.mark.parametrize("shape", [(17, 18, 13), (31, 17, 7), (17, 16, 16)])
def test_a_matmul_of_any_size_computes_without_conditions(shape):
    low = check_passes(tiled_matmul(*shape))
    assert not conditions_around(low, "C_local")
    steps = -(-shape[2] // 8)
    assert copies(low, "A_shared") == 1 and len(syncs(low)) == min(steps, 2)
    divides = lower(tiled_matmul(32, 32, 16), Target.parse("cuda"))
    assert len(str(low).splitlines()) <= len(str(divides).splitlines()) + 3


def test_with_two_versions_of_the_tiles():
    low = check_passes(tiled_matmul(17, 18, 13, change=doubled))
    assert not conditions_around(low, "C_local")
    assert len(syncs(low)) == 1


def test_golden(golden):
    golden(str(check_passes(tiled_matmul(17, 18, 13))), "tiled_matmul")


def test_infinities_stay_in_their_rows():
    """Zeros of a tile meet each other only: inf times zero would be NaN."""
    func = tiled_matmul(17, 18, 9)
    a, b = inputs_of(func)
    a[16, 8] = b[3, 17] = np.inf
    a[2, 3], b[8, 4] = -np.inf, np.nan
    low = check_passes(func, arrays=[a, b])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(low, a, b)[0].reshape(17, 18), a @ b)


STEPS = """
for b in {block}2):
    for i in {x}4):
        with block("start"):
            vi = spatial(10, b * 8 + i)
            where(b * 8 + i < 10)
            R[vi] = {start}
    for k in range(3):
        for j in {x}8):
            with block("S"):
                vj = spatial(20, k * 8 + j)
                where(k * 8 + j < 20)
                S[vj] = A[vj]
        for u in {x}8):
            for r in range(8):
                with block("R"):
                    vi = spatial(10, b * 8 + u)
                    vk = reduce(20, k * 8 + r)
                    where(b * 8 + u < 10 and k * 8 + r < 20)
                    R[vi] = {step}
    for v in {x}8):
        with block("D"):
            vi = spatial(10, b * 8 + v)
            where(b * 8 + v < 10)
            D[vi] = R[vi]
"""


def steps(step, start="0.0"):
    text = STEPS.replace("{x}4)", "{x}8)").format(block=BLOCK, x=X, step=step, start=start)
    buffers = [("R", "f32[10]", "local"), ("S", "f32[20]", "shared")]
    return program(text, "A: f32[20], W: f32[20], D: f32[10]", buffers)


@pytest.mark.parametrize(
    ("step", "left"),
    [
        ("R[vi] + S[vk] * S[vk]", 0),
        ("S[vk] + R[vi]", 0),
        ("R[vi] + (S[vk] - S[vk] * 2.0)", 1),  # 2.0 is no zero
        ("R[vi] + (S[vk] + 1.0)", 1),
        ("R[vi] * S[vk]", 1),
        ("max(R[vi], S[vk])", 1),
        ("R[vi] + S[vk] * W[vk]", 1),  # W has no such element
    ],
)
def test_terms_that_are_zero_need_no_condition(step, left):
    low = check_passes(steps(step), close=1e-5)
    found = [c for c in conditions_around(low, "R") if "k" in {v.name for v in variables(c)}]
    assert len(found) == left


def test_what_is_read_without_the_condition_keeps_it():
    """All of R is read at the end: what is beyond the edge must stay as it was."""
    func = program(
        f"""
for b in {BLOCK}2):
    for i in {X}8):
        R[i] = 1.0
        if b * 8 + i < 10:
            R[i] = 2.0
        D[b, i] = R[i]
""",
        "D: f32[2, 8]",
        [("R", "f32[8]", "local")],
    )
    low = check_passes(func)
    assert conditions_around(low, "R")


def test_conditions_stand_outside_of_what_they_do_not_speak_of():
    func = program(
        f"""
for b in {BLOCK}2):
    for i in {X}8):
        for k in range(4):
            for j in range(4):
                with block("D"):
                    vi = spatial(13, b * 8 + i)
                    vj = spatial(14, k * 4 + j)
                    where(b * 8 + i < 13 and k * 4 + j < 14)
                    D[vi, vj] = A[vi, vj]
""",
        "A: f32[13, 14], D: f32[13, 14]",
    )
    low = check_passes(func)
    outer = [s for s in walk(low.body) if isinstance(s, If)]
    assert len(outer) == 2 and isinstance(outer[0].then, For)
    assert {v.name for v in variables(outer[0].cond)} == {"b", "i"}
