"""Proof by trying all values, for what the rules cannot prove and few values can break.

The verifier and `te.compute` ask it, where there are few values. Symbolic sizes, nested blocks,
bindings that read memory and bindings of more values are not for it: there a primitive is refused
if its result cannot be proved (`schedule/checks/provable.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorir import dtype as dt
from tensorir.expr import BinOp, Const, Expr, ExprLike, Not, Select, Var, int_value
from tensorir.visit import variables

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer

POINTS = 1 << 18
"""Combinations of values that are tried at most: some milliseconds for a usual condition."""

INSTANCES = 1 << 14
"""The same where points are compared with each other."""

_LARGEST = 1 << 62
"""Of what is added; the sum of two such still fits in 64 bits."""

Values = Any
"""An array of int64 or bool, with one axis for each variable."""


class _Untried(Exception):
    """An expression whose values are not computed here, or do not fit."""


_OPERATIONS: dict[str, Callable[[Values, Values], Values]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.mod,
    "min": np.minimum,
    "max": np.maximum,
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": lambda a, b: a * _power(b),
    ">>": lambda a, b: a // _power(b),
    "and": np.logical_and,
    "or": np.logical_or,
}


def holds_everywhere(an: Analyzer, cond: Expr) -> bool:
    """Whether `cond` holds for all values of its variables that the conditions known to `an` allow.

    False also where that is not tried: see `few_values`; and where `cond` reads memory.
    """
    extents = an.facts.extents
    given = [c for c, holds in an.facts.truths.items() if holds]
    found = connected(variables(cond), given)
    if not few_values(found, extents):
        found = variables(cond)
    if not few_values(found, extents):
        return False
    axes = [np.arange(int_value(extents[var]) or 0) for var in found]
    memo: dict[Expr, Values] = dict(zip(found, np.ix_(*axes)))
    try:
        holds = _values(cond, memo)
    except _Untried:
        return False
    for part in given:
        if variables(part) <= found:
            with suppress(_Untried):
                holds = np.logical_or(holds, np.logical_not(_values(part, memo)))
    return bool(np.all(holds))


def tells_apart(
    an: Analyzer, values: Iterable[Expr], inner: Mapping[Var, ExprLike], outside: Iterable[Var]
) -> bool:
    """Whether `values` never agree at two points of the box `inner` while `outside` stays where it
    is, found by trying all points that the conditions known to `an` allow.

    False also where that is not tried: see `few_values`; and where a value reads memory.
    """
    values = list(values)
    used = frozenset(inner).union(*[variables(e) for e in values])
    given = [c for c, holds in an.facts.truths.items() if holds]
    found = used.union(*[variables(c) for c in given])
    if not found <= {*inner, *outside} or not few_values(found, an.facts.extents):
        return False
    order = sorted(found, key=lambda v: v.name)
    shape = tuple([int_value(an.facts.extents[var]) or 0 for var in order])
    if prod(shape) > INSTANCES:
        return False
    memo: dict[Expr, Values] = dict(zip(order, np.ix_(*map(np.arange, shape))))
    kept = [var for var in order if var not in inner]
    try:
        rows = [np.broadcast_to(_values(e, memo), shape).ravel() for e in (*kept, *values)]
        allowed = np.ones(shape, bool)
        for cond in given:
            allowed &= _values(cond, memo)
    except _Untried:
        return False
    table = np.stack(rows, axis=1)[allowed.ravel()]
    return len(np.unique(table, axis=0)) == len(table)


def values_at(e: Expr, points: Mapping[Var, Values]) -> Values | None:
    """The values of an index or a condition where its variables have those of `points`, arrays that
    broadcast; None where it reads memory, or speaks of others."""
    memo: dict[Expr, Values] = dict(points.items())
    try:
        return _values(e, memo)
    except _Untried:
        return None


def connected(wanted: Iterable[Var], conditions: Iterable[Expr]) -> frozenset[Var]:
    """The variables whose values bear on those of `wanted`, if `conditions` hold."""
    return reached(wanted, map(variables, conditions))


def reached(wanted: Iterable[Var], groups: Iterable[frozenset[Var]]) -> frozenset[Var]:
    """The variables that groups of them lead to from `wanted`, these included."""
    found, left = frozenset(wanted), list(groups)
    while True:
        near = [own for own in left if not own.isdisjoint(found)]
        if not near:
            return found
        left = [own for own in left if own.isdisjoint(found)]
        found = found.union(*near)


def few_values(found: Iterable[Var], extents: Mapping[Var, Expr]) -> bool:
    """Whether all have constant extents, and not more than POINTS values together."""
    sizes = [int_value(extents[var]) if var in extents else None for var in found]
    known = [size for size in sizes if size is not None]
    return len(known) == len(sizes) and prod(known) <= POINTS


def _values(e: Expr, memo: dict[Expr, Values]) -> Values:
    found = memo.get(e)
    if found is None:
        found = memo[e] = _computed(e, memo)
    return found


def _computed(e: Expr, memo: dict[Expr, Values]) -> Values:
    if isinstance(e, Const) and _is_exact(e):
        return _fitting(np.asarray(e.value))
    if isinstance(e, Not):
        return np.logical_not(_values(e.a, memo))
    if isinstance(e, Select) and _is_exact(e):
        return np.where(*[_values(part, memo) for part in (e.cond, e.a, e.b)])
    if not isinstance(e, BinOp) or e.op not in _OPERATIONS or not _is_exact(e.a):
        raise _Untried
    a, b = _values(e.a, memo), _values(e.b, memo)
    if e.op in ("//", "%") and not np.all(b):
        raise _Untried
    if e.op in ("*", "<<") and _magnitude(a) * _factor(e.op, b) > _LARGEST:
        raise _Untried
    return _fitting(_OPERATIONS[e.op](a, b))


def _factor(op: str, b: Values) -> int:
    """The largest factor of a product or shift by `b`."""
    return _magnitude(b) if op == "*" else _magnitude(_power(b))


def _power(bits: Values) -> Values:
    if np.any(bits < 0) or np.any(bits > 61):
        raise _Untried
    return np.left_shift(np.int64(1), bits)


def _is_exact(e: Expr) -> bool:
    """Whether `e` is a condition or an index, which does not wrap as narrower integers do."""
    return e.dtype == dt.INDEX or dt.is_bool(e.dtype)


def _fitting(found: Values) -> Values:
    if _magnitude(found) > _LARGEST:
        raise _Untried
    return found


def _magnitude(values: Values) -> int:
    return max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))
