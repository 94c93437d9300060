"""How much a piece of a lowered program computes."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from tensorir import (
    Expr,
    Extern,
    For,
    Seq,
    Stmt,
    Store,
    Var,
    child_stmts,
    const,
    variables,
    walk_exprs,
)

EXTERN_WORK = 8
"""Operations that an extern function is taken to spend on each element of its arguments."""


def work_of(s: Stmt, sizes: Collection[Var]) -> Expr | None:
    """The operations that `s` executes, an expression of `sizes`; a vector counts as one value.

    Both sides of a condition count. None where it depends on something else, such as a loop.
    """
    if isinstance(s, Store):
        return const(sum(1 for e in (*s.indices, s.value) for _ in walk_exprs(e)))
    if isinstance(s, Extern):
        count = sum((prod(part.shape, start=const(EXTERN_WORK)) for part in s.parts), const(0))
        return count if variables(count) <= set(sizes) else None
    total: Expr = const(0 if isinstance(s, Seq) else 1)
    for child in child_stmts(s):
        work = work_of(child, sizes)
        if work is None:
            return None
        total = total + work
    if not isinstance(s, For):
        return total
    return total * s.extent if variables(s.extent) <= set(sizes) else None
