"""Loops that stand between a local buffer and registers."""

from __future__ import annotations

import pytest

from tensorir.passes import unroll_registers
from tensorir.text.parser import parse

TEXT = """
@prim_func
def copy_out(A: f32[1000], C: f32[1000]):
    with alloc(T, f32[64]{scope}):
        for i in unrolled(8):
            T[i] = 0.0
        for k in range(100):
            for i in unrolled(8):
                T[i] = T[i] + A[k]
        for j in range({extent}):
            C[j] = T[j]
"""


def lowered(scope: str, extent: int | str) -> str:
    func = parse(TEXT.format(scope=scope, extent=extent).strip())
    return str(unroll_registers(func))


def test_copy_out_unrolls_but_the_reduction_does_not() -> None:
    text = lowered(', scope="local"', 8)
    assert "for j in unrolled(8):" in text and "for k in range(100):" in text


@pytest.mark.parametrize(
    "scope, extent", [("", 8), (', scope="local"', 65), (', scope="local"', "8 + 0 * 1 // 2")]
)
def test_not_for_memory_long_loops_or_unknown_lengths(scope: str, extent: int | str) -> None:
    func = parse(TEXT.format(scope=scope, extent=extent).strip())
    assert unroll_registers(func) is func
