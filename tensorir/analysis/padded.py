"""Terms of reductions that change nothing where all that they read is padding."""

from __future__ import annotations

from math import isfinite, isnan

from tensorir import dtype as dt
from tensorir.analysis.combiner import neutral
from tensorir.expr import BinOp, Call, Cast, Const, Expr, Load, Select
from tensorir.numbers.folding import FOLD, fold, fold_cast

EXACT = 2**11
"""Whole numbers up to which all types of floats add and multiply without rounding."""


def is_neutral(term: Expr, op: str) -> bool:
    """Whether a reduction by `op` keeps its value with a term all loads of which read the `neutral`
    value of their type: products of zeros are nothing to a sum, and so are differences of them."""
    value, least = _padded(term, op), neutral(op, term.dtype)
    return value is not None and least is not None and value == least.value


def _padded(e: Expr, op: str) -> int | float | bool | None:
    """The value of such a term; None where it is not known, or rounded."""
    if isinstance(e, Load):
        found = neutral(op, e.dtype)
        return None if found is None else found.value
    if isinstance(e, Const):
        return e.value
    parts = [_padded(part, op) for part in e.operands]
    if isinstance(e, Select):  # whatever its condition says
        return parts[1] if parts[1] == parts[2] else None
    values = [part for part in parts if part is not None]
    if len(values) < len(parts) or not values:
        return None
    if isinstance(e, Cast):
        return fold_cast(values[0], e.a.dtype, e.dtype)
    if isinstance(e, Call):
        return abs(values[0]) if e.name == "fabs" else None
    if not isinstance(e, BinOp) or e.op not in ("+", "-", "*", "min", "max"):
        return None
    a, b = values
    if not dt.is_float(e.dtype):
        return fold(e.op, a, b, e.dtype)
    made: float = FOLD[e.op](a, b)
    zero = e.op == "*" and 0 in (a, b)
    exact = all(not isfinite(x) or x == int(x) and abs(x) <= EXACT for x in values)
    return made if (exact or zero) and not isnan(made) else None
