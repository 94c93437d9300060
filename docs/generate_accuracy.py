"""Writes docs/accuracy.md: the errors of the math functions, measured on compiled kernels.

    python docs/generate_accuracy.py

tests/backends/emit/test_emit_math.py measures again on fewer arguments, and fails where an error
is larger than this file states.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from backends import build  # noqa: E402
from schedule import Schedule  # noqa: E402
from tensorir import te  # noqa: E402

PAGE = ROOT / "docs" / "accuracy.md"
COUNT = 1 << 22
SPECIAL = tuple(map(float, "0 -0 inf -inf nan 1 -1 2 -2 0.5 1e-40 -1e-40 3e38 -3e38".split()))


@dataclass(frozen=True)
class Function:
    """`limit` and `plain` are errors in units in the last place, with and without fused
    multiply-add; the arguments are uniform in [low, high), all bit patterns, and small numbers.
    """

    limit: float
    plain: float
    low: float
    high: float
    way: str
    exact: Callable[..., Any] | None = None  # None: NumPy's function of that name
    second: tuple[float, float] | None = None  # the range of a second argument


def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def _erf(x: Any) -> Any:
    """In the precision of x: a series of positive terms (Abramowitz and Stegun 1964, 7.1.6)."""
    a = np.minimum(np.abs(x), 7)
    term = total = a * np.exp(-a * a) * 2 / np.sqrt(np.arctan(x.dtype.type(1)) * 4)
    for n in range(1, 220):
        term = term * (2 * a * a / (2 * n + 1))
        total = total + term
    return np.copysign(total, x)


_REDUCED = "n = round(x / log 2), polynomial"
_EXPONENT = "x = m 2^n with m in [3/4, 3/2), polynomial"
_TURNS = "n = round(x / (pi / 2)), polynomials"
_HALVES = "polynomial below 1/2, that of sqrt((1 - x) / 2) beyond"
_ARC = "polynomial of x or 1 / x"
_POWER = "exp2(y log2 x), with log2 x in two parts"
_ASINH = "log1p(x + x^2 / (1 + sqrt(1 + x^2)))"
_ACOSH = "log1p(s + sqrt(s (s + 2))), s = x - 1"
_ATANH = "log1p(2 x / (1 - x)) / 2"
_NEAR = "f - (f^2 / 2 - s (f^2 / 2 + R(s^2))), s = f / (2 + f), x = (1 + f) 2^n"
FUNCTIONS = {
    "exp": Function(1.1, 1.1, -105, 90, _REDUCED),
    "exp2": Function(1.1, 1.3, -152, 129, _REDUCED),
    "expm1": Function(1.6, 1.6, -20, 90, _REDUCED),
    "log": Function(1.0, 1.1, 0, 4, _EXPONENT),
    "log2": Function(1.2, 1.5, 0, 4, _EXPONENT),
    "log10": Function(1.7, 1.7, 0, 4, _EXPONENT),
    "log1p": Function(1.1, 1.1, -1, 3, _EXPONENT),
    "sin": Function(1.4, 1.6, -6000, 6000, _TURNS),
    "cos": Function(1.4, 1.6, -6000, 6000, _TURNS),
    "tan": Function(1.3, 1.3, -6000, 6000, _TURNS),
    "asin": Function(1.3, 1.3, -1, 1, _HALVES),
    "acos": Function(1.3, 1.3, -1, 1, _HALVES),
    "atan": Function(1.4, 1.4, -8, 8, _ARC),
    "sinh": Function(1.7, 1.7, -90, 90, "polynomial below 1, exp"),
    "cosh": Function(1.6, 1.6, -90, 90, "exp"),
    "tanh": Function(1.4, 1.4, -10, 10, "polynomial below 0.625, exp"),
    "asinh": Function(2.0, 2.0, -50, 50, _ASINH, np.arcsinh),
    "acosh": Function(2.5, 2.5, 1, 50, _ACOSH, np.arccosh),
    "atanh": Function(2.2, 2.2, -1, 1, _ATANH, np.arctanh),
    "sigmoid": Function(1.8, 1.8, -105, 20, "1 / (1 + exp(-x))", _sigmoid),
    "erf": Function(1.3, 1.5, -5, 5, "polynomial below 0.93, 1 - exp of one beyond", _erf),
    "rsqrt": Function(1.5, 1.5, 0, 10, "1 / sqrt", lambda x: 1 / np.sqrt(x)),
    "pow": Function(1.1, 1.4, 0, 10, _POWER, np.power, (-40, 40)),
    "atan2": Function(1.6, 1.6, -8, 8, "polynomial of the quotient", np.arctan2, (-8, 8)),
    "fmod": Function(0.5, 0.5, -600, 600, "x - n y, exact", np.fmod, (-8, 8)),
}
DOUBLES = {
    "exp": Function(1.1, 1.1, -750, 715, _REDUCED),
    "exp2": Function(1.0, 1.3, -1080, 1030, _REDUCED),
    "expm1": Function(1.3, 1.3, -40, 715, _REDUCED),
    "log": Function(1.4, 1.4, 0, 4, _NEAR),
    "log2": Function(1.3, 1.5, 0, 4, _NEAR),
    "log10": Function(1.2, 1.2, 0, 4, _NEAR),
    "log1p": Function(1.3, 1.3, -1, 3, _NEAR),
    "sin": Function(0.9, 1.0, -1e6, 1e6, _TURNS),
    "cos": Function(0.9, 1.0, -1e6, 1e6, _TURNS),
    "tan": Function(1.2, 1.3, -1e6, 1e6, _TURNS),
    "asin": Function(1.2, 1.2, -1, 1, _HALVES),
    "acos": Function(1.2, 1.2, -1, 1, _HALVES),
    "atan": Function(1.6, 1.6, -8, 8, _ARC),
    "sinh": Function(1.7, 1.7, -715, 715, "polynomial below 1, exp"),
    "cosh": Function(1.6, 1.6, -715, 715, "exp"),
    "tanh": Function(1.4, 1.4, -20, 20, "quotient of polynomials below 0.625, exp"),
    "asinh": Function(2.0, 2.0, -50, 50, _ASINH, np.arcsinh),
    "acosh": Function(2.5, 2.5, 1, 50, _ACOSH, np.arccosh),
    "atanh": Function(2.2, 2.2, -1, 1, _ATANH, np.arctanh),
    "sigmoid": Function(1.7, 1.7, -750, 40, "exp, with the rounding of 1 + exp", _sigmoid),
    "erf": Function(1.3, 1.5, -6, 6, "polynomial below 1, 1 - exp of one beyond", _erf),
    "rsqrt": Function(1.5, 1.5, 0, 10, "1 / sqrt", lambda x: 1 / np.sqrt(x)),
    "pow": Function(1.1, 1.3, 0, 10, _POWER, np.power, (-40, 40)),
    "atan2": Function(1.7, 1.7, -8, 8, "polynomial of the quotient", np.arctan2, (-8, 8)),
    "fmod": Function(0.5, 0.5, -600, 600, "x - n y, exact", np.fmod, (-8, 8)),
}
TABLES = {"float32": FUNCTIONS, "float64": DOUBLES}
WIDER = {"float32": "float64", "float64": "longdouble"}
BITS = {"float32": np.uint32, "float64": np.uint64}


def arguments(name: str, count: int, dtype: str = "float32", seed: int = 7) -> list[np.ndarray]:
    """Arguments of a function, one array for each."""
    f, rng = TABLES[dtype][name], np.random.default_rng([seed, *name.encode()])
    kind = BITS[dtype]
    x = rng.integers(0, np.iinfo(kind).max, count, dtype=kind, endpoint=True).view(dtype)
    quarter = count // 4
    x[: 2 * quarter] = rng.uniform(f.low, f.high, 2 * quarter)
    x[2 * quarter : 3 * quarter] = rng.normal(size=quarter) * 2
    if name in ("sin", "cos", "tan"):  # the floats that are nearest to multiples of pi / 2
        turns = int(f.high / (np.pi / 2))
        x[:quarter] = rng.integers(-turns, turns, quarter) * (np.pi / 2)
    x[: len(SPECIAL)] = SPECIAL
    if f.second is None:
        return [x]
    y = rng.integers(0, np.iinfo(kind).max, count, dtype=kind, endpoint=True).view(dtype)
    y[: 2 * quarter] = rng.uniform(*f.second, 2 * quarter)
    y[2 * quarter : 3 * quarter] = rng.integers(-20, 20, quarter)
    pairs = np.array(np.meshgrid(SPECIAL, SPECIAL), dtype=dtype).reshape(2, -1)
    x[: pairs.shape[1]], y[: pairs.shape[1]] = pairs
    return [x, y]


def applied(name: str, count: int, arity: int, dtype: str) -> tuple[list[Any], Any]:
    """Tensors of arguments, and the tensor of the results of a function."""
    own = [te.placeholder((count,), dtype, name=f"x{n}_{name}") for n in range(arity)]
    function = getattr(te, name)
    return own, te.compute((count,), lambda i: function(*(x[i] for x in own)), name=name)


def program(count: int, lanes: int, dtype: str) -> tuple[Schedule, list[np.ndarray]]:
    """All functions of their arguments, on vectors or on scalars (1 lane), and those arguments."""
    tensors, outputs, arrays = [], [], []
    for name in TABLES[dtype]:
        given = arguments(name, count, dtype)
        own, out = applied(name, count, len(given), dtype)
        tensors, arrays, outputs = [*tensors, *own], [*arrays, *given], [*outputs, out]
    sch = Schedule(te.create_prim_func([*tensors, *outputs], name="functions"))
    for name in TABLES[dtype] if lanes > 1 else ():
        sch.vectorize(sch.split(sch.get_loops(name)[0], [None, lanes])[1])
    return sch, arrays


@cache
def results(count: int, march: str, lanes: int, dtype: str = "float32") -> dict[str, np.ndarray]:
    """The results of `program`, compiled for `march`."""
    sch, arrays = program(count, lanes, dtype)
    results = {name: np.zeros(count, dtype) for name in TABLES[dtype]}
    build(sch, f"c -march={march} -threads=1")(*arrays, *results.values())
    return results


def exact(name: str, given: list[np.ndarray]) -> np.ndarray:
    """The function in a wider type."""
    dtype = str(given[0].dtype)
    with np.errstate(all="ignore"):
        function = TABLES[dtype][name].exact or getattr(np, name)
        return np.asarray(function(*(x.astype(WIDER[dtype]) for x in given)))


def largest_error(name: str, given: list[np.ndarray], out: np.ndarray) -> tuple[float, Any]:
    """In units in the last place of the exact result rounded to its type, and for what arguments.

    It is inf where an infinity, a NaN or the sign of a zero is not that of the exact result.
    """
    wanted = exact(name, given)
    with np.errstate(all="ignore"):
        rounded = wanted.astype(out.dtype)
        off = (np.abs(out - wanted) / np.spacing(np.abs(rounded))).astype("float64")
    same = (out == rounded) & (np.signbit(out) == np.signbit(rounded))
    same |= np.isnan(out) & np.isnan(rounded)
    special = ~np.isfinite(rounded) | ((given[0] == 0) & (rounded == 0))
    off = np.where(special, np.where(same, 0, np.inf), off)
    off[np.isnan(off)] = np.inf
    at = int(off.argmax())
    return float(off[at]), [float(x[at]) for x in given]


HEAD = """\
# Accuracy of math functions

