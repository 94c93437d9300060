"""Digits of values, x // d % m: what splits and fusions of loops make indices of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tensorir.arith.linear import Linear, plain_form, to_expr
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


def whole_digit(atom: Expr) -> Parts:
    """The same, where the sum x was cut by a number that its terms had in common: of
    (16 * i + j // 2) // 9 it is (32 * i + j, 18, None), so that all digits of a sum are of one."""
    base, divisor, extent = digit_parts(atom)
    form = plain_form(base)
    while len(form.terms) > 1 or form.const:
        cut = [(a, digit_parts(a)) for a, coef in form.terms.items() if coef == 1]
        cut = [(a, parts) for a, parts in cut if parts[1] > 1 and parts[2] is None]
        if len(cut) != 1:
            break
        a, (inner, size, _) = cut[0]
        form = form.without(a).scaled(size).plus(plain_form(inner))
        divisor *= size
    terms = sorted(form.terms.items(), key=lambda term: -abs(term[1]))
    return to_expr(Linear(dict(terms), form.const)), divisor, extent


def digits_of_sums(an: Analyzer, atoms: Iterable[Expr]) -> dict[Expr, Parts]:
    """The same of several atoms, where digits of a term that is all of the last digits of a sum
    are those of the sum: with (32 * i + j) // 18, j % 2 is (32 * i + j, 1, 2)."""
    found = {atom: whole_digit(atom) for atom in atoms}
    sums = dict.fromkeys(base for base, _, _ in found.values() if not isinstance(base, Var))
    for atom, (base, divisor, extent) in found.items():
        low, high = an.range(base)
        if not isinstance(base, Var) or low != 0 or high is None:
            continue
        extent = extent or high // divisor + 1
        for total in sums:
            form = plain_form(total)
            others = [step for a, step in form.terms.items() if a is not base]
            size = divisor * extent
            if form.terms.get(base) == 1 and not any(n % size for n in (*others, form.const)):
                found[atom] = (total, divisor, extent)
    return found


def of_all_digits(pairs: Sequence[tuple[Expr, Expr]]) -> list[tuple[Expr, Expr]]:
    """Values that are equal where all of the pairs are: those of which both sides have the same
    quotients and remainders, as x and y where they are x // 7, y // 7 and x % 7, y % 7."""
    parts: dict[tuple[Expr, Expr], list[tuple[int, int | None]]] = {}
    for left, right in pairs:
        (base, *mine), (other, *theirs) = digit_parts(left), digit_parts(right)
        if base is not left and mine == theirs:
            parts.setdefault((base, other), []).append(digit_parts(left)[1:])
    found = []
    for pair, digits in parts.items():
        reached: int | None = 1
        for divisor, extent in sorted(digits, key=lambda digit: digit[0]):
            if divisor == reached:
                reached = None if extent is None else divisor * extent
        if reached is None:
            found.append(pair)
    return found


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
