"""Joining quotients and remainders of one value that stand in one sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorir.arith.bits import operands
from tensorir.arith.digits import digit_parts, whole_digit
from tensorir.arith.divmod import block_of, by_const, lone
from tensorir.arith.linear import Linear, of_atom, plain_form, times
from tensorir.expr import BinOp, Expr, Var, int_value

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer

_JOINS = 8
"""Joins tried on one sum."""


def recombine(an: Analyzer, form: Linear) -> Linear:
    """Join quotients and remainders of one value.

    t*c*(x // c) + t*(x % c) -> t*x, and t*x - t*c*(x // c) -> t*(x % c); where x % c is known
    to be r, t*c*(x // c) -> t*x - t*r. Likewise t*c*(x // c) + t*(x % c ^ y) -> t*(x ^ y).
    Digits: t*c*(x // (d*c) % m) + t*(y // d % c) -> t*(x // d % (m*c)), where d*c divides x - y.
    """
    if len(form.terms) == 1 and not an.facts.congruences:
        return form
    for _ in range(_JOINS):
        joined = _join_once(an, form)
        if joined is None:
            return form
        form = joined
    return form


def _join_once(an: Analyzer, form: Linear) -> Linear | None:
    for atom, t in form.terms.items():
        if not isinstance(atom, BinOp) or atom.op not in ("//", "%", "^"):
            continue
        if atom.op == "^":
            joined = _join_bits(an, form, atom)
            if joined is not None:
                return joined
            continue
        number = int_value(atom.b)
        if number is not None and number <= 0:
            continue
        if atom.op == "%":
            joined = _join_remainder(an, form, atom, number)
            if joined is not None:
                return joined
        elif number is not None and t % number == 0:
            k, x = -t // number, plain_form(atom.a)
            if form.is_multiple_part(x, k):
                rest = form.without(atom).plus(x, -k)
                return _reordered(form, rest.plus(an.divmod("%", x, Linear({}, number)), k))
            known = an.facts.congruences.get(BinOp("%", atom.a, atom.b))
            if known is not None:
                return form.without(atom).plus(x, -k).shifted(k * known)
    return None


def _join_remainder(an: Analyzer, form: Linear, atom: BinOp, number: int | None) -> Linear | None:
    """t*c*(x // c) + t*(x % c) -> t*x for the atom x % c; `number` is c where that is one."""
    t = form.terms[atom]
    if number is not None and not _may_hold(form, atom, t * number):
        return None
    wholes = (w for w in _whole_parts(an, atom) if w.terms)
    whole = next((w for w in wholes if form.is_multiple_part(w, t)), None)
    if whole is not None:
        rest = form.without(atom).plus(whole, -t)
        return _reordered(form, rest.plus(plain_form(atom.a), t))
    return None if number is None else _join_digits(an, form, atom, number)


def _join_digits(an: Analyzer, form: Linear, low: BinOp, c: int) -> Linear | None:
    """With the digit `low` of c values and the one above it as one, where that is no longer sum, or
    is no digit any more. They need not be written of one sum: of (i % 8 + j) // 8 the digit below
    is (i + j) % 8."""
    t = form.terms[low]
    for high, k in form.terms.items():
        if k != t * c or not isinstance(high, BinOp) or high.op not in ("//", "%"):
            continue
        for x, above, m in (digit_parts(high), whole_digit(high)):
            d = above // c
            if above % c or not _is_digit(an, low, plain_form(x), d, c):
                continue
            both = an.divmod("//", plain_form(x), Linear({}, d))
            both = both if m is None else an.divmod("%", both, Linear({}, m * c))
            joined = _reordered(form, form.without(low).without(high).plus(both, t))
            whole = d == 1 and m is None  # of which nothing is left that is a digit
            shorter = whole or _length(joined, of_sums=True) <= _length(form)
            if shorter and joined.terms != form.terms:
                return joined
    return None


def _is_digit(an: Analyzer, low: BinOp, x: Linear, d: int, c: int) -> bool:
    """Whether an atom is x // d % c, in any of its forms."""
    digit = an.divmod("//", an.divmod("%", x, Linear({}, d * c)), Linear({}, d))
    y, size, _ = whole_digit(low)
    apart = an.divmod("%", x.minus(plain_form(y)), Linear({}, d * c))
    same = size == d and not apart.terms and not apart.const
    return same or digit.terms == {low: 1} and not digit.const


def _length(form: Linear, of_sums: bool = False) -> int:
    """The terms, those that are digits twice, or such as are digits `of_sums`."""
    digits = [a for a in form.terms if isinstance(a, BinOp) and a.op in ("//", "%")]
    several = [a for a in digits if not (of_sums and isinstance(digit_parts(a)[0], Var))]
    return len(form.terms) + len(several)


def _whole_parts(an: Analyzer, atom: BinOp) -> tuple[Linear, ...]:
    """c * (x // c) for the atom x % c; where x is y // d + k, also as c * ((y + k*d) // (c*d))."""
    key = _whole_parts, atom
    found: tuple[Linear, ...] | None = an.remembered.get(key)
    if found is None:
        x, c = plain_form(atom.a), plain_form(atom.b)
        found = (times(an.divmod("//", x, c), c),)
        number = int_value(atom.b) or 0
        for part, t in x.terms.items() if number > 0 and len(x.terms) > 1 else ():
            inner = by_const(part, "//") if t == 1 else None
            if inner is not None:
                y = _times_but(x, part, *inner)
                quotient = an.divmod("//", y, Linear({}, number * inner[1]))
                found = (*found, quotient.scaled(number))
        an.remembered[key] = found
    return found


def _times_but(x: Linear, part: Expr, a: Expr, d: int) -> Linear:
    """x * d, with `a` for the part of it that is a // d, and terms in the same order."""
    found = Linear({}, x.const * d)
    for atom, t in x.terms.items():
        found = found.plus(plain_form(a)) if atom is part else found.plus(of_atom(atom), t * d)
    return found


def _may_hold(form: Linear, atom: Expr, factor: int) -> bool:
    """Whether `form` may have `factor` times the quotient that belongs to a remainder."""
    for other, k in form.terms.items():
        if other is not atom and k % factor == 0:
            if atom.has_loads or not other.variables.isdisjoint(atom.variables):
                return True
    return False


def _join_bits(an: Analyzer, form: Linear, atom: BinOp) -> Linear | None:
    """t*g*(x // g) + t*(x % g ^ y) -> t*(x ^ y) for a power of two g, where 0 <= y < g."""
    t, parts = form.terms[atom], list(operands(of_atom(atom)))
    for n, part in enumerate(parts):
        inner = lone(part, "%")
        if inner is None or part.const or inner[1] & (inner[1] - 1):
            continue
        x, c = plain_form(inner[0]), Linear({}, inner[1])
        whole = times(an.divmod("//", x, c), c)
        others = parts[:n] + parts[n + 1 :]
        if not whole.terms or not form.is_multiple_part(whole, t):
            continue
        if all([block_of(an, other, inner[1]) == 0 for other in others]):
            rest = form.without(atom).plus(whole, -t)
            return _reordered(form, rest.plus(an.exclusive_or(x, *others), t))
    return None


def _reordered(old: Linear, new: Linear) -> Linear:
    """`new`, with the terms that `old` does not have where the first vanished term was."""
    added = {atom: t for atom, t in new.terms.items() if atom not in old.terms}
    terms: dict[Expr, int] = {}
    for atom in old.terms:
        if atom in new.terms:
            terms[atom] = new.terms[atom]
        elif added:
            terms.update(added)
            added = {}
    terms.update(added)
    return Linear(terms, new.const)
