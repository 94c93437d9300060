"""tensorize: what matches, what does not and why, and that intrinsics which lie are refused."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from backends import build, intrinsic_runner, register_intrinsic, resolve
from schedule import Schedule, ScheduleError
from tensorir import (
    INTRINS,
    TensorIntrin,
    TensorIRError,
    check_intrin,
    find_intrin,
    interpret,
    parse,
    reference,
    te,
)

AVX512 = "c -march=x86-64-v4"



def tiled(func, rows=8, columns=16):
    """A matmul with a tile of the given size inside, its init outside."""
    sch = Schedule(func)
    i0, i1 = sch.split("i", [None, rows])
    j0, j1 = sch.split("j", [None, columns])
    sch.reorder(i0, j0, "k", i1, j1)
    sch.decompose_reduction("C", "k")
    return sch


def quantized(n=6, k=64):
    a = te.placeholder((n, k), "uint8", name="A")
    b = te.placeholder((k // 4, 16, 4), "int8", name="B")
    r = te.reduce_axis(k, name="k")

    def term(i, j):
        return a[i, r].astype("int32") * b[r // 4, j, r % 4].astype("int32")

    c = te.compute((n, 16), lambda i, j: te.sum(term(i, j), axis=r), name="C")
    return te.create_prim_func([a, b, c], name="quantized")


class TestTensorize:
    def test_golden(self, matmul, check, golden):
        sch = tiled(matmul(16, 32, 5))
        sch.tensorize("i_1", "f32.fma_8x16")
        sch.parallel("i_0")
        golden(str(sch.func), "tensorize")
        assert "tensor_f32_fma_8x16(&A[" in build(sch, AVX512).source
        assert sch.numerics == "bitwise"
        check(sch)

    def test_rows_of_an_imperfect_matmul(self, matmul, check):
        sch = tiled(matmul(7, 16, 5))
        sch.tensorize("j_1", "f32.fma_16")
        assert "tensor_f32_fma_16(" in build(sch, AVX512).source
        check(sch)

    def test_registers(self, matmul, check):
        """In a local accumulator the strides are those of the part that is live."""
        sch = Schedule(matmul(16, 32, 5))
        copy = sch.cache_write("C", 0)
        i0, i1 = sch.split("i", [None, 8])
        j0, j1 = sch.split("j", [None, 16])
        sch.reorder(i0, j0, "k", i1, j1)
        sch.reverse_compute_at(copy, j0)
        sch.decompose_reduction("C", "k")
        sch.tensorize(i1, "f32.fma_8x16")
        assert ", 5, 16);" in build(sch, AVX512).source
        check(sch)

    def test_symbolic_rows(self):
        n = te.var("n")
        a = te.placeholder((n, 5), name="A")
        b = te.placeholder((5, 16), name="B")
        r = te.reduce_axis(5, name="k")
        c = te.compute((n, 16), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
        sch = Schedule(te.create_prim_func([a, b, c], name="rows"))
        sch.reorder("k", "j")
        sch.decompose_reduction("C", "k")
        sch.tensorize("j", "f32.fma_16")
        assert "tensor_f32_fma_16(" in build(sch, AVX512).source
        kernel = build(sch)
        rng = np.random.default_rng(0)
        x, y = rng.integers(-4, 5, (3, 5)), rng.integers(-4, 5, (5, 16))
        found = kernel(x.astype("float32"), y.astype("float32"))
        np.testing.assert_array_equal(found, x @ y)

    def test_dot_product(self, golden):
        sch = Schedule(quantized())
        sch.split("k", [None, 4])
        sch.reorder("k_0", "j", "k_1")
        sch.decompose_reduction("C", "k_0")
        sch.tensorize("j", "u8i8.dot_16x4")
        golden(str(sch.func), "tensorize_dot")
        kernel = build(sch)
        there = "avx512vnni" in resolve("c").features
        assert ("tensor_u8i8_dot_16x4(" in kernel.source) == there
        rng = np.random.default_rng(0)
        inputs = rng.integers(0, 256, (6, 64), np.uint8), rng.integers(-128, 128, (16, 16, 4), "i1")
        wanted = reference(sch.definition, *inputs)[0]
        np.testing.assert_array_equal(kernel(*inputs), wanted)
        np.testing.assert_array_equal(interpret(sch.func, *inputs)[0], wanted)

    def test_a_target_without_it_keeps_the_loops(self):
        sch = Schedule(quantized())
        sch.split("k", [None, 4])
        sch.reorder("k_0", "j", "k_1")
        sch.decompose_reduction("C", "k_0")
        sch.tensorize("j", "u8i8.dot_16x4")
        source = build(sch, "c -march=x86-64").source
        assert "u8i8.dot_16x4 needs avx512vnni" in source and "vpdpbusd" not in source

    def test_wide_vectors_are_not_for_narrow_registers(self, matmul, check):
        """gcc makes 64-byte vectors out of pieces in memory where registers are shorter."""
        sch = tiled(matmul(16, 32, 5))
        sch.tensorize("j_1", "f32.fma_16")
        assert "f32.fma_16 needs avx512f" in build(sch, "c -march=haswell").source
        sch = tiled(matmul(16, 32, 5), 8, 8)
        sch.tensorize("j_1", "f32.fma_8")
        haswell = build(sch, "c -march=haswell")
        assert "tensor_f32_fma_8(" in haswell.source and "vfmadd" in haswell.asm
        check(sch)

    def test_what_changes_later_keeps_the_loops(self, chain, check):
        """A copy whose value is inlined afterwards is no copy any more."""
        a = te.placeholder((8, 4), name="A")
        b = te.compute((8, 4), lambda i, j: a[i, j] + 1.0, name="B")
        c = te.compute((8, 4), lambda i, j: b[i, j], name="C")
        sch = Schedule(te.create_prim_func([a, c], name="later"))
        sch.tensorize(sch.get_loops("C")[1], "f32.copy_4")
        assert "tensor_f32_copy_4(" in build(sch).source
        sch.compute_inline("B")
        assert "no longer f32.copy_4: it has" in build(sch).source
        check(sch)

    def test_lanes_keep_the_loops(self, check):
        """Found by random schedules: the indices of a vectorized nest broke the emitter."""
        a = te.placeholder((8, 4), name="A")
        b = te.compute((8, 4), lambda i, j: a[i, j], name="B")
        sch = Schedule(te.create_prim_func([a, b], name="lanes"))
        sch.tensorize("j", "f32.copy_4")
        sch.vectorize("i")
        assert "no longer f32.copy_4" in build(sch).source
        check(sch)

    def test_refuses_other_requests(self, matmul):
        sch = tiled(matmul(16, 32, 5))
        refused(sch.tensorize, "i_1", "f32.dance", match="intrinsic 'f32.dance' is not known")
        refused(sch.tensorize, "q", "f32.fma_16", match="no loop 'q'")
        sch.tensorize("j_1", "f32.fma_16")
        refused(sch.tensorize, "j_1", "f32.fma_16", match="annotated with tensorize")
        refused(sch.tensorize, "i_1", "f32.fma_8x16", match="annotated with tensorize")
        refused(sch.split, "j_1", [None, 4], match="annotated with tensorize")
        sch = tiled(matmul(16, 32, 5))
        sch.vectorize("i_1")
        refused(sch.tensorize, "j_1", "f32.fma_16", match="inside the vectorized loop 'i_1'")
        refused(sch.tensorize, "i_1", "f32.fma_8x16", match="loop 'i_1' is vectorized")

    def test_refuses_other_loops(self, matmul):
        sch = tiled(matmul(16, 32, 5))
        refused(sch.tensorize, "i_1", "f32.fma_16", match="loops have extents 16, and those here 8")
        refused(sch.tensorize, "i_0", "f32.fma_16", match="below loop 'j_0' is more than one")
        sch.reorder("j_1", "i_1")
        refused(sch.tensorize, "j_1", "f32.fma_8x16", match="extents 8, 16, and those here 16, 8")
        sch = Schedule(matmul(16, 16, 5))
        sch.reorder("k", "j")
        refused(sch.tensorize, "j", "f32.fma_16", match="block 'C' has an init; decompose_red")
        sch = tiled(matmul(16, 30, 5))
        refused(sch.tensorize, "j_1", "f32.fma_16", match="it runs only where j_0 . 16 . j_1 < 30")
        refused(sch.tensorize, "j_1", "f32.fma_16", match="hint: pad the extents")

    def test_refuses_other_expressions(self):
        """The message shows both bodies and the first difference."""
        sch = Schedule(parse(UPDATE.format("C[vi, vj] + A[vi, vj] * B[vj]")))
        refused(sch.tensorize, "j", "f32.fma_4", match=r"A\[vi, vj\]|moves with loop 'j'")
        sch = Schedule(parse(UPDATE.format("C[vi, vj] - A[vi, 0] * B[vj]")))
        with pytest.raises(ScheduleError) as error:
            sch.tensorize("j", "f32.fma_4")
        text = str(error.value)
        assert "this is not 'f32.fma_4': it has" in text
        assert "C[vi, vj] - A[vi, 0] * B[vj]" in text and "C[vj] + A[0] * B[vj]" in text
        sch = Schedule(parse(UPDATE.format("B[vj] * A[vi, 0] + C[vi, vj]")))
        sch.tensorize("j", "f32.fma_4")
        assert "tensor_f32_fma_4(" in build(sch).source

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            ("C[vi, vj] + A[vi, 0] * B[3 - vj]", "moves by -1 with loop 'j', not by 1"),
            ("C[vi, vj] + A[vi, 0] * B[vj // 2]", "does not move evenly"),
            ("C[vi, vj] + A[vi, 0] * C[0, vj]", "'C' is written and is another operand too"),
            ("C[vi, vj] + A[vi, 0] * A[vj, 0]", "moves by 4 with loop 'j', not by 1"),
            ("C[vi, 3 - vj] + A[vi, 0] * B[vj]", "moves by -1|is not what 'C' was before"),
            ("C[vi, vj] + A[vi, 0] * 2.0", "it has B.* where the loops have 2.0"),
        ],
    )
    def test_refuses_other_operands(self, value, reason):
        sch = Schedule(parse(UPDATE.format(value)))
        refused(sch.tensorize, "j", "f32.fma_4", match=reason)

    def test_refuses_fixed_strides(self):
        sch = Schedule(parse(LOOSE))
        refused(sch.tensorize, "j", "u8i8.dot_16x4", match=r"has strides .* not \[4\]")

    def test_refuses_rows_that_overlap(self):
        sch = Schedule(parse(OVERLAP))
        refused(sch.tensorize, "i", "f32.fma_8x16", match="rows of 'C' are 1 apart")

    def test_refuses_other_types(self):
        sch = Schedule(parse(UPDATE.format("C[vi, vj] + A[vi, 0] * B[vj]").replace("f32", "f64")))
        refused(sch.tensorize, "j", "f32.fma_4", match="is float64, not float32")


UPDATE = """
@prim_func
def update(A: f32[4, 4], B: f32[4], C: f32[4, 4]):
    for i, j in grid(4, 4):
        with block("C"):
            vi = spatial(4, i)
            vj = spatial(4, j)
            C[vi, vj] = {}
