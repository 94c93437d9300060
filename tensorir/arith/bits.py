"""The structure of an exclusive or of indices: its operands, and the bits that these have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tensorir.arith.linear import Linear, plain_form
from tensorir.expr import BinOp, Expr

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer


def operands(form: Linear) -> Iterator[Linear]:
    """What is XORed in a form; itself, where nothing is."""
    if len(form.terms) == 1 and not form.const:
        atom, factor = next(iter(form.terms.items()))
        if factor == 1 and isinstance(atom, BinOp) and atom.op == "^":
            for part in (atom.a, atom.b):
                yield from operands(plain_form(part))
            return
    yield form


def bit_length(an: Analyzer, form: Linear) -> int | None:
    """The number of bits of a form that is never negative; None where that is not known."""
    low, high = an.interval(form)
    return None if low is None or low < 0 or high is None else high.bit_length()


def wide_and_narrow(an: Analyzer, atom: Expr) -> tuple[Linear, int] | None:
    """(x, g) where the atom is x ^ y, y is in [0, g), a power of two, and x may not be: then it is
    g * (x // g) and something in [0, g)."""
    if not isinstance(atom, BinOp) or atom.op != "^":
        return None
    sides = [plain_form(atom.a), plain_form(atom.b)]
    counts = [bit_length(an, side) for side in sides]
    for side, count, other in ((sides[0], counts[1], counts[0]), (sides[1], counts[0], counts[1])):
        if count is not None and (other is None or other > count):
            return side, 1 << count
    return None
