"""Tensor intrinsics in the code of a thread: called where they fit, and checked before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from backends import build, register_intrinsic, source_text
from backends.cuda.emulator import Emulator, Launch
from backends.cuda.text import cuda_text
from schedule import Schedule
from tensorir import INTRINS, Target, TensorIntrin, TensorIRError, lower, te

MEANING = """
@prim_func
def dot_4(A: i8[4], B: i8[4], C: i32[1]):
    for k in range(4):
        with block("C"):
            vk = reduce(4, k)
            C[0] = C[0] + i32(A[vk]) * i32(B[vk])
"""

CUDA = """
#ifdef TENSORIR_EMULATOR
inline int ${NAME}_dp(int a, int b, int c) {
    for (int k = 0; k < 4; k++) c += (signed char)(a >> 8 * k) * (signed char)(b >> 8 * k);
    return c;
}
#else
__device__ __forceinline__ int ${NAME}_dp(int a, int b, int c) {
    int d;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
#endif
__device__ __forceinline__ void $NAME(const i8 *a, const i8 *b, int *c) {
    *c = ${NAME}_dp(*(const int *)a, *(const int *)b, *c);
}
"""

DOT = TensorIntrin(
    "test.dp4a", MEANING, cuda=CUDA, needs="sm_75", aligned={"A": 4, "B": 4}
)
CALL = "tensor_test_dp4a(ti_read_part(A, "


@pytest.fixture
def dot():
    register_intrinsic(DOT)
    yield DOT
    del INTRINS[DOT.name]


def product(n: int = 8, k: int = 12, first: int = 0, row: int = 0):
    """Rows of A from column `first` on, times rows of B, which lie `row` elements apart."""
    a = te.placeholder((n, first + k), "int8", name="A")
    b = te.placeholder((n, row or k), "int8", name="B")
    r = te.reduce_axis(k, name="k")

    def term(i, j):
        return a[i, r + first].astype("int32") * b[j, r].astype("int32")

    return te.create_prim_func(
        [a, b, te.compute((n, n), lambda i, j: te.sum(term(i, j), axis=r), name="C")], name="dots"
    )


def tensorized(func, bound: bool = True) -> Schedule:
    sch = Schedule(func)
    i, j, k = sch.get_loops("C")
    k0, k1 = sch.split(k, [None, 4])
    if bound:
        copy = sch.cache_write("C", 0, "local")
        sch.reverse_compute_at(copy, j)
        sch.bind(i, "blockIdx.x")
        sch.bind(j, "threadIdx.x")
    sch.decompose_reduction("C", k0)
    sch.tensorize(k1, DOT.name)
    return sch


def arrays(func, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a, b = [rng.integers(-128, 128, param.const_shape, "int8") for param in func.params[:2]]
    return a, b


@pytest.mark.parametrize("bound", [True, False])
def test_a_thread_calls_it(dot, cache, bound):
    """Loops that nobody bound are given to threads around it."""
    sch = tensorized(product(), bound)
    kernel = build(sch, "cuda-emulator", cache=cache)
    assert CALL in kernel.source and "for (int k_1" not in kernel.source
    a, b = arrays(sch.func)
    np.testing.assert_array_equal(kernel(a, b), a.astype("i4") @ b.T.astype("i4"))


def test_its_other_half_compiles_for_gpus(dot, with_nvrtc, cache):
    kernel = build(tensorized(product()), "cuda -arch=sm_80", cache=cache)
    assert CALL in kernel.source and kernel.resources["dots_0"].spill_stores == 0


def test_all_accesses_are_checked(dot, cache):
    """The emulator sees what the function reads and writes, in registers too."""
    sch = tensorized(product())
    source = cuda_text(lower(sch.func, Target("cuda-emulator")), Target("cuda-emulator")).source
    a, b = arrays(sch.func)
    c = np.zeros((8, 8), "int32")
    launch = Launch("dots_0", 8, 8, (a, b, c))

    def kinds(text):
        found = Emulator(text, cache=cache).check(launch, outputs=[c]).reports
        return {(report.kind, report.buffer) for report in found}

    assert kinds(source) == set()
    np.testing.assert_array_equal(c, a.astype("i4") @ b.T.astype("i4"))
    assert "C_local[0] = 0;" in source
    assert kinds(source.replace("C_local[0] = 0;", "")) == {("uninitialised", "C_local")}
    assert kinds(source.replace("ti_read_part(A, ", "ti_read_part(A, 1 + ")) == {("bounds", "A")}


@pytest.mark.parametrize(
    ("func", "why"),
    [
        (product(first=2), "test.dp4a needs A at multiples of 4 bytes, which is not proved"),
        (product(row=13), "test.dp4a needs B at multiples of 4 bytes, which is not proved"),
    ],
)
def test_loops_are_kept_where_operands_may_be_misaligned(dot, cache, func, why):
    kernel = build(tensorized(func), "cuda-emulator", cache=cache)
    assert f"/* {why} */" in kernel.source and CALL not in kernel.source
    a, b = arrays(func)
    wanted = a[:, -12:].astype("i4") @ b[:, :12].T.astype("i4")
    np.testing.assert_array_equal(kernel(a, b), wanted)


def test_arguments_that_are_misaligned_are_refused_at_the_call(dot, cache):
    kernel = build(tensorized(product()), "cuda-emulator", cache=cache)
    a, b = arrays(kernel.func)
    late = np.zeros(a.size + 1, "int8")[1:].reshape(a.shape)
    assert late.ctypes.data % 4
    with pytest.raises(TensorIRError, match="argument 'A' is accessed by vectors of 4 bytes and"):
        kernel(late, b)
    assert list(kernel._executable._launches.alignments.values()) == [4, 4]


def test_loops_are_kept_where_a_target_lacks_it(cache):
    for changed, target, why in (
        (replace(DOT, needs="sm_90a"), "cuda-emulator -arch=sm_90", "test.dp4a needs sm_90a"),
        (DOT, "opencl", "test.dp4a has no text for opencl"),
        (DOT, "c", "test.dp4a has no text for c"),
    ):
        INTRINS[changed.name] = changed
        try:
            text = source_text(tensorized(product(), False).func, target)
        finally:
            del INTRINS[changed.name]
        assert f"/* {why} */" in text and "tensor_test_dp4a(" not in text


@pytest.mark.parametrize(
    ("changed", "target", "message"),
    [
        ({"cuda": CUDA.replace("c += ", "c -= ")}, None, "does not do what it says"),
        ({"cuda": CUDA.replace("8 * k)", "8 * k + 1)")}, None, "does not do what it says"),
        ({"needs": "sm_90a"}, None, "needs sm_90a, which 'cuda-emulator -arch=sm_80' does not"),
        ({"cuda": ""}, None, "has no text, neither source nor cuda"),
        ({}, "c", "has no text for 'c' to be checked"),
        ({"aligned": {"D": 4}}, None, "'aligned' names 'D', which is no parameter"),
        ({"aligned": {"A": 3}}, None, "'A' cannot be aligned to 3 bytes"),
    ],
)
def test_what_is_wrong_with_one_is_said_before_it_is_known(changed, target, message):
    with pytest.raises(TensorIRError, match=message):
        register_intrinsic(replace(DOT, **changed), target)
    assert DOT.name not in INTRINS


def test_operands_of_several_dimensions_are_dense():
    meaning = MEANING.replace("B: i8[4]", "B: i8[4, 1]").replace("B[vk]", "B[vk, 0]")
    with pytest.raises(TensorIRError, match=r"dense operands only: give 'B' the strides \(1,\)"):
        register_intrinsic(replace(DOT, meaning=meaning))


def test_both_languages_are_checked(cache):
    """Of an intrinsic with two texts the wrong one is found, whichever it is."""
    source = """
static inline void $NAME(const i8 *a, const i8 *b, i32 *c) {
    for (int k = 0; k < 4; k++) *c += a[k] * b[k];
}"""
    both = replace(DOT, source=source, needs="")
    for wrong in (
        {"source": source.replace("+=", "-=")},
        {"cuda": CUDA.replace("c += ", "c -= ")},
    ):
        with pytest.raises(TensorIRError, match="does not do what it says"):
            register_intrinsic(replace(both, **wrong))
    register_intrinsic(both)
    try:
        assert "tensor_test_dp4a(&A[" in build(tensorized(product(), False), cache=cache).source
    finally:
        del INTRINS[both.name]
