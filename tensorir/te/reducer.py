"""Reducers: what a reduction merges its parts with.

A combiner must be associative and commutative, because schedules change the order of the parts.
Identities are true ones, so the maximum of a row of -inf is -inf.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensorir import dtype as dt
from tensorir.expr import Call, Expr, Not, all_of, any_of, binary, const, convert, select

Parts = tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Reducer:
    """`combine(old, new)` merges tuples of values; `identity(dtypes)` leaves others unchanged."""

    name: str
    combine: Callable[[Parts, Parts], Parts]
    identity: Callable[[tuple[str, ...]], Parts]
    needs_element: bool = False


def _of_op(
    name: str, op: str, identity: Callable[[str], Any], needs_element: bool = False
) -> Reducer:
    return Reducer(
        name,
        lambda old, new: (binary(op, old[0], new[0]),),
        lambda dtypes: (const(identity(dtypes[0]), dtypes[0]),),
        needs_element,
    )


def _is_nan(a: Expr) -> Expr:
    return Call("isnan", (a,), "bool") if dt.is_float(a.dtype) else convert(False)


def _arg(name: str, better: str, worst: Callable[[str], Any]) -> Reducer:
    """The reducer of pairs (index, value): the better value wins, then the smaller index."""

    def combine(old: Parts, new: Parts) -> Parts:
        (i, a), (j, b) = old, new
        first = i < j
        wins = binary("<", b, a) if better == "max" else binary("<", a, b)
        nan_wins = all_of(_is_nan(a), any_of(Not(_is_nan(b)), first))
        keep = any_of(wins, all_of(binary("==", a, b), first), nan_wins)
        return select(keep, i, j), select(keep, a, b)

    def identity(dtypes: tuple[str, ...]) -> Parts:
        return const(dt.int_limits(dtypes[0])[1], dtypes[0]), const(worst(dtypes[1]), dtypes[1])

    return Reducer(name, combine, identity, needs_element=True)


SUM = _of_op("sum", "+", lambda d: 0)
PROD = _of_op("prod", "*", lambda d: 1)
MAX = _of_op("max", "max", dt.lowest, needs_element=True)
MIN = _of_op("min", "min", dt.highest, needs_element=True)
ANY = _of_op("any", "or", lambda d: False)
ALL = _of_op("all", "and", lambda d: True)
ARGMAX = _arg("argmax", "max", dt.lowest)
ARGMIN = _arg("argmin", "min", dt.highest)
