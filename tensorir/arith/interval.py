"""Intervals of integers: pairs (low, high), both included, where None means unbounded."""

from __future__ import annotations

import math
from collections.abc import Callable

Range = tuple["int | None", "int | None"]

UNBOUNDED: Range = (None, None)


def intersect(a: Range, b: Range) -> Range:
    """The values in both."""
    low = b[0] if a[0] is None else a[0] if b[0] is None else max(a[0], b[0])
    high = b[1] if a[1] is None else a[1] if b[1] is None else min(a[1], b[1])
    return low, high


def hull(a: Range, b: Range) -> Range:
    """The smallest interval that holds both."""
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    high = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return low, high


def within(inner: Range, outer: Range) -> bool:
    """Whether every value of `inner` is in `outer`."""
    below = outer[0] is None or (inner[0] is not None and inner[0] >= outer[0])
    return below and (outer[1] is None or (inner[1] is not None and inner[1] <= outer[1]))


def add(a: Range, b: Range) -> Range:
    return (
        None if a[0] is None or b[0] is None else a[0] + b[0],
        None if a[1] is None or b[1] is None else a[1] + b[1],
    )


def negate(a: Range) -> Range:
    return (None if a[1] is None else -a[1], None if a[0] is None else -a[0])


def subtract(a: Range, b: Range) -> Range:
    return add(a, negate(b))


def multiply(a: Range, b: Range) -> Range:
    corners = [_times(x, y) for x in _ends(a) for y in _ends(b)]
    return _range(min(corners), max(corners))


def floor_divide(a: Range, b: Range) -> Range:
    """The quotients; unbounded where the divisor may be zero."""
    if b[0] is not None and b[0] > 0:
        corners = [_quotient(x, y) for x in _ends(a) for y in _ends(b)]
        return _range(min(corners), max(corners))
    if b[1] is not None and b[1] < 0:
        return floor_divide(negate(a), negate(b))
    return UNBOUNDED


def modulo(a: Range, b: Range) -> Range:
    """The remainders of floor division, which have the sign of the divisor."""
    if b[0] is not None and b[0] > 0:
        if b[0] == b[1] and None not in a and a[0] // b[0] == a[1] // b[0]:  # type: ignore[operator]
            return a[0] % b[0], a[1] % b[0]  # type: ignore[operator]
        high = None if b[1] is None else b[1] - 1
        return intersect((0, high), (0, a[1])) if a[0] is not None and a[0] >= 0 else (0, high)
    if b[1] is not None and b[1] < 0:
        return negate(modulo(negate(a), negate(b)))
    return UNBOUNDED


def minimum(a: Range, b: Range) -> Range:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    return low, intersect((None, a[1]), (None, b[1]))[1]


def maximum(a: Range, b: Range) -> Range:
    return negate(minimum(negate(a), negate(b)))


def bit_and(a: Range, b: Range) -> Range:
    """A bit-wise and with a value that is not negative lies between 0 and that value."""
    highs = [r[1] for r in (a, b) if r[0] is not None and r[0] >= 0 and r[1] is not None]
    return (0, min(highs)) if highs else UNBOUNDED


def bit_or(a: Range, b: Range) -> Range:
    """Of values that are not negative: at least the larger, and no more bits than that."""
    if _negative(a) or _negative(b):
        return UNBOUNDED
    return maximum(a, b)[0], _bits(a, b)


def bit_xor(a: Range, b: Range) -> Range:
    """Bits that only one of the values can have are as they are: of x and a y that has p bits, the
    multiple of 2**p below stays. Of values that are not negative: no more bits than the larger."""
    found = UNBOUNDED if _negative(a) or _negative(b) else (0, _bits(a, b))
    for x, y in ((a, b), (b, a)):
        if y[0] is not None and y[0] >= 0 and y[1] is not None:
            ones = (1 << y[1].bit_length()) - 1
            low, high = x
            kept = None if low is None else low & ~ones, None if high is None else high | ones
            found = intersect(found, kept)
    return found


def shift_left(a: Range, b: Range) -> Range:
    """Multiples by a power of two; unbounded unless the shift is one number of bits in range."""
    if b[0] is None or b[0] != b[1] or not 0 <= b[0] < 63:
        return UNBOUNDED
    return multiply(a, (1 << b[0], 1 << b[0]))


def shift_right(a: Range, b: Range) -> Range:
    """Quotients by powers of two; unbounded unless the shift is in range."""
    if b[0] is None or b[1] is None or b[0] < 0 or b[1] > 62:
        return UNBOUNDED
    return floor_divide(a, (1 << b[0], 1 << b[1]))


def _negative(a: Range) -> bool:
    """Whether there may be negative values."""
    return a[0] is None or a[0] < 0


def _bits(a: Range, b: Range) -> int | None:
    """The largest number of as many bits as the larger of two values has."""
    return None if a[1] is None or b[1] is None else (1 << max(a[1], b[1]).bit_length()) - 1


def _ends(a: Range) -> tuple[float, float]:
    return -math.inf if a[0] is None else a[0], math.inf if a[1] is None else a[1]


def _range(low: float, high: float) -> Range:
    return (
        None if low == -math.inf else int(low),
        None if high == math.inf else int(high),
    )


def _times(x: float, y: float) -> float:
    return 0 if x == 0 or y == 0 else x * y


def _quotient(x: float, y: float) -> float:
    if math.isinf(y):
        return x if math.isinf(x) else -1 if x < 0 else 0
    return x if math.isinf(x) else x // y


OPERATIONS: dict[str, Callable[[Range, Range], Range]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "//": floor_divide,
    "%": modulo,
    "min": minimum,
    "max": maximum,
    "&": bit_and,
    "|": bit_or,
    "^": bit_xor,
    "<<": shift_left,
    ">>": shift_right,
}
"""What operators of integers make of intervals."""
