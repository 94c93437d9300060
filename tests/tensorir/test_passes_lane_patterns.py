"""Loads whose lanes lie at known distances: vectors of neighbours and shuffles."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import Target, interpret, lower
from tensorir.passes.vectors.lane_patterns import places
from tensorir.text.parser import parse
from tensorir.text.printer import format_func
from tensorir.verifier.program import verify

MASKS = ("avx512bw", "avx512f", "avx512vl")


def lowered(index: str, size: int, lanes: int = 16, masks: bool = True):
    func = parse(
        f"@prim_func\ndef f(A: f32[{size}], C: f32[{4 * lanes}]):\n"
        f"    for i in range(4):\n        for j in vectorized({lanes}):\n"
        f"            C[i * {lanes} + j] = A[{index}]"
    )
    target = Target("c", vector_bits=32 * lanes, features=MASKS if masks else ())
    return func, lower(func, target)


@pytest.mark.parametrize(
    ("index", "size"),
    [
        ("i * 8 + j // 2", 32),  # each twice
        ("i * 5 + j // 3", 32),
        ("i + min(max(j - 3, 0), 9)", 13),  # the edges again and again
        ("i + (15 - j)", 19),  # backwards
        ("i * 16 + j * 45 // 16", 91),  # three vectors
        ("i * 2 + (j * 7) % 16", 22),
        ("i + 3", 7),  # one element
        ("i * 16 + j + 1 - j % 2 * 2", 64),  # neighbours change places
        ("max(i * 16 + j + 1 - j % 2 * 2, 0)", 64),  # a limit that no lane reaches
        ("min(0 - j % 4 * 2 + j + 3 + i * 16, 63)", 64),
        ("(i * 16 + j) // 2", 32),  # what the lanes add is known, wherever the vector is
        ("(i * 16 + j) % 4 + i", 8),
    ],
)
def test_known_lanes_are_shuffled(index, size):
    func, low = lowered(index, size)
    verify(low)
    text = format_func(low)
    assert "shuffle(" in text or "broadcast(A" in text
    a = np.arange(size, dtype=np.float32)
    for program in (low, parse(text)):
        np.testing.assert_array_equal(interpret(program, a)[0], interpret(func, a)[0])


@pytest.mark.parametrize(
    ("index", "size", "masks"),
    [
        ("i + j * 9", 139, True),  # nine vectors
        ("(i * 16 + j) // 3", 22, True),  # the distances depend on i
        ("i * 8 + j // 2", 32, False),  # less than a vector, which would take a mask
        ("i * 16 + j", 64, True),  # neighbours as they are
    ],
)
def test_others_stay(index, size, masks):
    func, low = lowered(index, size, masks=masks)
    assert "shuffle(" not in format_func(low)
    a = np.arange(size, dtype=np.float32)
    np.testing.assert_array_equal(interpret(low, a)[0], interpret(func, a)[0])


def test_places_of_an_index_that_is_none():
    func, _ = lowered("j", 16)
    assert places(func.body.body.body.value.indices[0]) is None
