"""storage_align, reindex, pad_einsum and decompose_padding: what they make and refuse."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from backends import build
from schedule import Schedule
from tensorir import interpret, parse, te, verify


def reduction(term, dtype="float32", fold=te.sum, n=5, m=7):
    """C[i] = fold over k of term(A, i, k)."""
    a = te.placeholder((n, m), dtype, name="A")
    k = te.reduce_axis(m, name="k")
    c = te.compute((n,), lambda i: fold(term(a, i, k), axis=k), name="C")
    return te.create_prim_func([a, c], name="reduction")


class TestStorageAlign:
    def test_golden(self, matmul, check, golden):
        sch = Schedule(matmul(8, 32, 8))
        sch.cache_read("C", "B", "global")
        sch.storage_align("C", "B_global", -2, 16, 4)
        golden(str(sch.func), "storage_align")
        check(sch)
        assert "float B_global[288]" in build(sch).source

    def test_of_the_part_that_is_allocated(self, matmul, check):
        sch = Schedule(matmul(8, 32, 8))
        copy = sch.cache_read("C", "B", "global")
        sch.storage_align(copy, "B_global", 0, 16, 4)
        outer, inner = sch.split("j", [None, 16])
        sch.reorder(outer, "i", "k", inner)
        sch.compute_at(copy, outer)
        sch.vectorize(inner)
        check(sch)
        assert "float B_global[160]" in build(sch).source

    def test_three_axes(self, check):
        a = te.placeholder((3, 4, 5), name="A")
        b = te.compute((3, 4, 5), lambda i, j, k: a[i, j, k] + 1.0, name="B")
        c = te.compute((3, 4, 5), lambda i, j, k: b[2 - i, j, 4 - k], name="C")
        for axis, size in ((0, 3 * 32), (1, 3 * 4 * 16)):
            sch = Schedule(te.create_prim_func([a, c], name="three"))
            sch.storage_align("C", "B", axis, 16)
            check(sch)
            assert f"float B[{size}]" in build(sch).source

    @pytest.mark.parametrize(
        ("shape", "axis", "size"),
        [((6, 30, 1), -2, 192), ((6, 30, 1, 1), 1, 192), ((6, 1, 30, 1), -2, 192),
         ((30, 1), 0, 30), ((6, 1, 30), 1, 192), ((6, 30, 1), 0, 192), ((1, 1), 0, 1)],
    )  # fmt: skip
    def test_axes_of_one_element(self, check, shape, axis, size):
        """Rows lie apart, and elements of a row adjacent, wherever axes of extent 1 stand."""
        a = te.placeholder(shape, name="A")
        b = te.compute(shape, lambda *i: a[i] + 1.0, name="B")
        c = te.compute(shape, lambda *i: b[i] * 2.0, name="C")
        sch = Schedule(te.create_prim_func([a, c], name="units"))
        sch.storage_align("B", "B", axis, 32)
        check(sch)
        assert f"float B[{size}]" in build(sch).source

    def test_of_a_part_with_one_column(self, check):
        """What an iteration has of the aligned axis is one element: its rows are those outside."""
        a = te.placeholder((8, 24), name="A")
        b = te.compute((8, 24), lambda i, j: a[i, j] + 1.0, name="B")
        c = te.compute((24, 8), lambda j, i: b[i, j] * 2.0, name="C")
        sch = Schedule(te.create_prim_func([a, c], name="columns"))
        sch.storage_align("B", "B", 0, 16)
        sch.compute_at("B", "j_C")
        check(sch)
        assert "float B[8]" in build(sch).source

    def test_marked_before_a_new_layout(self, chain):
        sch = Schedule(chain())
        sch.storage_align("B", "B", 0, 16)
        refused(sch.transform_layout, "B", "B", "i, j: j, i", match="transform_layout first")

    def test_symbolic(self):
        n = te.var("n")
        a = te.placeholder((n, n), name="A")
        b = te.compute((n, n), lambda i, j: a[i, j] + 1.0, name="B")
        c = te.compute((n, n), lambda i, j: b[j, i] * 2.0, name="C")
        sch = Schedule(te.create_prim_func([a, c], name="symbolic"))
        sch.storage_align("B", "B", 0, 8, 3)
        x = np.arange(49, dtype="float32").reshape(7, 7)
        np.testing.assert_array_equal(build(sch)(x), (x.T + 1) * 2)

    def test_refuses(self, chain):
        sch = Schedule(chain())
        refused(sch.storage_align, "B", "A", 0, 8, match="'A' is a parameter of the function")
        refused(sch.storage_align, "B", "C", 0, 8, match="'C' is not among them")
        refused(sch.storage_align, "B", "B", 2, 8, match="axis 2 is none of the 2 of 'B'")
        refused(sch.storage_align, "B", "B", -1, 8, match="the last of 'B', are adjacent")
        for factor in (0, -4):
            refused(sch.storage_align, "B", "B", 0, factor, match="is not a positive integer")
        for offset in (-1, 8):
            refused(sch.storage_align, "B", "B", 0, 8, offset, match="is not between 0 and")


class TestReindex:
    def test_golden_read(self, conv, check, golden):
        sch = Schedule(conv())
        assert sch.reindex("conv", "pad") == "pad_reindex"
        golden(str(sch.func), "reindex_read")
        check(sch)
        sch.compute_at("pad_reindex", sch.get_loops("conv")[0])
        check(sch)

    def test_golden_write(self, check, golden):
        a = te.placeholder((4, 3), name="A")
        b = te.compute((3, 4), lambda i, j: a[j, i] + 1.0, name="B")
        func = parse(
            str(te.create_prim_func([a, b], name="flip")).replace("B[vi, vj]", "B[2 - vi, vj]")
        )
        sch = Schedule(func)
        sch.reindex("B", "B")
        golden(str(sch.func), "reindex_write")
        verify(sch.func)
        x = np.arange(12, dtype="float32").reshape(4, 3)
        np.testing.assert_array_equal(interpret(sch.func, x)[0], (x + 1).T[::-1])
        np.testing.assert_array_equal(build(sch)(x), (x + 1).T[::-1])

    def test_reduction_both_sides(self, matmul, check):
        sch = Schedule(matmul())
        sch.split("j", [None, 4])
        for buffer in ("A", "B", "C"):
            sch.reindex("C", buffer, "global")
        check(sch)

    def test_symbolic_diagonal(self):
        n = te.var("n")
        a = te.placeholder((n, n), name="A")
        b = te.compute((n,), lambda i: a[i, n - 1 - i] * 2.0, name="B")
        sch = Schedule(te.create_prim_func([a, b], name="diagonal"))
        sch.reindex("B", "A")
        verify(sch.func)
        x = np.arange(25, dtype="float32").reshape(5, 5)
        np.testing.assert_array_equal(build(sch)(x), np.diag(x[:, ::-1]) * 2)

    def test_refuses_reads(self, conv, chain):
        sch = Schedule(conv())
        refused(sch.reindex, "pad", "A", match="at vi - 1, which may be outside")
        refused(sch.reindex, "conv", "A", match="'A' is not among them")
        refused(sch.reindex, "conv", "W", "disk", match="scope 'disk' is none of")
        sch.compute_at("pad", sch.get_loops("conv")[0])
        refused(sch.reindex, "conv", "pad", match="'pad' writes 'pad' in the same nest")
        a = te.placeholder((8,), name="A")
        b = te.compute((7,), lambda i: a[i] + a[i + 1], name="B")
        sch = Schedule(te.create_prim_func([a, b], name="pair"))
        refused(sch.reindex, "B", "A", match="uses 'A' at more than one place")

    def test_refuses_writes(self, chain, matmul):
        sch = Schedule(chain())
        sch.compute_at("B", sch.get_loops("C")[0])
        refused(sch.reindex, "B", "B", match="'C' reads 'B' in the same nest")
        sch = Schedule(matmul())
        sch.decompose_reduction("C", "k")
        refused(sch.reindex, "C", "C", match="'C' is also written by block 'C_init'")
        text = str(chain()).replace("D[vi, vj] =", "D[vi, 0] =")
        refused(Schedule(parse(text)).reindex, "D", "D", match="may write one element of 'D'")
        text = str(chain()).replace("D[vi, vj] =", "where(i_D < 3)\n            D[vi, vj] =")
        refused(Schedule(parse(text)).reindex, "D", "D", match="runs only where i_D < 3")


class TestPadEinsum:
    def test_golden(self, matmul, check, golden):
        sch = Schedule(matmul(7, 13, 5))
        assert sch.pad_einsum("C", [8, 16, 8]) == ("A_pad", "B_pad", "C_cut")
        golden(str(sch.func), "pad_einsum")
        check(sch)
        outer, inner = sch.split("j", [None, 16])
        sch.reorder("k", inner)
        sch.vectorize(inner)
        sch.compute_at("A_pad", "i")
        check(sch)

    @pytest.mark.parametrize("padding", [[1, 1, 1], [1, 1, 4], [4, 1, 1], [1, 3, 2]])
    def test_some_axes(self, matmul, check, padding):
        sch = Schedule(matmul(7, 13, 5))
        sch.pad_einsum("C", padding)
        check(sch)

    @pytest.mark.parametrize("fold", [te.max, te.min, te.prod])
    @pytest.mark.parametrize("dtype", ["float32", "int32", "int8"])
    def test_neutral_values(self, check, fold, dtype):
        sch = Schedule(reduction(lambda a, i, k: a[i, k], dtype, fold, 3, 5))
        sch.pad_einsum("C", [2, 4])
        check(sch)

    def test_casts_and_factors(self, check):
        term = lambda a, i, k: a[i, k].astype("float32") * 3.0 * a[i, k].astype("float32")  # noqa: E731
        sch = Schedule(reduction(term, "int8"))
        assert sch.pad_einsum("C", [4, 4]) == ("A_pad", "C_cut")
        check(sch)

    def test_other_variables_are_read_in_any_way(self, check):
        """A convolution whose channels, of both kinds, are padded, and whose pixels are not."""
        x, w = te.placeholder((3, 9), name="x"), te.placeholder((5, 3, 2), name="w")
        k, r = te.reduce_axis(3, name="k"), te.reduce_axis(2, name="r")
        c = te.compute((5, 4), lambda o, i: te.sum(x[k, 2 * i + r] * w[o, k, r], (k, r)), name="C")
        sch = Schedule(te.create_prim_func([x, w, c]))
        refused(sch.pad_einsum, "C", [1, 8, 1, 1], match="not at vi alone and once")
        refused(sch.pad_einsum, "C", [1, 1, 1, 4], match="not at vr alone and once")
        assert sch.pad_einsum("C", [4, 1, 2, 1]) == ("x_pad", "w_pad", "C_cut")
        check(sch)

    def test_refuses_to_copy_what_is_computed_in_part(self):
        a, k = te.placeholder((3, 9), name="a"), te.reduce_axis(3, name="k")
        b = te.compute((3, 9), lambda k, i: a[k, i] + 1.0, name="B")
        c = te.compute((4,), lambda i: te.sum(b[k, 2 * i], k), name="C")
        text = str(te.create_prim_func([a, c])).replace("grid(3, 9)", "grid(3, 7)")
        sch = Schedule(parse(text))
        refused(sch.pad_einsum, "C", [1, 2], match="computes only the part of 'B'")

    @pytest.mark.parametrize("padding", [[4, 1, 1, 1], [1, 8, 1, 1], [4, 8, 1, 1]])
    def test_the_last_part_of_a_sum_may_be_shorter(self, matmul, check, padding):
        sch = Schedule(matmul(7, 13, 10))
        part, _ = sch.split("k", [None, 4])
        made = sch.rfactor("C", part)
        refused(sch.pad_einsum, made, [1, 1, 1, 3], match="not at vk_1 alone")
        refused(sch.pad_einsum, made, [1, 1, 2, 1], match="not at vk_0 alone")
        sch.pad_einsum(made, padding)
        check(sch)

    @pytest.mark.parametrize("condition", ["i < 3", "k >= 1", "i + k >= 2", "j < 5"])
    def test_conditions_without_which_a_result_has_no_first_term_are_refused(
        self, matmul, condition
    ):
        """What cuts the result would read what is never written."""
        text = str(matmul(7, 8, 5))
        text = text.replace("with init", f"where({condition})\n            with init")
        why = "not alone in one loop|no reduction by one"
        refused(Schedule(parse(text)).pad_einsum, "C", [1, 3, 1], match=why)

    def test_infinities_stay_where_they_are(self, matmul):
        sch = Schedule(matmul(3, 5, 3))
        sch.pad_einsum("C", [2, 4, 2])
        a, b = np.full((3, 3), np.inf, "float32"), np.ones((3, 5), "float32")
        np.testing.assert_array_equal(build(sch)(a, b), np.full((3, 5), np.inf, "float32"))

    def test_symbolic(self):
        n, m = te.var("n"), te.var("m")
        sch = Schedule(reduction(lambda a, i, k: a[i, k], fold=te.max, n=n, m=m))
        sch.pad_einsum("C", [4, 8])
        verify(sch.func)
        x = -1 - np.arange(35, dtype="float32").reshape(5, 7)
        np.testing.assert_array_equal(interpret(sch.func, x)[0], x.max(1))
        np.testing.assert_array_equal(build(sch)(x), x.max(1))

    @pytest.mark.parametrize(
        ("term", "fold", "match"),
        [
            (lambda a, i, k: te.exp(a[i, k]), te.sum, r"reduces exp\(A\[vi, vk\]\) by \+"),
            (lambda a, i, k: a[i, k] + 1.0, te.sum, r"reduces A\[vi, vk\] \+ 1.0 by \+"),
            (lambda a, i, k: a[i, k] * -2.0, te.max, r"reduces A\[vi, vk\] \* -2.0 by max"),
            (lambda a, i, k: a[i, k] * 2.0, te.prod, r"by \*: no padding"),
            (lambda a, i, k: a[i, k] * float("inf"), te.sum, r"by \+: no padding"),
            (lambda a, i, k: a[i, k] * a[i, 6 - k], te.sum, "not at vk alone and once"),
            (lambda a, i, k: te.if_then_else(k < i, a[i, k], 0.0), te.sum, "has no value for some"),
            (lambda a, i, k: te.cast(a[i, k] + 1.0, "int32"), te.sum, "has no value for some"),
            (lambda a, i, k: te.cast(a[i, k], "int32"), te.max, "has no value for some"),
        ],
    )
    def test_refuses_terms(self, term, fold, match):
        refused(Schedule(reduction(term, fold=fold)).pad_einsum, "C", [4, 4], match=match)

    def test_refuses(self, matmul, chain):
        sch = Schedule(matmul())
        for padding in ([8, 8], [8, 8, 0], [8, 8, -1]):
            refused(sch.pad_einsum, "C", padding, match="is not one positive integer for each")
        refused(Schedule(chain()).pad_einsum, "C", [2, 2], match="no reduction from a constant")
        weighted = reduction(lambda a, i, k: a[i, k])
        text = str(weighted).replace("A: f32[5, 7]", "A: f32[5, 7], w: f32[5]")
        text = text.replace("+ A[vi, vk]", "+ A[vi, vk] * w[vi]")
        sch = Schedule(parse(text))
        refused(sch.pad_einsum, "C", [4, 4], match=r"w\[vi\], which does not depend on .* vk")
        sch.pad_einsum("C", [4, 1])
        text = str(weighted).replace("+ A[vi, vk]", "+ A[vi, vk] * C[vi]")
        refused(Schedule(parse(text)).pad_einsum, "C", [4, 4], match="in other ways than to update")

    def test_refuses_nests(self, matmul):
        sch = Schedule(matmul())
        sch.split("j", [None, 4])
        refused(sch.pad_einsum, "C", [8, 8, 8], match="not alone in one loop for each of its vari")
        sch = Schedule(matmul())
        sch.parallel("i")
        refused(sch.pad_einsum, "C", [8, 8, 8], match="loop 'i' is parallel")
        sch = Schedule(matmul())
        sch.decompose_reduction("C", "i")
        refused(sch.pad_einsum, "C", [8, 8, 8], match="no reduction from a constant")


class TestDecomposePadding:
    def test_golden(self, conv, check, golden):
        sch = Schedule(conv())
        assert sch.decompose_padding("pad", "i") == "pad_pad"
        golden(str(sch.func), "decompose_padding")
        check(sch)
        sch.parallel("i")
        sch.vectorize("i_pad")
        check(sch)

    def test_golden_inner_loop(self, conv, check, golden):
        sch = Schedule(conv())
        outer, inner = sch.split("i", [None, 4])
        sch.decompose_padding("pad", inner)
        golden(str(sch.func), "decompose_padding_inner")
        check(sch)
        sch.parallel(outer)
        check(sch)

    def test_after_pad_einsum(self, matmul, check):
        sch = Schedule(matmul(7, 13, 5))
        sch.pad_einsum("C", [8, 16, 8])
        sch.decompose_padding("A_pad", sch.get_loops("A_pad")[1])
        sch.decompose_padding("B_pad", sch.get_loops("B_pad")[0])
        check(sch)

    def test_blocks_of_data_stay_in_range(self, matmul, check):
        """Found by the random schedules: the block inside relies on the condition around it."""
        sch = Schedule(matmul(5, 7, 3))
        sch.pad_einsum("C", [3, 3, 1])
        sch.decompose_padding("A_pad", "k_A_pad")
        sch.blockize("k_A_pad")
        check(sch)

    def test_refuses(self, conv, chain):
        sch = Schedule(conv())
        refused(sch.decompose_padding, "relu", "i_relu", match="does not store select")
        refused(sch.decompose_padding, "pad", "i_conv", match="'i_conv' is not around block 'pad'")
        sch.compute_at("pad", sch.get_loops("conv")[0])
        around = sch.get_loops("conv")[0]
        refused(sch.decompose_padding, "pad", around, match="'conv' inside loop .* uses 'pad' too")
        text = str(conv()).replace("select(1 <= vi", "select(W[0] < 1.0 and 1 <= vi")
        refused(Schedule(parse(text)).decompose_padding, "pad", "i", match="reads a buffer")
        text = str(conv()).replace("select(1 <= vi", "select(0.0 < beta and 1 <= vi")
        text = text.replace("(A:", "(beta: f32, A:", 1)
        what = "a number among the arguments that is no size"
        refused(Schedule(parse(text)).decompose_padding, "pad", "i", match=what)
        text = str(conv()).replace("A[vi - 1]", "pad[vi - 1]")
        text = text.replace("    for i in", FIRST + "    for i in", 1)
        refused(Schedule(parse(text)).decompose_padding, "pad", "i", match="reads 'pad', which it")
        text = str(conv()).replace("in range(13)", 'in range(13, annotations={"x": 1})')
        refused(Schedule(parse(text)).decompose_padding, "pad", "i", match="is annotated with x")

    def test_refuses_conditions_on_other_loops(self):
        sch = Schedule(parse(REPEATED))
        refused(sch.decompose_padding, "P", "t", match="speaks of loops that do not choose")


FIRST = """\
    for h in range(13):
        with block("first"):
            vh = spatial(13, h)
            pad[vh] = 0.0
