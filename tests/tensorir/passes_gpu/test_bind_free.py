"""bind_free: what nobody bound is shared by threads as far as it is proved, and means the same."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import For, interpret, ops, parse, te, walk
from tensorir.passes.gpu.bind_free import ONE_THREAD, bind_free
from tensorir.passes.lower_blocks import lower_blocks
from tensorir.passes.lower_init import lower_init

CASES = [(name, n) for name, op in ops.OPERATORS.items() for n in range(len(op.examples))]


def lowered(func):
    return lower_blocks(lower_init(func))


def thread_loops(func):
    return [s for s in walk(func.body) if isinstance(s, For) and s.thread is not None]


def run_alike(func, *arrays, **sizes):
    """The program with threads, which does what it did, without races."""
    flat = lowered(func)
    bound = bind_free(flat)
    before = interpret(flat, *arrays, sizes=sizes)
    for want, got in zip(before, interpret(bound, *arrays, sizes=sizes, races=True)):
        np.testing.assert_array_equal(got, want)
    return bound


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "number"), CASES, ids=lambda v: str(v))
def test_operators_mean_the_same(name, number):
    func = ops.prim_func(name, number)
    if lowered(func).outputs != func.outputs:
        return  # an extent is 0: there is nothing to write
    bound = run_alike(func, *ops.OPERATORS[name].examples[number].arrays())
    assert thread_loops(bound)


@pytest.mark.parametrize("name", ["matmul", "conv2d", "softmax", "transpose", "cumsum", "resize2d"])
def test_operators_of_several_results_are_shared(name):
    bound = bind_free(lowered(ops.prim_func(name, 3)))
    assert not any(ONE_THREAD in loop.annotations for loop in thread_loops(bound))


def text(bound):
    return repr(bound).partition(":\n")[2]


def test_the_loop_of_neighbours_comes_last():
    func = parse("""
        @prim_func
        def f(A: f32[100, 7], B: f32[7, 100]):
            for i in range(100):
                for j in range(7):
                    B[j, i] = A[i, j]
    """)
    assert text(bind_free(func)) == (
        '    for block in thread("blockIdx.x", 3):\n'
        '        for thread in thread("threadIdx.x", 256):\n'
        "            if block * 256 + thread < 700:\n"
        "                B[(block * 256 + thread) // 100, (block * 256 + thread) % 100] = "
        "A[(block * 256 + thread) % 100, (block * 256 + thread) // 100]"
    )


def test_steps_in_time_are_walked_by_one_block():
    func = parse("""
        @prim_func
        def f(A: f32[5, 300], B: f32[5, 300]):
            for t in range(5):
                for i in range(300):
                    B[t, i] = A[t, i]
                for i_1 in range(300):
                    if 0 < t:
                        B[t, i_1] = B[t, i_1] + B[t - 1, 299 - i_1]
    """)
    bound = run_alike(func, np.arange(1500, dtype=np.float32).reshape(5, 300))
    loops = [(s.name, s.thread, s.const_extent) for s in walk(bound.body) if isinstance(s, For)]
    assert [loop[:2] for loop in loops] == [
        ("t", None),
        ("thread", "threadIdx.x"),
        ("part", None),
        ("thread_1", "threadIdx.x"),
        ("part_1", None),
    ]
    assert {extent for _, thread, extent in loops if thread} == {256}


def test_what_is_between_the_nests_is_done_by_the_first_thread():
    func = parse("""
        @prim_func
        def f(A: f32[40], B: f32[40]):
            M = alloc(f32[1])
            for t in range(3):
                M[0] = A[t]
                for i in range(40):
                    B[i] = select(t > 0, B[i], 0.0) + M[0] * A[i]
    """)
    bound = run_alike(func, np.linspace(0, 1, 40, dtype=np.float32))
    assert "if thread == 0:" in repr(bound)
    assert [loop.const_extent for loop in thread_loops(bound)] == [64, 64]


def test_one_thread_runs_what_is_not_proved_and_says_so():
    func = parse("""
        @prim_func
        def f(A: f32[50], B: f32[50]):
            for i in range(50):
                B[i] = A[i] + select(i > 0, B[max(i - 1, 0)], 0.0)
    """)
    bound = run_alike(func, np.ones(50, np.float32))
    (loop,) = thread_loops(bound)
    assert loop.annotations == {ONE_THREAD: 1} and loop.const_extent == 1


def test_a_single_iteration_needs_no_excuse():
    bound = bind_free(lowered(ops.prim_func("add", ops.Example([(1, 1), (1, 1)]))))
    assert [loop.annotations for loop in thread_loops(bound)] == [{}]


def test_what_an_iteration_makes_for_itself_is_its_own():
    func = parse("""
        @prim_func
        def f(A: f32[60, 9], B: f32[60, 9]):
            T = alloc(f32[9])
            for i in range(60):
                for j in range(9):
                    T[j] = A[i, j] * 2.0
                for k in range(9):
                    B[i, k] = T[8 - k]
    """)
    bound = run_alike(func, np.random.default_rng(0).random((60, 9), np.float32))
    assert [b.scope for b in bound.buffers] == ["local"]
    assert [loop.thread for loop in thread_loops(bound)] == ["blockIdx.x", "threadIdx.x"]


def test_too_much_memory_for_each_thread_is_not_taken():
    func = parse("""
        @prim_func
        def f(A: f32[60, 90000], B: f32[60, 90000]):
            T = alloc(f32[90000])
            for i in range(60):
                for j in range(90000):
                    T[j] = A[i, j] * 2.0
                for k in range(90000):
                    B[i, k] = T[89999 - k]
    """)
    bound = bind_free(func)
    assert [b.scope for b in bound.buffers] == ["global"]
    assert [loop.thread for loop in thread_loops(bound)] == ["threadIdx.x", "threadIdx.x"]


def test_loops_inside_of_a_sum_are_taken_out_of_it():
    func = parse("""
        @prim_func
        def f(A: f32[30, 70], B: f32[70]):
            for j in range(70):
                B[j] = 0.0
            for i in range(30):
                for j_1 in range(70):
                    B[j_1] = B[j_1] + A[i, j_1]
    """)
    bound = run_alike(func, np.random.default_rng(0).random((30, 70), np.float32))
    assert [loop.const_extent for loop in thread_loops(bound)] == [1, 70, 1, 70]


def test_symbolic_sizes():
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((m, n), name="A")
    b = te.compute((n, m), lambda i, j: a[j, i] + 1.0, name="B")
    func = te.create_prim_func([a, b])
    for shape in [(3, 5), (1, 1), (0, 4), (300, 2)]:
        run_alike(func, np.zeros(shape, np.float32))


def test_kernels_that_are_bound_stay_as_they_are():
    func = parse("""
        @prim_func
        def f(A: f32[64], B: f32[64], C: f32[64]):
            for i in thread("threadIdx.x", 64):
                B[i] = A[i]
            for j in parallel(64):
                C[j] = B[63 - j]
    """)
    bound = bind_free(func)
    assert bound.body.stmts[0] is func.body.stmts[0]
    assert len(thread_loops(bound)) == 3
    assert bind_free(bound) is bound


def test_scopes_say_nothing_where_there_are_no_threads():
    func = parse("""
        @prim_func
        def f(A: f32[64, 8], C: f32[64]):
            S = alloc(f32[64], scope="local")
            R = alloc(f32[8], scope="local")
            for i in range(64):
                S[i] = A[i, 0]
            for i_1 in range(64):
                for k in range(8):
                    R[k] = A[i_1, k] + S[63 - i_1]
                C[i_1] = R[0] + R[7]
    """)
    bound = run_alike(func, np.random.default_rng(0).random((64, 8), np.float32))
    assert {b.name: b.scope for b in bound.buffers} == {"S": "global", "R": "local"}
