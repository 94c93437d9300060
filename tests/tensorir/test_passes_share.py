"""share_memory: intermediates one after the other in the same memory, and which may not be."""

from __future__ import annotations

import re

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from tensorir import interpret, ops, parse, te
from tensorir.passes.storage.share_memory import share_memory


def program(arrays: str, *steps: str) -> str:
    """One loop a step over the elements i of arrays such as "T U:9", with 8 or more elements."""
    lines = ["@prim_func", "def program(A: f32[8], C: f32[8]):"]
    for depth, array in enumerate(arrays.split(), 1):
        name, _, size = array.partition(":")
        lines.append(f"{depth * 4 * ' '}with alloc({name}, f32[{size or 8}]):")
    inside = (1 + len(arrays.split())) * 4 * " "
    for n, step in enumerate(steps):
        lines += [f"{inside}for i{n} in range(8):", f"{inside}    {step.replace('i]', f'i{n}]')}"]
    return "\n".join(lines) + "\n"


CHAIN = program(
    "T U V",
    "T[i] = A[i] + 1.0",
    "U[i] = T[7 - i] * 2.0",
    "V[i] = U[i] + U[7 - i]",
    "C[i] = V[7 - i]",
)


def allocated(text: str, *edits: tuple[str, str], least: int = 0) -> list[str]:
    """What is allocated after the pass, as printed; what is computed is the same."""
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    func = parse(text)
    after = share_memory(func, least)
    a = np.arange(1, 9, dtype="float32")
    for found, wanted in zip(interpret(after, a), interpret(func, a), strict=True):
        np.testing.assert_array_equal(found, wanted)
    lines = (line.strip() for line in str(after).split("\n"))
    return sorted(line[11:-2] for line in lines if line.startswith("with alloc("))


def test_two_are_enough():
    assert allocated(CHAIN) == ["T, f32[8]", "U, f32[8]"]


def test_only_from_a_size_on():
    assert len(allocated(CHAIN, least=31)) == 2
    assert len(allocated(CHAIN, least=32)) == 3


def test_what_is_read_again_keeps_its_memory():
    assert len(allocated(CHAIN, ("= V[7 - i3]", "= V[7 - i3] + T[i3]"))) == 3
    assert len(allocated(CHAIN, ("= U[i2] +", "= T[i2] +"))) == 3


def test_types_and_scopes_are_kept_apart():
    edits = ("V, f32[8]", "V, f64[8]"), ("= U[i2] + U[7 - i2]", "= f64(U[i2])")
    assert len(allocated(CHAIN, *edits, ("= V[7 - i3]", "= f32(V[7 - i3])"))) == 3
    assert len(allocated(CHAIN, ("V, f32[8]", 'V, f32[8], scope="local"'))) == 3


def test_sizes():
    """The largest of one memory decides; of two that are free the one that fits is taken."""
    larger = ("alloc(V, f32[8])", "alloc(V, f32[11])")
    assert allocated(CHAIN, larger) == ["U, f32[8]", "V, f32[11]"]
    steps = "S[i] = A[i]", "T[i] = S[i]", "U[i] = S[i] + T[i]", "V[i] = U[i]", "C[i] = V[i] + U[i]"
    assert allocated(program("S:20 T:9 U V:9", *steps)) == ["S, f32[20]", "T, f32[9]", "U, f32[8]"]
    assert allocated(program("S:9 T:20 U V:9", *steps)) == ["S, f32[9]", "T, f32[20]", "U, f32[8]"]
    assert allocated(program("S:20 T:9 U V:15", *steps))[0] == "S, f32[20]"


def test_what_stands_beside_and_in_loops():
    """Allocations that are not nested share as well; those in a loop do among themselves."""
    text = """
@prim_func
def beside(A: f32[8], C: f32[8]):
    for t in range(2):
        with alloc(T, f32[8]):
            for i in range(8):
                T[i] = A[i] + 1.0
            for i_C in range(8):
                C[i_C] = T[7 - i_C]
        with alloc(U, f32[8]):
            for i_U in range(8):
                U[i_U] = C[i_U] * 2.0
            for i_D in range(8):
                C[i_D] = U[7 - i_D]
"""
    assert allocated(text) == ["T, f32[8]"]
    assert allocated(text, ("range(2)", "parallel(1)")) == ["T, f32[8]"]


def test_copies_of_a_loop_have_buffers_in_common():
    """One that is allocated twice has one memory, free after the last place."""
    text = """
@prim_func
def copies(A: f32[8], C: f32[8]):
    with alloc(V, f32[8]):
        with alloc(T, f32[8]):
            for i in range(8):
                T[i] = A[i]
            for i_V in range(8):
                V[i_V] = T[7 - i_V]
        with alloc(T, f32[8]):
            for j in range(8):
                T[j] = A[7 - j]
            for j_C in range(8):
                C[j_C] = T[j_C] + V[j_C]
    with alloc(W, f32[8]):
        with alloc(X, f32[8]):
            for i_W in range(8):
                W[i_W] = C[i_W]
            for i_X in range(8):
                X[i_X] = C[7 - i_X]
            for i_C in range(8):
                C[i_C] = W[i_C] - X[i_C] * 2.0
"""
    assert allocated(text) == ["T, f32[8]", "V, f32[8]"]


def test_what_a_copy_in_a_loop_allocates_stays():
    """Else it would be allocated in the memory that others share, under one name."""
    text = """
@prim_func
def copies(A: f32[8], C: f32[8]):
    for t in range(2):
        with alloc(T, f32[8]):
            for i in range(8):
                T[i] = A[i]
            for i_C in range(8):
                C[i_C] = T[7 - i_C]
    with alloc(T, f32[8]):
        for j in range(8):
            T[j] = A[7 - j]
        for j_C in range(8):
            C[j_C] = T[j_C]
    with alloc(U, f32[8]):
        for k in range(8):
            U[k] = C[k]
        for k_C in range(8):
            C[k_C] = U[7 - k_C]
"""
    assert allocated(text) == ["T, f32[8]", "T, f32[8]", "U, f32[8]"]


@pytest.mark.parametrize("layers", [4, 7])
def test_a_network_takes_no_more_memory_for_more_layers(layers):
    x = te.placeholder((64, 300), name="x")
    weights = [te.placeholder((300, 300), name=f"w{n}") for n in range(layers)]
    y = x
    for w in weights:
        y = ops.relu(ops.matmul(y, w))
    func = te.create_prim_func([x, *weights, y])
    kernel = build(default_schedule(func), "c -threads=2 -vector_bits=512 -l1d=32768")
    lists = re.findall(r"workspace_take\(&workspace_free\[(\d+)\]", kernel.source)
    assert len(lists) > layers and len(set(lists)) <= 3
    rng = np.random.default_rng(layers)
    arrays = [rng.standard_normal(t.shape).astype("float32") / 16 for t in (x, *weights)]
    wanted = arrays[0]
    for w in arrays[1:]:
        wanted = np.maximum(wanted @ w, 0)
    np.testing.assert_allclose(kernel(*arrays), wanted, rtol=1e-3, atol=1e-5)
