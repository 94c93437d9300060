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


def is_exact(op: str, a: Array, b: Array, value: Array) -> Array:
    """Where the float64 `value` is `a op b` itself: Knuth's error of a sum, Dekker's of a product.

    Where these overflow or lose digits it is taken for rounded, as is all but + - * and /.
    """
    if op in ("+", "-"):
        other = b if op == "+" else -b
        part = value - a
        return np.asarray((a - (value - part)) + (other - part) == 0)
    if op == "*":
        return np.asarray((_product_error(a, b, value) == 0) & _has_room(a, b, value))
    if op == "/":
        back = value * b
        same = (back == a) & (_product_error(value, b, back) == 0)
        return np.asarray(same & _has_room(value, b, a))
    return np.zeros(np.shape(value), bool)


def _has_room(*values: Array) -> Array:
    """Where no digits of products are lost at either end of the range; zero has none to lose."""
    sizes = [np.abs(v) for v in values]
    room = np.ones((), bool)
    for size in sizes:
        room = room & ((size == 0) | (size > 2.0**-400)) & (size < 2.0**400)
    return np.asarray(room)


def _product_error(a: Array, b: Array, product: Array) -> Array:
    (high, low), (top, rest) = _halves(a), _halves(b)
    return np.asarray(low * rest - (((product - high * top) - low * top) - high * rest))


def _halves(a: Array) -> tuple[Array, Array]:
    """Two numbers of 26 bits of which `a` is the sum (Veltkamp)."""
    moved = a * 134217729.0
    high = moved - (moved - a)
    return high, a - high
