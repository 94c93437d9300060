"""Functions of single elements: math, casts, limits, tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir import te
from tensorir.expr import Expr, Not, const
from tensorir.numbers.intrin import MATH
from tensorir.ops.arguments import check_float, check_tensor, number, require, wide
from tensorir.ops.registry import SPECIAL, Example, Fill, operator, uniform, values
from tensorir.te.tensor import Tensor


def map_elements(
    op: str, x: Tensor, f: Callable[[Expr], Expr], name: str, dtype: str | None = None
) -> Tensor:
    """`f` of every element, computed in float32 at least and stored as `dtype`, that of `x`."""
    check_tensor(op, "x", x)
    out = dtype or x.dtype
    return te.compute(x.shape, lambda *i: te.cast(f(wide(x[i])), out), name)  # type: ignore[no-any-return]


Unary = Callable[..., Tensor]


def _math(function: str, summary: str, data: Fill | None = None, label: str = "") -> Unary:
    """The operator of a row of tensorir.numbers.intrin.MATH."""
    label = label or function
    row = MATH[function]
    out = "bool" if row.result == "bool" else None

    def unary(x: Tensor, name: str = label) -> Tensor:
        check_float(label, "x", check_tensor(label, "x", x))
        return map_elements(label, x, lambda e: te.call(function, e), name, out)

    unary.__name__ = unary.__qualname__ = label
    unary.__doc__ = summary
    examples = [
        Example([(3, 5)], data=data),
        Example([(7,)], data=SPECIAL),
        Example([(2, 3)], dtypes="float16", data=data),
    ]
    return operator(reference=REFERENCES.get(function, row.numpy), examples=examples)(unary)


REFERENCES: dict[str, Any] = {
    "sigmoid": lambda x: 0.5 + 0.5 * np.tanh(0.5 * x),
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
}
"""References written apart from the table, whose functions the interpreter uses as well."""

POSITIVE = uniform(0.1, 4)
UNIT = uniform(-0.95, 0.95)

exp = _math("exp", "e to the power of x.")
exp2 = _math("exp2", "2 to the power of x.")
expm1 = _math("expm1", "exp(x) - 1, accurate near 0.")
log = _math("log", "The natural logarithm; NaN for negative numbers.", POSITIVE)
log2 = _math("log2", "The logarithm to the base 2.", POSITIVE)
log10 = _math("log10", "The logarithm to the base 10.", POSITIVE)
log1p = _math("log1p", "log(1 + x), accurate near 0.", POSITIVE)
sqrt = _math("sqrt", "The square root; NaN for negative numbers.", POSITIVE)
rsqrt = _math("rsqrt", "1 / sqrt(x).", POSITIVE)
sin = _math("sin", "The sine of x radians.")
cos = _math("cos", "The cosine of x radians.")
tan = _math("tan", "The tangent of x radians.", UNIT)
asin = _math("asin", "The angle in radians whose sine is x.", UNIT)
acos = _math("acos", "The angle in radians whose cosine is x.", UNIT)
atan = _math("atan", "The angle in radians whose tangent is x.")
sinh = _math("sinh", "The hyperbolic sine.")
cosh = _math("cosh", "The hyperbolic cosine.")
tanh = _math("tanh", "The hyperbolic tangent.")
asinh = _math("asinh", "The number whose hyperbolic sine is x.")
acosh = _math("acosh", "The number of at least 0 whose hyperbolic cosine is x.", uniform(1.1, 9))
atanh = _math("atanh", "The number whose hyperbolic tangent is x.", UNIT)
sigmoid = _math("sigmoid", "1 / (1 + exp(-x)), without overflow.")
erf = _math("erf", "The error function.")
floor = _math("floor", "The largest integer that is not greater.")
ceil = _math("ceil", "The smallest integer that is not less.")
trunc = _math("trunc", "The integer part: rounding towards zero.")
round = _math(
    "rint", "The nearest integer, the even one of two.", values(0.5, 1.5, -2.5, 0.4), "round"
)
isnan = _math("isnan", "Whether x is NaN, as bool.")
isinf = _math("isinf", "Whether x is infinite, as bool.")
isfinite = _math("isfinite", "Whether x is neither infinite nor NaN, as bool.")


@operator(
    reference=lambda x: MATH["popcount"].numpy(x),
    examples=[
        Example([(3, 5)], dtypes="int32"),
        Example([(9,)], dtypes="int8", data=values(-128, -1, 127)),
        Example([(4,)], dtypes="uint64"),
    ],
)
def bitwise_count(x: Tensor, name: str = "bitwise_count") -> Tensor:
    """The number of bits of integers that are set, in the type of x."""
    return map_elements("bitwise_count", x, te.popcount, name)


@operator(
    reference=np.abs,
    examples=[
        Example([(3, 5)]),
        Example([(7,)], data=SPECIAL),
        Example([(2, 5)], dtypes="int8"),
        Example([(4,)], dtypes="uint8"),
    ],
)
def abs(x: Tensor, name: str = "abs") -> Tensor:
    """The absolute value."""
    return map_elements("abs", x, te.abs, name)


@operator(
    reference=lambda x: 0 * x - x,
    examples=[Example([(3, 5)]), Example([(5,)], dtypes="int32"), Example([()])],
)
def negative(x: Tensor, name: str = "negative") -> Tensor:
    """-x; integers wrap."""
    return map_elements("negative", x, lambda e: -e, name)


@operator(
    reference=np.sign,
    examples=[
        Example([(3, 5)]),
        Example([(7,)], data=SPECIAL),
        Example([(9,)], dtypes="int16", data=values(-3, 0, 7)),
    ],
)
def sign(x: Tensor, name: str = "sign") -> Tensor:
    """-1, 0 or 1; NaN for NaN."""

    def element(e: Expr) -> Expr:
        one, zero = const(1, e.dtype), const(0, e.dtype)
        below = zero if dt.is_unsigned(e.dtype) else te.if_then_else(e < zero, -one, zero)
        found = te.if_then_else(e > zero, one, below)
        return te.if_then_else(te.isnan(e), e, found) if dt.is_float(e.dtype) else found

    return map_elements("sign", x, element, name)


@operator(
    reference=lambda x: x * x, examples=[Example([(3, 5)]), Example([(3, 4)], dtypes="int32")]
)
def square(x: Tensor, name: str = "square") -> Tensor:
    """x * x."""
    return map_elements("square", x, lambda e: e * e, name)


@operator(
    reference=lambda x: x**-1.0,
    examples=[Example([(3, 5)], data=uniform(0.5, 2)), Example([(7,)], data=SPECIAL)],
)
def reciprocal(x: Tensor, name: str = "reciprocal") -> Tensor:
    """1 / x."""
    check_float("reciprocal", "x", check_tensor("reciprocal", "x", x))
    return map_elements("reciprocal", x, lambda e: const(1.0, e.dtype) / e, name)


@operator(
    reference=np.logical_not,
    examples=[Example([(3, 2)], dtypes="bool", data=values(True, False, False))],
)
def logical_not(x: Tensor, name: str = "logical_not") -> Tensor:
    """Whether x, of type bool, is False."""
    check_tensor("logical_not", "x", x)
    require(dt.is_bool(x.dtype), "logical_not", f"x {x!r} is {x.dtype}, not bool; compare with 0")
    return te.compute(x.shape, lambda *i: Not(x[i]), name)  # type: ignore[no-any-return]


@operator(
    reference=lambda x, low=None, high=None: (
        np.minimum(np.maximum(x, x if low is None else low), x if high is None else high)
        if low is None
        else np.clip(x, low, high)
    ),
    examples=[
        Example([(3, 5)], {"low": -0.5, "high": 1.25}),
        Example([(3, 5)], {"high": 0.5}),
        Example([(7,)], {"low": -1.0, "high": 1.0}, data=SPECIAL),
        Example([(11,)], {"low": -3}, dtypes="int8"),
    ],
)
def clip(
    x: Tensor, low: float | None = None, high: float | None = None, name: str = "clip"
) -> Tensor:
    """`x` limited to [low, high]; None is no limit; NaN stays NaN."""
    require(low is not None or high is not None, "clip", "low and high are None; give one of them")
    if low is not None and high is not None:
        require(low <= high, "clip", f"low={low} is above high={high}; swap them")

    check_tensor("clip", "x", x)
    bottom, top = (None if v is None else number("clip", v, x.dtype) for v in (low, high))

    def element(e: Expr) -> Expr:
        e = e if bottom is None else te.maximum(e, bottom)
        return e if top is None else te.minimum(e, top)

    return map_elements("clip", x, element, name)


@operator(
    reference=lambda x, dtype: x.astype(float if "float" in dtype else dtype),
    examples=[
        Example([(3, 5)], {"dtype": "int32"}),
        Example([(3, 5)], {"dtype": "float16"}),
        Example([(2, 6)], {"dtype": "float32"}, dtypes="uint8"),
        Example([(4,)], {"dtype": "bool"}, data=values(0.0, 2.5)),
        Example([(4,)], {"dtype": "float64"}, dtypes="bfloat16"),
        Example([(0,)], {"dtype": "int8"}, dtypes="bool"),
    ],
)
def cast(x: Tensor, dtype: str, name: str = "cast") -> Tensor:
    """`x` converted to `dtype`; floats to integers truncate towards zero, as in C.

    NaN, and what the integer type cannot hold, become some integer: limit x with `clip` first.
    """
    dt.check_dtype(dtype)
    check_tensor("cast", "x", x)
    return te.compute(x.shape, lambda *i: te.cast(x[i], dtype), name)  # type: ignore[no-any-return]