"""

LOOSE = """
@prim_func
def loose(A: u8[4], B: i8[16, 5], C: i32[16]):
    for j, k in grid(16, 4):
        with block("C"):
            vj = spatial(16, j)
            vk = reduce(4, k)
            C[vj] = C[vj] + i32(A[vk]) * i32(B[vj, vk])
"""

OVERLAP = """
@prim_func
def overlap(A: f32[8, 1], B: f32[16], C: f32[23]):
    for i, j in grid(8, 16):
        with block("C"):
            vi = spatial(8, i)
            vj = spatial(16, j)
            C[vi + vj] = C[vi + vj] + A[vi, 0] * B[vj]
"""


class TestIntrinsics:
    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("name", list(INTRINS))
    def test_what_comes_along_is_true(self, name):
        intrin = INTRINS[name]
        if not intrin.runs_on(resolve("c").features):
            pytest.skip(f"needs {intrin.needs}")
        check_intrin(intrin, intrinsic_runner())

    def test_alternatives_among_features(self):
        intrin = INTRINS["u8i8.dot_8x4"]
        assert intrin.needs == "avx512vnni avx512vl | avxvnni"
        assert intrin.runs_on(["avxvnni"]) and intrin.runs_on(("avx512vl", "avx512vnni", "avx"))
        assert not intrin.runs_on(["avx512vnni"]) and not intrin.runs_on([])
        assert INTRINS["f32.fma_4"].runs_on([])
        sch = Schedule(quantized())
        sch.split("k", [None, 4])
        sch.split("j", [None, 8])
        sch.reorder("k_0", "j_0", "j_1", "k_1")
        sch.decompose_reduction("C", "k_0")
        sch.tensorize("j_1", "u8i8.dot_8x4")
        for march in ("alderlake", "icelake-server"):
            assert "ymm" in build(sch, f"c -march={march}").asm
        assert "needs avx512vnni avx512vl | avxvnni" in build(sch, "c -march=haswell").source

    def test_bfloat16_sums(self):
        """The second pair first, to nearest, and subnormals as zero: what the notes say."""
        intrin = INTRINS["bf16.dot_16x2"]
        if not intrin.runs_on(resolve("c").features):
            pytest.skip(f"needs {intrin.needs}")
        sch = Schedule(intrin.func)
        sch.tensorize("j", intrin.name)
        kernel = build(sch)
        a = np.array([0x3F80, 0x3F80], np.uint16)  # 1, 1
        b = np.zeros((16, 2), np.uint16)
        c = np.zeros(16, np.float32)
        b[0] = 0xCB80, 0x3F80  # -2**24 and 1: added to 2**24 in which order?
        c[0] = 2.0**24
        b[1] = 0x0001, 0x0000  # the smallest subnormal
        b[2] = 0x3F80, 0x0080  # 1 and 2**-126
        kernel(a, b, c)
        assert c[0] == 0.0, "the 1 was lost to 2**24 first"
        assert c[1] == 0.0
        assert c[2] == 1.0
        loops = interpret(intrin.func, a, b, np.eye(1, 16, 0, dtype=np.float32)[0] * 2**24)[0]
        assert loops[0] == 1.0 and 0 < loops[1] < 2.0**-125

    @pytest.mark.parametrize("name", ["i16i16.dot_8x2", "i16i16.dot_16x2"])
    def test_sums_of_int16_wrap(self, name):
        """Two products of the least number are 2**31, which no int32 is."""
        intrin = INTRINS[name]
        if not intrin.runs_on(resolve("c").features):
            pytest.skip(f"needs {intrin.needs}")
        sch = Schedule(intrin.func)
        sch.tensorize("j", name)
        a, b, c = (np.full(p.const_shape, -(2**15), p.dtype) for p in intrin.func.params)
        wanted = interpret(intrin.func, a, b, c)[0]
        build(sch)(a, b, c)
        assert c[0] == 2**31 - 2**15
        np.testing.assert_array_equal(c, wanted)

    def test_register(self, matmul, check):
        register_intrinsic(AXPY)
        try:
            sch = tiled(matmul(6, 6, 5), 3, 3)
            sch.tensorize("j_1", "test.axpy_3")
            assert "tensor_test_axpy_3(" in build(sch).source
            check(sch)
            with pytest.raises(TensorIRError, match="there is a tensor intrinsic 'test.axpy_3'"):
                register_intrinsic(AXPY)
        finally:
            del INTRINS["test.axpy_3"]

    def test_sums_inside_are_reassociated(self, check):
        """The order of the terms within an intrinsic is its own affair."""
        register_intrinsic(DOT)
        try:
            a = te.placeholder((6, 8), name="A")
            b = te.placeholder((8,), name="B")
            k = te.reduce_axis(8, name="k")
            c = te.compute((6,), lambda i: te.sum(a[i, k] * b[k], axis=k), name="C")
            sch = Schedule(te.create_prim_func([a, b, c], name="rows"))
            sch.split("k", [None, 4])
            sch.decompose_reduction("C", "k_0")
            assert sch.numerics == "bitwise"
            sch.tensorize("k_1", "test.dot_4")
            assert sch.numerics == "reassociated"
            assert "tensor_test_dot_4(" in build(sch).source
            check(sch)
        finally:
            del INTRINS["test.dot_4"]

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("j < 3", "j < 2", r"makes C\[2\]"),
            ("+=", "=", r"makes C\[0\]"),
            ("j < 3", "j < 3 - (a[0] == 0)", r"makes C\[2\]"),
            ("*a * b[j]", "__builtin_fminf(*a * b[j], 3e38f)", "makes"),
        ],
    )
    def test_liars_are_refused(self, old, new, message):
        liar = lying(old, new)
        with pytest.raises(
            TensorIRError, match="'test.liar' does not do what it says: it " + message
        ):
            register_intrinsic(liar)
        assert find_intrin("test.liar") is None

    def test_a_wrong_stride_is_found(self):
        liar = TensorIntrin(
            "test.strides",
            ROWS,
            "static inline void $NAME(const float *a, float *c, i64 s, i64 t) {\n"
            "    for (int i = 0; i < 6; i++) c[i] = a[i];\n}",
        )
        with pytest.raises(TensorIRError, match=r"'test.strides' does not do .* makes C\["):
            register_intrinsic(liar)

    def test_writing_more_is_found(self):
        liar = TensorIntrin(
            "test.more",
            ROWS,
            "static inline void $NAME(const float *a, float *c, i64 s, i64 t) {\n"
            "    for (int i = 0; i < 2 * t; i++) c[i] = 0;\n"
            "    for (int i = 0; i < 2; i++)\n"
            "        for (int j = 0; j < 3; j++) c[i * t + j] = a[i * s + j];\n}",
        )
        with pytest.raises(TensorIRError, match=r"'test.more' does not do .* makes C\[0, 3\]"):
            register_intrinsic(liar)

    def test_an_absent_feature(self):
        with pytest.raises(TensorIRError, match="cannot be checked here: it needs abacus"):
            register_intrinsic(lying("j < 3", "j < 3", needs="abacus"))

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("C[vj] + A[0] * B[vj]", "C[vj] + A[0] * B[2 - vj]", "is no plain access"),
            ("in range(3)", "in range(1)", "has no extent above 1"),
            ("A: f32[1], B: f32[3], C: f32[3]", "A: f32[1], C: f32[3], B: f32[3]", "not the last"),
            ("in range(3)", "in parallel(3)", "loop 'j' is parallel"),
        ],
    )
    def test_meanings_that_are_too_much(self, old, new, message):
        text = AXPY.meaning.replace(old, new)
        with pytest.raises(TensorIRError, match=f"'test.odd': .*{message}"):
            register_intrinsic(TensorIntrin("test.odd", text, AXPY.source))


AXPY = TensorIntrin(
    "test.axpy_3",
    """
