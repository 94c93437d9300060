"""Literals: constants as C and CUDA write them, exact to the last bit."""

from __future__ import annotations

import math
import struct

import numpy as np

from tensorir import dtype as dt

_SUFFIX = {"uint32": "U", "uint64": "ULL"}
_INT32 = dt.int_limits("int32")


def literal(value: int | float | bool, dtype: str) -> str:
    """`value` as a constant of the scalar type `dtype`; storage floats by their bits.

    A negative constant has no parentheses around it.
    """
    if dt.is_bool(dtype):
        return "1" if value else "0"
    if dtype in dt.STORAGE_ONLY:
        return f"{half_bits(float(value), dtype):#06x} /* {float(value)!r} */"
    if dt.is_float(dtype):
        return _float(float(value), dtype)
    return _int(int(value), dtype)


def _int(value: int, dtype: str) -> str:
    if value == dt.int_limits("int64")[0]:
        return "-0x7fffffffffffffffLL - 1"
    if value == _INT32[0]:
        return "-0x7fffffff - 1"
    suffix = _SUFFIX.get(dtype, "")
    if not suffix and not _INT32[0] <= value <= _INT32[1]:
        suffix = "LL"
    return f"{value}{suffix}"


def _float(value: float, dtype: str) -> str:
    single = dtype == "float32"
    if math.isnan(value):
        return '__builtin_nanf("")' if single else '__builtin_nan("")'
    with np.errstate(over="ignore"):
        rounded = np.float32(value) if single else np.float64(value)
    if np.isinf(rounded):
        sign = "-" if value < 0 else ""
        return f"{sign}__builtin_inf{'f' if single else ''}()"
    text = str(rounded)  # the shortest decimal that reads back as the same number
    return f"{text}f" if single else text


def half_bits(value: float, dtype: str) -> int:
    """The 16 bits of `value` rounded to float16 or bfloat16."""
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return int(np.float16(value).view(np.uint16))
    with np.errstate(over="ignore"):
        single = np.float32(value)
    (bits,) = struct.unpack("<I", struct.pack("<f", single))
    if math.isnan(value):
        return int(bits >> 16 | 0x40)
    return int((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
