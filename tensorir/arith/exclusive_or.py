"""Exclusive or of linear forms: cut at powers of two into parts, most of which are one operand.

Bits of a sum g*a + b with 0 <= b < g, a power of two, are those of a and b side by side, so
(g*a + b) ^ (g*c + d) = g*(a ^ c) + (b ^ d). What is XORed twice cancels. Integers have as many bits
as one likes, negative ones infinitely many that are set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorir.arith.bits import operands
from tensorir.arith.divmod import block_of
from tensorir.arith.linear import Linear, of_atom, to_expr
from tensorir.expr import BinOp, Expr

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer


def exclusive_or(an: Analyzer, *parts: Linear) -> Linear:
    """The simplified a ^ b ^ ..."""
    known = 0
    left: dict[Expr, Linear] = {}
    for form in [operand for part in parts for operand in operands(part)]:
        if not form.terms:
            known ^= form.const
            continue
        key = to_expr(form)
        if left.pop(key, None) is None:
            left[key] = form
    forms = list(left.values())
    if known:
        forms.append(Linear({}, known))
    if len(forms) < 2:
        return forms[0] if forms else Linear({})
    for g in _cuts(forms):
        high, low = zip(*[_cut(an, form, g) or (None, None) for form in forms])
        if None not in low and any([part.terms or part.const for part in high]):
            return exclusive_or(an, *high).scaled(g).plus(exclusive_or(an, *low))
    atom = to_expr(forms[0])
    for form in forms[1:]:
        atom = BinOp("^", atom, to_expr(form))
    return of_atom(atom)


def _cuts(forms: Sequence[Linear]) -> list[int]:
    """Powers of two that divide a coefficient, the largest first."""
    found: set[int] = set()
    for form in forms:
        for factor in form.terms.values():
            g = factor & -factor
            while g > 1:
                found.add(g)
                g //= 2
    return sorted(found, reverse=True)


def _cut(an: Analyzer, form: Linear, g: int) -> tuple[Linear, Linear] | None:
    """(a, b) with form = g * a + b and 0 <= b < g."""
    a, b = form.split(g)
    k = block_of(an, b, g)
    return None if k is None else (a.shifted(k), b.shifted(-k * g))