@prim_func
def axpy(A: f32[1], B: f32[3], C: f32[3]):
    for j in range(3):
        with block("C"):
            vj = spatial(3, j)
            C[vj] = C[vj] + A[0] * B[vj]
""",
    """
static inline void $NAME(const float *a, const float *b, float *c) {
    for (int j = 0; j < 3; j++) c[j] += *a * b[j];
}""",
)

DOT = TensorIntrin(
    "test.dot_4",
    """
@prim_func
def dot_4(A: f32[4], B: f32[4], C: f32[1]):
    for k in range(4):
        with block("C"):
            vk = reduce(4, k)
            C[0] = C[0] + A[vk] * B[vk]
""",
    """
static inline void $NAME(const float *a, const float *b, float *c) {
    *c += (a[0] * b[0] + a[1] * b[1]) + (a[2] * b[2] + a[3] * b[3]);
}""",
)

ROWS = """
@prim_func
def rows(A: f32[2, 3], C: f32[2, 3]):
    for i, j in grid(2, 3):
        with block("C"):
            vi = spatial(2, i)
            vj = spatial(3, j)
            C[vi, vj] = A[vi, vj]
"""


def lying(old, new, **more):
    return TensorIntrin("test.liar", AXPY.meaning, AXPY.source.replace(old, new), **more)
