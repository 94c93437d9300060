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
    binary,
    const,
    convert,
    maximum,
    minimum,
    select,
)
from tensorir.expr import cast as _cast
from tensorir.intrin import MATH


def call(name: str, *args: ExprLike) -> Expr:
    """The function `name` of tensorir.intrin; its operands are float32 or float64 of one type."""
    function = MATH[name]
    if len(args) != function.arity:
        raise TensorIRError(f"{name} takes {function.arity} operands, not {len(args)}")
    like = next((a.dtype for a in args if isinstance(a, Expr)), "float32")
    exprs = tuple(convert(a, like) for a in args)
    for e in exprs:
        if e.dtype in dt.STORAGE_ONLY:
            raise TensorIRError(
                f"{e.dtype} is a storage type; compute in float32: "
                f".astype('float32') before {name!r}"
            )
        if not dt.is_float(e.dtype):
            raise TensorIRError(f"{name} needs floats, not {e.dtype}; use .astype('float32')")
        if e.dtype != exprs[0].dtype:
            raise TensorIRError(
                f"operands of {name} have dtypes {exprs[0].dtype} and {e.dtype}; "
                "convert one with .astype(...)"
            )
    return Call(name, exprs, "bool" if function.result == "bool" else exprs[0].dtype)


def _function(name: str) -> Callable[..., Expr]:
    def function(*args: ExprLike) -> Expr:
        return call(name, *args)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} of {MATH[name].arity} float operand(s), elementwise."
    return function


FUNCTIONS = {name: _function(name) for name in MATH}


def abs(x: ExprLike) -> Expr:
    """The absolute value; of the smallest signed integer it is that integer, as in C."""
    value = convert(x)
    if dt.is_float(value.dtype):
        return call("fabs", value)
    return value if dt.is_unsigned(value.dtype) else maximum(value, -value)


def clip(x: ExprLike, low: ExprLike, high: ExprLike) -> Expr:
    """`x` limited to [low, high]; NaN stays NaN."""
    return minimum(maximum(convert(x), low), high)


def cast(value: ExprLike, dtype: str) -> Expr:
    """`value` converted to `dtype`; floats to integers truncate towards zero, as in C.

    NaN, and what the integer type cannot hold, become some integer, which one differs between
    machines and between vectors and scalars: limit the value with `clip` first.
    """
    return _cast(dtype, value)


def if_then_else(cond: ExprLike, then: ExprLike, orelse: ExprLike) -> Expr:
    """`then` where `cond` holds, else `orelse`. The other side is not evaluated.

    So it may read outside of a tensor: padding is if_then_else(i < n, A[i], 0.0).
    """
    return select(cond, then, orelse)


def floordiv(a: ExprLike, b: ExprLike) -> Expr:
    """Integer division rounding down, as Python's //."""
    return binary("//", a, b)


def floormod(a: ExprLike, b: ExprLike) -> Expr:
    """The remainder of floordiv; it has the sign of `b`."""
    return binary("%", a, b)


def ceildiv(a: ExprLike, b: ExprLike) -> Expr:
    """Integer division rounding up, for positive `b`."""
    x, y = _pair(a, b)
    return binary("//", x + (y - 1), y)


def truncdiv(a: ExprLike, b: ExprLike) -> Expr:
    """Integer division rounding towards zero, as in C."""
    x, y = _pair(a, b)
    if dt.is_unsigned(x.dtype):
        return x // y
    return select(binary("==", x < 0, y < 0), x // y, -((-x) // y))


def truncmod(a: ExprLike, b: ExprLike) -> Expr:
    """The remainder of truncdiv; it has the sign of `a`, as C's %."""
    x, y = _pair(a, b)
    return x - truncdiv(x, y) * y


def _pair(a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    x = convert(a, b.dtype if isinstance(b, Expr) else None)
    return x, convert(b, x.dtype)


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
