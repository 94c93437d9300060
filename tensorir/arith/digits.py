"""Digits of values, x // d % m: what splits and fusions of loops make indices of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorir.arith.linear import Linear
from tensorir.expr import BinOp, Expr, Var, int_value

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer


Parts = tuple[Expr, int, "int | None"]
"""(x, d, m) for x // d % m; m is None without a remainder."""


def digit_parts(atom: Expr) -> Parts:
    """(x, d, m) where the atom is x // d % m; m is None without a remainder."""
    extent = None
    if isinstance(atom, BinOp) and atom.op == "%":
        modulus = int_value(atom.b)
        if modulus is not None and modulus > 0:
            extent, atom = modulus, atom.a
    if isinstance(atom, BinOp) and atom.op == "//":
        divisor = int_value(atom.b)
        if divisor is not None and divisor > 0:
            return atom.a, divisor, extent
    return atom, 1, extent


def independent(an: Analyzer, form: Linear) -> bool:
    """Whether the atoms of `form` are digits that take all their values together, whatever the
    others are: then it takes the sum of their bounds, and no bound is better."""
    if an.facts.by_atom:
        return False
    digits: dict[Var, list[tuple[int, int | None]]] = {}
    for atom in form.terms:
        base, divisor, extent = digit_parts(atom)
        if not isinstance(base, Var):
            return False
        digits.setdefault(base, []).append((divisor, extent))
    return all([len(found) == 1 or _apart(an, var, found) for var, found in digits.items()])


def _apart(an: Analyzer, var: Var, digits: list[tuple[int, int | None]]) -> bool:
    """Whether digits (divisor, extent) of a variable have no part in common, and those below the
    highest one take all their values also where that one is the largest."""
    low, high = an.facts.range(var)
    if low != 0 or high is None:
        return False
    digits.sort(key=lambda digit: digit[0])
    for (divisor, extent), (above, _) in zip(digits, digits[1:]):
        if extent is None or above % (divisor * extent):
            return False
    return (high + 1) % digits[-1][0] == 0
