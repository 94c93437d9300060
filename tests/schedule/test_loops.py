"""add_unit_loop, partition, merge, annotate and unannotate."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from refusal import refused

from backends import build
from schedule import Schedule, library
from tensorir import Seq, Target, format_func, interpret, lower, parse, reference, te, verify


def symbolic_sum():
    n = te.var("n")
    a = te.placeholder((n, 3), name="A")
    k = te.reduce_axis(3, name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((n,), lambda i: b[i] * 2.0, name="C")
    return te.create_prim_func([a, c], name="symbolic_sum")


def check_sizes(sch, sizes=(0, 1, 3, 4, 5, 9)):
    """A symbolic program, for several sizes, by the interpreter and compiled."""
    verify(sch.func)
    assert str(parse(str(sch.func))) == str(sch.func)
    kernel = build(sch)
    for n in sizes:
        a = np.arange(n * 3, dtype="float32").reshape(n, 3)
        (expected,) = reference(sch.definition, a)
        np.testing.assert_allclose(interpret(sch.func, a)[0], expected)
        np.testing.assert_allclose(kernel(a), expected)


BOTH = """
@prim_func
def both(A: f32[8], D: f32[8]):
    for i in range(8):
        with block("i"):
            vi = spatial(8, i)
            D[vi] = A[vi]
"""

KINDS = {
    "parallel": Schedule.parallel,
    "vectorized": Schedule.vectorize,
    "unrolled": Schedule.unroll,
    "threads": lambda sch, loop: sch.bind(loop, "threadIdx.x"),
}
"""What makes loops run in other ways than one iteration after the other."""

SIBLINGS = """
@prim_func
def siblings(A: f32[8], B: f32[9], D: f32[8]):
    for i in range(8):
        with block("B"):
            vi = spatial(8, i)
            B[vi] = A[vi]
    for j in range(8):
        with block("D"):
            vj = spatial(8, j)
            D[vj] = B[vj]
