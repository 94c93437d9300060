"""Statements as C: loops, threads, memory, names; and what the emitter refuses."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

from backends.c.emit.codegen import CEmitter, c_name, emit, signature
from backends.errors import BuildError
from tensorir import Buffer, For, Load, PrimFunc, Store, Target, Var, const, map_children, replace
from tensorir.text.parser import parse

TARGET = Target(vector_bits=512)


def test_if_else_let_and_dynamic_extents(run):
    program = """
@prim_func
def f(A: f32[n], B: f32[n]):
    for i in range(n):
        if i < 3:
            B[i] = A[i]
        else:
            with let(x, A[i] * 2.0):
                B[i] = x + x
            for j in range(i % 2):
                with let(x, B[i]):
                    B[i] = x + 1.0
"""
    for n in (0, 1, 9):
        a, b = np.arange(n, dtype="float32"), np.zeros(n, "float32")
        assert run(program, a, b, sizes=(n,)) == 0
        i = np.arange(n)
        np.testing.assert_array_equal(b, np.where(i < 3, a, 4 * a + i % 2))


def test_two_lets_of_one_name_follow_each_other(run):
    program = """
@prim_func
def f(A: f32[2]):
    with let(x, A[0]):
        A[0] = A[1]
        A[1] = x
    with let(x, A[0]):
        A[0] = x + 1.0
"""
    a = np.array([1, 2], "float32")
    run(program, a)
    np.testing.assert_array_equal(a, [3, 1])


@pytest.mark.parametrize("threads", [None, 1, 2])
@pytest.mark.parametrize("schedule", ["static", "dynamic,2"])
def test_parallel_loops_share_everything_around_them(run, threads, schedule):
    program = """
@prim_func
def f(A: f32[n], S: f32[8], B: f32[n]):
    for k in range(2):
        with let(x, S[k]):
            for i in parallel(n):
                for j in parallel(1):
                    B[i] = B[i] + A[i] * x + S[k + 2]
"""
    func = parse(program)

    def annotate(stmt):
        stmt = map_children(stmt, annotate)
        if isinstance(stmt, For) and stmt.name == "i":
            return replace(stmt, annotations={"schedule": schedule})
        return stmt

    func = PrimFunc(func.name, func.params, (), annotate(func.body))
    a, s, b = (
        np.arange(100, dtype="float32"),
        np.arange(8, dtype="float32"),
        np.zeros(100, "float32"),
    )
    target = Target(threads=threads, vector_bits=512)
    run(func, a, s, b, sizes=(100,), target=target)
    np.testing.assert_array_equal(b, a * 0 + 2 + a * 1 + 3)
    text = emit(func, target)
    assert text.count("#pragma omp parallel") == (0 if threads == 1 else 1)
    assert ("num_threads(2)" in text) == (threads == 2)
    assert threads == 1 or f"schedule({schedule})" in text


LARGE = """
@prim_func
def f(A: f32[64, 1000], B: f32[64, 1000]):
    for i in parallel(64):
        with alloc(T, f32[SIZE]):
            for j in range(1000):
                T[j] = A[i * 1000 + j] * 2.0
            for j in range(1000):
                B[i * 1000 + j] = T[999 - j]
"""


def flat(text: str, size: str) -> str:
    return text.replace("64, 1000", "64000").replace("SIZE", size)


@pytest.mark.parametrize("size", ["1000", "100000"])
def test_buffers_live_on_the_stack_or_in_the_workspace(run, size):
    program = flat(LARGE, size)
    a, b = np.random.default_rng(0).random(64000, "float32"), np.zeros(64000, "float32")
    assert run(program, a, b) == 0
    np.testing.assert_array_equal(b, (2 * a).reshape(64, 1000)[:, ::-1].ravel())
    assert ("workspace_take" in emit(parse(program), TARGET)) == (size == "100000")


SYMBOLIC = """
@prim_func
def f(A: f32[n], B: f32[n]):
    with alloc(T, f32[n * 2]):
        with alloc(U, f32[n]):
            for i in range(n):
                T[i] = A[i]
                U[i] = A[i] + 1.0
            for i in parallel(n):
                with alloc(V, f32[n]):
                    V[i] = T[i] + U[i]
                    B[i] = V[i]
