"""How far a sum of floats may be off, in any order of summation, for the numbers it is made of.

An addition rounds by at most u |a + b|, and by no more than its smaller operand. In a tree of
additions, take the m terms of magnitude above u S for large, S being the sum of all magnitudes. At
most m - 1 additions have large terms on both sides, and round by u S each. Where one side has none,
the error is at most that side, and these sides have no term in common. So the error is at most the
sum of min(u S, |term|) over all terms, up to factors 1 + 2 n u for errors of the parts (m - 1 <= m
leaves room for one more rounding). That never exceeds the n u S of Higham (Accuracy and Stability
of Numerical Algorithms, section 4.2; Jeannerod and Rump, SIAM J. Matrix Anal. Appl. 34, 2013), and
does not grow with terms that are zero or small. Terms that are multiples of one number add without
any rounding as long as the type has room for their sum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorir.arrays import decode, encode
from tensorir.reference.exact import Array

DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""Bits of the significands."""

FINEST = 30
"""Multiples of 2**-FINEST are recognised as such."""

SOME = 1024


def any_order(count: int, u: float) -> float:
    """The error of a sum of `count` products in any order, relative to the sum of magnitudes."""
    return (count + 2) * u * (1.0 + 2.0**-10)  # sums of float16 are rounded twice


def sum_error(sizes: Array, axes: tuple[int, ...], count: int, u: float) -> Array:
    """The error of sums along `axes` of terms of magnitudes `sizes`, the axes kept.

    Where `sizes` has a part of the `count` terms only, the parts of the error add up.
    """
    whole = sizes.sum(axis=axes, keepdims=True)
    linear = np.where(whole == 0, 0.0, any_order(count, u) * whole)
    if math.prod(sizes.shape[d] for d in axes) < count or not np.isfinite(whole).all():
        return np.asarray(linear)
    slack = 1.0 + 4.0 * (count + 2) * u
    capped = np.minimum(sizes, u * whole).sum(axis=axes, keepdims=True)
    return np.asarray(np.minimum(linear, slack * (capped + u * whole)))


def grid(values: Array) -> int:
    """A small k such that all values are multiples of 2**-k; more than FINEST where none is."""
    k = 0
    for part in (values.ravel()[:SOME], values):  # a few tell most
        finite = part[np.isfinite(part)]
        while k <= FINEST and not np.array_equal(scaled := np.ldexp(finite, k), np.rint(scaled)):
            k += 3
    return k


def multiples(whole: Array, k: int, dtype: str) -> Array:
    """Where sums of terms that are multiples of 2**-k, `whole` in magnitude together, are exact."""
    if k > FINEST:
        return np.zeros(np.shape(whole), bool)
    return np.asarray(np.ldexp(whole, k) <= 2.0 ** DIGITS[dtype])


def representable(values: Any, dtype: str) -> Array:
    """Which values a type holds without rounding."""
    with np.errstate(all="ignore"):
        return np.asarray(decode(encode(values, dtype), dtype) == values)
