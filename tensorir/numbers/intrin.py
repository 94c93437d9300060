"""Math functions: each row has its NumPy meaning; backends translate the names.

Public as te.exp, te.sqrt, ...; an unknown name is refused where it is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir.numbers.philox import philox


@dataclass(frozen=True)
class MathFunction:
    """`numpy` computes the result from arrays of one type; `result` is "same" or "bool".

    `kinds` are those of the types that it takes: "float" (float32, float64), "int" (all of them),
    or types by name.
    """

    name: str
    arity: int
    numpy: Callable[..., Any]
    result: str = "same"
    kinds: tuple[str, ...] = ("float",)

    def takes(self, dtype: str) -> bool:
        """Whether operands may be of that type, float16 and bfloat16 by way of float32."""
        kind = "float" if dt.is_float(dtype) else "int" if dt.is_int(dtype) else "bool"
        return kind in self.kinds or dt.element(dtype) in self.kinds

    def result_of(self, dtype: str) -> str:
        """The type of what it gives for operands of that type."""
        return dtype if self.result == "same" else dt.with_lanes(self.result, dt.lanes(dtype))

    @property
    def example(self) -> str:
        """A type that it takes."""
        return {"float": "float32", "int": "int32"}.get(self.kinds[0], self.kinds[0])


_erf = np.frompyfunc(math.erf, 1, 1)


def _sigmoid(x: Any) -> Any:
    # Two branches so that exp never overflows; same value as 1 / (1 + exp(-x)).
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _round(x: Any) -> Any:
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole), x)


def _pow(x: Any, y: Any) -> Any:
    if np.issubdtype(np.asarray(x).dtype, np.floating):
        return np.power(x, y)
    x, y = np.asarray(x), np.asarray(y)
    parity = 1 - 2 * (y & 1)  # of -1; what is no integer counts as 0, and so does 1 / 0
    fraction = np.where(x == 1, 1, np.where(x == -1, parity, 0))
    return np.where(y < 0, fraction, np.power(x, np.maximum(y, 0))).astype(x.dtype)


def _popcount(x: Any) -> Any:
    x = np.asarray(x)
    bits = x.view(f"u{x.itemsize}")
    one = bits.dtype.type(1)
    return sum((bits >> bits.dtype.type(n)) & one for n in range(8 * x.itemsize)).astype(x.dtype)


_ROWS = [
    *(
        MathFunction(name, 1, getattr(np, name))
        for name in (
            "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh floor ceil trunc"
        ).split()
    ),
    MathFunction("asin", 1, np.arcsin),
    MathFunction("acos", 1, np.arccos),
    MathFunction("atan", 1, np.arctan),
    MathFunction("asinh", 1, np.arcsinh),
    MathFunction("acosh", 1, np.arccosh),
    MathFunction("atanh", 1, np.arctanh),
    MathFunction("rint", 1, np.rint),  # to nearest, ties to even
    MathFunction("round", 1, _round),  # to nearest, ties away from zero
    MathFunction("fabs", 1, np.abs),
    MathFunction("rsqrt", 1, lambda x: 1 / np.sqrt(x)),
    MathFunction("sigmoid", 1, _sigmoid),
    MathFunction("erf", 1, lambda x: np.asarray(_erf(x), dtype=np.asarray(x).dtype)),
    MathFunction("pow", 2, _pow, kinds=("float", "int")),
    MathFunction("atan2", 2, np.arctan2),
    MathFunction("fmod", 2, np.fmod),
    MathFunction("floordiv", 2, np.floor_divide),
    MathFunction("floormod", 2, np.remainder),
    MathFunction("popcount", 1, _popcount, kinds=("int",)),
    MathFunction("philox", 7, philox, kinds=("uint32", "uint64")),
    MathFunction("isnan", 1, np.isnan, "bool"),
    MathFunction("isinf", 1, np.isinf, "bool"),
    MathFunction("isfinite", 1, np.isfinite, "bool"),
]

MATH: dict[str, MathFunction] = {row.name: row for row in _ROWS}


def no_such_function(name: object) -> str:
    """What is said of the name of a function that is none of MATH."""
    return f"there is no math function {name!r}; there are {', '.join(MATH)}"


REINTERPRET = "reinterpret"
"""The call that gives the bits of its operand as a number of its own type, of equal size."""