"""


def test_memory_that_is_not_there_gives_status_1(run):
    """The first failing allocation gives back what was taken, in serial and in parallel code."""
    taken = []
    for failing in range(4):
        a, b = np.ones(4, "float32"), np.zeros(4, "float32")
        fake = (
            "extern int posix_memalign(void **, __SIZE_TYPE__, __SIZE_TYPE__);\n"
            "static int calls;\n"
            "static int refuse(void **p, __SIZE_TYPE__ a, __SIZE_TYPE__ n) {\n"
            f"    return calls++ >= {failing} ? 12 : posix_memalign(p, a, n);\n}}\n"
            "#define posix_memalign refuse\n"
        )

        def edit(text: str, fake: str = fake) -> str:
            taken.append(text)
            return fake + text.replace("extern int posix_memalign", "extern int unused_memalign")

        status = run(SYMBOLIC, a, b, sizes=(4,), edit=edit, target=Target(threads=1))
        assert status == (1 if failing < 3 else 0)


def test_a_kernel_may_run_in_many_threads_and_be_released_between(library):
    func = parse(SYMBOLIC)
    functions = library(emit(func, Target(vector_bits=512)))
    wrong = []

    def work(seed: int) -> None:
        for n in (5, 300, 20):
            a, b = np.full(n, seed, "float32"), np.zeros(n, "float32")
            status = functions.f(
                ctypes.c_void_p(a.ctypes.data), ctypes.c_void_p(b.ctypes.data), ctypes.c_int64(n)
            )
            functions.f_release()
            if status or not (b == 2 * a + 1).all():
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    "names",
    [
        ("int", "float", "for"),
        ("C", "c", "C_"),
        ("exp", "i64", "f32x16"),
        ("LOAD", "workspace_take", "floordiv_i64"),
        ("main", "failed", "omp_x"),
    ],
)
def test_names_that_c_knows_are_changed(run, names):
    a, b, i = names
    x, y, v = Buffer(a, (4,), "float32"), Buffer(b, (4,), "float32"), Var(i)
    func = PrimFunc(names[0], (x, y), (), For(v, const(4), Store(y, (v,), Load(x, (v,)))))
    given, out = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    assert run(func, given, out) == 0
    np.testing.assert_array_equal(out, given)


def test_a_loop_may_have_the_name_of_a_buffer_or_of_the_kernel(run):
    x, v = Buffer("A", (4,), "float32"), Var("A")
    out = Buffer("f", (4,), "float32")
    func = PrimFunc("f", (x, out), (), For(v, const(4), Store(out, (v,), Load(x, (v,)))))
    given, result = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    run(func, given, result)
    np.testing.assert_array_equal(result, given)
    assert c_name(func) == "f"


def test_unrolled_loops_ask_the_compiler(run):
    program = """
@prim_func
def f(A: f32[8]):
    for i in unrolled(8):
        A[i] = A[i] + 1.0
"""
    a = np.arange(8, dtype="float32")
    run(program, a)
    np.testing.assert_array_equal(a, np.arange(8) + 1)
    assert "UNROLL(8)\n    for (i64 i = 0; i < 8; i++) {" in emit(parse(program), TARGET)


def test_deep_sharing_does_not_grow_the_text(run):
    x, out = Buffer("x", (1,), "float32"), Buffer("out", (1,), "float32")
    value = x[0]
    for _ in range(40):
        value = value + value * const(0, "float32")
    func = PrimFunc("f", (x, out), (), Store(out, (const(0),), value))
    assert len(emit(func, TARGET)) < 8000
    given, result = np.array([3], "float32"), np.zeros(1, "float32")
    run(func, given, result)
    assert result[0] == 3


def test_a_named_load_is_read_after_the_store_before_it(run):
    program = """
@prim_func
def f(A: f32[4], B: f32[4]):
    A[0] = B[0] + B[1]
    B[0] = A[0] + B[1]
    A[1] = B[0] + A[0]
    A[2] = B[0] * B[0]
"""
    a, b = np.zeros(4, "float32"), np.array([1, 2, 3, 4], "float32")
    run(program, a, b)
    np.testing.assert_array_equal(a, [3, 8, 25, 0])
    np.testing.assert_array_equal(b, [5, 2, 3, 4])


def test_guarded_loads_are_not_moved_out(run):
    program = """
@prim_func
def f(A: f32[2], B: f32[8]):
    for i in range(8):
        B[i] = select(i < 2, A[i * 1000000000], 0.0) + select(i < 1, A[i * 1000000000], 1.0)
"""
    func = parse(program.replace("i < 2", "i < 1"))
    a, b = np.array([5, 6], "float32"), np.zeros(8, "float32")
    run(func, a, b)
    np.testing.assert_array_equal(b, [10] + [1] * 7)


def test_the_signature_lists_buffers_then_sizes():
    func = parse(SYMBOLIC)
    assert signature(func) == "int f(const float *restrict A, float *restrict B, i64 n)"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            "    for i in thread('threadIdx.x', 8):\n        A[i] = 0.0",
            r"f: loop 'i' is bound to 'threadIdx.x', and target 'c' has no such threads",
        ),
        (
            "    for i in range(8):\n        with block('b'):\n            v = spatial(8, i)\n"
            "            A[v] = 0.0",
            r"f: Block is left in the lowered program",
        ),
    ],
)
def test_programs_that_are_not_for_c_are_refused(program, message):
    with pytest.raises(BuildError, match=message):
        emit(parse(f"@prim_func\ndef f(A: f32[8]):\n{program}\n"), TARGET)


def test_buffers_of_two_dimensions_are_refused():
    program = "@prim_func\ndef f(A: f32[2, 2]):\n    A[0, 1] = 0.0\n"
    with pytest.raises(BuildError, match=r"f: buffer 'A' has 2 indices; lower the program first"):
        emit(parse(program), TARGET)


def test_the_emitter_can_be_asked_for_less_stack():
    class Small(CEmitter):
        stack_bytes = 64

    func = parse(flat(LARGE, "1000"))
    assert "workspace_take" in Small(func, TARGET).text()
