"""Values that are the same to the last bit wherever they are computed, and however often.

Compilers round `a * b + c` once where product and sum meet in one expression, and twice elsewhere,
as where the product is the same for all lanes; and functions of vectors are other code than those
of single elements. So whoever looks for a value that was computed elsewhere by `==` has to know
that it comes out the same.
"""

from __future__ import annotations

from functools import lru_cache

from tensorir import dtype as dt
from tensorir.expr import COMPARISONS, BinOp, Call, Expr
from tensorir.visit import walk_exprs

EXACT = frozenset(("sqrt floor ceil trunc rint round fabs isnan isinf isfinite").split())
"""Functions of floats of which there is one right result, which all code for them gives."""

EXPRESSIONS = 1024
"""Of which is kept whether they are repeatable, and what they compare."""


@lru_cache(maxsize=EXPRESSIONS)
def is_repeatable(e: Expr) -> bool:
    """Whether `e` has one value: no product of floats is in a sum, and no function is called that
    is rounded in its own way."""
    for part in walk_exprs(e):
        if isinstance(part, Call) and dt.is_float(part.dtype) and part.name not in EXACT:
            return False
        adds = isinstance(part, BinOp) and part.op in ("+", "-") and dt.is_float(part.dtype)
        if adds and any(_is_product(inner) for inner in walk_exprs(part)):
            return False
    return True


def _is_product(e: Expr) -> bool:
    return isinstance(e, BinOp) and e.op == "*" and dt.is_float(e.dtype)


@lru_cache(maxsize=EXPRESSIONS)
def float_comparisons(e: Expr) -> tuple[tuple[str, Expr, Expr], ...]:
    """(op, a, b) for the comparisons in an expression of floats, or of what is made of them, with
    others that are no numbers. A difference that is compared with anything compares what it is the
    difference of."""
    found: list[tuple[str, Expr, Expr]] = []
    for part in walk_exprs(e):
        if isinstance(part, BinOp) and part.op in COMPARISONS:
            inside = [p for p in walk_exprs(part) if isinstance(p, BinOp)]
            differences = [p for p in inside if p.op == "-" and _is_float(p)]
            found += [(part.op, p.a, p.b) for p in (part, *differences)]
    return tuple(
        c for c in found
        if all(side.variables or side.has_loads for side in c[1:])
        if any(_is_float(p) for side in c[1:] for p in walk_exprs(side))
    )  # fmt: skip


def _is_float(e: Expr) -> bool:
    return dt.is_float(dt.element(e.dtype))
