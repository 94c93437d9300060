"""Linear forms: sum(coefficient * atom) + constant over the integers.

An atom is any expression that is not itself a sum or a multiple of something: a variable, a
quotient, a remainder, a minimum, a product of atoms, a load. Terms keep the order in which they
were written, so `i_0 * 16 + i_1` comes back as it went in.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import gcd

from tensorir import dtype as dt
from tensorir.expr import BinOp, Const, Expr, Load, Var, int_value
from tensorir.visit import children

FORMS = 8192
"""Expressions of which the plain form is kept: proofs look into the same few again and again."""


class Linear:
    """A linear form. Treated as immutable: no operation changes its operands.

    `terms` maps atoms (dtype int64) to coefficients that are never zero.
    """

    __slots__ = ("const", "terms")

    def __init__(self, terms: dict[Expr, int], const: int = 0) -> None:
        self.terms = terms
        self.const = const

    def __repr__(self) -> str:
        return f"Linear({to_expr(self)!r})"

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """self + factor * other."""
        if not factor:
            return self
        terms = dict(self.terms)
        for atom, coef in other.terms.items():
            total = terms.get(atom, 0) + factor * coef
            if total:
                terms[atom] = total
            else:
                del terms[atom]
        return Linear(terms, self.const + factor * other.const)

    def minus(self, other: Linear) -> Linear:
        return self.plus(other, -1)

    def shifted(self, amount: int) -> Linear:
        """self + amount."""
        return Linear(self.terms, self.const + amount) if amount else self

    def scaled(self, factor: int) -> Linear:
        """factor * self."""
        if factor == 1:
            return self
        if not factor:
            return Linear({})
        return Linear({a: c * factor for a, c in self.terms.items()}, self.const * factor)

    def without(self, *atoms: Expr) -> Linear:
        """The form without the terms of `atoms`."""
        left = set(atoms)
        return Linear({a: c for a, c in self.terms.items() if a not in left}, self.const)

    def split(self, divisor: int) -> tuple[Linear, Linear]:
        """(a, b) with self = divisor * a + b; b has the terms and the constant left over.

        The constant of `b` is in [0, divisor).
        """
        quotient: dict[Expr, int] = {}
        rest: dict[Expr, int] = {}
        for atom, coef in self.terms.items():
            if coef % divisor:
                rest[atom] = coef
            else:
                quotient[atom] = coef // divisor
        return (
            Linear(quotient, self.const // divisor),
            Linear(rest, self.const % divisor),
        )

    def factor(self) -> int:
        """The greatest common divisor of the coefficients, not of the constant; 0 if no terms."""
        return gcd(*self.terms.values())

    def is_multiple_part(self, part: Linear, factor: int) -> bool:
        """Whether factor * (the terms of `part`) stand in this form exactly as they are."""
        get = self.terms.get
        return bool(part.terms) and all(
            get(atom) == factor * coef for atom, coef in part.terms.items()
        )


def of_atom(atom: Expr) -> Linear:
    """The form 1 * atom."""
    return Linear({atom: 1})


def factors(atom: Expr) -> list[Expr]:
    """The factors of a product atom; of any other atom, itself."""
    if isinstance(atom, BinOp) and atom.op == "*":
        return factors(atom.a) + factors(atom.b)
    return [atom]


def without_factors(parts: Iterable[Expr], divisor: Expr) -> list[Expr] | None:
    """The factors of a product that are left when those of `divisor` are taken out, or None."""
    left = list(parts)
    for part in factors(divisor):
        place = next((n for n, f in enumerate(left) if f is part), None)
        if place is None:
            return None
        del left[place]
    return left


def product(parts: Iterable[Expr]) -> Expr:
    """One atom for the product of atoms, the same for every order of them."""
    ordered = sorted(parts, key=_order)
    result = ordered[0]
    for part in ordered[1:]:
        result = BinOp("*", result, part)
    return result


def times(a: Linear, b: Linear) -> Linear:
    """The product, multiplied out."""
    if not b.terms:
        return a.scaled(b.const)
    if not a.terms:
        return b.scaled(a.const)
    result = Linear({})
    for left, coef in a.terms.items():
        parts = factors(left)
        terms = {product(parts + factors(right)): c * coef for right, c in b.terms.items()}
        if b.const:
            terms[left] = terms.get(left, 0) + coef * b.const
        result = result.plus(Linear(terms))
    return result.plus(b.scaled(a.const))


def product_of(a: Linear, b: Linear) -> Linear:
    """The product: multiplied out, but for sums with a part in common of which that makes more
    terms than both have. No place in an array is such a product: squares are values."""
    found = times(a, b)
    longer = len(found.terms) > len(a.terms) + len(b.terms)
    if longer and not a.terms.keys().isdisjoint(b.terms):
        return of_atom(product((to_expr(a), to_expr(b))))
    return found


def to_expr(form: Linear) -> Expr:
    """The expression of a form: terms in order, but a positive one first; the constant last.

    Without a positive term it starts with the constant: `5 - i`.
    """
    const = form.const
    first = None
    for atom, coef in form.terms.items():
        if coef > 0:
            first = atom
            break
    if first is None:
        result: Expr = Const(const, dt.INDEX)
        const = 0
    else:
        result = _term(first, form.terms[first])
    for atom, coef in form.terms.items():
        if atom is not first:
            result = BinOp("+" if coef > 0 else "-", result, _term(atom, abs(coef)))
    if not const:
        return result
    return BinOp("+" if const > 0 else "-", result, Const(abs(const), dt.INDEX))


def _term(atom: Expr, coef: int) -> Expr:
    return atom if coef == 1 else BinOp("*", atom, Const(coef, dt.INDEX))


def _order(e: Expr) -> str:
    """A key that is the same in every process; variables come before the rest."""
    if isinstance(e, Var):
        return f" {e.name}"
    if isinstance(e, Const):
        return repr(e.value)
    name = getattr(e, "op", None) or type(e).__name__
    if isinstance(e, Load):
        name = f"{name} {e.buffer.name}"
    return f"{name}({','.join(map(_order, children(e)))}){e.dtype}"


@lru_cache(maxsize=FORMS)
def plain_form(e: Expr) -> Linear:
    """The linear form of an expression that is simplified already."""
    if isinstance(e, BinOp):
        if e.op == "+":
            return plain_form(e.a).plus(plain_form(e.b))
        if e.op == "-":
            return plain_form(e.a).minus(plain_form(e.b))
        if e.op == "*":
            factor = int_value(e.b)
            if factor is not None:
                return plain_form(e.a).scaled(factor)
    value = int_value(e)
    return Linear({e: 1}) if value is None else Linear({}, value)
