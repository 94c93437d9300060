"""What a condition amounts to that does nothing but compare values, asked of all ways in which
these can be to each other."""

from __future__ import annotations

from collections.abc import Mapping
from math import copysign, inf, isnan, nan

from tensorir import dtype as dt
from tensorir.expr import BinOp, Call, Const, Expr, Not
from tensorir.numbers.folding import FOLD
from tensorir.numbers.operators import COMPARISONS, LOGICAL


def samples(dtype: str) -> tuple[float, ...]:
    """Values that are to each other in all ways that comparisons tell."""
    if dt.is_float(dtype):
        return (nan, -inf, -1.0, -0.0, 0.0, 1.0, inf)
    low, high = dt.int_limits(dtype)
    return (low, (low + high) // 2, high)


def same(a: float, b: float) -> bool:
    """Whether two numbers are one, zeros with their signs."""
    return a == b and copysign(1, a) == copysign(1, b)


class OtherThanComparisons(Exception):
    """A condition does something else."""


def truth(e: Expr, known: Mapping[Expr, float]) -> bool:
    """Whether a condition holds that only compares values that are known."""
    if isinstance(e, Const) and dt.is_bool(e.dtype):
        return bool(e.value)
    if isinstance(e, BinOp) and e.op in COMPARISONS and {e.a, e.b} <= known.keys():
        return bool(FOLD[e.op](known[e.a], known[e.b]))
    if isinstance(e, BinOp) and e.op in LOGICAL:
        return bool(FOLD[e.op](truth(e.a, known), truth(e.b, known)))
    if isinstance(e, Not):
        return not truth(e.a, known)
    if isinstance(e, Call) and e.name == "isnan" and e.args[0] in known:
        return isnan(known[e.args[0]])
    raise OtherThanComparisons
