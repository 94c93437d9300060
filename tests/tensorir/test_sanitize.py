"""Races are reported with buffer, element, loop and both iterations; private memory is not."""

from __future__ import annotations

import numpy as np
import pytest

from schedule import Schedule
from tensorir import VerifyError, interpret, parse, te


def run(text, *arrays):
    return interpret(parse(text), *arrays, races=True)


def ones(*shape):
    return np.ones(shape, "float32")


SUM = """
@prim_func
def total(A: f32[8, 8], C: f32[8]):
    for i in range(8):
        for k in range(8):
            with block("C"):
                vi = spatial(8, i)
                vk = reduce(8, k)
                with init():
                    C[vi] = 0.0
                C[vi] = C[vi] + A[vi, vk]
"""

MIRROR = """
@prim_func
def mirror(A: f32[8], D: f32[8]):
    B = alloc(f32[8])
    for i in range(8):
        with block("B"):
            vi = spatial(8, i)
            B[vi] = A[vi] + 1.0
    for j in range(8):
        with block("D"):
            vj = spatial(8, j)
            D[vj] = B[7 - vj]
"""

TOGETHER = """
@prim_func
def together(A: f32[8], B: f32[8], D: f32[8]):
    for i in parallel(8):
        with block("B"):
            vi = spatial(8, i)
            B[vi] = A[vi] + 1.0
        with block("D"):
            vi = spatial(8, i)
            D[vi] = B[OTHER]
"""

LANES = """
@prim_func
def lanes(A: f32[8], C: f32[8]):
    for i in range(2):
        for j in vectorized(4):
            with block("C"):
                vi = spatial(8, i * 4 + WHERE)
                C[vi] = A[vi]
"""


def test_parallel_reduction():
    run(SUM, ones(8, 8))
    run(SUM.replace("i in range", "i in parallel"), ones(8, 8))
    with pytest.raises(VerifyError, match=r"parallel loop 'k': iteration 0 writes C\[0\] and it"):
        run(SUM.replace("k in range", "k in parallel"), ones(8, 8))


def test_two_lanes_write_one_element():
    found = run(LANES.replace("WHERE", "j"), ones(8))
    np.testing.assert_array_equal(found[0], ones(8))
    given = ones(8), ones(8)
    message = r"vectorized loop 'j': iteration 0 writes C\[0\] and iteration 1 writes it"
    with pytest.raises(VerifyError, match=message):
        run(LANES.replace("WHERE", "j // 2"), *given)


def test_what_another_iteration_writes_is_read():
    """The serial order gives right values here, and the race is reported all the same."""
    given = ones(8), ones(8), ones(8)
    run(TOGETHER.replace("OTHER", "vi"), *given)
    message = r"parallel loop 'i': iteration 0 writes B\[0\] and iteration 1 reads it"
    with pytest.raises(VerifyError, match=message):
        run(TOGETHER.replace("OTHER", "max(vi - 1, 0)"), *given)
    message = r"parallel loop 'i': iteration 0 reads B\[1\] and iteration 1 writes it"
    with pytest.raises(VerifyError, match=message):
        run(TOGETHER.replace("OTHER", "min(vi + 1, 7)"), *given)


def test_separate_nests_do_not_race():
    text = MIRROR.replace("i in range", "i in parallel").replace("j in range", "j in vectorized")
    run(text, ones(8))


def test_many_readers_then_a_writer():
    text = TOGETHER.replace("B[OTHER]", "D[7]")
    with pytest.raises(VerifyError, match=r"iteration 0 reads D\[7\] and iteration 7 writes it"):
        run(text, ones(8), ones(8), ones(8))


def test_runs_of_an_inner_loop_are_separate():
    """The serial loop outside may reuse what another run of the inner loop wrote."""
    text = """
@prim_func
def steps(A: f32[4], C: f32[4]):
    for t in range(3):
        for i in parallel(4):
            with block("C"):
                vt = reduce(3, t)
                vi = spatial(4, i)
                with init():
                    C[vi] = 0.0
                C[vi] = C[vi] + A[vi]
"""
    np.testing.assert_array_equal(run(text, ones(4))[0], 3 * ones(4))


def test_private_memory_does_not_count():
    """Neighbouring iterations both compute the overlap, each for itself."""
    a = te.placeholder((12,), name="A")
    b = te.compute((12,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((10,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")
    sch = Schedule(te.create_prim_func([a, c], name="stencil"))
    outer, inner = sch.split("i_C", [None, 4])
    sch.compute_at("B", outer)
    sch.parallel(outer)
    sch.vectorize(inner)
    array = np.arange(12, dtype="float32")
    expected = interpret(sch.definition, array)
    np.testing.assert_array_equal(interpret(sch.func, array, races=True)[0], expected[0])


def test_a_thread_axis_is_named():
    text = LANES.replace("WHERE", "0").replace("vectorized(4)", 'thread("threadIdx.x", 4)')
    with pytest.raises(VerifyError, match="race in the threadIdx.x loop 'j'"):
        run(text, ones(8), ones(8))


def test_lowered_programs_run_too():
    text = """
@prim_func
def low(A: f32[4], C: f32[4]):
    for i in parallel(4):
        with alloc(B, f32[1]):
            B[0] = A[i]
            C[i] = B[0]
"""
    run(text, ones(4))


def test_parallel_loops_of_a_gpu_program_are_serial():
    text = SUM.replace("k in range", "k in parallel")
    with pytest.raises(VerifyError, match="parallel loop 'k'"):
        run(text, ones(8, 8))
    run(text.replace("i in range(8)", 'i in thread("blockIdx.x", 8)'), ones(8, 8))


def test_threads_of_a_block_reduce_together():
    run(SUM.replace("k in range(8)", 'k in thread("threadIdx.x", 8)'), ones(8, 8))
    with pytest.raises(VerifyError, match="race in the blockIdx.x loop 'k'"):
        run(SUM.replace("k in range(8)", 'k in thread("blockIdx.x", 8)'), ones(8, 8))
