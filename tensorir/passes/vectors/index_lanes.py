"""Indices of all lanes of a vector: ramps where they lie at one distance.

What is asked of them is asked in narrow integers, since lanes are few and remainders small.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.expr import (
    BinOp,
    Cast,
    Const,
    Expr,
    binary,
    cast,
    const,
    int_value,
    maximum,
    minimum,
    select,
)
from tensorir.vector_expr import Broadcast, Ramp

MOST_BITS = 512
"""Of a vector: what its lanes are counted in need not be wider than so many bits by the lanes."""


@dataclass(frozen=True)
class Remainder:
    """`lanes`: what the divisor leaves of the index of each lane, as narrow integers."""

    lanes: Expr
    divisor: int


def combined(op: str, a: Expr, b: Expr, count: int, analyzer: Analyzer) -> Expr | None:
    """`a op b` of indices as a ramp, or as a scalar; None where it is neither."""
    if op in ("+", "-") and _regular(a) and _regular(b):
        base, stride = (binary(op, x, y) for x, y in zip(_parts(a), _parts(b)))
        return Ramp(base, stride, count) if int_value(stride) != 0 else base
    if op == "*" and isinstance(a, Ramp) and dt.lanes(b.dtype) == 1:
        return Ramp(a.base * b, a.stride * b, count)
    if op == "*" and isinstance(b, Ramp) and dt.lanes(a.dtype) == 1:
        return Ramp(b.base * a, b.stride * a, count)
    divisor = int_value(b)
    if op in ("//", "%") and isinstance(a, Ramp) and divisor and divisor > 0:
        return _quotient(op, a, divisor, count, analyzer)
    return None


def compared(
    op: str, index: Expr, left: Remainder | None, other: Expr, count: int, analyzer: Analyzer,
    swapped: bool = False,
) -> Expr | None:  # fmt: skip
    """A comparison of indices at one distance, or of what a number has `left` of indices, with one
    number in integers as narrow as elements of which there are so many; None for others. Numbers
    that were as narrow need no limits, and indices stay what they are in other iterations."""
    step = int_value(index.stride) if isinstance(index, Ramp) else None
    span = 0 if step is None else step * (count - 1)
    bits = _bits_for(abs(span) + 1, count)
    if isinstance(index, Ramp) and step is not None and bits is not None:
        narrow = f"int{bits}"
        small = _as_narrow(other, index.base, span, narrow, analyzer)
        base = const(0, narrow) if small is None else cast(narrow, index.base)
        number: Expr = Ramp(base, const(step, narrow), count)
        low, high = index.base + (min(0, span) - 1), index.base + (max(0, span) + 1)
        far = minimum(maximum(other, low), high) - index.base
        limit = far if small is None else small
    elif left is not None:
        number, narrow = left.lanes, dt.element(left.lanes.dtype)
        limit = minimum(maximum(other, -1), left.divisor)
    else:
        return None
    sides = number, Broadcast(cast(narrow, limit), count)
    return binary(op, *(sides[::-1] if swapped else sides))


def _as_narrow(other: Expr, base: Expr, span: int, narrow: str, analyzer: Analyzer) -> Expr | None:
    """What was converted to `other`, if that and all lanes from `base` on fit in a narrow type."""
    least, most = dt.int_limits(narrow)
    low, high = analyzer.bounds(base)
    if not isinstance(other, Cast) or not dt.is_int(other.a.dtype) or low is None or high is None:
        return None
    ends = dt.int_limits(other.a.dtype)
    known = min(low, low + span, ends[0]), max(high, high + span, ends[1])
    return other.a if least <= known[0] and known[1] <= most else None


def remainder(index: Expr, divisor: int | None, count: int) -> Remainder | None:
    """`index % divisor` where lanes lie at one distance; None for others."""
    step = int_value(index.stride) if isinstance(index, Ramp) else None
    if not isinstance(index, Ramp) or step is None or divisor is None or divisor < 2:
        return None
    step = min(step % divisor, step % divisor - divisor, key=abs)
    wraps = divisor & (divisor - 1) == 0  # and leaves the same
    most = max(0 if wraps else abs(step) * (count - 1) + 1, 2 * divisor)
    bits = _bits_for(most, count)
    if bits is None:
        return None
    narrow = f"int{bits}"
    by, none = (Broadcast(const(value, narrow), count) for value in (divisor, 0))
    steps = binary("%", Ramp(const(0, narrow), const(step, narrow), count), by)
    total = binary("+", steps, Broadcast(cast(narrow, index.base % divisor), count))
    less = select(binary("<", total, by), none, by)
    return Remainder(binary("-", total, less), divisor)


def _bits_for(most: int, count: int) -> int | None:
    """Bits of the integers of lanes that hold numbers up to `most`, if some do."""
    least = min(32, MOST_BITS // count)
    return next((n for n in (8, 16, 32) if n >= least and most < 1 << n - 1), None)


def _quotient(op: str, a: Ramp, divisor: int, count: int, analyzer: Analyzer) -> Expr | None:
    """`a // divisor` or `a % divisor` where no lane passes a multiple of the divisor, or what
    the lanes add to it is known."""
    stride = int_value(a.stride)
    if stride is None:
        return None
    if stride % divisor == 0:
        step = stride // divisor
        low = a.base // divisor
        whole = Ramp(low, Const(step, low.dtype), count) if step else low
        return whole if op == "//" else a.base % divisor
    span = stride * count
    aligned = stride > 0 and divisor % span == 0 and analyzer.divides(a.base, span)
    if not aligned and analyzer.divides(a.base, divisor):
        steps = Ramp(Const(0, dt.INDEX), a.stride, count)
        added = BinOp(op, steps, Broadcast(Const(divisor, dt.INDEX), count))
        low = Broadcast(a.base // divisor, count)
        return added if op == "%" else binary("+", low, added)
    if not aligned:
        return None
    if op == "//":
        return a.base // divisor
    return Ramp(a.base % divisor, a.stride, count)


def _regular(e: Expr) -> bool:
    return isinstance(e, Ramp) or dt.lanes(e.dtype) == 1


def _parts(e: Expr) -> tuple[Expr, Expr]:
    """(base, stride) of a ramp; of a scalar, the one with stride zero."""
    return (e.base, e.stride) if isinstance(e, Ramp) else (e, Const(0, e.dtype))
