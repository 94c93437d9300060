"""Refusals that need programs of their own: what `requires:` lines say beyond the usual cases."""

from __future__ import annotations

from refusal import refused

from schedule import Schedule
from tensorir import parse, te


def symbolic():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    return te.create_prim_func([a, b], name="symbolic")


def argmax():
    a = te.placeholder((4, 6), name="A")
    k = te.reduce_axis(6, name="k")
    m = te.compute((4,), lambda i: te.argmax(a[i, k], axis=k), name="M")
    d = te.compute((4,), lambda i: m[i] + 1, name="D")
    return te.create_prim_func([a, d], name="argmax")


ORDERED = """
@prim_func
def ordered(A: f32[8], Z: f32[8]):
    X = alloc(f32[8])
    Y = alloc(f32[8])
    for i in range(8):
        with block("X"):
            vi = spatial(8, i)
            X[vi] = Y[vi]
    for j in range(8):
        with block("Z"):
            vj = spatial(8, j)
            Z[vj] = X[vj]
        with block("Y"):
            vj = spatial(8, j)
            Y[vj] = A[vj]
"""

PAIR = """
@prim_func
def pair(A: f32[8, 8], B: f32[8, 8], D: f32[8, 8]):
    for i, j in grid(8, 8):
        with block("B"):
            vi = spatial(8, i)
            vj = spatial(8, j)
            B[vi, vj] = A[vi, vj] + 1.0
        with block("D"):
            vi = spatial(8, i)
            vj = spatial(8, j)
            D[vi, vj] = B[7 - vi, vj]
"""

STRIDED = """
@prim_func
def strided(A: f32[8], C: f32[8]):
    B = alloc(f32[8])
    for i_0, i_1 in grid(2, 4):
        with block("B"):
            vi = spatial(8, i_1 * 2 + i_0)
            B[vi] = A[vi]
    for i in range(8):
        with block("C"):
            vi = spatial(8, i)
            C[vi] = B[vi]
"""

SHARED = """
@prim_func
def shared(A: f32[8], C: f32[8]):
    B = alloc(f32[8])
    for i in range(8):
        with block("B"):
            vi = spatial(8, i)
            B[vi] = A[vi]
    for j in range(8):
        with block("first"):
            vj = spatial(8, j)
            C[vj] = A[7 - vj]
    for k in range(8):
        with block("C"):
            vk = spatial(8, k)
            C[vk] = B[vk]
"""


def test_symbolic_loops_need_splitting():
    sch = Schedule(symbolic())
    refused(sch.vectorize, "i", match="extent n of loop 'i' is not a number")
    refused(sch.unroll, "i", match="extent n of loop 'i' is not a number")
    refused(sch.split, "i", [2, 4], match="extent n is not a number and no factor is None")
    outer, inner = sch.split("i", [None, 4])
    sch.vectorize(inner)
    sch.parallel(outer)


def test_parallel_in_vectorized():
    sch = Schedule(parse(PAIR.replace("B[7 - vi, vj]", "B[vi, vj]")))
    sch.vectorize("i")
    refused(sch.parallel, "j", match="inside the vectorized loop 'i'")


def test_reorder_across_a_dependence():
    sch = Schedule(parse(PAIR))
    refused(sch.reorder, "j", "i", match="block 'D' uses what block 'B' writes")


def test_inline_without_readers():
    sch = Schedule(parse(ORDERED.replace("Z[vj] = X[vj]", "Z[vj] = A[vj]")))
    refused(sch.compute_inline, "X", match="no block reads 'X'")


def test_compute_at_of_several_stores():
    sch = Schedule(argmax())
    block = next(b for b in sch.get_blocks() if sch.state.block(b).is_reduction)
    refused(sch.compute_at, block, sch.get_loops("D")[0], match="distinct variables of one buffer")


def test_compute_at_before_its_input():
    sch = Schedule(parse(ORDERED))
    refused(sch.compute_at, "X", "j", match="block 'Y', which 'X' reads, runs later inside")


def test_compute_at_with_two_writers(matmul):
    sch = Schedule(matmul())
    sch.cache_write("C", 0, "local")
    sch.decompose_reduction("C", "k")
    refused(sch.compute_at, "C", "ax0", match="'C_local' is also written by block 'C_init'")


def test_reverse_compute_at_needs_dense_parts():
    sch = Schedule(parse(STRIDED))
    refused(sch.reverse_compute_at, "C", "i_0", match="do not write separate dense parts of 'B'")
    sch.reverse_compute_at("C", "i_1")


def test_compute_at_with_a_reader_outside():
    a = te.placeholder((9,), name="A")
    b = te.compute((9,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((8,), lambda i: b[i] + b[i + 1], name="C")
    d = te.compute((9,), lambda i: b[i] * 2.0, name="D")
    sch = Schedule(te.create_prim_func([a, c, d], name="both"))
    refused(sch.compute_at, "B", "i_C", match="reader 'D' of 'B' is outside loop 'i_C'")


def test_reverse_compute_at_passing_another_writer():
    sch = Schedule(parse(SHARED))
    refused(sch.reverse_compute_at, "C", "i", match="block 'first' also uses C, which 'C' writes")


def test_reverse_compute_at_of_annotated_loops(chain):
    sch = Schedule(chain())
    sch.parallel("i_C")
    refused(sch.reverse_compute_at, "C", "i", match="loop 'i_C' of block 'C' is parallel")
    sch = Schedule(chain())
    sch.vectorize("j")
    refused(sch.reverse_compute_at, "C", "j", match="loop 'j' is vectorized")
    sch = Schedule(chain())
    refused(sch.reverse_compute_at, "C", "i_C", match="'C' is already inside loop 'i_C'")


def test_compute_at_keeps_the_predicate(matmul, check):
    """Found by the sketch rules: the moved block of partial sums lost its predicate."""
    sch = Schedule(matmul(6, 10, 7))
    _, inner = sch.split("k", [None, 3])
    partial = sch.rfactor("C", inner)
    sch.compute_at(partial, sch.get_loops("C")[0])
    assert "k_0 * 3 + k_1 < 7" in str(sch.func)
    check(sch)


def test_compute_at_of_a_predicate_that_cannot_be_said(matmul):
    sch = Schedule(matmul(6, 10, 7))
    outer, inner = sch.split("k", [None, 3])
    partial = sch.rfactor("C", inner)
    sch.split(outer, [None, 2])
    loop = sch.get_loops("C")[0]
    refused(sch.compute_at, partial, loop, match="which its own variables cannot say")


def test_what_cannot_be_proved_is_refused():
    """A part of a part of a loop runs max(n - 3, 0) times, which is more than the proofs know."""
    sch = Schedule(symbolic())
    _, rest, _ = sch.partition("i", [3, None, 1])
    refused(sch.split, rest, [None, 5], match="cannot be proved that block .* binds")
