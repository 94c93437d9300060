"""Our own single-precision functions stay within a few units in the last place, everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import Buffer, Call, For, Load, PrimFunc, Ramp, Store, Var, const, seq

LIMITS = {"exp": 1.1, "log": 1.0, "tanh": 1.5, "erf": 2.6, "sigmoid": 2.5}
"""Units in the last place, measured on four million arguments."""

COUNT = 1 << 16


def arguments(name: str) -> np.ndarray:
    """All exponents, the interesting range, and the special values."""
    rng = np.random.default_rng(7)
    x = rng.integers(0, 2**32, COUNT, dtype=np.uint32).view(np.float32)
    high = 4 if name == "log" else 90
    x[: COUNT // 2] = rng.uniform(0 if name == "log" else -105, high, COUNT // 2)
    x[COUNT // 2 : COUNT // 4 * 3] = rng.normal(size=COUNT // 4) * 2
    x[:12] = [0, -0.0, np.inf, -np.inf, np.nan, 1, 88.72283, 88.72284, -103.9, -104.1, 1e-40, 3e38]
    return x


def reference(name: str, x: np.ndarray) -> np.ndarray:
    special = pytest.importorskip("scipy.special")
    functions = {"erf": special.erf, "sigmoid": special.expit}
    with np.errstate(all="ignore"):
        return functions.get(name, getattr(np, name, None))(x.astype("float64"))


@pytest.mark.parametrize("lanes", [1, 8, 16])
def test_error(run, lanes):
    buffers, stores, arrays, i = [], [], [], Var("i")
    at = Ramp(i * lanes, const(1), lanes) if lanes > 1 else i
    for name in LIMITS:
        x, y = Buffer(f"x_{name}", (COUNT,), "float32"), Buffer(f"y_{name}", (COUNT,), "float32")
        value = Load(x, (at,))
        stores.append(Store(y, (at,), Call(name, (value,), value.dtype)))
        buffers += [x, y]
        arrays += [arguments(name), np.zeros(COUNT, "float32")]
    body = For(i, const(COUNT // lanes), seq(*stores))
    run(PrimFunc("f", tuple(buffers), (), body), *arrays)
    for n, (name, limit) in enumerate(LIMITS.items()):
        check(name, limit, *arrays[2 * n : 2 * n + 2])


def check(name: str, limit: float, given: np.ndarray, out: np.ndarray) -> None:
    exact = reference(name, given)
    with np.errstate(over="ignore"):
        expected = exact.astype("float32")
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(out[~finite], expected[~finite])
    zero = finite & (given == 0)
    np.testing.assert_array_equal(np.signbit(out[zero]), np.signbit(expected[zero]))
    off = np.abs(out[finite] - exact[finite]) / np.spacing(np.abs(expected[finite]))
    assert off.max() <= limit, (name, given[finite][off.argmax()])
