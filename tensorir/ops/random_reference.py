"""The references of random numbers: NumPy only, no expressions, Philox4x32-10 written apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def _words(seed: Array, shape: Any, stream: int, offset: int) -> list[Array]:
    """Four words of 32 bits, held in uint64, for each element."""
    place = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape) + np.uint64(offset)
    flow = np.full(shape, stream, np.uint64)
    c = [place & LOW, place >> HALF, flow & LOW, flow >> HALF]
    key = int(np.asarray(seed).reshape(()))
    k0, k1 = key % 2**32, key >> 32
    for _ in range(10):
        p, q = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [q >> HALF ^ c[1] ^ np.uint64(k0), q & LOW, p >> HALF ^ c[3] ^ np.uint64(k1), p & LOW]
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c


def _upper(low: Array, high: Array, bits: int) -> Array:
    """The upper bits of two words."""
    return (high << HALF | low) >> np.uint64(64 - bits)


def uniform(
    seed: Array, shape: Any, dtype: str = "float32", stream: int = 0, offset: int = 0
) -> Array:
    a, b, *_ = _words(seed, shape, stream, offset)
    if dtype == "float32":
        return (a >> np.uint64(8)) / 2.0**24
    return _upper(a, b, 53) / 2.0**53


def normal(
    seed: Array, shape: Any, dtype: str = "float32", stream: int = 0, offset: int = 0
) -> Array:
    a, b, c, d = _words(seed, shape, stream, offset)
    if dtype == "float32":
        u = (a | np.uint64(1)).astype(np.float32).astype(np.float64) / 2.0**32
        v = (b >> np.uint64(8)) / 2.0**24
    else:
        u, v = (_upper(a, b, 53) + np.uint64(1)) / 2.0**53, _upper(c, d, 53) / 2.0**53
    return np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)


def integers(
    seed: Array,
    shape: Any,
    low: int,
    high: int,
    dtype: str = "int64",
    stream: int = 0,
    offset: int = 0,
) -> Array:
    a, b, *_ = _words(seed, shape, stream, offset)
    whole = (b << HALF | a).astype(object) * (high - low)
    return (whole // 2**64 + low).astype(dtype)


def dropout(x: Array, seed: Array, p: float = 0.5, stream: int = 0, offset: int = 0) -> Array:
    kept = uniform(seed, x.shape, "float32", stream, offset) >= p
    return np.where(kept, x / (1 - p) if p < 1 else 0.0, 0.0)
