"""Lowering keeps the meaning of a program: the interpreter agrees after every pass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir import PrimFunc, Target
from tensorir import dtype as dt
from tensorir.interpret import interpret
from tensorir.parser import parse
from tensorir.passes import lower
from tensorir.passes.lower import passes
from tensorir.stmt import Block, For, ForKind, If
from tensorir.structural import structural_equal
from tensorir.verify import verify
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
    """Lower the program, comparing results and verifying after each pass."""
    func = parse(text.strip())
    verify(func)
    inputs = random_inputs(func, sizes)
    expected = interpret(func, *inputs, sizes=sizes)

    def compare(name: str, result: PrimFunc) -> None:
        verify(result)
        flat = result.params[0].ndim != func.params[0].ndim or name in FLAT
        arrays = [a.ravel() for a in inputs] if flat else inputs
        for want, have in zip(expected, interpret(result, *arrays, sizes=sizes)):
            np.testing.assert_array_equal(have.ravel(), want.ravel(), err_msg=f"{name}\n{result}")
        assert structural_equal(parse(str(result)), result), name

    lowered = lower(func, Target("c", vector_bits=bits), compare)
    assert not any(isinstance(s, Block) for s in walk(lowered.body))
    assert all(p.ndim == 1 for p in lowered.params)
    # Partitioning again may go further, with new copies to make; all else is finished.
    for name, run in passes(Target("c", vector_bits=bits)):
        assert name == "partition_loops" or run(lowered) is lowered, name
    return lowered


FLAT = ("flatten_buffers", "unroll", "vectorize", "unroll_chunks", "vector_locals", "simplify")


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
                                where(i_0 * {ti} + i_1 < {n} and j_0 * {tj} + j_1 < {m} and k_0 * {tk} + k_1 < {k})
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


FAST = ("parallel", "range", "range", "range", "unrolled", "vectorized")
KINDS = st.sampled_from(["range", "unrolled", "vectorized"])


@pytest.mark.parametrize("n, m, k", [(6, 8, 3), (7, 9, 5), (1, 1, 1), (2, 17, 7), (13, 8, 4)])
def test_matmul(n: int, m: int, k: int) -> None:
    check(matmul(n, m, k, (3, 8, 4), FAST))


@given(
    shape=st.tuples(*[st.integers(1, 10)] * 3),
    tile=st.tuples(*[st.integers(1, 6)] * 3),
    kinds=st.tuples(st.sampled_from(["parallel", "range"]), *[KINDS] * 5),
    bits=st.sampled_from([128, 256, 512]),
)
@settings(max_examples=25, derandomize=True, deadline=None)
def test_any_tiling_of_matmul(
    shape: tuple[int, int, int], tile: tuple[int, int, int], kinds: tuple[str, ...], bits: int
) -> None:
    # A reduction cannot be vectorized: its two loops stay as they are or are unrolled.
    legal = [("unrolled" if n in (2, 3) and w == "vectorized" else w) for n, w in enumerate(kinds)]
    check(matmul(*shape, tile, tuple(legal)), bits)


def test_micro_kernel_has_registers_and_no_conditions() -> None:
    func = parse(matmul(15, 20, 4, (6, 16, 4), FAST).strip())
    lowered = lower(func, Target("c", vector_bits=256))
    assert sum(isinstance(s, If) for s in walk(lowered.body)) == 1  # which of two bodies
    kinds = {s.kind for s in walk(lowered.body) if isinstance(s, For)}
    assert kinds == {ForKind.PARALLEL, ForKind.SERIAL}
    assert "L: f32x8[12]" in str(lowered) or "alloc(L, f32x8[12]" in str(lowered)