"""


class TestAddUnitLoop:
    def test_around_a_block(self, matmul, check, golden):
        sch = Schedule(matmul())
        assert sch.add_unit_loop("C") == "unit"
        assert sch.get_loops("C") == ["i", "j", "k", "unit"]
        golden(str(sch.func), "add_unit_loop")
        check(sch)

    def test_around_loops(self, matmul, check):
        sch = Schedule(matmul())
        assert [sch.add_unit_loop("i"), sch.add_unit_loop("k")] == ["unit", "unit_1"]
        assert sch.get_loops("C") == ["unit", "i", "j", "unit_1", "k"]
        sch.fuse("unit", "i")
        sch.parallel("unit_i")
        check(sch)

    def test_makes_a_place(self, check):
        """A sum over all elements has no loop to compute its input at, or to run in parallel."""
        a = te.placeholder((), name="A")
        b = te.compute((), lambda: a[()] + 1.0, name="B")
        c = te.compute((), lambda: b[()] * 2.0, name="C")
        sch = Schedule(te.create_prim_func([a, c], name="scalars"))
        loop = sch.add_unit_loop("C")
        sch.compute_at("B", loop)
        assert sch.get_loops("B") == [loop]
        check(sch)

    def test_name_of_a_buffer(self, check):
        a = te.placeholder((4,), name="unit")
        b = te.compute((4,), lambda i: a[i], name="B")
        sch = Schedule(te.create_prim_func([a, b], name="named"))
        assert sch.add_unit_loop("B") == "unit_1"
        check(sch)

    def test_refuses(self, matmul):
        sch = Schedule(matmul())
        refused(sch.add_unit_loop, "Q", match="no block or loop 'Q'; blocks are C; loops are i, j")
        sch = Schedule(parse(BOTH))
        refused(sch.add_unit_loop, "i", match="'i' names both a block and a loop")


class TestPartition:
    def test_golden(self, chain, check, golden):
        sch = Schedule(chain(10, 5))
        assert sch.partition("i", [4, None]) == ("i_0", "i_1")
        assert sch.get_blocks() == ["B", "B_1", "C", "D"]
        golden(str(sch.func), "partition")
        check(sch)

    @pytest.mark.parametrize("factors", [[12], [None], [1, None], [None, 1], [3, None, 4], [5, 7]])
    def test_factors(self, chain, check, factors):
        sch = Schedule(chain())
        assert len(sch.partition("i_C", factors)) == len(factors)
        check(sch)

    def test_inner_nest(self, matmul, check, golden):
        sch = Schedule(matmul())
        sch.partition("i", [2, 3, None])
        assert sch.get_loops("C_2") == ["i_2", "j_2", "k_2"]
        sch.split("j_1", [None, 3])
        sch.parallel("i_0")
        sch.vectorize("j_2")
        golden(str(sch.func), "partition_nest")
        check(sch)

    def test_again(self, matmul, check):
        sch = Schedule(matmul(9, 5, 4))
        _, rest = sch.partition("i", [4, None])
        sch.partition(rest, [3, None])
        sch.partition("j_1", [2, None])
        check(sch)

    def test_several_blocks_inside(self, conv, check):
        sch = Schedule(conv())
        loop = sch.get_loops("relu")[0]
        sch.compute_at("conv", loop)
        sch.compute_at("pad", loop)
        first, last = sch.partition(loop, [None, 3])
        assert sch.get_child_blocks(last) == ["pad_1", "conv_1", "relu_1"]
        check(sch)

    @pytest.mark.parametrize("factors", [[4, None], [None, 4], [2, None, 2]])
    def test_symbolic(self, factors):
        sch = Schedule(symbolic_sum())
        sch.partition("i", factors)
        check_sizes(sch)

    def test_symbolic_golden(self, golden):
        sch = Schedule(symbolic_sum())
        sch.partition("i_C", [4, None])
        golden(str(sch.func), "partition_symbolic")
        check_sizes(sch)

    def test_reduction_without_init(self, matmul, check):
        sch = Schedule(matmul())
        sch.decompose_reduction("C", "k")
        sch.partition("k", [3, None])
        check(sch)

    def test_later_primitives_see_several_writers(self, matmul, chain):
        """A buffer that two blocks write is not moved, copied or factored as if there were one."""
        sch = Schedule(matmul())
        sch.partition("i", [2, None])
        sch.split("k", [None, 3])
        refused(sch.rfactor, "C", "k_1_1", match="'C' is also written by block 'C_1'")
        refused(sch.cache_write, "C", "C", match="'C' is also written by block 'C_1'")
        sch = Schedule(chain())
        sch.partition("i", [2, None])
        refused(sch.compute_inline, "B", match="also written by block 'B_1'")
        refused(sch.compute_at, "B", "i_C", match="also written by block 'B_1'")
        refused(sch.reverse_compute_at, "C", "i_0", match="writes 'B' outside loop 'i_0'")

    def test_copies_of_what_parts_write_together(self, chain, check):
        sch = Schedule(chain())
        sch.partition("i", [2, 1, None])
        sch.cache_read("C", "B")
        sch.cache_read("C", "B_local")
        check(sch)
        sch = Schedule(chain())
        sch.compute_at("B", "i_C")
        sch.partition(sch.get_loops("B")[-1], [2, None])
        sch.cache_read("C", "B")
        check(sch)
        a = te.placeholder((6, 5), name="A")
        b = te.compute((6, 5), lambda i, j: a[i, j] + 1.0, name="B")
        c = te.compute((6, 4), lambda i, j: b[i, j + 1] * 2.0, name="C")
        sch = Schedule(te.create_prim_func([a, c]))
        sch.compute_at("B", "i_C")
        sch.fission("i_C")
        refused(sch.cache_read, "C", "B", match="computes only the part of 'B'")

    def test_refuses(self, matmul):
        sch = Schedule(matmul())
        refused(sch.partition, "i", [], match="no factors")
        refused(sch.partition, "i", [None, None], match="more than one None")
        refused(sch.partition, "i", [0, None], match="0 is not a positive integer")
        refused(sch.partition, "i", [2, 2], match="make 4 of the 6 iterations")
        refused(sch.partition, "i", [6, None], match="make 6 of the 6 .* leaves none for None")
        refused(sch.partition, "i", [9, None], match="make 9 of the 6 iterations")
        refused(sch.partition, "k", [2, None], match="(?s)'k' is a reduction of block 'C' whose")
        sch.parallel("i")
        refused(sch.partition, "i", [2, None], match="loop 'i' is parallel")
        sch = Schedule(symbolic_sum())
        refused(sch.partition, "i", [2, 3], match="extent n is not a number and no factor is None")


class TestMerge:
    def test_golden(self, chain, check, golden):
        sch = Schedule(chain())
        assert sch.merge("i", "i_C", "i_D") == "i_i_C_i_D"
        golden(str(sch.func), "merge")
        sch.merge("j", "j_C")
        sch.parallel("i_i_C_i_D")
        check(sch)

    def test_undoes_neighbouring_parts(self, matmul, check):
        sch = Schedule(matmul(8, 10, 7))
        sch.partition("i", [4, None])
        refused(sch.merge, "i_0", "i_0", match="'i_0' does not stand directly after 'i_0'")
        refused(sch.merge, "i_1", "i_0", match="'i_0' does not stand directly after 'i_1'")
        sch.partition("j_1", [5, None])
        sch.merge("j_1_0", "j_1_1")
        check(sch)

    def test_reductions(self, check):
        """Two sums of one array in one pass over it."""
        a = te.placeholder((6, 7), name="A")
        k, r = te.reduce_axis(7, name="k"), te.reduce_axis(7, name="r")
        s = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="S")
        m = te.compute((6,), lambda i: te.max(a[i, r], axis=r), name="M")
        sch = Schedule(te.create_prim_func([a, s, m], name="two"))
        loop = sch.merge("i", "i_M")
        sch.merge("k", "r")
        sch.parallel(loop)
        check(sch)

    def test_symbolic(self):
        sch = Schedule(symbolic_sum())
        outer = sch.merge("i", "i_C")
        sch.split(outer, [None, 4])
        check_sizes(sch)

    def test_refuses(self, chain, conv):
        sch = Schedule(chain())
        refused(sch.merge, match="fewer than two loops")
        refused(sch.merge, "i", match="fewer than two loops")
        refused(sch.merge, "i", "i_D", match="'i_D' does not stand directly after 'i'")
        refused(sch.merge, "i", "j", match="'j' does not stand directly after 'i'")
        refused(sch.merge, "j", "j_C", match="'j_C' does not stand directly after 'j'")
        sch.split("i", [None, 3])
        refused(sch.merge, "i_0", "i_C", match="'i_C' has 12 iterations and 'i_0' has 4")
        sch = Schedule(chain())
        sch.parallel("i_C")
        refused(sch.merge, "i", "i_C", match="loop 'i_C' is parallel, 'i' is serial")
        sch.undo()
        sch.bind("i", "threadIdx.x")
        sch.bind("i_C", "threadIdx.y")
        refused(sch.merge, "i", "i_C", match="loop 'i_C' is bound to threadIdx.y, 'i' is bound to")

    @pytest.mark.parametrize("kind", ["parallel", "vectorized", "unrolled"])
    def test_loops_of_any_kind(self, chain, check, kind):
        sch = Schedule(chain())
        for loop in ("j", "j_C", "j_D"):
            KINDS[kind](sch, loop)
        sch.merge("i", "i_C", "i_D")
        loop = sch.merge("j", "j_C", "j_D")
        merged = sch.state.loop(loop)
        assert isinstance(merged.body, Seq) and len(merged.body.stmts) == 3
        check(sch)

    @pytest.mark.parametrize("kind", [None, *KINDS])
    @pytest.mark.parametrize("index", ["7 - vj", "vj + 1", "max(vj - 1, 0)", "vj // 2", "0"])
    def test_refuses_dependence(self, index, kind):
        """That on an earlier iteration alone, too: threads may run it later."""
        sch = Schedule(parse(SIBLINGS.replace("B[vj]", f"B[{index}]")))
        for loop in ("i", "j") if kind else ():
            KINDS[kind](sch, loop)
        refused(sch.merge, "i", "j", match="in block 'D' that a later iteration of loop 'i' touch")

    def test_refuses_overwriting(self):
        """The second body would overwrite what later iterations of the first one read."""
        text = SIBLINGS.replace("B[vi] = A[vi]", "D[vi] = B[7 - vi]")
        text = text.replace("            D[vj] = B[vj]", "            B[vj] = A[vj]")
        refused(Schedule(parse(text)).merge, "i", "j", match="touch elements of 'B' in block 'D'")


class TestAnnotate:
    def test_golden(self, matmul, check, golden):
        sch = Schedule(matmul())
        sch.parallel("i")
        sch.annotate("i", "schedule", "static")
        sch.annotate("i", "schedule", "dynamic,2")
        golden(str(sch.func), "annotate")
        assert "schedule(dynamic,2)" in build(sch).source
        check(sch)
        sch.unannotate("i", "schedule")
        golden(str(sch.func), "unannotate")
        assert "schedule(static)" in build(sch).source
        check(sch)

    def test_unroll_limit(self, matmul, check):
        sch = Schedule(matmul())
        sch.unroll("j")
        assert "range(10)" not in format_func(lower(sch.func, Target()))
        sch.annotate("j", "unroll_limit", 4)
        assert "unrolled(10" in format_func(lower(sch.func, Target()))
        check(sch)

    def test_annotated_loops_stay_whole(self, matmul):
        sch = Schedule(matmul())
        sch.parallel("i")
        sch.annotate("i", "schedule", "guided")
        refused(sch.split, "i", [None, 2], match="loop 'i' is parallel")

    def test_refuses(self, matmul):
        sch = Schedule(matmul())
        refused(sch.annotate, "q", "schedule", "static", match="no block or loop 'q'")
        refused(sch.annotate, "i", "melt", 1, match="(?s)nothing honours .*'melt'.*known are sched")
        refused(sch.annotate, "i", "schedule", "static", match="for a parallel loop, which 'i' is")
        refused(sch.annotate, "C", "unroll_limit", 2, match="for an unrolled loop, which 'C' is")
        sch.parallel("i")
        for value in ("dynamic, 4", "auto", 3, None, "static) nowait", "dynamic,0"):
            refused(sch.annotate, "i", "schedule", value, match="'schedule' cannot be")
        sch.unroll("k")
        for value in (-1, True, "8", 10**9):
            refused(sch.annotate, "k", "unroll_limit", value, match="'unroll_limit' cannot be")
        refused(sch.unannotate, "i", "schedule", match="'i' has no annotation 'schedule'; it has n")

    def test_unannotate_leaves_the_keys_of_others(self):
        sch = Schedule(
            parse(
                BOTH.replace('block("i")', 'block("D")').replace(
                    "range(8)", 'range(8, annotations={"theirs": 1})'
                )
            )
        )
        refused(sch.unannotate, "i", "theirs", match="belongs to the primitive that set it")


REPEATED = """
@prim_func
def twice(A: f32[6], B: f32[6], C: f32[6]):
    for i in range(6):
        with block("B"):
            i_1 = spatial(6, i)
            B[i_1] = A[i_1] + 1.0
    for i in range(6):
        with block("C"):
            vi = spatial(6, i)
            C[vi] = B[vi] * 2.0
