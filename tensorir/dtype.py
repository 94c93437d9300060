"""Data types: plain strings, with an optional number of vector lanes ("float32", "float32x16").

Integers wrap as in C and NumPy. float16 and bfloat16 are storage types: values are cast to
float32 before arithmetic. NumPy has no bfloat16, so its arrays are uint16 holding the bits.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from tensorir.errors import TensorIRError

INDEX = "int64"
"""The type of loop variables, block variables and shapes; backends narrow it where they can."""

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
STORAGE_ONLY = ("float16", "bfloat16")
SCALARS = ("bool", *SIGNED, *UNSIGNED, *FLOATS)

SHORT = {
    **{d: d.replace("uint", "u").replace("int", "i") for d in SIGNED + UNSIGNED},
    "bool": "bool",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
}
"""Names used in printed programs."""

LONG = {short: name for name, short in SHORT.items()}


def check_dtype(dtype: str) -> str:
    """Return `dtype` if it names a scalar type, else raise TensorIRError listing the types."""
    if not isinstance(dtype, str) or dtype not in SCALARS:
        raise TensorIRError(f"unknown dtype {dtype!r}; known are {', '.join(SCALARS)}")
    return dtype


@cache
def element(dtype: str) -> str:
    """The scalar type of a vector type: element("float32x16") == "float32"."""
    head, _, tail = dtype.rpartition("x")
    return head if head in SCALARS and tail.isdigit() else dtype


@cache
def lanes(dtype: str) -> int:
    """The number of vector lanes; 1 for a scalar type."""
    base = element(dtype)
    return 1 if base == dtype else int(dtype[len(base) + 1 :])


@cache
def with_lanes(dtype: str, count: int) -> str:
    """`dtype` with `count` lanes in place of its own."""
    base = element(dtype)
    return base if count == 1 else f"{base}x{count}"


@cache
def bits(dtype: str) -> int:
    """Bits of one element in memory; a bool takes a byte."""
    base = element(dtype)
    if base == "bool":
        return 8
    return int(base.lstrip("bfloatuin"))


def itemsize(dtype: str) -> int:
    """Bytes of one value, lanes included."""
    return bits(dtype) // 8 * lanes(dtype)


@cache
def is_float(dtype: str) -> bool:
    return element(dtype) in FLOATS


@cache
def is_int(dtype: str) -> bool:
    """Signed or unsigned integer (bool is neither)."""
    return element(dtype) in SIGNED or element(dtype) in UNSIGNED


@cache
def is_unsigned(dtype: str) -> bool:
    return element(dtype) in UNSIGNED


@cache
def is_bool(dtype: str) -> bool:
    return element(dtype) == "bool"


@cache
def numpy_dtype(dtype: str) -> np.dtype:
    """The NumPy type of an array that holds this type; bfloat16 is held as uint16."""
    base = element(dtype)
    return np.dtype("uint16" if base == "bfloat16" else base)


@cache
def int_limits(dtype: str) -> tuple[int, int]:
    """Smallest and largest value of an integer or bool type."""
    base = element(dtype)
    if base == "bool":
        return 0, 1
    width = bits(base)
    if is_unsigned(base):
        return 0, (1 << width) - 1
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def holds(wide: str, narrow: str) -> bool:
    """Whether all values of a type are values of another one of its kind, floats or integers: what
    is converted there comes back as it was."""
    if lanes(wide) != lanes(narrow) or is_float(wide) != is_float(narrow):
        return False
    if is_float(wide):
        return bits(wide) > bits(narrow)
    (low, high), (least, most) = int_limits(wide), int_limits(narrow)
    return low <= least and most <= high


def lowest(dtype: str) -> int | float:
    """The identity of max: -inf for floats, the smallest value for integers."""
    return float("-inf") if is_float(dtype) else int_limits(dtype)[0]


def highest(dtype: str) -> int | float:
    """The identity of min: +inf for floats, the largest value for integers."""
    return float("inf") if is_float(dtype) else int_limits(dtype)[1]