"""


REPEATED = """
@prim_func
def repeated(A: f32[8], P: f32[8]):
    for t, i in grid(2, 8):
        with block("P"):
            vi = spatial(8, i)
            where(t < 1)
            P[vi] = select(vi < 4, A[vi], 0.0)
"""


PRODUCTS = """
@prim_func
def products(A: f32[10], P: f32[2097152]):
    for i_0, i_1 in grid(1048576, 2):
        with block("P"):
            vi = spatial(2097152, 2097151 - (i_0 * 2 + i_1))
            P[vi] = select(vi * (vi // 3) < 10 - vi, A[vi * (vi // 3) + vi], 0.0)
"""


def test_refuses_what_cannot_be_verified():
    """The verifier believes the index under its condition, but not under that of the loops.

    There are too many values to try them all.
    """
    sch = Schedule(parse(PRODUCTS.replace("2097151 - (i_0 * 2 + i_1)", "i_0 * 2 + i_1")))
    sch.decompose_padding("P", "i_0")
    verify(sch.func)
    sch = Schedule(parse(PRODUCTS))
    verify(sch.func)
    refused(sch.decompose_padding, "P", "i_0", match="block of the data cannot be verified")


UPDATE = """
@prim_func
def update(A: f32[4, 3], C: f32[4]):
    for i, k in grid(4, 3):
        with block("C"):
            vi = spatial(4, i)
            vk = reduce(3, k)
            C[vi] = C[vi] + A[vi, vk]
"""


def test_updates_of_a_parameter():
    """A copy would start from nothing where the block goes on from what the caller passed."""
    sch = Schedule(parse(UPDATE))
    refused(sch.reindex, "C", "C", match="block 'C' updates what is in 'C' before")
    refused(sch.cache_write, "C", "C", match="block 'C' updates what is in 'C' before")


class TestReadsUnderACondition:
    """Found by the random schedules: a consumer that pads lost its instances without an element."""

    def test_more_instances_than_elements(self, matmul, check):
        sch = Schedule(matmul(7, 13, 5))
        sch.cache_read("C", "A", "global")
        sch.pad_einsum("C", [1, 1, 4])
        loop = sch.get_loops("A_global")[0]
        refused(
            sch.reverse_compute_at,
            "A_global_pad",
            loop,
            match="'A_global_pad' reads 'A_global' only under a condition, and runs over more",
        )
        sch.compute_at("A_global", sch.get_loops("A_global_pad")[0])
        check(sch)

    def test_a_part_that_is_written(self):
        text = str(Schedule(parse(HALF)).func)
        sch = Schedule(parse(text))
        refused(sch.reverse_compute_at, "C", "i", match="block 'T' may not write all of it")
        Schedule(
            parse(text.replace("spatial(4, i)", "spatial(8, i)").replace("range(4)", "range(8)"))
        )


HALF = """
@prim_func
def half(A: f32[8], C: f32[8]):
    T = alloc(f32[8])
    for i in range(4):
        with block("T"):
            vi = spatial(4, i)
            T[vi] = A[vi]
    for j in range(8):
        with block("C"):
            vj = spatial(8, j)
            C[vj] = select(vj < 4, T[vj], 0.0)
"""


def test_padding_in_a_parallel_loop_is_private(check):
    """Filled in every iteration, copied in some: no reason to share the rows between threads."""
    a = te.placeholder((6, 16), name="A")
    inside = lambda i, j: te.if_then_else(te.all(i >= 1, i <= 6), a[i - 1, j], 0.0)  # noqa: E731
    pad = te.compute((8, 16), inside, name="pad")
    d = te.compute((8, 14), lambda i, j: pad[i, j] + pad[i, j + 2], name="D")
    sch = Schedule(te.create_prim_func([a, d], name="rows"))
    outer, _ = sch.split(sch.get_loops("D")[1], [None, 4])
    sch.compute_at("pad", outer)
    sch.decompose_padding("pad", sch.get_loops("pad")[-1])
    sch.parallel(outer)
    check(sch)
    assert "float pad[6]" in build(sch).source


def test_aligned_rows_of_a_double_buffer(matmul, check):
    sch = Schedule(matmul(8, 32, 8))
    copy = sch.cache_read("C", "B", "global")
    outer, inner = sch.split("j", [None, 16])
    sch.reorder(outer, "i", "k", inner)
    sch.compute_at(copy, outer)
    sch.storage_align(copy, "B_global", 0, 16, 4)
    sch.double_buffer(copy)
    check(sch)
    assert "float B_global[320]" in build(sch).source
