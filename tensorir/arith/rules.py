"""Rules on single nodes as rows: pattern, replacement, condition.

In a pattern `x` and `y` stand for any expression, `k` for any constant and `p` for any
condition; a name that occurs twice must stand for the same expression twice. Rows for int32 hold
for every integer type, those for int64 only where arithmetic does not wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tensorir import dtype as dt
from tensorir.expr import FALSE, TRUE, BinOp, Const, Expr, Not, Select, Var, binary
from tensorir.visit import children

Found = dict[str, Expr]


class Rule(NamedTuple):
    """Where `pattern` matches and `condition` holds, `replacement` has the same value."""

    pattern: Expr
    replacement: Callable[[Found], Expr]
    condition: Callable[[Found], bool] = lambda found: True


def _value(e: Expr) -> int:
    assert isinstance(e, Const)
    return int(e.value)


def _zero(found: Found) -> Expr:
    return Const(0, found["x"].dtype)


def _ones(found: Found) -> bool:
    return _value(found["k"]) >= 0 and _value(found["k"]) & (_value(found["k"]) + 1) == 0


def _fits_shift(found: Found) -> bool:
    return 0 <= _value(found["k"]) < 62


_x, _y, _k = Var("x", "int32"), Var("y", "int32"), Var("k", "int32")
_X, _K = Var("x", dt.INDEX), Var("k", dt.INDEX)
_p = Var("p", "bool")

RULES: tuple[Rule, ...] = (
    Rule(_X << _K, lambda m: m["x"] * (1 << _value(m["k"])), _fits_shift),
    Rule(_X >> _K, lambda m: m["x"] // (1 << _value(m["k"])), _fits_shift),
    Rule(_X & _K, lambda m: m["x"] % (_value(m["k"]) + 1), _ones),
    Rule(_x - _x, _zero),
    Rule(_x ^ _x, _zero),
    Rule(_x & _x, lambda m: m["x"]),
    Rule(_x | _x, lambda m: m["x"]),
    Rule((_x + _y) - _y, lambda m: m["x"]),
    Rule((_x - _y) + _y, lambda m: m["x"]),
    Rule((_x + _k) + Var("l", "int32"), lambda m: m["x"] + binary("+", m["k"], m["l"])),
    Rule((_x * _k) * Var("l", "int32"), lambda m: m["x"] * binary("*", m["k"], m["l"])),
    Rule(BinOp("==", _p, TRUE), lambda m: m["p"]),
    Rule(BinOp("==", _p, FALSE), lambda m: Not(m["p"])),
    Rule(BinOp("!=", _p, TRUE), lambda m: Not(m["p"])),
    Rule(BinOp("!=", _p, FALSE), lambda m: m["p"]),
    Rule(BinOp("==", _p, _p), lambda m: TRUE),
    Rule(BinOp("!=", _p, _p), lambda m: FALSE),
    Rule(Select(_p, TRUE, FALSE), lambda m: m["p"]),
    Rule(Select(_p, FALSE, TRUE), lambda m: Not(m["p"])),
)


def apply_rules(e: Expr) -> Expr:
    """`e`, or what the first row that matches makes of it."""
    if dt.is_float(e.dtype):
        return e  # every row is about integers or truth values
    for rule in _BY_HEAD.get(_head(e), ()):
        found: Found = {}
        if _match(rule.pattern, e, found) and rule.condition(found):
            return rule.replacement(found)
    return e


def _head(e: Expr) -> tuple[type, str]:
    return type(e), e.op if isinstance(e, BinOp) else ""


_BY_HEAD: dict[tuple[type, str], list[Rule]] = {}
for _rule in RULES:
    _BY_HEAD.setdefault(_head(_rule.pattern), []).append(_rule)


def _match(pattern: Expr, e: Expr, found: Found) -> bool:
    if isinstance(pattern, Var):
        if not _admits(pattern, e):
            return False
        return found.setdefault(pattern.name, e) is e
    if isinstance(pattern, Const):
        return pattern is e
    if _head(pattern) != _head(e):
        return False
    return all(_match(p, c, found) for p, c in zip(children(pattern), children(e)))


def _admits(wildcard: Var, e: Expr) -> bool:
    if wildcard.name in ("k", "l") and not isinstance(e, Const):
        return False
    if wildcard.dtype == "bool":
        return e.dtype == "bool"
    if wildcard.dtype == dt.INDEX:
        return e.dtype == dt.INDEX
    return e.dtype in dt.SIGNED or e.dtype in dt.UNSIGNED
