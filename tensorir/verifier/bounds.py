"""Whether an index stays inside its buffer, and how a message says so."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tensorir import dtype as dt
from tensorir.arith import Analyzer, holds_everywhere
from tensorir.arith.bounds import plain_interval
from tensorir.arith.linear import Linear
from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Expr, Var, all_of, conjuncts, const, int_value
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


def said_by(cond: Expr, analyzer: Analyzer) -> dict[Expr, Linear]:
    """The sums that parts of a conjunction say are not negative."""
    parts = [part for part in conjuncts(cond) if not part.has_loads]
    return {part: form for part in parts if (form := analyzer.margin(part)) is not None}


def of_variables(said: Mapping[Expr, Linear]) -> Expr:
    """What is said of sums of variables alone: as that tells of no parts of others, such as
    quotients, it is soon taken as known."""
    return all_of(*[p for p, form in said.items() if all([isinstance(a, Var) for a in form.terms])])


def said_inside(size: Expr, index: Expr, analyzer: Analyzer, said: Collection[Linear]) -> bool:
    """Whether ranges, alone or beside one of some sums that are not negative, show that `index`
    stays within [0, size): most predicates say just that, so that nothing has to follow from
    them."""
    if index.dtype != dt.INDEX:
        return False
    low, high = plain_interval(analyzer, analyzer.linear(index))
    extent = int_value(size)
    if low is not None and low >= 0 and high is not None and extent is not None and high < extent:
        return True
    if not said:
        return False
    ends = (analyzer.margin(BinOp("<=", ZERO, index)), analyzer.margin(BinOp("<", index, size)))
    return all([end is not None and _is_said(end, analyzer, said) for end in ends])


def _is_said(form: Linear, analyzer: Analyzer, said: Collection[Linear]) -> bool:
    """Whether a sum is a multiple of one of those `said`, or of none, and what is not negative."""
    rest = (form.minus(other.scaled(times)) for other in said if (times := _within(other, form)))
    return any(_is_positive(part, analyzer) for part in (form, *rest))


def _is_positive(form: Linear, analyzer: Analyzer) -> bool:
    low, _ = plain_interval(analyzer, form)
    return low is not None and low >= 0


def _within(other: Linear, form: Linear) -> int:
    """How many times a sum has the first term of another one that both have; 0 if it is no whole
    number of times."""
    for atom, coef in other.terms.items():
        times, rest = divmod(form.terms.get(atom, 0), coef)
        if times:
            return times if times > 0 and not rest else 0
    return 0


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
