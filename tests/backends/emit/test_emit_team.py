"""Several parallel loops in one region: who runs what, where threads wait, what comes out."""

from __future__ import annotations

import numpy as np
import pytest

from backends.c.emit.codegen import emit
from backends.c.emit.work import work_of
from tensorir import Target, parse, variables

TWO = Target(threads=2, vector_bits=512)

CHAIN = """
@prim_func
def f(A: f32[N], B: f32[N], C: f32[N]):
    with alloc(T, f32[N]):
        for i in parallel(N):
            T[i] = A[i] + 1.0
        B[0] = T[N - 1]
        for j in range(N - 1):
            B[j + 1] = T[N - 2 - j] * 2.0
        with alloc(U, f32[N]):
            for k in parallel(N):
                U[k] = B[N - 1 - k] + T[k]
            for l in parallel(N):
                C[l] = U[N - 1 - l] - A[l]
        C[0] = 5.0
"""


def chain(size: int) -> str:
    text = CHAIN.replace("N - 1", str(size - 1)).replace("N - 2", str(size - 2))
    return text.replace("N", str(size))


def kernel_of(text: str, name: str = "f") -> str:
    return text[text.index(f"int {name}(") :]


@pytest.mark.parametrize("size, threads", [(2, 2), (3, None), (64, 1), (1001, 2), (1001, 3)])
def test_stages_see_what_other_threads_wrote(run, size, threads):
    rng = np.random.default_rng(size)
    a = rng.integers(-8, 8, size).astype(np.float32)
    t = a + 1
    b = 2 * t[::-1]
    b[0] = t[-1]
    c = (b[::-1] + t)[::-1] - a
    c[0] = 5
    target = Target(threads=threads, vector_bits=512)
    found_b, found_c = np.zeros_like(a), np.zeros_like(a)
    assert run(chain(size), a, found_b, found_c, target=target) == 0
    np.testing.assert_array_equal(found_b, b)
    np.testing.assert_array_equal(found_c, c)


def test_one_region_with_a_barrier_between_stages():
    text = kernel_of(emit(parse(chain(10)), TWO))
    assert text.count("#pragma omp parallel num_threads(2)") == 1
    assert text.count("#pragma omp for schedule(static) nowait") == 3
    assert text.count("#pragma omp master") == 1, "the two serial statements are one part"
    assert text.count("#pragma omp barrier") == 3
    region = text[text.index("#pragma omp parallel") :]
    assert "C[0] = 5" in region, "what comes last needs no threads"
    assert "float U[10]" in text[: text.index("#pragma")], "threads share what they pass on"
    assert (
        emit(
            parse(chain(10)),
            Target(threads=1),
        ).count("omp")
        == 0
    )


def test_text(golden):
    golden(emit(parse(chain(10)), TWO), "chain.c")


STEPS = """
@prim_func
def f(A: f32[8], S: f32[40]):
    for i in range(8):
        S[i] = A[i]
    for t in range(4):
        for k in parallel(8):
            S[t * 8 + k + 8] = S[t * 8 + 7 - k] + 1.0
"""


def test_threads_go_through_a_serial_loop_together(run):
    text = kernel_of(emit(parse(STEPS), TWO))
    assert text.count("#pragma omp parallel") == 1
    before, _, region = text.partition("#pragma omp parallel")
    assert "S[i] = A[i]" in before
    assert region.index("for (i64 t") < region.index("#pragma omp for")
    assert region.count("#pragma omp barrier") == 1
    a, s = np.arange(8, dtype=np.float32), np.zeros(40, np.float32)
    assert run(STEPS, a, s, target=TWO) == 0
    want = a
    for t in range(4):
        want = want[::-1] + 1
        np.testing.assert_array_equal(s[8 * t + 8 : 8 * t + 16], want)


ONE_LOOP = """
@prim_func
def f(A: f32[8], B: f32[8]):
    B[0] = A[0]
    for i in parallel(8):
        B[i] = A[i]
"""

FAILING = """
@prim_func
def f(A: f32[8], B: f32[8]):
    for i in parallel(8):
        with alloc(T, f32[100000]):
            T[i] = A[i]
            B[i] = T[i]
    for j in parallel(8):
        B[j] = B[j] + A[7 - j]
"""

DECIDING = """
@prim_func
def f(A: f32[8], B: f32[8]):
    for t in range(3):
        if B[0] < 5.0:
            for i in parallel(8):
                B[i] = B[i] + A[i]
"""


