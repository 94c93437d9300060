"""Blocks that leave out elements: what would copy, keep or move all of a buffer sees that."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from schedule import Schedule
from tensorir import interpret, ops, parse, te

OVERLAP = """
@prim_func
def overlap(A: f32[20], C: f32[8]):
    B = alloc(f32[20])
    for t in range(8):
        for a in range(6):
            with block("B"):
                v = spatial(20, t * 2 + a)
                where(a != 3)
                B[v] = A[v] + 1.0
        for u in range(1):
            with block("C"):
                w = spatial(8, t)
                C[w] = select(1 <= w, B[w * 2 + 3], 0.0)
"""

PART = """
@prim_func
def part(A: f32[2, 6], C: f32[2, 6]):
    B = alloc(f32[2, 6])
    for t in range(2):
        for a in range(6):
            with block("B"):
                vt = spatial(2, t)
                v = spatial(6, a)
                where({where})
                B[vt, v] = A[vt, v] + 1.0
        for u in range(6):
            with block("C"):
                vt = spatial(2, t)
                v = spatial(6, u)
                C[vt, v] = select({read}, B[vt, v], 0.0)
"""

KEPT = """
@prim_func
def kept(A: f32[8], C: f32[8]):
    attrs({{"inout": ["C"]}})
    for i in range(8):
        with block("C"):
            v = spatial(8, i)
            if {where}:
                C[v] = A[v]
{otherwise}"""

TAIL = """
@prim_func
def tail(A: f32[6, 8], C: f32[8, 6]):
    B = alloc(f32[6, 8])
    for f, g in grid({count}, {step}):
        with block("B"):
            vi = spatial(6, (f * {step} + g) // 8)
            vj = spatial(8, (f * {step} + g) % 8)
            where(f * {step} + g < 48)
            B[vi, vj] = A[vi, vj] * 2.0
    for j, i in grid(8, 6):
        with block("C"):
            vj = spatial(8, j)
            vi = spatial(6, i)
            C[vj, vi] = B[vi, vj] + 1.0
"""


def test_a_value_of_the_iteration_before():
    sch = Schedule(parse(OVERLAP))
    refused(sch.parallel, "t", match="uses what block 'B' writes|write the same elements of 'B'")
    refused(sch.double_buffer, "B", match="'C' reads parts of 'B' that block 'B' may not fill")


@pytest.mark.parametrize(
    ("where", "read"), [("a < 2", "v < 2"), ("a != 1", "v != 1"), ("a % 2 == 0", "v % 2 == 0")]
)
def test_what_is_read_under_the_condition_of_the_writer(where, read):
    sch = Schedule(parse(PART.format(where=where, read=read)))
    refused(sch.cache_read, "C", "B", match="not known to write all of what it reads of 'B'")
    refused(
        sch.reverse_compute_inline,
        "C",
        match="reads 'B' only under a condition, and block 'B' may not write all of it",
    )
    sch.parallel("t")
    a = np.arange(12, dtype="float32").reshape(2, 6)
    (wanted,) = interpret(sch.definition, a)
    np.testing.assert_array_equal(interpret(sch.func, a, races=True)[0], wanted)


@pytest.mark.parametrize("where", ["v != 3", "v % 2 == 0", "v % 2 < 1", "v < 4"])
def test_what_is_left_as_it_is_has_no_copy(where):
    sch = Schedule(parse(KEPT.format(where=where, otherwise="")))
    refused(sch.cache_write, "C", match="'C' writes a part of 'C' only")
    both = KEPT.format(where=where, otherwise="            else:\n                C[v] = 0.0\n")
    sch = Schedule(parse(both))
    sch.cache_write("C")
    a = np.arange(8, dtype="float32")
    (wanted,) = interpret(sch.definition, a, -a)
    np.testing.assert_array_equal(interpret(sch.func, a, -a)[0], wanted)


TRIANGLE = """
@prim_func
def triangle(A: f32[8, 8], C: f32[8, 8]):
    T = alloc(f32[8, 8])
    for i in range(8):
        for j in range(i + 1):
            with block("T"):
                vi = spatial(8, i)
                vj = spatial(8, j)
                T[vi, vj] = A[vi, vj] + 1.0
    for i_C, j_C in grid(8, 8):
        with block("C"):
            vi = spatial(8, i_C)
            vj = spatial(8, j_C)
            C[vi, vj] = select(vj <= vi, T[vi, vj], 0.0)
"""


def test_a_triangle_has_no_copy_of_the_whole():
    sch = Schedule(parse(TRIANGLE))
    why = "(?s)block 'T' leaves out elements of 'T': it runs where j < i \\+ 1.*zeros say"
    refused(sch.cache_read, "C", "T", match=why)


@pytest.mark.parametrize("primitive", ["cache_read", "reindex"])
@pytest.mark.parametrize("step", [1, 3, 5, 8, 48, 50])
def test_a_tail_of_loops_that_were_one_leaves_nothing_out(step, primitive):
    a = te.placeholder((6, 8), name="A")
    b = te.compute((6, 8), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((8, 6), lambda j, i: b[i, j] + 1.0, name="C")
    sch = Schedule(te.create_prim_func([a, c]))
    copy = sch.cache_write("B", 0)
    loop, _ = sch.split(sch.fuse(*sch.get_loops(copy)), [None, step])
    sch.compute_at("B", loop)
    getattr(sch, primitive)("C", "B")
    x = np.arange(48.0, dtype="float32").reshape(6, 8)
    np.testing.assert_array_equal(interpret(sch.func, x)[0], x.T * 2 + 1)


def test_a_part_of_loops_that_were_one_has_no_copy_of_the_whole():
    """It ends at a whole row too, and rows after it are not written."""
    text = TAIL.format(count=10, step=4)
    sch = Schedule(parse(text))
    refused(sch.cache_read, "C", "B", match="only the part of 'B'")


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_a_first_row_that_there_may_not_be_is_left_out_by_nobody(rows):
    a = te.placeholder((te.var("n"), 3), name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute(a.shape, lambda i, j: ops.cumsum(b, axis=0)[i, j] + 1.0, name="C")
    sch = Schedule(te.create_prim_func([a, c]))
    sch.cache_read("C", 0)
    x = np.arange(3.0 * rows, dtype="float32").reshape(rows, 3)
    np.testing.assert_array_equal(interpret(sch.func, x)[0], (2 * x).cumsum(axis=0) + 1)
