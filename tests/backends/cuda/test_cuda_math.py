"""Math functions on the emulator keep the errors that docs/accuracy.md states.

Their texts are those of C. What a GPU has of its own is correctly rounded (roots, quotients, fused
multiply-add), or beyond the range of the texts.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from backends import build, source_text
from backends.cuda.nvrtc import compile_cubin, why_not
from backends.cuda.resources import read_resources
from tensorir import te

pytest.importorskip("scipy")
sys.path.insert(0, str(Path(__file__).parents[3] / "docs"))
import generate_accuracy as accuracy  # noqa: E402

COUNT = 3 * 1024 + 5


@pytest.mark.parametrize("dtype", accuracy.TABLES)
def test_errors(dtype, cache):
    if dtype == "float64" and np.finfo("longdouble").nmant < 63:
        pytest.skip("nothing more precise to compare with")
    sch, arrays = accuracy.program(COUNT, 1, dtype)
    kernel = build(sch, "cuda-emulator", cache=cache)
    found = {name: np.zeros(COUNT, dtype) for name in accuracy.TABLES[dtype]}
    kernel(*arrays, *found.values())
    for name, f in accuracy.TABLES[dtype].items():
        given = accuracy.arguments(name, COUNT, dtype)
        error, at = accuracy.largest_error(name, given, found[name])
        assert error <= max(f.limit, f.plain), (name, at)  # g++ fuses what is in one basic block
    if why_not() is None:
        for used in read_resources(compile_cubin(kernel.source, "sm_90a").log).values():
            assert not used.spills, used


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40], "float32")


@pytest.mark.parametrize(
    ("op", "word", "zero"), [(te.maximum, "ti_max", 0.0), (te.minimum, "ti_min", -0.0)]
)
def test_extrema_know_nan_and_the_sign_of_zero(op, word, zero, cache):
    a, b = (te.placeholder((64,), name=name) for name in "AB")
    func = te.create_prim_func([a, b, te.compute((64,), lambda i: op(a[i], b[i]), name="C")])
    assert f"{word}(" in source_text(func, "cuda -arch=sm_90a")
    x, y = (v.ravel()[:64].copy() for v in np.meshgrid(*2 * [SPECIAL]))
    found = build(func, "cuda-emulator", cache=cache)(x, y)
    wanted = {te.maximum: np.maximum, te.minimum: np.minimum}[op](x, y)
    np.testing.assert_array_equal(found, wanted)
    signs = np.where(np.signbit(x) == np.signbit(y), np.signbit(x), np.signbit(zero))
    zeros = (x == 0) & (y == 0)
    assert zeros.sum() == 4 and (np.signbit(found)[zeros] == signs[zeros]).all()
