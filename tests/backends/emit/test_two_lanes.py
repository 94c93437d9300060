"""Vectors of two lanes: gcc 12 gets selects of constants wrong, and writes loops of two turns out
before it looks for vectors."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from emit.lane_table import Case, assembled, instructions, text_of

from backends import build
from backends.c.flags import GCC_APART_FLAGS, GCC_FILL_FLAGS
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


OPERATIONS = {
    "max": lambda a, b: te.max(a, b),
    "clip": lambda a, b: te.clip(a, 1, 5),
    "select": lambda a, b: te.if_then_else(a > b, a, b * 2),
    "integers": lambda a, b: te.max(te.abs(a), b).astype(a.dtype),
}
FLOATS, INTEGERS = ("float32", "float64"), ("int32", "int64")
TWICE = [
    *((d, name) for d in FLOATS for name in ("max", "clip", "select")),
    *((d, "integers") for d in INTEGERS),
]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="reads gcc's assembly")
@pytest.mark.parametrize("march", ["haswell", "x86-64-v4"])
def test_two_lanes_take_one_instruction(march, cache):
    """Two loads, a store and the loop are six; each step of the operation by lanes would be more
    than that again."""
    cases = [Case(f"{name} of {d}", OPERATIONS[name], (d, d)) for d, name in TWICE]
    text = text_of(cases, march, lanes=2)
    counted = instructions(
        assembled(text, march, cache, flags=(*GCC_APART_FLAGS, *GCC_FILL_FLAGS))[0], 1
    )
    found = {case.name: counted[f"k{n}"] for n, case in enumerate(cases)}
    assert max(found.values()) <= 11, found
