"""Whether an index stays inside its buffer, and how a message says so."""

from __future__ import annotations

from tensorir import dtype as dt
from tensorir.arith import Analyzer, holds_everywhere
from tensorir.arith.bounds import plain_interval
from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Expr, all_of, const, int_value
from tensorir.vector_expr import Ramp

ZERO = const(0)
Bounds = tuple["int | None", "int | None"]


def bounds_of(index: Expr, analyzer: Analyzer) -> Bounds:
    if isinstance(index, Ramp):
        low, high = bounds_of(index.base, analyzer)
        stride = int_value(index.stride)
        if low is None or high is None or stride is None:
            return None, None
        span = stride * (index.lanes - 1)
        return low + min(span, 0), high + max(span, 0)
    return analyzer.bounds(index) if index.dtype == dt.INDEX else (None, None)


def inside(size: Expr, index: Expr, analyzer: Analyzer) -> bool:
    """Whether `index` is proved to stay within [0, size)."""
    scalar = index.dtype == dt.INDEX  # of which no bounds are looked for but those that are asked
    form = analyzer.linear(index) if scalar else None
    low, high = plain_interval(analyzer, form) if form else bounds_of(index, analyzer)
    extent = int_value(size)
    above = low is not None and low >= 0
    if not above and not (scalar and analyzer.prove(BinOp("<=", ZERO, index))):
        return False
    if high is not None and extent is not None and high < extent:
        return True
    return scalar and analyzer.prove(BinOp("<", index, size))


def always_inside(size: Expr, index: Expr, analyzer: Analyzer) -> bool:
    """The same by trying all values, which takes longer."""
    if index.dtype != dt.INDEX:
        return False
    return holds_everywhere(analyzer, all_of(BinOp("<=", ZERO, index), BinOp("<", index, size)))


def outside(size: Expr, bounds: Bounds) -> bool:
    """Whether every value is out of range."""
    low, high = bounds
    extent = int_value(size)
    if high is not None and high < 0:
        return True
    return low is not None and extent is not None and low >= extent


def range_text(bounds: Bounds, size: Expr) -> str:
    low, high = bounds
    extent = int_value(size)
    if low is not None and low < 0:
        return f"can be {low}"
    if high is not None and extent is not None and high >= extent:
        return f"can be {high}"
    return f"is not known to stay within [0, {size!r})"


def shape_text(buffer: Buffer) -> str:
    sizes = ", ".join(map(repr, buffer.shape))
    return f"({sizes},)" if buffer.ndim == 1 else f"({sizes})"
