"""How large an expression may be, so that all that walks, prints and reads it can.

Nodes are shared, texts are not: an expression that uses a part twice is as long as one with two,
and as deep as Python's parser takes parentheses. What is larger is refused where it is made, by
te.compute, a parsed program or a primitive; code that lowering makes of the rest grows a little.
"""

from __future__ import annotations

from collections.abc import Iterable

from tensorir.expr import Expr
from tensorir.interning import MOST_DEEP

MOST_WRITTEN = 1 << 16
"""Operations, where what is used twice is written twice."""


def too_large(exprs: Iterable[Expr]) -> str | None:
    """Why some of the expressions are too large, and what to do; None if none is."""
    for e in exprs:
        if e.depth > MOST_DEEP:
            most = f"{MOST_DEEP} operations inside of each other"
        elif e.written > MOST_WRITTEN:
            most = f"{MOST_WRITTEN} operations, written out,"
        else:
            continue
        return f"more than {most} are in one expression; store a part of it first"
    return None
