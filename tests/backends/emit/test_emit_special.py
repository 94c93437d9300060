"""pow and atan2 of zeros, infinities and NaN, as C has them (C11 F.10)."""

from __future__ import annotations

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
