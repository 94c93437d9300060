"""The values of index expressions for the lanes of some warps, all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensorir import BinOp, Broadcast, Cast, Const, Expr, Load, Not, Ramp, Select, Var

Values = np.ndarray
"""int64 or bool, a row for each warp that is looked at, a column for each lane."""

_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "min": np.minimum, "max": np.maximum,
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "==": np.equal, "!=": np.not_equal, "and": np.logical_and, "or": np.logical_or,
    "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor,
    "<<": np.left_shift, ">>": np.right_shift,
}  # fmt: skip


def values_of(e: Expr, known: Mapping[Expr, Values]) -> Values | None:
    """The values of an integer or a condition; None where it depends on floats or on memory that is
    not among what is `known`."""
    if isinstance(e, Const):
        return np.asarray(e.value) if isinstance(e.value, (int, bool)) else None
    if isinstance(e, (Var, Load)):
        return known.get(e)
    if isinstance(e, BinOp):
        a, b = values_of(e.a, known), values_of(e.b, known)
        if a is None or b is None:
            return None
        if e.op in ("//", "%"):
            safe = np.where(b == 0, 1, b)
            return np.asarray(a // safe if e.op == "//" else a % safe)
        return np.asarray(_OPERATIONS[e.op](a, b)) if e.op in _OPERATIONS else None
    if isinstance(e, Not):
        a = values_of(e.a, known)
        return None if a is None else np.logical_not(a)
    if isinstance(e, Cast):
        return values_of(e.a, known) if e.dtype.startswith(("i", "u")) else None
    if isinstance(e, Select):
        cond, a, b = (values_of(part, known) for part in (e.cond, e.a, e.b))
        return None if cond is None or a is None or b is None else np.where(cond, a, b)
    if isinstance(e, Broadcast):
        return values_of(e.a, known)
    if isinstance(e, Ramp):
        return values_of(e.base, known)
    return None
