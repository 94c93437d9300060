"""Recurrences of which one row is kept, and those that need the rows before it."""

from __future__ import annotations

import numpy as np
import pytest

from schedule import Schedule
from tensorir import interpret, parse, te
from tensorir.rewrite.overwrite_states import overwrite_states

STEP = """
@prim_func
def main(x: f32[6, 4], out: f32[4]):
    S = alloc(f32[7, 4])
    m = alloc(f32[6, 4])
    for i in range(4):
        with block("first"):
            vi = spatial(4, i)
            S[0, vi] = 1.0
    for t in range(6):
        for i1 in range(4):
            with block("before"):
                vt = opaque(6, t)
                vi = spatial(4, i1)
                m[vt, vi] = x[vt, vi] + S[vt, 3 - vi]
        for i2 in range(4):
            with block("step"):
                vt = opaque(6, t)
                vi = spatial(4, i2)
                S[vt + 1, vi] = S[vt, vi] * 0.5 + m[vt, vi]
    for i3 in range(4):
        with block("last"):
            vi = spatial(4, i3)
            out[vi] = S[6, vi]
"""
"""All of a row is read before the next one is stored, and then each element where it is stored."""

AFTER = """        for i4 in range(4):
            with block("after"):
                vt = opaque(6, t)
                vi = spatial(4, i4)
                out[vi] = S[vt + {row}, vi]
"""

OUTSIDE = """
@prim_func
def main(x: f32[6, 4], out: f32[4]):
    S = alloc(f32[7, 4])
    for a, i in grid(1, 4):
        with block("first"):
            va = spatial(1, a)
            vi = spatial(4, i)
            S[va, vi] = 1.0
    for i1, t in grid(4, 6):
        with block("step"):
            vt = opaque(6, t)
            vi = opaque(4, i1)
            S[vt + 1, vi] = S[vt, max(vi - {there}, 0)] * 0.5 + x[vt, vi]
    for i3 in range(4):
        with block("last"):
            vi = spatial(4, i3)
            out[vi] = S[6, vi]
"""


def kept(text):
    """The rows of S that are left; the values are the same."""
    func = parse(text)
    folded = overwrite_states(func)
    x = np.random.default_rng(0).random(func.params[0].const_shape, np.float32)
    np.testing.assert_array_equal(interpret(folded, x), interpret(func, x))
    return next(b.const_shape[0] for b in folded.buffers if b.name == "S")


def test_one_row_is_left():
    assert kept(STEP) == 1
    assert kept(OUTSIDE.format(there=0)) == 1
    with_last = STEP.replace("    for i3", AFTER.format(row=1) + "    for i3")
    assert kept(with_last.replace("out[vi] = S[6, vi]", "out[vi] = out[vi] + S[6, vi]")) == 1


@pytest.mark.parametrize(
    "text",
    [
        STEP.replace("= S[vt, vi] * 0.5", "= S[vt, 3 - vi] * 0.5"),  # stored by another iteration
        STEP.replace("    for i3", AFTER.format(row=0) + "    for i3"),  # read when it is gone
        STEP.replace("out[vi] = S[6, vi]", "out[vi] = S[5, vi]"),
        STEP.replace("S[0, vi] = 1.0", "S[0, vi] = 1.0\n            S[1, vi] = 2.0"),
        STEP.replace("m[vt, vi] = x[vt, vi] + S[vt, 3 - vi]", "m[vt, vi] = S[vt // 2, 3 - vi]"),
        OUTSIDE.format(there=1),  # a column takes rows of the one before
    ],
)
def test_rows_that_are_needed_stay(text):
    assert kept(text) == 7


def test_a_merged_loop_over_columns():
    """What one iteration reads another one has stored by then, or it has not."""
    start, end = STEP.index("        for i2"), STEP.index("    for i3")
    step = STEP[start:end].replace("        for i2 in range(4):\n", "").replace("i2", "i1")
    merged = STEP[:start] + step + STEP[end:]
    assert kept(merged) == 7
    assert kept(merged.replace("S[vt, 3 - vi]", "S[vt, vi]")) == 1


@pytest.mark.parametrize("factors", [[None, 3], [None, 4], [2, 2, None]])
def test_steps_that_are_split_are_the_same_ones(factors):
    """Whether or not the last ones are left out."""
    sch = Schedule(parse(STEP))
    sch.split("t", factors)
    assert kept(str(sch.func)) == 1


SPLIT = """
@prim_func
def main(x: f32[6, 4], out: f32[2, 4]):
    S = alloc(f32[7, 4])
    for i in range(4):
        with block("first"):
            vi = spatial(4, i)
            S[0, vi] = 1.0
    for t0 in range(2):
        for t1 in range(3):
            for i2 in range(4):
                with block("step"):
                    vt = opaque(6, t0 * 3 + t1)
                    vi = spatial(4, i2)
                    S[vt + 1, vi] = S[vt, vi] * 0.5 + x[vt, vi]
        for i3 in range(4):
            with block("last"):
                vo = spatial(2, t0)
                vi = spatial(4, i3)
                out[vo, vi] = S[vo * 3 + {row}, vi]
"""


@pytest.mark.parametrize("row", [1, 3])
def test_what_shares_some_of_the_loops_alone_is_no_step(row):
    assert kept(SPLIT.format(row=row)) == 7


def test_steps_of_unknown_number():
    n = te.var("n")
    x = te.placeholder((n, 3), name="x")
    state = te.state((n + 1, 3), name="s")
    first = te.compute((1, 3), lambda t, i: 0.0, name="first")
    step = te.compute((n + 1, 3), lambda t, i: state[t - 1, i] + x[t - 1, i], name="step")
    sums = te.scan(first, step, state, name="S")
    func = te.create_prim_func([x, te.compute((3,), lambda i: sums[n, i], name="out")])
    folded = overwrite_states(func)
    assert [b.shape[0] for b in folded.buffers] == [1]
    for count in (0, 1, 5):
        x = np.ones((count, 3), np.float32)
        np.testing.assert_array_equal(interpret(folded, x)[0], np.full(3, count))
