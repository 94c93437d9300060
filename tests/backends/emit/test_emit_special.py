"""pow and atan2 of zeros, infinities and NaN, as C has them (C11 F.10)."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import te

POW_CASES = [  # C11 F.10.4.4
    (0.0, -3.0, np.inf),
    (-0.0, -3.0, -np.inf),
    (-0.0, -2.0, np.inf),
    (-0.0, -0.5, np.inf),
    (0.0, -np.inf, np.inf),
    (-0.0, 3.0, -0.0),
    (-0.0, 2.5, 0.0),
    (-1.0, np.inf, 1.0),
    (-1.0, -np.inf, 1.0),
    (1.0, np.nan, 1.0),
    (np.nan, 0.0, 1.0),
    (np.nan, -0.0, 1.0),
    (np.inf, 0.0, 1.0),
    (-2.0, 0.5, np.nan),
    (-0.5, np.inf, 0.0),
    (-2.0, -np.inf, 0.0),
    (0.5, -np.inf, np.inf),
    (2.0, np.inf, np.inf),
    (-np.inf, -3.0, -0.0),
    (-np.inf, -2.0, 0.0),
    (-np.inf, 3.0, -np.inf),
    (-np.inf, 2.5, np.inf),
    (np.inf, -1e-30, 0.0),
    (np.inf, 1e-30, np.inf),
    (np.nan, 1.0, np.nan),
    (2.0, np.nan, np.nan),
    (-3.0, 3.0, -27.0),
    (2.0, -1074.0, 5e-324),
    (2.0, 1024.0, np.inf),
    (-2.0, 1025.0, -np.inf),
    (0.5, 1076.0, 0.0),
]
QUARTER = np.pi / 2
ATAN2_CASES = [  # C11 F.10.1.4
    (0.0, -0.0, np.pi),
    (-0.0, -0.0, -np.pi),
    (0.0, 0.0, 0.0),
    (-0.0, 0.0, -0.0),
    (0.0, -2.0, np.pi),
    (-0.0, 2.0, -0.0),
    (-3.0, 0.0, -QUARTER),
    (3.0, -0.0, QUARTER),
    (3.0, -np.inf, np.pi),
    (-3.0, np.inf, -0.0),
    (np.inf, 3.0, QUARTER),
    (-np.inf, -3.0, -QUARTER),
    (np.inf, -np.inf, 1.5 * QUARTER),
    (-np.inf, np.inf, -QUARTER / 2),
    (np.nan, 1.0, np.nan),
    (np.inf, np.nan, np.nan),
    (1.0, 1.0, QUARTER / 2),
    (5e-324, -5e-324, 1.5 * QUARTER),
]


@pytest.mark.parametrize("lanes", [1, 2, 8])
@pytest.mark.parametrize(("name", "cases"), [("pow", POW_CASES), ("atan2", ATAN2_CASES)])
def test_special_cases_of_two_arguments(name, cases, lanes):
    x, y, wanted = (np.array(v).repeat(8) for v in zip(*cases))
    a, b = (te.placeholder(x.shape, "float64", name=n) for n in "AB")
    out = te.compute(x.shape, lambda i: getattr(te, name)(a[i], b[i]), name="C")
    sch = Schedule(te.create_prim_func([a, b, out]))
    if lanes > 1:
        sch.vectorize(sch.split("i", [None, lanes])[1])
    found = build(sch)(x, y)
    same = (found == wanted) & (np.signbit(found) == np.signbit(wanted))
    same |= np.isnan(found) & np.isnan(wanted)
    assert same.all(), (x[~same], y[~same], found[~same])


FLAG = 16 if platform.machine() in ("x86_64", "AMD64") else 8
"""FE_UNDERFLOW of fenv.h, as x86 has it and as others do."""


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "exp2", "expm1", "sigmoid", "tanh", "erf", "pow"])
def test_nothing_underflows_where_the_result_is_zero(name, kind, lanes):
    """A sum or product that becomes too small takes a hundred cycles: softmax with a mask, most
    elements of which are far below all others, took fifteen times as long."""
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    x, call = te.placeholder((lanes,), kind, name="x"), getattr(te, name)
    first = (te.const(2.0, kind),) if name == "pow" else ()
    func = te.create_prim_func([x, te.compute((lanes,), lambda i: call(*first, x[i]))])
    sch = Schedule(func)
    if lanes > 1:
        sch.vectorize(sch.get_loops(sch.get_blocks()[0])[-1])
    kernel = build(sch)
    for value in (-1100.0, -1e4, -1e30, -np.inf, 1e4, np.inf):
        given, made = np.full(lanes, value, kind), np.zeros(lanes, kind)
        kernel(given, made)
        libm.feclearexcept(FLAG)
        kernel(given, made)
        assert not libm.fetestexcept(FLAG), value


@pytest.mark.parametrize(
    "target", ["c -march=native", "c -march=haswell", "c -march=x86-64", "cuda-emulator"]
)
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("kinds", [
    ("float32", "uint8"), ("float32", "int32"), ("float64", "int64"), ("float16", "int8"),
], ids="-".join)  # fmt: skip
def test_the_zero_of_an_integer_has_no_sign(kinds, vectors, target, cache):
    """In the expression that makes the integer, and where it was stored before."""
    floats, integers = kinds
    x = te.placeholder((16,), floats, name="x")
    whole = te.compute((16,), lambda i: x[i].astype(integers), name="whole")
    again = te.compute((16,), lambda i: whole[i].astype(floats), name="again")
    both = te.compute((16,), lambda i: x[i].astype(integers).astype(floats), name="both")
    sch = Schedule(te.create_prim_func([x, again, both], name="turned"))
    for block in ("again", "both") if vectors else ():
        sch.vectorize(sch.split(sch.get_loops(block)[0], [None, 4])[1])
    sch.compute_at("whole", sch.get_loops("again")[0])
    given = np.array([-0.0, 0.0, -0.0, 2.0] * 4, floats)
    for found in build(sch, target, cache=cache)(given):
        np.testing.assert_array_equal(found, np.array([0.0, 0.0, 0.0, 2.0] * 4, floats))
        assert not np.signbit(found).any()
