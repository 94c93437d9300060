"""Every operator on every example, compiled as it is by default, against its NumPy reference."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from tensorir import dtype as dt
from tensorir import ops, reference_with_tolerance
from tensorir.arrays import decode

CASES = [(name, n) for name, op in ops.OPERATORS.items() for n in range(len(op.examples))]

CONSTANTS = 1e-6
"""How far references are off where the expression has constants: those are float32."""
UNKNOWN = 1e-5
"""The bound on the error where the reference cannot give one."""


@pytest.mark.parametrize(("name", "number"), CASES, ids=str)
def test_an_operator_compiled(name, number, cache):
    op = ops.OPERATORS[name]
    example = op.examples[number]
    func = ops.prim_func(name, number)
    arrays = example.arrays()
    results = build(func, cache=cache)(*arrays)
    results = results if isinstance(results, tuple) else (results,)
    expected = op.expected(example, arrays)
    assert len(results) == len(expected)
    bounds = reference_with_tolerance(func, *arrays)[1]
    for out, got, want, bound in zip(func.outputs, results, expected, bounds):
        assert got.shape == want.shape
        if not dt.is_float(out.dtype):
            np.testing.assert_array_equal(got, want)
            continue
        values, finite = decode(got, out.dtype), np.isfinite(want)
        np.testing.assert_array_equal(values[~finite], want[~finite])
        allowed = np.where(np.isfinite(bound), bound, UNKNOWN) + CONSTANTS * (1 + np.abs(want))
        assert (np.abs(values[finite] - want[finite]) <= allowed[finite]).all()
