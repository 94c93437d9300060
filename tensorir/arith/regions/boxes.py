"""Boxes of elements: what certainly lies in one, and what several make together."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.bounds import nonnegative
from tensorir.arith.linear import to_expr
from tensorir.arith.regions.region import Interval, covers

Box = tuple[Interval, ...]
"""An interval for each dimension."""


def with_box(boxes: Sequence[Box], box: Box, analyzer: Analyzer) -> list[Box]:
    """`boxes` and one more, which comes last; those that adjoin it are part of it.

    Every element of each result is an element of one of the boxes given.
    """
    found, rest = box, list(boxes)
    while True:
        for other in rest:
            both = _together(other, found, analyzer)
            if both is not None:
                rest.remove(other)
                found = both
                break
        else:
            return [*rest, found]


def _together(a: Box, b: Box, analyzer: Analyzer) -> Box | None:
    """The box that two make; None if they are not known to make one."""
    differ = [n for n, (x, y) in enumerate(zip(a, b)) if not _same(x, y)]
    differ = [n for n in differ if not _equal(a[n], b[n], analyzer)]
    if not differ:
        return b
    if all([covers(a[n], b[n], analyzer) for n in differ]):
        return a
    if all([covers(b[n], a[n], analyzer) for n in differ]):
        return b
    if len(differ) > 1:
        return None
    n = differ[0]
    part = _adjoining(a[n], b[n], analyzer) or _adjoining(b[n], a[n], analyzer)
    return None if part is None else (*b[:n], part, *b[n + 1 :])


def _adjoining(first: Interval, second: Interval, analyzer: Analyzer) -> Interval | None:
    """Both, if the second begins no later than behind the first, and ends no earlier."""
    low, begin = analyzer.linear(first.low), analyzer.linear(second.low)
    middle = low.plus(analyzer.linear(first.extent))
    end = begin.plus(analyzer.linear(second.extent))
    if not all([nonnegative(analyzer, x) for x in (begin.minus(low), middle.minus(begin))]):
        return None
    if not nonnegative(analyzer, end.minus(middle)):
        return None
    return Interval(first.low, analyzer.simplify(to_expr(end.minus(low))))


def _same(a: Interval, b: Interval) -> bool:
    return a.low is b.low and a.extent is b.extent


def _equal(a: Interval, b: Interval, analyzer: Analyzer) -> bool:
    return covers(a, b, analyzer) and covers(b, a, analyzer)