@pytest.mark.parametrize("program, regions", [(ONE_LOOP, 1), (FAILING, 2), (DECIDING, 1)])
def test_loops_by_themselves_where_a_team_gains_nothing_or_cannot_agree(run, program, regions):
    text = emit(parse(program), TWO)
    assert text.count("#pragma omp parallel") == regions
    assert "omp barrier" not in text
    a, b = np.full(8, 3, np.float32), np.zeros(8, np.float32)
    assert run(program, a, b, target=TWO) == 0
    assert (b == (3 if program is ONE_LOOP else 6)).all()


UNIFORM = """
@prim_func
def f(A: f32[n], B: f32[n]):
    for t in range(4):
        if t < 2:
            for i in parallel(n):
                B[i] = B[i] + A[n - 1 - i]
        else:
            for j in parallel(n):
                B[j] = B[j] + 1.0
"""


@pytest.mark.parametrize("size", [0, 1, 5000])
def test_conditions_and_sizes_that_all_threads_know(run, size):
    text = kernel_of(emit(parse(UNIFORM), TWO))
    assert text.count("#pragma omp parallel") == 1
    a, b = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
    assert run(UNIFORM, a, b, sizes=(size,), target=TWO) == 0
    np.testing.assert_array_equal(b, 2 * a[::-1] + 2)


def test_streamed_stores_are_done_before_others_go_on(run):
    program = """
@prim_func
def f(A: f32[64], T: f32[64], B: f32[64]):
    for i in parallel(4):
        T[ramp(i * 16, 1, 16)] = A[ramp(i * 16, 1, 16)]
    for j in parallel(64):
        B[j] = T[63 - j]
"""
    func = parse(program)
    func.attrs = {"stream": ("T",)}
    text = kernel_of(emit(func, Target(threads=2, vector_bits=512)))
    assert text.index("STREAM_FENCE();") < text.index("#pragma omp barrier")


def test_few_iterations_of_a_symbolic_loop_are_not_shared():
    program = """
@prim_func
def f(A: f32[n], B: f32[n]):
    for i in parallel(n):
        B[i] = A[i] * 2.0
"""
    alone, _, shared = kernel_of(emit(parse(program), TWO)).partition("else {")
    assert "if (6 * n <= " in alone and "omp" not in alone
    assert "#pragma omp parallel num_threads(2)\n" in shared
    call = "(B, A, i);"
    assert alone.count(call) == shared.count(call) == 1
    assert "if (" not in kernel_of(
        emit(parse(program.replace("n]", "9]").replace("(n)", "(9)")), TWO)
    )


def test_work_is_counted_in_operations():
    func = parse(STEPS)
    work = work_of(func.body, ())
    assert work is not None and repr(work).isdigit()
    triangle = parse(
        "@prim_func\ndef f(B: f32[9]):\n    for i in range(9):\n        for j in range(i):\n"
        "            B[j] = 1.0\n"
    )
    assert work_of(triangle.body, ()) is None, "it depends on a loop"


@pytest.mark.parametrize("piece", ["16", "((n + 1) // 2)", "(n * m)"])
def test_pieces_of_an_axis_have_the_work_of_whole_ones(piece):
    """So it is known where the last one ends at a size; how long they are may depend on it too."""
    parts = parse(
        f"@prim_func\ndef f(B: f32[n], m: i64 >= 0):\n    for i in range(n):\n"
        f"        for j in range(min({piece}, n - i * {piece})):\n"
        f"            B[i * {piece} + j] = 1.0\n"
    )
    work = work_of(parts.body, parts.size_vars)
    assert work is not None
    assert {*variables(work)} == {v for v in parts.size_vars if v.name in f"n {piece}"}


COPIES = """
@prim_func
def f(A: f32[7], B: f32[7], C: f32[7]):
    for i in parallel(7):
        B[i] = A[i] + 1.0
    for j in range(3):
        with alloc(T, f32[2]):
            T[0] = B[j * 2]
            T[1] = B[j * 2 + 1]
            C[j * 2] = T[1]
            C[j * 2 + 1] = T[0]
    with alloc(T, f32[2]):
        T[0] = B[6]
        C[6] = T[0]
    for k in parallel(7):
        C[k] = C[k] * 2.0
"""


def test_a_loop_and_its_tail_have_a_buffer_each(run):
    """partition_loops copies what is in a loop, allocations as well."""
    a = np.arange(7, dtype=np.float32)
    b, c = np.zeros_like(a), np.zeros_like(a)
    assert run(COPIES, a, b, c, target=TWO) == 0
    np.testing.assert_array_equal(c, 2 * (a + 1)[[1, 0, 3, 2, 5, 4, 6]])
