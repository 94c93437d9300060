"""Refusals that need programs of their own: what `requires:` lines say beyond the usual cases."""

from __future__ import annotations

import pytest
from refusal import refused

from schedule import Schedule
from tensorir import parse, te


def symbolic():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    return te.create_prim_func([a, b], name="symbolic")


ORDERED = """
@prim_func
def ordered(A: f32[8], Z: f32[8]):
    X = alloc(f32[8])
    Y = alloc(f32[8])
    for h in range(8):
        with block("Y_first"):
            vh = spatial(8, h)
            Y[vh] = 0.0
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
    both = Schedule(parse(PAIR.replace("B[7 - vi, vj]", "B[7 - vi, 7 - vj]")))
    refused(both.reorder, "j", "i", match="block 'D' uses what block 'B' writes")
    Schedule(parse(PAIR)).reorder("j", "i")  # columns are independent


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


def test_compute_at_of_a_predicate_that_cannot_be_said():
    sch = Schedule(parse(HALVED))
    refused(sch.compute_at, "B", "j", match="which its own variables cannot say")


HALVED = """
@prim_func
def halved(A: f32[8], C: f32[4]):
    B = alloc(f32[4])
    for i in range(8):
        with block("B"):
            vi = spatial(4, i // 2)
            where(i % 2 < 1)
            B[vi] = A[vi]
    for j in range(4):
        with block("C"):
            vj = spatial(4, j)
            C[vj] = B[vj]
"""


def test_what_cannot_be_proved_is_refused():
    """A part of a part of a loop runs max(n - 3, 0) times, which is more than the proofs know."""
    sch = Schedule(symbolic())
    _, rest, _ = sch.partition("i", [3, None, 1])
    refused(sch.split, rest, [None, 5], match="cannot be proved that block .* binds")


@pytest.mark.parametrize("name", ["parallel", "vectorize", "unroll"])
def test_a_loop_has_one_kind(matmul, name):
    sch = Schedule(matmul())
    sch.parallel("i")
    call = getattr(sch, name)
    refused(call, "i", match="loop 'i' is parallel")


def test_annotated_loops():
    sch = Schedule(parse(TWICE))
    sch.pipeline("i", [0, 1])
    refused(sch.bind, "i", "threadIdx.x", match="'i' is annotated with pipeline")
    refused(sch.fuse, "i", match="'i' is annotated with pipeline")
    refused(sch.partition, "i", [1, None], match="'i' is annotated with pipeline")
    sch = Schedule(parse(TWICE + TWICE_MORE))
    sch.pipeline("i", [0, 1])
    refused(sch.merge, "i", "h", match="'i' is annotated with pipeline")


TWICE = """
@prim_func
def twice(A: f32[8], C: f32[8], D: f32[8]):
    T = alloc(f32[8])
    for i in range(8):
        with block("T"):
            vi = spatial(8, i)
            T[vi] = A[vi]
        with block("C"):
            vi = spatial(8, i)
            C[vi] = T[vi] + 1.0
"""

TWICE_MORE = """    for h in range(8):
        with block("D"):
            vh = spatial(8, h)
            D[vh] = A[vh]
"""


def test_one_name_for_two_things():
    """A block and a loop may have one name; what takes either is to be told which."""
    sch = Schedule(parse(TWICE.replace('block("C")', 'block("i")')))
    refused(sch.annotate, "i", "schedule", "static", match="names both a block and a loop")
    refused(sch.unannotate, "i", "schedule", match="names both a block and a loop")
    refused(sch.unannotate, "q", "schedule", match="no block or loop 'q'")


def test_extent_of_threads():
    sch = Schedule(parse(TWICE.replace("range(8)", "range(0)")))
    refused(sch.bind, "i", "threadIdx.x", match="has extent 0")


def test_lanes_around_threads():
    sch = Schedule(parse(PAIR.replace("B[7 - vi, vj]", "B[vi, vj]")))
    sch.parallel("j")
    refused(sch.vectorize, "i", match="has the parallel loop 'j' inside")


def test_lanes_that_write_the_same(conv):
    sch = Schedule(conv())
    sch.compute_at("pad", "i_conv")
    refused(sch.vectorize, "i_conv", match="write the same elements of 'pad'")


def test_scopes(matmul):
    refused(Schedule(matmul()).cache_write, "C", 0, "disk", match="scope 'disk' is none of")


def test_inline_of_another_store():
    moved = ORDERED.replace("X[vi] = Y[vi]", "X[7 - vi] = A[vi]")
    refused(
        Schedule(parse(moved)).compute_inline, "X", match="something else than its own variables"
    )


TAKEN = """
@prim_func
def taken(A: f32[4, 6], Z: f32[4], D: f32[4]):
    C = alloc(f32[4])
    X = alloc(f32[4])
    for i, k in grid(4, 6):
        with block("C"):
            vi = spatial(4, i)
            vk = reduce(6, k)
            with init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
    for x in range(4):
        with block("X"):
            vx = spatial(4, x)
            X[vx] = A[vx, 0]
    for d in range(4):
        with block("D"):
            vd = spatial(4, d)
            D[vd] = C[vd] + X[vd]
"""


class TestEpilogue:
    def test_kinds_of_reductions(self):
        squares = TAKEN.replace("C[vi] + A[vi, vk]", "C[vi] * C[vi] + A[vi, vk]")
        sch = Schedule(parse(squares.replace("+ X[vd]", "+ A[vd, 0]")))
        refused(sch.fuse_reduction_epilogue, "C", "D", match="does not reduce one value by one of")
        sch = Schedule(parse(TAKEN.replace("C[vi]", "C[3 - vi]").replace("X[vd]", "A[vd, 0]")))
        refused(sch.fuse_reduction_epilogue, "C", "D", match="does not store to its own variables")

    def test_what_else_is_read(self):
        sch = Schedule(parse(TAKEN))
        refused(sch.fuse_reduction_epilogue, "C", "D", match="'X', which 'D' reads, may run after")

    def test_what_else_uses_the_result(self):
        other = TAKEN.replace("X[vx] = A[vx, 0]", "D[vx] = A[vx, 0]").replace("X[vd]", "Z[vd]")
        sch = Schedule(parse(other.replace("    X = alloc(f32[4])\n", "")))
        refused(sch.fuse_reduction_epilogue, "C", "D", match="block 'X' also uses 'D'")

    def test_instances(self):
        plain = TAKEN.replace("X[vd]", "A[vd, 0]")
        some = plain.replace("vd = spatial(4, d)", "vd = spatial(4, d)\n            where(d < 3)")
        sch = Schedule(parse(some))
        refused(sch.fuse_reduction_epilogue, "C", "D", match="may leave out some elements")
        sch = Schedule(parse(plain.replace("D[vd]", "D[vd // 2]")))
        refused(sch.fuse_reduction_epilogue, "C", "D", match="of 'D' at different 'vd'")
        again = plain.replace("for i, k in grid(4, 6)", "for i, again, k in grid(4, 2, 6)")
        sch = Schedule(parse(again))
        refused(sch.fuse_reduction_epilogue, "C", "D", match="may repeat instances of block 'C'")

    def test_sums_are_no_epilogues(self):
        a = te.placeholder((4, 6), name="A")
        k, q = te.reduce_axis(6, name="k"), te.reduce_axis(4, name="q")
        c = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="C")
        d = te.compute((), lambda: te.sum(c[q], axis=q), name="D")
        sch = Schedule(te.create_prim_func([a, d], name="sums"))
        refused(sch.fuse_reduction_epilogue, "C", "D", match="is a reduction, or stores more")


def test_reverse_inline_of_several_stores_and_writers():
    a = te.placeholder((4, 6), name="A")
    b = te.compute((4, 6), lambda i, j: a[i, j] + 1.0, name="B")
    k = te.reduce_axis(6, name="k")
    c = te.compute((4,), lambda i: te.argmax(b[i, k], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, c], name="argmax"))
    block = next(n for n in sch.get_blocks() if sch.state.block(n).is_reduction)
    refused(sch.reverse_compute_inline, block, match="is a reduction")
    sch = Schedule(parse(SHARED.replace("C[vj] = A[7 - vj]", "B[vj] = A[7 - vj]")))
    refused(sch.reverse_compute_inline, "C", match="'B' is also written by block")


def test_padding_around_another_block():
    sch = Schedule(parse(PADDED))
    refused(sch.decompose_padding, "P", "i", match="block 'Q' inside loop 'i' uses 'P' too")
    other = PADDED.replace("Q[vi] = P[vi]", "Q[vi] = A[0]")
    sch = Schedule(parse(other))
    sch.decompose_padding("P", "i")


PADDED = """
@prim_func
def padded(A: f32[6], Q: f32[8]):
    P = alloc(f32[8])
    for i in range(8):
        with block("P"):
            vi = spatial(8, i)
            P[vi] = select(vi < 6, A[vi], 0.0)
        with block("Q"):
            vi = spatial(8, i)
            Q[vi] = P[vi]
"""


def test_einsums(matmul):
    a = te.placeholder((3, 7), name="A")
    k = te.reduce_axis(7, name="k")
    c = te.compute((3,), lambda i: te.sum(a[i, k] * a[i, 6 - k], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, c], name="squares"))
    refused(sch.pad_einsum, "C", [4, 4], match="not at vk alone and once")
    sch = Schedule(matmul(6, 10, 7))
    sch.partition("i", [3, None])
    refused(sch.pad_einsum, "C", [4, 4, 4], match="'C' is also written by block 'C_1'")


def test_stages_with_two_writers():
    two = TWICE.replace(
        '        with block("C")',
        '        with block("U"):\n            vi = spatial(8, i)\n            T[vi] = A[0]\n'
        '        with block("C")',
    )
    sch = Schedule(parse(two))
    refused(sch.pipeline, "i", [0, 1, 2], match="'U' writes 'T', which block 'T' uses")
    sch.pipeline("i", [0, 0, 1])


PART = """
@prim_func
def part(A: f32[5, 4], C: f32[3]):
    B = alloc(f32[5])
    for i, k_0, k_1 in grid(3, 2, 2):
        with block("B"):
            vi = spatial(5, i)
            vk = reduce(4, k_0 * 2 + k_1)
            with init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
    for c in range(3):
        with block("C"):
            vc = spatial(3, c)
            C[vc] = B[vc]
"""


def test_copies_of_a_part():
    sch = Schedule(parse(PART))
    refused(sch.reindex, "C", "B", match="computes only the part of 'B'")
    refused(sch.rfactor, "B", "k_1", match="computes only the part of 'B'")
    refused(sch.cache_write, "B", "B", match="computes only the part of 'B'")


def test_predicates_of_rolled_rows():
    text = ROLLED.replace("WHERE", "where(i * r + j < 9)")
    refused(Schedule(parse(text)).rolling_buffer, "B", match="which its own variables cannot say")
    Schedule(parse(ROLLED.replace("WHERE", "where(i + r + j < 12)"))).rolling_buffer("B")
    Schedule(parse(ROLLED.replace("WHERE", "where(j < 3)"))).rolling_buffer("B")


def test_readers_of_rolled_rows():
    text = ROLLED.replace("WHERE", "where(j < 4)") + AFTER_ROLLED
    refused(
        Schedule(parse(text)).rolling_buffer, "B", match="'D' reads 'B', and does not follow 'B'"
    )


ROLLED = """
@prim_func
def rows(A: f32[10, 4], C: f32[8, 4], D: f32[8, 4]):
    B = alloc(f32[10, 4])
    for i in range(8):
        for r, j in grid(3, 4):
            with block("B"):
                vi = spatial(10, i + r)
                vj = spatial(4, j)
                WHERE
                B[vi, vj] = A[vi, vj]
        for j in range(3):
            with block("C"):
                vi = spatial(8, i)
                vj = spatial(4, j)
                C[vi, vj] = B[vi, vj] + B[vi + 2, vj]
"""

AFTER_ROLLED = """    for i_D, j_D in grid(8, 4):
        with block("D"):
            vi = spatial(8, i_D)
            vj = spatial(4, j_D)
            D[vi, vj] = B[vi, vj]
"""

TILES = """
@prim_func
def tiles(A: f32[16], C: f32[16]):
    B = alloc(f32[16])
    for i, p, q in grid(4, 2, 2):
        with block("B"):
            vi = spatial(16, i * 4 + p * 2 + q)
            MAKER
            B[vi] = A[vi]
    for c_0, c_1 in grid(4, 4):
        with block("C"):
            vc = spatial(16, c_0 * 4 + c_1)
            READER
            C[vc] = B[vc]
"""


def test_predicates_around_reverse_compute_at():
    text = TILES.replace("MAKER", "where(p * q < 1)").replace("READER", "where(c_0 < 4)")
    sch = Schedule(parse(text))
    refused(sch.reverse_compute_at, "C", "i", match="cannot be said outside of its loops")
    text = TILES.replace("MAKER", "where(i < 4)").replace("READER", "where(c_1 < 3)")
    sch = Schedule(parse(text))
    refused(sch.reverse_compute_at, "C", "i", match="which its own variables cannot say")


def test_init_that_reads_what_moves():
    a, b = te.placeholder((4, 6), name="A"), te.placeholder((4,), name="bias")
    k = te.reduce_axis(6, name="k")
    c = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="C")
    d = te.compute((4,), lambda i: c[i] + b[i], name="D")
    sch = Schedule(te.create_prim_func([a, b, d], name="sums"))
    sch.fuse_reduction_epilogue("C", "D")
    copy = sch.cache_read("C", "bias")
    refused(sch.compute_at, copy, "k", match="'C' starts from 'bias_local', which block")
    sch.compute_at(copy, "i")
    refused(sch.decompose_reduction, "C", "i", match="'C' starts from 'bias_local', which block")


def test_orders_of_kinds():
    sch = Schedule(parse(PAIR.replace("B[7 - vi, vj]", "B[vi, vj]")))
    sch.parallel("i")
    sch.vectorize("j")
    refused(sch.reorder, "j", "i", match="'i' is inside the vectorized loop 'j'")


class TestIndexMaps:
    def test_parameters_and_places(self, chain):
        sch = Schedule(chain())
        refused(sch.transform_layout, "B", "B", "i: i", match="has 1 parameters")
        refused(sch.transform_layout, "B", "B", "i, j: i - 1, j", match="known to be 0 or more")
        refused(sch.transform_layout, "B", "B", "i, j: i + j", match="may send two elements")