Written by `docs/generate_accuracy.py`; do not edit it. Errors are in units in the last place (ulp)
of the exact result rounded to its type, where 0.5 is the least that rounding leaves; for float32
the exact result is that of NumPy and SciPy in float64. Measured on {count} arguments of each
function (a quarter for float64): uniform in the range of the table, normal with deviation 2, all
bit patterns, and special values.

## float32

| function | range | error, FMA | error, no FMA | stated limit | method |
|---|---|---|---|---|---|
{rows}

Scalars and vectors of any width have the same bits on one machine, so a result does not depend on
whether an element lies in a vector or in a tail (a test compares them). The sources are
`backends/math/math_f32.py`, `backends/math/trig_f32.py` and `backends/math/per_lane_f32.py`. The
stated limits, with and (where they differ) without fused multiply-add, hold for subnormal
arguments and results too; infinities, NaN and signed zeros are exact. The tests assert the limits
on fewer arguments.

* The range reduction of exp and the polynomial of tanh are those of Cephes (S. Moshier).
  The reduction of sin, cos and tan is in four steps (Cody and Waite 1980). The other polynomials
  are minimax, or were fitted by iteratively reweighted least squares.
* pow has the special cases of C (C11 F.10.4.4): pow(1, y) and pow(x, 0) are 1 for NaN too.
* Arguments of sin, cos and tan beyond 6000 (10^6 in float64) go to the C library, lane by lane,
  behind a branch: a kernel that has none of them pays one comparison for it. So do arguments of
  fmod with such a quotient.
