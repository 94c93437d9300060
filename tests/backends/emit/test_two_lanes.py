"""Selects of constants in vectors of two lanes, which gcc 12 gets wrong."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import const, te


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "float32"])
@pytest.mark.parametrize("yes, no", [(1, 0), (0, 1), (1, 2)])
def test_a_select_of_constants(dtype, yes, no):
    """It takes the mask, 0 or -1, for the value of `m ? 1 : 0`."""
    x = te.placeholder((9, 2), dtype, name="x")
    one, other = (const(value, dtype) for value in (yes, no))
    y = te.compute((9, 2), lambda i, j: te.select(x[i, j] == one, one, other), name="y")
    sch = Schedule(te.create_prim_func([x, y], name="choose"))
    sch.vectorize("j")
    a = (np.arange(18).reshape(9, 2) % 3).astype(dtype)
    expected = np.where(a == yes, yes, no)
    np.testing.assert_array_equal(build(sch, "c -threads=1")(a), expected)
