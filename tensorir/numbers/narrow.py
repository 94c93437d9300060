"""narrowed: a double as the nearest number of a narrower floating-point type."""

from __future__ import annotations

import math

FORMATS = {
    "float64": (52, 1023),
    "float32": (23, 127),
    "float16": (10, 15),
    "bfloat16": (7, 127),
}
"""Bits of the mantissa after the leading one, and the exponent of the largest number."""


def narrowed(value: float, dtype: str) -> float:
    """The number of `dtype` nearest to `value`, ties to even; infinite beyond the largest.

    It is rounded once: by way of float32, as conversions of arrays to bfloat16 go, a number a
    little above the middle of two would become the middle, and that the wrong one of them.
    """
    if dtype == "float64" or not math.isfinite(value) or value == 0.0:
        return value
    mantissa, top = FORMATS[dtype]
    exponent = math.frexp(value)[1] - 1
    if exponent > top:
        return math.copysign(math.inf, value)
    step = max(exponent, 1 - top) - mantissa  # numbers near zero have the distance of the least
    found = math.ldexp(float(round(math.ldexp(value, -step))), step)
    if abs(found) >= math.ldexp(1.0, top + 1):
        return math.copysign(math.inf, value)
    return math.copysign(found, value)
