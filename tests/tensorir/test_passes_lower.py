"""Lowering keeps the meaning of a program: the interpreter agrees after every pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir import PrimFunc, Target
from tensorir import dtype as dt
from tensorir.interpreter.interpret import interpret
from tensorir.passes import lower
from tensorir.passes.lower import passes
from tensorir.stmt import Block, For, ForKind, If
from tensorir.structural import structural_equal
from tensorir.text.parser import parse
from tensorir.verifier.program import verify
from tensorir.visit import walk


def random_inputs(func: PrimFunc, sizes: dict[str, int], seed: int = 0) -> list[np.ndarray]:
    """Small integers, so that sums of products are exact in every order."""
    rng = np.random.default_rng(seed)
    arrays = []
    for param in func.inputs:
        shape = [s.value if hasattr(s, "value") else sizes[s.name] for s in param.shape]
        values = rng.integers(0 if dt.is_unsigned(param.dtype) else -4, 5, shape)
        arrays.append(values.astype(dt.numpy_dtype(param.dtype)))
    return arrays


def check(text: str, bits: int = 128, **sizes: int) -> PrimFunc:
    """Lower the program, comparing results and verifying after each pass that changes it."""
    func = parse(text.strip())
    verify(func)
    inputs = random_inputs(func, sizes)
    expected = interpret(func, *inputs, sizes=sizes)
    last = [func]

    def compare(name: str, result: PrimFunc) -> None:
        if result is last[0]:
            return
        last[0] = result
        verify(result)
        flat = result.params[0].ndim != func.params[0].ndim or name in FLAT
        arrays = [a.ravel() for a in inputs] if flat else inputs
        for want, have in zip(expected, interpret(result, *arrays, sizes=sizes)):
            np.testing.assert_array_equal(have.ravel(), want.ravel(), err_msg=f"{name}\n{result}")
        assert structural_equal(parse(str(result)), result), name

    lowered = lower(func, Target("c", vector_bits=bits), compare)
    assert not any(isinstance(s, Block) for s in walk(lowered.body))
    assert all(p.ndim == 1 for p in lowered.params)
    # The others may go further a second time, knowing that loops are shorter.
    for name, run in passes(Target("c", vector_bits=bits)):
        if name in ("lower_init", "lower_blocks", "place_buffers", "vectorize", "unroll"):
            assert run(lowered) is lowered, name
    return lowered


FLAT = tuple(name for name, _ in passes(Target("c")))
FLAT = FLAT[FLAT.index("flatten_buffers") :]


def matmul(n: int, m: int, k: int, tile: tuple[int, int, int], kinds: tuple[str, ...]) -> str:
    ti, tj, tk = tile
    oi, oj, ok = (-(-e // t) for e, t in zip((n, m, k), tile))
    a, b, c, d, e, f = kinds
    return f"""
@prim_func
def matmul(A: f32[{n}, {k}], B: f32[{k}, {m}], C: f32[{n}, {m}]):
    L = alloc(f32[{n}, {m}], scope="local")
    for j_0 in {a}({oj}):
        for i_0 in {b}({oi}):
            for k_0 in {c}({ok}):
                for k_1 in {d}({tk}):
                    for i_1 in {e}({ti}):
                        for j_1 in {f}({tj}):
                            with block("L"):
                                vi = spatial({n}, i_0 * {ti} + i_1)
                                vj = spatial({m}, j_0 * {tj} + j_1)
                                vk = reduce({k}, k_0 * {tk} + k_1)
                                where(i_0 * {ti} + i_1 < {n} and j_0 * {tj} + j_1 < {m}
                                      and k_0 * {tk} + k_1 < {k})
                                with init():
                                    L[vi, vj] = 0.0
                                L[vi, vj] = L[vi, vj] + A[vi, vk] * B[vk, vj]
            for i_2 in {e}({ti}):
                for j_2 in {f}({tj}):
                    with block("C"):
                        vi = spatial({n}, i_0 * {ti} + i_2)
                        vj = spatial({m}, j_0 * {tj} + j_2)
                        where(i_0 * {ti} + i_2 < {n} and j_0 * {tj} + j_2 < {m})
                        C[vi, vj] = max(L[vi, vj], 0.0)
