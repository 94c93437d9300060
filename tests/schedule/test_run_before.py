"""run_before: statements change places that share no memory."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from schedule import Schedule
from tensorir import interpret, parse, te


def beside(n=6, m=5):
    """A row sum, and two stages that do not need it before one that does."""
    a, b = te.placeholder((n, m), name="A"), te.placeholder((n,), name="B")
    k = te.reduce_axis(m, name="k")
    c = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="C")
    d = te.compute((n,), lambda i: b[i] + 1.0, name="D")
    e = te.compute((n,), lambda i: d[i] * 2.0, name="E")
    f = te.compute((n,), lambda i: c[i] * e[i], name="F")
    return te.create_prim_func([a, b, f], name="beside")


def test_a_statement_runs_earlier(check, golden):
    sch = Schedule(beside())
    sch.run_before("D", "C")
    assert sch.get_blocks() == ["D", "C", "E", "F"]
    golden(str(sch.func), "run_before")
    check(sch)
    sch.run_before("E", "C")
    sch.reverse_compute_at("F", "i")
    assert sch.get_blocks() == ["D", "E", "C", "F"]
    check(sch)


def test_it_is_replayed_and_undone(check):
    sch = Schedule(beside())
    before = sch.func
    sch.run_before("D", "C")
    again = Schedule(beside())
    again.apply(sch.trace)
    assert str(again.func) == str(sch.func)
    sch.undo()
    assert sch.func is before


def test_inside_of_a_loop(check):
    sch = Schedule(beside())
    for block in ("C", "E", "D"):
        sch.compute_at(block, "i_F")
    assert sch.get_blocks()[0] == "C"
    sch.run_before("D", "C")
    assert sch.get_blocks() == ["D", "C", "E", "F"]
    check(sch)


def test_of_stores_to_one_buffer_the_order_stays():
    func = parse("""
@prim_func
def twice(A: f32[8], B: f32[8], C: f32[8]):
    for i in range(8):
        with block("first"):
            vi = spatial(8, i)
            B[vi] = A[vi]
    for i_1 in range(8):
        with block("second"):
            vi = spatial(8, i_1)
            B[vi] = 2.0
    for i_2 in range(8):
        with block("third"):
            vi = spatial(8, i_2)
            C[vi] = A[7 - vi]
""")
    sch = Schedule(func)
    refused(sch.run_before, "second", "first", match="'B' is written by block 'first'")
    sch.run_before("third", "first")
    a = np.arange(8, dtype=np.float32)
    for found, wanted in zip(interpret(sch.func, a), interpret(func, a)):
        np.testing.assert_array_equal(found, wanted)


def test_other_elements_of_one_buffer_change_places():
    func = parse("""
@prim_func
def halves(A: f32[8], B: f32[9], C: f32[2]):
    for i in range(8):
        with block("first"):
            vi = spatial(8, i)
            B[vi] = A[vi]
    for i_1 in range(1):
        with block("second"):
            vi = spatial(1, i_1)
            B[vi + 8] = 2.0
    for i_2 in range(2):
        with block("third"):
            vi = spatial(2, i_2)
            C[vi] = B[vi + 7]
""")
    sch = Schedule(func)
    sch.run_before("second", "first")
    a = np.arange(8, dtype=np.float32)
    for found, wanted in zip(interpret(sch.func, a), interpret(func, a)):
        np.testing.assert_array_equal(found, wanted)
    refused(sch.run_before, "third", "second", match="'B' is written by block 'second'")
    refused(sch.run_before, "third", "first", match="'B' is written by block 'first'")
    within = parse(str(func).replace("vi + 8", "vi + 7"))
    refused(Schedule(within).run_before, "second", "first", match="'B' is written by")


@pytest.mark.parametrize("n", [0, 1, 6])
def test_what_is_refused(n):
    """Of buffers without elements too, which nothing is read from before it is made."""
    sch = Schedule(beside(n))
    refused(sch.run_before, "E", "C", match="'D' is written by block 'D', which would run after")
    refused(sch.run_before, "F", "E", match="'E' is written by block 'E'")
    refused(sch.run_before, "C", "D", match="'C' runs before block 'D' already")
    refused(sch.run_before, "C", "C", match="cannot run before itself")
    refused(sch.run_before, "X", "C", match="no block 'X'")


def test_a_reader_stays_before_what_overwrites_it():
    func = parse("""
@prim_func
def swapped(A: f32[8], B: f32[8]):
    T = alloc(f32[8])
    for i in range(8):
        with block("make"):
            vi = spatial(8, i)
            T[vi] = A[vi]
    for i_1 in range(8):
        with block("take"):
            vi = spatial(8, i_1)
            B[vi] = T[vi]
    for i_2 in range(8):
        with block("again"):
            vi = spatial(8, i_2)
            T[vi] = 0.0
""")
    refused(Schedule(func).run_before, "again", "take", match="'T' is read by block 'take'")


def test_the_order_of_a_pipeline_stays():
    sch = Schedule(beside())
    for block in ("C", "E", "D"):
        sch.compute_at(block, "i_F")
    sch.pipeline("i_F", [0, 0, 0, 1])
    refused(sch.run_before, "D", "C", match="loop 'i_F' is annotated with pipeline")
