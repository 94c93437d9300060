"""Philox, random numbers by counter: its constants, and what it computes, in NumPy.

Philox4x32-10 and Philox4x64-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
as 1, 2, 3" (SC 2011): ten rounds of two multiplications make four random words of a counter of
four words and a key of two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

PHILOX_ROUNDS = 10

PHILOX_MULTIPLIERS = {
    "uint32": (0xD2511F53, 0xCD9E8D57),
    "uint64": (0xD2E7470EE14C6C93, 0xCA5A826395121157),
}
PHILOX_STEPS = {
    "uint32": (0x9E3779B9, 0xBB67AE85),
    "uint64": (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B),
}
"""What is added to the key after each round: the golden ratio, and the root of 3 minus 1."""


def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, word: Any) -> Any:
    """Word number `word`, modulo 4, that the counter c0 to c3 and the key k0, k1 give.

    All operands are of one type, uint32 or uint64, which says which generator it is.
    """
    kind = np.asarray(c0).dtype
    m0, m1 = map(kind.type, PHILOX_MULTIPLIERS[kind.name])
    s0, s1 = map(kind.type, PHILOX_STEPS[kind.name])
    with np.errstate(over="ignore"):
        for _ in range(PHILOX_ROUNDS):
            low0, low1 = c0 * m0, c2 * m1
            c0, c2 = _high(c2, m1) ^ c1 ^ k0, _high(c0, m0) ^ c3 ^ k1
            c1, c3 = low1, low0
            k0, k1 = k0 + s0, k1 + s1
    which = word & kind.type(3)
    return np.where(which < 2, np.where(which == 0, c0, c1), np.where(which == 2, c2, c3))


def _high(a: Any, b: Any) -> Any:
    """The upper half of the product."""
    if b.dtype.itemsize == 4:
        return (np.uint64(b) * a >> np.uint64(32)).astype(np.uint32)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    cross = (a >> half) * (b & low) + ((a & low) * (b & low) >> half)
    middle = (a & low) * (b >> half) + (cross & low)
    return (a >> half) * (b >> half) + (cross >> half) + (middle >> half)