"""


CONV_WITH_CHOICE = """
@prim_func
def conv_with_choice(X: f32[2, 10, 10], W: f32[3, 2, 3, 3], Y: f32[3, 10, 10]):
    for o in range(3):
        for y in range(10):
            for x_0 in range(2):
                for c in range(2):
                    for r in range(3):
                        for s in unrolled(3):
                            for x_1 in vectorized(8):
                                with block("Y"):
                                    vo = spatial(3, o)
                                    vy = spatial(10, y)
                                    vx = spatial(10, x_0 * 8 + x_1)
                                    vc = reduce(2, c)
                                    vr = reduce(3, r)
                                    vs = reduce(3, s)
                                    where(x_0 * 8 + x_1 < 10)
                                    with init():
                                        Y[vo, vy, vx] = 0.0
                                    Y[vo, vy, vx] = Y[vo, vy, vx] + select(
                                        1 <= vy + vr and vy + vr < 11
                                        and 1 <= vx + vs and vx + vs < 11,
                                        X[vc, vy + vr - 1, vx + vs - 1], 0.0
                                    ) * W[vo, vc, vr, vs]
"""

CONV_WITH_PADDED_STAGE = """
@prim_func
def conv_with_padded_stage(X: f32[4, 32], W: f32[8, 4, 3], Y: f32[8, 32]):
    P = alloc(f32[4, 34])
    for x_0 in parallel(4):
        for a in range(4):
            for b in range(10):
                with block("P"):
                    va = spatial(4, a)
                    vb = spatial(34, x_0 * 8 + b)
                    P[va, vb] = select(1 <= vb and vb < 33, X[va, vb - 1], 0.0)
        for o in range(8):
            for c in range(4):
                for s in range(3):
                    for x_1 in vectorized(8):
                        with block("Y"):
                            vo = spatial(8, o)
                            vx = spatial(32, x_0 * 8 + x_1)
                            vc = reduce(4, c)
                            vs = reduce(3, s)
                            with init():
                                Y[vo, vx] = 0.0
                            Y[vo, vx] = Y[vo, vx] + P[vc, vx + vs] * W[vo, vc, vs]
