"""Floor division and remainder of linear forms by constants: two tables of rules.

A rule takes the analyzer, the dividend and the divisor (a positive int) and returns the result
as a linear form, or None where it does not apply. The first rule that applies wins. In the texts,
c is the divisor, g and t are integers, and x, y are any expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from tensorir.arith.bits import operands
from tensorir.arith.bounds import nonnegative, plain_interval
from tensorir.arith.linear import (
    Linear,
    factors,
    of_atom,
    plain_form,
    product,
    times,
    to_expr,
    without_factors,
)
from tensorir.expr import BinOp, Expr, int_value

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer


class DivRule(NamedTuple):
    """A row: what it does, and the function that does it."""

    text: str
    apply: Callable[[Analyzer, Linear, int], Linear | None]


def divide(an: Analyzer, x: Linear, c: int) -> Linear:
    """The simplified x // c for a positive constant c."""
    for rule in DIV_RULES:
        found = rule.apply(an, x, c)
        if found is not None:
            return found
    return _atom(an, "//", x, Linear({}, c))


def remainder(an: Analyzer, x: Linear, c: int) -> Linear:
    """The simplified x % c for a positive constant c."""
    for rule in MOD_RULES:
        found = rule.apply(an, x, c)
        if found is not None:
            return found
    return _atom(an, "%", x, Linear({}, c))


def _div_split(an: Analyzer, x: Linear, c: int) -> Linear | None:
    a, b = x.split(c)
    if not a.terms and not a.const:
        return None
    return a.plus(divide(an, b, c)) if b.terms or b.const else a


def _div_range(an: Analyzer, x: Linear, c: int) -> Linear | None:
    k = block_of(an, x, c)
    return None if k is None else Linear({}, k)


