"""Scalar functions of tensor expressions: math, casts, conditions, constants, integer division."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir.errors import TensorIRError
from tensorir.expr import (
    Call,
    Const,
    Expr,
    ExprLike,
    all_of,
    binary,
    const,
    convert,
    int_value,
    maximum,
    minimum,
    select,
)
from tensorir.expr import cast as _cast
from tensorir.numbers.intrin import MATH, REINTERPRET
from tensorir.te.promotion import call
from tensorir.te.whole import elementwise


def _function(name: str) -> Callable[..., Expr]:
    def function(*args: ExprLike) -> Expr:
        return call(name, *args)

    row = MATH[name]
    kinds = " or ".join(row.kinds)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} of {row.arity} {kinds} operand(s), elementwise."
    return elementwise(function)


FUNCTIONS = {name: _function(name) for name in MATH}


@elementwise
def pow(x: ExprLike, y: ExprLike) -> Expr:
    """`x` to the power `y`, as `**`.

    Integers wrap. A constant negative power of integers is refused; where `y` turns out negative
    the value is rounded towards zero, and 0 to a negative power is 0. Constant powers of floats up
    to 3 are products, and 0.5 is the square root.
    """
    base, exponent = _pair(x, y)
    return base**exponent


@elementwise
def abs(x: ExprLike) -> Expr:
    """The absolute value; of the smallest signed integer it is that integer, as in C."""
    value = convert(x)
    if dt.is_float(value.dtype):
        return call("fabs", value)
    return value if dt.is_unsigned(value.dtype) else maximum(value, -value)


@elementwise
def clip(x: ExprLike, low: ExprLike, high: ExprLike) -> Expr:
    """`x` limited to [low, high]; NaN stays NaN."""
    return minimum(maximum(convert(x), low), high)


@elementwise
def cast(value: ExprLike, dtype: str) -> Expr:
    """`value` converted to `dtype`; floats to integers truncate towards zero, as in C.

    NaN, and what the integer type cannot hold, become some integer, which one differs between
    machines and between vectors and scalars: limit the value with `clip` first.
    """
    return _cast(dtype, value)


@elementwise
def if_then_else(cond: ExprLike, then: ExprLike, orelse: ExprLike) -> Expr:
    """`then` where `cond` holds, else `orelse`. The other side is not evaluated.

    So it may read outside of a tensor: padding is if_then_else(i < n, A[i], 0.0).
    """
    return select(cond, then, orelse)


@elementwise
def floordiv(a: ExprLike, b: ExprLike) -> Expr:
    """Division rounding down, of integers and floats, as np.floor_divide."""
    return binary("//", a, b)


@elementwise
def floormod(a: ExprLike, b: ExprLike) -> Expr:
    """The remainder of floordiv; it has the sign of `b`, as np.remainder."""
    return binary("%", a, b)


@elementwise
def ceildiv(a: ExprLike, b: ExprLike) -> Expr:
    """Integer division rounding up, for positive `b`."""
    x, y = _pair(a, b)
    return binary("//", x + (y - 1), y)


@elementwise
def truncdiv(a: ExprLike, b: ExprLike) -> Expr:
    """Integer division rounding towards zero, as in C."""
    x, y = _pair(a, b)
    if dt.is_unsigned(x.dtype):
        return x // y
    up = _upwards(x, y)
    if up is not None:
        return (x + up) // y
    return select(_rounds_down(x, y), x // y + 1, x // y)


@elementwise
def truncmod(a: ExprLike, b: ExprLike) -> Expr:
    """The remainder of truncdiv; it has the sign of `a`, as C's %."""
    x, y = _pair(a, b)
    if dt.is_unsigned(x.dtype):
        return x % y
    up = _upwards(x, y)
    if up is not None:
        return (x + up) % y - up
    return select(_rounds_down(x, y), x % y - y, x % y)


def _upwards(x: Expr, y: Expr) -> Expr | None:
    """What makes (x + that) // y round towards zero, for a positive constant `y`."""
    divisor = int_value(y)
    if divisor is None or divisor <= 0:
        return None
    return select(x < 0, const(divisor - 1, x.dtype), const(0, x.dtype))


def _rounds_down(x: Expr, y: Expr) -> Expr:
    """Whether x // y is less than the quotient."""
    return all_of((x < 0) != (y < 0), x % y != 0)


def _pair(a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    x = convert(a, b.dtype if isinstance(b, Expr) else None)
    return x, convert(b, x.dtype)


@elementwise
def reinterpret(dtype: str, value: ExprLike) -> Expr:
    """The bits of `value` as a number of `dtype`, a type of as many bits."""
    e = convert(value)
    e = cast(e, e.dtype)  # a narrow float that is still to be rounded
    kinds = (dt.check_dtype(dtype), e.dtype)
    if "bool" in kinds or dt.bits(dtype) != dt.bits(e.dtype):
        raise TensorIRError(
            f"{e!r} of type {e.dtype} has no bits for {dtype}; reinterpret between types of equal "
            "size, bool excepted, or convert it with .astype"
        )
    return e if dtype == e.dtype else Call(REINTERPRET, (e,), dtype)


def min_value(dtype: str) -> Const:
    """The smallest finite value of `dtype`."""
    return const(_finite(dtype, -1), dtype)


def max_value(dtype: str) -> Const:
    """The largest finite value of `dtype`."""
    return const(_finite(dtype, 1), dtype)


def _finite(dtype: str, sign: int) -> Any:
    if not dt.is_float(dt.check_dtype(dtype)):
        return dt.int_limits(dtype)[sign > 0]
    if dtype == "bfloat16":
        return sign * (2.0 - 2.0**-7) * 2.0**127
    return sign * float(np.finfo(dtype).max)


def infinity(dtype: str = "float32") -> Const:
    """Positive infinity; `-te.infinity()` is the negative one."""
    if not dt.is_float(dt.check_dtype(dtype)):
        raise TensorIRError(f"{dtype} has no infinity; use te.max_value({dtype!r})")
    return Const(float("inf"), dtype)