"""


def test_loops_of_one_name_are_told_apart():
    """A written program may use a name again; in a schedule names are handles."""
    sch = Schedule(parse(REPEATED))
    (first,), (second,) = sch.get_loops("B"), sch.get_loops("C")
    assert (first, second) == ("i", "i_2")
    sch.split(second, [2, None])
    sch.unroll(first)
    assert len(sch.get_loops("B")) == 1 and len(sch.get_loops("C")) == 2
    a = np.arange(6, dtype="float32")
    for got, wanted in zip(interpret(sch.func, a), (a + 1, a * 2 + 2)):
        np.testing.assert_array_equal(got, wanted)


def test_unroll_takes_several(matmul):
    sch, one = Schedule(matmul()), Schedule(matmul())
    sch.unroll(["k", "i"])
    one.unroll("i")
    one.unroll("k")
    assert str(sch.func) == str(one.func)
    refused(sch.unroll, ["j", "k"], match="loop 'k' is unrolled")
    refused(sch.unroll, [], match="no loops were given")


@pytest.mark.parametrize("order", list(permutations("abc")))
@pytest.mark.parametrize("symbolic", ["", "a", "b", "c"])
def test_loops_of_a_nest_are_one_in_whatever_order_they_are_given(order, symbolic):
    sizes = dict(zip("abc", (2, 3, 4))) | ({symbolic: te.var("n")} if symbolic else {})
    a = te.placeholder(tuple(sizes.values()), name="A")
    out = te.compute(a.shape, lambda i, j, k: a[i, j, k] * 2.0, name="B")
    sch = Schedule(te.create_prim_func([a, out], name="f"))
    loops = dict(zip("abc", sch.get_loops("B")))
    task, last = library.one_loop(sch, [loops[name] for name in order])
    assert sch.get_loops("B") == [task] == [last]
    verify(sch.func)