def _div_common(an: Analyzer, x: Linear, c: int) -> Linear | None:
    for g in _steps(x, c):
        a, b = x.split(g)
        k = block_of(an, b, g)
        if k is not None:
            return divide(an, a.shifted(k), c // g)
    return None


def _div_nested(an: Analyzer, x: Linear, c: int) -> Linear | None:
    inner = lone(x, "//")
    if inner is None:
        return None
    y, d = inner
    return divide(an, plain_form(y).shifted(x.const * d), c * d)


def _div_bits(an: Analyzer, x: Linear, c: int) -> Linear | None:
    return _of_bits(an, "//", x, c)


def _mod_bits(an: Analyzer, x: Linear, c: int) -> Linear | None:
    return _of_bits(an, "%", x, c)


def _of_bits(an: Analyzer, op: str, x: Linear, c: int) -> Linear | None:
    parts = list(operands(x))
    if len(parts) == 1:
        return None
    cut = Linear({}, c)
    if c & (c - 1) == 0:
        return an.exclusive_or(*[an.divmod(op, part, cut) for part in parts])
    narrow = [part for part in parts if block_of(an, part, c & -c) == 0]
    if len(narrow) != len(parts) - 1:
        return None
    wide = an.divmod(op, next(part for part in parts if part not in narrow), cut)
    return wide if op == "//" else an.exclusive_or(wide, *narrow)


def _div_of_mod(an: Analyzer, x: Linear, c: int) -> Linear | None:
    inner = lone(x, "%")
    if inner is None or x.const or inner[1] % c:
        return None
    y, m = inner
    return remainder(an, divide(an, plain_form(y), c), m // c)


def _mod_split(an: Analyzer, x: Linear, c: int) -> Linear | None:
    a, b = x.split(c)
    return remainder(an, b, c) if a.terms or a.const else None


def _mod_range(an: Analyzer, x: Linear, c: int) -> Linear | None:
    k = block_of(an, x, c)
    return None if k is None else x.shifted(-k * c)


def _mod_common(an: Analyzer, x: Linear, c: int) -> Linear | None:
    for g in _steps(x, c):
        a, b = x.split(g)
        k = block_of(an, b, g)
        if k is not None:
            return remainder(an, a.shifted(k), c // g).scaled(g).plus(b).shifted(-k * g)
    return None


def _mod_nested(an: Analyzer, x: Linear, c: int) -> Linear | None:
    for atom, t in x.terms.items():
        inner = by_const(atom, "%")
        if inner is not None and t * inner[1] % c == 0:
            return remainder(an, x.without(atom).plus(plain_form(inner[0]), t), c)
    return None


DIV_RULES: tuple[DivRule, ...] = (
    DivRule("(a*c + b) // c -> a + b // c", _div_split),
    DivRule("x // c -> k               where k*c <= x < (k+1)*c", _div_range),
    DivRule("(a*g + b) // c -> (a + k) // (c/g)   where g | c, k*g <= b < (k+1)*g", _div_common),
    DivRule("(x // d + k) // c -> (x + k*d) // (d*c)", _div_nested),
    DivRule("(x % m) // c -> (x // c) % (m/c)     where c | m", _div_of_mod),
    DivRule(
        "(x ^ y) // c -> x // c ^ y // c   where c = 2**p, or -> x // c where 2**p | c, y < 2**p",
        _div_bits,
    ),
)

MOD_RULES: tuple[DivRule, ...] = (
    DivRule("(a*c + b) % c -> b % c", _mod_split),
    DivRule("x % c -> x - k*c          where k*c <= x < (k+1)*c", _mod_range),
    DivRule(
        "(a*g + b) % c -> (a + k) % (c/g) * g + b - k*g   where g | c, k*g <= b < (k+1)*g",
        _mod_common,
    ),
    DivRule("(t*(x % m) + b) % c -> (t*x + b) % c   where c | t*m", _mod_nested),
    DivRule("(x ^ y) % c -> x % c ^ y % c   where c = 2**p, or 2**p | c and y < 2**p", _mod_bits),
)


def block_of(an: Analyzer, x: Linear, c: int) -> int | None:
    """k where k*c <= x < (k+1)*c is known."""
    if not x.terms:
        return x.const // c
    low, high = plain_interval(an, x)
    if low is not None and high is not None and low // c == high // c:
        return low // c
    if not an.may_refine(x):
        return None
    low = an.lower(x)
    if low is None:
        return None
    k = low // c
    return k if nonnegative(an, x.scaled(-1).shifted(k * c + c - 1)) else None


def _steps(x: Linear, c: int) -> Iterator[int]:
    """Divisors of c worth splitting x by: largest first, those that leave out some term."""
    seen = {gcd(t, c) for t in x.terms.values()} - {1}
    if len(seen) > 1:
        seen.update([gcd(a, b) for a in seen for b in seen])
        seen.discard(1)
    return iter(sorted(seen, reverse=True))


def by_const(atom: Expr, op: str) -> tuple[Expr, int] | None:
    if isinstance(atom, BinOp) and atom.op == op:
        divisor = int_value(atom.b)
        if divisor is not None and divisor > 0:
            return atom.a, divisor
    return None


def lone(x: Linear, op: str) -> tuple[Expr, int] | None:
    """(y, d) where x is y op d, plus a constant."""
    if len(x.terms) != 1:
        return None
    atom, coef = next(iter(x.terms.items()))
    return by_const(atom, op) if coef == 1 else None


def _atom(an: Analyzer, op: str, x: Linear, c: Linear) -> Linear:
    atom = BinOp(op, to_expr(x), to_expr(c))
    low, high = an.facts.range(atom)
    form = Linear({}, low) if low is not None and low == high else of_atom(atom)
    an.forms[atom] = form
    return form


def divide_symbolic(an: Analyzer, x: Linear, s: Linear) -> Linear:
    """The simplified x // s for an s that is not constant: (a*s + b) // s -> a + b // s."""
    a, b = _multiples(x, s)
    if _is_remainder(an, b, s):
        return a
    return a.plus(_atom(an, "//", b, s))


def remainder_symbolic(an: Analyzer, x: Linear, s: Linear) -> Linear:
    """The simplified x % s for an s that is not constant: (a*s + b) % s -> b % s."""
    b = _multiples(x, s)[1]
    return b if _is_remainder(an, b, s) else _atom(an, "%", b, s)


def _is_remainder(an: Analyzer, b: Linear, s: Linear) -> bool:
    """0 <= b < s; a zero `b` counts, as nothing is divided by zero."""
    if not b.terms and not b.const:
        return True
    return nonnegative(an, b) and nonnegative(an, s.minus(b).shifted(-1))


def _multiples(x: Linear, s: Linear) -> tuple[Linear, Linear]:
    """(a, b) with x = a * s + b, and as few terms in b as are found (polynomial division)."""
    lead, coef = next(iter(s.terms.items()))
    quotient, rest = Linear({}), x
    for term, t in x.terms.items():
        left = without_factors(factors(term), lead)
        if left is None or t % coef:
            continue
        part = Linear({product(left): t // coef}) if left else Linear({}, t // coef)
        whole = times(part, s)
        if rest.is_multiple_part(whole, 1):
            quotient, rest = quotient.plus(part), rest.minus(whole)
    return quotient, rest
