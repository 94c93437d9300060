"""Addresses that are computed before a nest of loops that is written out."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from backends.cuda.text import cuda_text
from tensorir import Target
from tensorir.text.parser import parse

NEST = """
@prim_func
def f(A: f32[4096], B: f32[4096]):
    for t in thread("threadIdx.x", 32):
        for i in unrolled(4):
            for j in unrolled(2):
                {}
"""


def emitted(line: str) -> list[str]:
    """The lines of the kernel that name addresses or access memory."""
    text = cuda_text(parse(NEST.format(line)), Target("cuda", arch="sm_90a")).source
    kernel = text[text.index('extern "C"') :].splitlines()[1:]
    return [each.strip() for each in kernel if "A" in each or "B" in each]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (  # in any order, constants with what is the same
            "B[j + i * 10 + t * 96 + 7] = A[i * 10 + (t // 4) * 9 + j]",
            ["TI_AT(A_at_0, A, (t >> 2) * 9);", "TI_AT(B_at_1, B, t * 96 + 7);",
             "B_at_1[j + i * 10] = A_at_0[i * 10 + j];"],
        ),
        (  # what loops and threads have in common is no part of either
            "B[t * 8 + i * 2 + j] = A[((t + i) // 2) * 4 + j]",
            ["TI_AT(B_at_0, B, t * 8);", "B_at_0[i * 2 + j] = A[((t + i) >> 1) * 4 + j];"],
        ),
        (  # an element that is read and written stays one expression
            "B[t * 8 + i] = B[t * 8 + i] + A[t * 8 + i * 2 + j]",
            ["TI_AT(A_at_0, A, t * 8);", "B[t * 8 + i] += A_at_0[i * 2 + j];"],
        ),
        (  # no address before the memory where a condition says what is read
            "B[t + i * 64] = select(2 <= t, A[t + i * 64 - 2], 0.0)",
            ["TI_AT(A_at_0, A, t);", "TI_AT(B_at_1, B, t);",
             "B_at_1[i * 64] = 2 <= t ? A_at_0[i * 64 - 2] : 0.0f;"],
        ),
        (
            "B[t + i * 64] = select(t <= j, A[j + i * 64 - t], 0.0)",
            ["TI_AT(B_at_0, B, t);", "B_at_0[i * 64] = t <= j ? A[j + i * 64 - t] : 0.0f;"],
        ),
        (  # lanes of a swizzled row have places of their own, and a vector is no address
            "B[ramp(t * 8, 1, 2)] = "
            "A[broadcast(t * 8, 2) + (ramp(0, 1, 2) ^ broadcast(t, 2))]",
            ["TI_AT(B_at_0, B, t * 8);",
             "ti_store2(B_at_0, 0, ti_vec<float, 2>{A[t * 8 + (0 ^ t)], A[t * 8 + (1 ^ t)]});"],
        ),
        (
            "if t <= i:\n                    B[96 - t + i * 64] = A[i]",
            ["B[96 - t + i * 64] = A[i];"],
        ),
    ],
)  # fmt: skip
def test_what_all_iterations_have_is_added_before_the_nest(line, wanted):
    assert emitted(line) == wanted


@pytest.mark.parametrize("check", ["", " -check=bounds,races"])
@pytest.mark.parametrize(
    ("line", "places"),
    [
        ("B[t * 8 + i * 2 + j] = A[i * 10 + t * 3 + j]", lambda t, i, j: i * 10 + t * 3 + j),
        ("B[t * 8 + i * 2 + j] = A[96 - t + i - j]", lambda t, i, j: 96 - t + i - j),
    ],
)
def test_addresses_are_of_the_same_elements(line, places, check, cache):
    a = np.arange(4096, dtype="float32")
    t, i, j = np.ogrid[:32, :4, :2]
    found = build(parse(NEST.format(line)), f"cuda-emulator{check}", cache=cache)
    b = np.zeros(4096, "float32")
    found(a, b)
    np.testing.assert_array_equal(b[:256], places(t, i, j).ravel())
