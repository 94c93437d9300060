"""Which lanes are gathered by one instruction, and which are picked one by one."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from tensorir import parse, te

TARGET = "c -threads=1 -vector_bits=512"


def picked(kind: str, moved: bool = False, n: int = 1000, m: int = 512):
    """Elements at places from memory, as they are or moved by each element's own."""
    x, at = te.placeholder((n,), name="x"), te.placeholder((m,), kind, name="at")

    def value(i):
        place = at[i] + i.astype(kind) if moved else at[i]
        return x[te.clip(place, 0, n - 1)]

    return te.create_prim_func([x, at, te.compute((m,), value, name="out")], name="picked")


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize(
    ("kind", "instruction"), [("int32", True), ("int16", True), ("int64", False)]
)
def test_places_that_fill_several_registers_are_elements(kind, instruction, moved):
    """Of 16 places of 64 bits a vector would go through memory: that took 1.5 to 3 times as long as
    the elements do, and places of 32 bits in one register half."""
    func = picked(kind, moved)
    kernel = build(default_schedule(func, TARGET), TARGET)
    assert ("gathersiv16sf" in kernel.source) == instruction
    assert ("fetch_f32x16" in kernel.source) != instruction
    rng = np.random.default_rng(0)
    x, at = rng.random(1000, dtype="float32"), rng.integers(-9, 1100, 512).astype(kind)
    place = (at + np.arange(512).astype(kind)) if moved else at
    np.testing.assert_array_equal(kernel(x, at), x[np.clip(place, 0, 999)])


def test_places_of_64_bits_beside_functions_that_choose(cache):
    """Both had one name: gcc refused the kernel."""
    func = parse("""
@prim_func
def f(A: f32[8, n + 1], S: f32[n], B: f32[16]):
    for i in vectorized(16):
        B[i] = exp(A[i * 3 % 8, 0])
""")
    kernel = build(func, "c -threads=1 -vector_bits=512")
    assert "fetch_f32x16(A" in kernel.source and "pick_f32x16(x" in kernel.source
    a = np.linspace(-3, 3, 40, dtype=np.float32).reshape(8, 5)
    s = np.zeros(4, np.float32)
    wanted = np.exp(a[np.arange(16) * 3 % 8, 0])
    np.testing.assert_allclose(kernel(a, s), wanted, rtol=1e-6)