"""

FUSED_AND_VECTORIZED = """
@prim_func
def fused_and_vectorized(A: f32[6, 50], B: f32[6, 50]):
    for f_0 in parallel(5):
        for f_1 in vectorized(64):
            with block("B"):
                vi = spatial(6, (f_0 * 64 + f_1) // 50)
                vj = spatial(50, (f_0 * 64 + f_1) % 50)
                where(f_0 * 64 + f_1 < 300)
                B[vi, vj] = exp(A[vi, vj] * 0.0)
"""

FUSED_AND_PARALLEL = """
@prim_func
def fused_and_parallel(A: f32[14, 20], B: f32[14, 20]):
    for f in parallel(6):
        for i in range(5):
            for j in vectorized(12):
                with block("B"):
                    vi = spatial(14, f // 2 * 5 + i)
                    vj = spatial(20, f % 2 * 12 + j)
                    where(f // 2 * 5 + i < 14 and f % 2 * 12 + j < 20)
                    B[vi, vj] = A[vi, vj] + 1.0
"""

DYNAMIC = """
@prim_func
def dynamic(A: f32[n, 20], B: f32[20, n]):
    for f in parallel((n + 7) // 8):
        for i in range(20):
            for j in vectorized(8):
                with block("B"):
                    vi = spatial(20, i)
                    vj = spatial(n, f * 8 + j)
                    where(f * 8 + j < n)
                    B[vi, vj] = A[vj, vi] + 1.0
"""

SOFTMAX = """
@prim_func
def softmax(A: f32[4, 10], B: f32[4, 10]):
    M = alloc(f32[4])
    S = alloc(f32[4])
    E = alloc(f32[4, 10])
    for i in parallel(4):
        for k in range(10):
            with block("M"):
                vi = spatial(4, i)
                vk = reduce(10, k)
                with init():
                    M[vi] = float("-inf")
                M[vi] = max(M[vi], A[vi, vk])
        for j in vectorized(10):
            with block("E"):
                vi = spatial(4, i)
                vj = spatial(10, j)
                E[vi, vj] = A[vi, vj] - M[vi]
        for k2 in range(10):
            with block("S"):
                vi = spatial(4, i)
                vk = reduce(10, k2)
                with init():
                    S[vi] = 0.0
                S[vi] = S[vi] + E[vi, vk]
        for j2 in vectorized(10):
            with block("B"):
                vi = spatial(4, i)
                vj = spatial(10, j2)
                B[vi, vj] = E[vi, vj] + S[vi]
"""

ARGMAX = """
@prim_func
def argmax(A: f32[4, 10], V: f32[4], I: i64[4]):
    for k in range(10):
        for i in vectorized(4):
            with block("V"):
                vi = spatial(4, i)
                vk = reduce(10, k)
                with init():
                    V[vi] = float("-inf")
                    I[vi] = 0
                with let(v, V[vi]):
                    with let(x, I[vi]):
                        V[vi] = select(v < A[vi, vk], A[vi, vk], v)
                        I[vi] = select(v < A[vi, vk], vk, x)
"""

EMPTY_SUMS = """
@prim_func
def empty_sums(A: f32[4, 0], C: f32[4], D: f32[()]):
    for i in range(4):
        for k in range(0):
            with block("C"):
                vi = spatial(4, i)
                vk = reduce(0, k)
                with init():
                    C[vi] = 0.0
                C[vi] = C[vi] + A[vi, vk]
    with block("D"):
        vk = reduce(1, 0)
        with init():
            D[()] = 2.0
        D[()] = D[()] + C[vk]
"""

NESTED = """
@prim_func
def nested(A: f32[6, 8], C: f32[6]):
    for i, k_0 in grid(6, 2):
        with block("outer"):
            vi = spatial(6, i)
            vo = reduce(2, k_0)
            with init():
                C[vi] = 1.0
            for k_1 in range(4):
                with block("C"):
                    wi = spatial(6, vi)
                    wk = reduce(8, vo * 4 + k_1)
                    C[wi] = C[wi] + A[wi, wk]
"""

FUSED_REDUCTION = """
@prim_func
def fused_reduction(A: f32[5, 6], C: f32[5]):
    for f in range(32):
        with block("C"):
            vi = spatial(5, f // 6)
            vk = reduce(6, f % 6)
            where(f < 30)
            with init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
"""

BYTES = """
@prim_func
def bytes(A: u8[3, 20], B: i8[20], C: i32[3, 20], D: f16[3, 20]):
    T = alloc(i32[3, 20])
    for i in parallel(3):
        for j in vectorized(20):
            with block("T"):
                vi = spatial(3, i)
                vj = spatial(20, j)
                T[vi, vj] = i32(A[vi, vj]) * i32(B[vj])
        for j_1 in vectorized(20):
            with block("C"):
                vi = spatial(3, i)
                vj = spatial(20, j_1)
                C[vi, vj] = T[vi, vj] + i32(vj)
                D[vi, vj] = f16(f32(T[vi, vj]))
"""

CARRIED = """
@prim_func
def carried(A: f32[8], C: f32[8]):
    T = alloc(f32[8])
    for i in range(8):
        with block("T"):
            vi = spatial(8, i)
            T[vi] = A[vi]
        with block("C"):
            vi = spatial(8, i)
            C[vi] = T[vi] + T[max(vi - 1, 0)]
"""

WRITTEN_ONCE = """
@prim_func
def written_once(A: f32[4], C: f32[8, 4]):
    T = alloc(f32[4])
    for i in range(8):
        for j in range(4):
            with block("T"):
                vi = opaque(8, i)
                vj = spatial(4, j)
                where(i < 1)
                T[vj] = A[vj]
        for k in range(4):
            with block("C"):
                vi = spatial(8, i)
                vk = spatial(4, k)
                C[vi, vk] = T[vk]
"""

TWO_SIDES = """
@prim_func
def two_sides(A: f32[30], B: f32[40]):
    for i in range(10):
        for j in vectorized(4):
            with block("B"):
                vi = spatial(40, i * 4 + j)
                if vi < 5:
                    B[vi] = 0.0
                else:
                    B[vi] = select(vi < 35, A[vi - 5], 1.0)
"""

UNEVEN = """
@prim_func
def uneven(A: f32[7, 22], B: f32[22, 7], C: f32[7]):
    for i in vectorized(7):
        for j in range(22):
            with block("B"):
                vi = spatial(7, i)
                vj = spatial(22, j)
                B[vj, vi] = A[vi, vj] * 2.0
        with block("C"):
            vi = spatial(7, i)
            C[vi] = select(A[vi, vi] < 0.0, A[vi, vi // 2], f32(vi % 3))
"""

ROW_SUMS = """
@prim_func
def row_sums(A: f32[7, 9], C: f32[7]):
    for i in range(7):
        for k in vectorized(9):
            with block("C"):
                vi = spatial(7, i)
                vk = reduce(9, k)
                with init():
                    C[vi] = 0.0
                C[vi] = C[vi] + A[vi, vk]
"""


PROGRAMS = {
    text.split("def ")[1].split("(")[0]: text
    for text in (
        CONV_WITH_CHOICE,
        CONV_WITH_PADDED_STAGE,
        FUSED_AND_VECTORIZED,
        FUSED_AND_PARALLEL,
        SOFTMAX,
        ARGMAX,
        EMPTY_SUMS,
        NESTED,
        FUSED_REDUCTION,
        BYTES,
        CARRIED,
        WRITTEN_ONCE,
        TWO_SIDES,
        UNEVEN,
        ROW_SUMS,
    )
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bits", [128, 512])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, bits: int) -> None:
    check(PROGRAMS[name], bits)


@pytest.mark.parametrize("kind", ["parallel", "range"])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 16, 21])
def test_dynamic_size(n: int, kind: str) -> None:
    lowered = check(DYNAMIC.replace("parallel", kind), n=n)
    assert "ramp(" in str(lowered)


FAST = ("parallel", "range", "range", "range", "unrolled", "vectorized")
KINDS = st.sampled_from(["range", "unrolled", "vectorized"])


@pytest.mark.parametrize("n, m, k", [(6, 8, 3), (7, 9, 5), (1, 1, 1), (2, 17, 7), (13, 8, 4)])
def test_matmul(n: int, m: int, k: int) -> None:
    check(matmul(n, m, k, (3, 8, 4), FAST))


@given(
    shape=st.tuples(*[st.integers(1, 8)] * 3),
    tile=st.tuples(*[st.integers(1, 6)] * 3),
    kinds=st.tuples(st.sampled_from(["parallel", "range"]), *[KINDS] * 5),
    bits=st.sampled_from([128, 256, 512]),
)
@settings(max_examples=8, derandomize=True, deadline=None)
def test_any_tiling_of_matmul(
    shape: tuple[int, int, int], tile: tuple[int, int, int], kinds: tuple[str, ...], bits: int
) -> None:
    # A reduction cannot be vectorized: its two loops stay as they are or are unrolled.
    legal = [("unrolled" if n in (2, 3) and w == "vectorized" else w) for n, w in enumerate(kinds)]
    check(matmul(*shape, tile, tuple(legal)), bits)


def test_micro_kernel_has_registers_and_no_conditions(golden: Callable[[str, str], None]) -> None:
    func = parse(matmul(5, 20, 8, (2, 16, 4), FAST).strip())
    lowered = lower(func, Target("c", vector_bits=256))
    assert sum(isinstance(s, If) for s in walk(lowered.body)) == 1  # which of two bodies
    kinds = {s.kind for s in walk(lowered.body) if isinstance(s, For)}
    assert kinds == {ForKind.PARALLEL, ForKind.SERIAL}
    golden(str(lowered), "matmul")


def test_order_of_passes_and_unknown_vector_width() -> None:
    seen: list[str] = []
    func = parse(matmul(4, 4, 4, (4, 4, 4), FAST).strip())
    lowered = lower(func, Target("c"), lambda name, _: seen.append(name))
    assert seen == [name for name, _ in passes(Target("c"))]
    assert seen[0] == "found_again" and seen[-1] == "unswitch"
    assert "f32x4[4]" in str(lowered)


def test_a_finished_function_is_returned_as_it_is() -> None:
    text = "@prim_func\ndef f(A: f32[4], C: f32[4]):\n    for i in range(4):\n        C[i] = A[i]"
    func = parse(text)
    assert lower(func, Target("c")) is func
