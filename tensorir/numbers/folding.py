"""Arithmetic on constants, as compiled programs do it."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir.numbers.operators import COMPARISONS, LOGICAL

FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b else None,
    "%": lambda a, b: a % b if b else None,
    "min": min,
    "max": max,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b if 0 <= b < 64 else 0,
    ">>": lambda a, b: a >> b if 0 <= b < 64 else -(a < 0),
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
}
"""From an operator to its value on integers or bools, before wrapping; None where it has none."""


def rounded(value: float, dtype: str) -> float:
    """The nearest number of a floating-point type, as conversions of double precision have it."""
    kind = dt.element(dtype)
    if kind == "float64":
        return value
    if kind == "float16":
        with np.errstate(over="ignore"):
            return float(np.float16(value))
    single = ctypes.c_float(value)
    if kind == "float32" or not math.isfinite(single.value):
        return single.value
    bits = ctypes.c_uint32.from_buffer(single)
    bits.value += 0x7FFF + (bits.value >> 16 & 1)
    bits.value &= 0xFFFF0000
    return single.value


def wrap(value: int, dtype: str) -> int:
    """`value` reduced to the range of an integer type, as two's complement arithmetic does."""
    low, high = dt.int_limits(dtype)
    return value if low <= value <= high else (value - low) % (high - low + 1) + low


def fold(op: str, a: Any, b: Any, dtype: str) -> int | bool | None:
    """The value of `a op b` on integers of `dtype`, wrapped, or on bools; None where it has none.

    It is a bool exactly for comparisons and logic.
    """
    value = FOLD[op](a, b)
    if value is None:
        return None
    return bool(value) if op in COMPARISONS or op in LOGICAL else wrap(int(value), dtype)


def fold_cast(value: int | float | bool, source: str, dtype: str) -> int | float | bool | None:
    """`value`, of type `source`, converted to `dtype`; None where that is left to the target.

    That is rounding, and a float outside of an integer type, undefined in C.
    """
    if dt.is_bool(dtype):
        return bool(value)
    if not math.isfinite(value):
        return float(value) if dt.is_float(dtype) else None
    if dt.is_float(dtype):
        exact = dt.is_float(source) and rounded(value, dtype) == value
        return float(value) if exact or value == int(value) and abs(value) <= 2**11 else None
    wrapped = wrap(int(value), dtype)
    return None if dt.is_float(source) and wrapped != int(value) else wrapped