* GPUs have the same texts, with fused multiply-add. Arguments of sin, cos and tan beyond 6000 are
  computed in double precision there, those of float64 beyond 10^6 by CUDA's functions (2 ulp).
* sqrt, floor, ceil, trunc, rint and fabs are
  instructions, correctly rounded; round (ties away from zero), floordiv and floormod have NumPy's
  bits (a test compares them).

## float64

| function | range | error, FMA | error, no FMA | stated limit | method |
|---|---|---|---|---|---|
{doubles}

All that holds for float32 holds here; the exact result is NumPy's in long double (64 bits of
precision on x86), and for erf a series. The sources are `backends/math/math_f64.py` and
`backends/math/trig_f64.py`, and for both precisions `backends/math/inverse_trig.py`,
`backends/math/inverse_hyperbolic.py` and `backends/math/power.py`;
the polynomials of sin and cos are those of fdlibm.
"""


def rows(dtype: str, count: int) -> str:
    """The table of the functions of a type."""
    lines = []
    for name, f in TABLES[dtype].items():
        given = arguments(name, count, dtype)
        errors = [
            largest_error(
                name, given, results(count, march, size // given[0].itemsize, dtype)[name]
            )
            for march, size in (("native", 64), ("x86-64", 16))
        ]
        limits = f"{f.limit:g}" if f.limit == f.plain else f"{f.limit:g}; {f.plain:g}"
        span = f"[{f.low:g}, {f.high:g})"
        lines.append(
            f"| {name} | {span} | {errors[0][0]:.2f} | {errors[1][0]:.2f} | {limits} | {f.way} |"
        )
    return "\n".join(lines)


def page(count: int = COUNT) -> str:
    """The text of docs/accuracy.md."""
    return HEAD.format(
        count=count, rows=rows("float32", count), doubles=rows("float64", count // 4)
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
