"""What a program looks for among values that it computes again is found, wherever these are
computed and whatever a compiler could round once."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from backends import build, resolve, source_text
from backends.cuda.nvrtc import compile_cubin, why_not
from tensorir import FOUND_AGAIN, lower, te

N, M = 300, 20
A = te.placeholder((N, M), name="A")
B = te.placeholder((N, M), name="B")
S = te.placeholder((M,), name="S")
T = te.placeholder((N,), name="T")
K, Q = te.reduce_axis(M, name="k"), te.reduce_axis(M, name="q")

TERMS = {
    "a product ahead of the terms": lambda i, k: T[i] * T[i] + A[i, k],
    "a product of a row": lambda i, k: A[i, k] - T[i] * 1.7,
    "a product of each term": lambda i, k: A[i, k] * B[i, k] + S[k],
    "a function": lambda i, k: te.exp(A[i, k]) * B[i, k],
}


def whole(value):
    return (value * 1e6).astype("int64")


FINDS = {
    "==": lambda value, top: value == top,
    ">=": lambda value, top: value >= top,
    "not <": lambda value, top: te.if_then_else(value < top, False, True),
    "no difference": lambda value, top: top - value == 0,
    "no distance": lambda value, top: te.abs(value - top) <= 0,
    "the larger one": lambda value, top: te.max(value, top) == value,
    "equal integers": lambda value, top: whole(value) == whole(top),
}


def place(term, finds=FINDS["=="]):
    """The first place of the largest of each row; far beyond its end where it is found nowhere."""
    top = te.compute((N,), lambda i: te.max(term(i, K), axis=K), name="top")
    at = te.compute(
        (N,),
        lambda i: te.min(te.if_then_else(finds(term(i, Q), top[i]), Q, 1 << 30), axis=Q),
        name="at",
    )
    return te.create_prim_func([A, B, S, T, at], name="place")


@pytest.mark.parametrize("target", ["c", "c -march=haswell", "cuda-emulator"])
@pytest.mark.parametrize("finds", FINDS)
@pytest.mark.parametrize("term", TERMS)
@pytest.mark.sampled(4)
def test_the_largest_is_found(term, finds, target, cache):
    func = place(TERMS[term], FINDS[finds])
    rng = np.random.default_rng(0)
    given = [rng.standard_normal([int(e.value) for e in p.shape]).astype("f4") for p in func.inputs]
    found = build(default_schedule(func, target), target, cache=cache)(*given)
    assert (found < M).all(), f"{(found >= M).sum()} of {N} rows"


@pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
def test_compilers_for_gpus_round_as_the_text_says():
    """NVRTC by an option, nvcc by one that the exported header names, OpenCL by a pragma."""
    found, plain = place(TERMS["a product ahead of the terms"]), place(lambda i, k: A[i, k])
    for func, rounding in ((found, "-fmad=false"), (plain, "-fmad=true")):
        text = source_text(default_schedule(func, "cuda"), "cuda")
        assert rounding in compile_cubin(text, "sm_80").command
        assert ("FP_CONTRACT OFF" in source_text(func, "opencl")) == (func is found)


def test_exported_kernels_of_gpus_say_how_they_are_compiled(tmp_path):
    build(place(TERMS["a product of each term"]), "cuda").export(tmp_path)
    assert "-fmad=false" in (tmp_path / "place.h").read_text()


def marked(func, target="c"):
    return FOUND_AGAIN in lower(default_schedule(func, target).func, resolve(target)).attrs


@pytest.mark.parametrize("finds", FINDS)
@pytest.mark.parametrize("term", TERMS)
def test_who_looks_for_what_may_be_contracted_is_marked(term, finds):
    func = place(TERMS[term], FINDS[finds])
    assert marked(func)
    assert "rounded twice" in source_text(func)


def test_others_are_not_marked():
    """What is read from memory, a running extreme, and sums, which nobody finds."""
    assert not marked(place(lambda i, k: A[i, k]))
    assert not marked(place(lambda i, k: A[i, k] * B[i, k] * S[k]))
    best = te.compute((N,), lambda i: te.argmax(A[i, K] * B[i, K] + S[K], axis=K), name="best")
    assert not marked(te.create_prim_func([A, B, S, best], name="argmax"))
    W, r, q = te.placeholder((M, M), name="W"), te.reduce_axis(M, name="r"), te.reduce_axis(M)
    C = te.compute((N, M), lambda i, j: te.sum(A[i, r] * W[r, j], axis=r), name="C")
    best = te.compute((N,), lambda i: te.argmax(C[i, q], axis=q), name="best")
    assert not marked(te.create_prim_func([A, W, best], name="class_of"))
    above = te.compute(
        (N, M),
        lambda i, j: te.if_then_else(C[i, j] > T[i] * 2.0 + S[j], C[i, j], 0.0),
        name="above",
    )
    assert not marked(te.create_prim_func([A, W, T, S, above], name="threshold"))


def test_whoever_compiles_the_text_rounds_as_we_do(tmp_path):
    build(place(TERMS["a product ahead of the terms"])).export(tmp_path)
    text = (tmp_path / "place.c").read_text()
    assert 'optimize("fp-contract=off")' in text and "FP_CONTRACT OFF" in text
