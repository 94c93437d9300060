"""Vectors as expressions: of a number that grows, of equal values, of lanes of others.

Only lowered programs have them. Like all nodes (`expr.py`) they are immutable and interned.
"""

from __future__ import annotations

from tensorir import dtype as dt
from tensorir.expr import Compound, Expr
from tensorir.interning import intern


class Ramp(Compound):
    """The integer vector base, base + stride, ..., base + (lanes - 1) * stride."""

    __slots__ = ("base", "lanes", "stride")
    fields = ("base", "stride", "lanes")
    base: Expr
    stride: Expr
    lanes: int

    def __new__(cls, base: Expr, stride: Expr, lanes: int) -> "Ramp":
        dtype = dt.with_lanes(base.dtype, lanes)
        values = (base, stride, lanes)
        return intern(cls, (cls, *values), dtype, values, (base, stride))  # type: ignore[no-any-return]


class Broadcast(Compound):
    """A vector of `lanes` copies of a scalar."""

    __slots__ = ("a", "lanes")
    fields = ("a", "lanes")
    a: Expr
    lanes: int

    def __new__(cls, a: Expr, lanes: int) -> "Broadcast":
        dtype = dt.with_lanes(a.dtype, lanes)
        return intern(cls, (cls, a, lanes), dtype, (a, lanes), (a,))  # type: ignore[no-any-return]


class Shuffle(Compound):
    """The vector whose lane n is number `indices[n]` of the lanes of `a`, then those of `b`."""

    __slots__ = ("a", "b", "indices")
    fields = ("a", "b", "indices")
    a: Expr
    b: Expr
    indices: tuple[int, ...]

    def __new__(cls, a: Expr, b: Expr, indices: tuple[int, ...]) -> "Shuffle":
        dtype = dt.with_lanes(a.dtype, len(indices))
        key = (cls, a, b, indices)
        return intern(cls, key, dtype, (a, b, indices), (a, b))  # type: ignore[no-any-return]
