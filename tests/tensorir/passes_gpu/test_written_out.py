"""Compilers write out what pays: not every iteration of long bodies, all that names registers."""

from __future__ import annotations

import pytest

from backends import source_text
from tensorir import WRITTEN_OUT, For, Target, lower, parse, walk
from tensorir.passes.gpu.written_out import MOST, operations

SUMS = """
@prim_func
def sums(A: f32[{k}, 33], B: f32[32]):
    R = alloc(f32[32], scope="local")
    for b in thread("blockIdx.x", 1):
        for t in thread("threadIdx.x", 1):
            for i in unrolled(32):
                R[i] = 0.0
            for s in range(3):
                for k in unrolled({k}):
                    for i in unrolled(32):
                        R[i] = R[i] + A[k, i]
            for i in unrolled(32):
                B[i] = R[i]
"""


def marks(func):
    low = lower(func, Target.parse("cuda"))
    loops = [s for s in walk(low.body) if isinstance(s, For) and s.thread is None]
    return low, [(s.name, s.annotations.get(WRITTEN_OUT)) for s in loops]


@pytest.mark.parametrize(("k", "part"), [(4, None), (8, None), (16, 8), (12, 6), (14, 7)])
def test_a_part_of_the_steps_and_all_registers(k, part):
    low, found = marks(parse(SUMS.format(k=k)))
    assert found == [("i", None), ("s", None), ("k", part), ("i", None), ("i", None)]
    assert operations(low.body) <= MOST + 2 * 32


AHEAD = """
@prim_func
def ahead(A: f32[8, 64], B: f32[32]):
    R = alloc(f32[32], scope="local")
    V = alloc(f32[1], scope="local")
    S = alloc(f32[64], scope="shared")
    for b in thread("blockIdx.x", 1):
        for t in thread("threadIdx.x", 64):
            for i in unrolled(32):
                R[i] = 0.0
        for s in range(8):
            for t in thread("threadIdx.x", 64):
                V[0] = A[s, t]
            for t in thread("threadIdx.x", 64):
                for k in unrolled(16):
                    for i in unrolled(32):
                        R[i] = R[i] + A[k // 2, i]
            for t in thread("threadIdx.x", 64):
                S[t] = V[0]
        for t in thread("threadIdx.x", 64):
            for i in unrolled(32):
                B[i] = R[i] + S[63 - t]
"""


def test_less_of_it_beside_copies_on_their_way():
    """Compilers read ahead what they write out, and have fewer registers for that then."""
    assert ("k", 4) in marks(parse(AHEAD))[1]


def test_the_text_says_so():
    text = source_text(parse(SUMS.format(k=16)), "cuda")
    assert "#pragma unroll 8\n" in text and "#pragma unroll\n" in text


@pytest.mark.parametrize(("n", "word"), [(32, "__forceinline__"), (64, "__noinline__")])
def test_functions_called_often_are_called(n, word):
    """What a thread does with each of its registers is written out: the function is not."""
    text = f"""
@prim_func
def many(A: f32[{n}], B: f32[{n}]):
    R = alloc(f32[{n}], scope="local")
    for b in thread("blockIdx.x", 1):
        for t in thread("threadIdx.x", 1):
            for i in unrolled({n}):
                R[i] = A[i]
            for i in unrolled({n}):
                B[i] = erf(R[i])
"""
    made = source_text(parse(text), "cuda")
    (head,) = [line for line in made.splitlines() if " erf_f32(float x) {" in line]
    assert word in head


@pytest.mark.parametrize(("n", "bounds"), [(32, "(1, 1)"), (64, "(1, 512)")])
def test_many_sums_say_how_many_registers_there_are(n, bounds):
    text = SUMS.format(k=4).replace("32]", f"{n}]").replace("(32)", f"({n})")
    assert f"__launch_bounds__{bounds} " in source_text(parse(text), "cuda")
