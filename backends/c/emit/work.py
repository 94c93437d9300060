"""How much a piece of a lowered program computes."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from tensorir import (
    BinOp,
    Expr,
    Extern,
    For,
    If,
    Seq,
    Stmt,
    Store,
    Var,
    child_stmts,
    const,
    int_value,
    variables,
    walk_exprs,
)

EXTERN_WORK = 8
"""Operations that an extern function is taken to spend on each element of its arguments."""


def work_of(s: Stmt, sizes: Collection[Var]) -> Expr | None:
    """The operations that `s` executes, about, an expression of `sizes`; a vector counts as one
    value.

    Both sides of a condition count, or the shorter one of two that are known, as whole pieces of an
    axis take less than its end. None where it depends on something else, such as a loop.
    """
    if isinstance(s, Store):
        return const(sum(1 for e in (*s.indices, s.value) for _ in walk_exprs(e)))
    if isinstance(s, Extern):
        count = sum((prod(part.shape, start=const(EXTERN_WORK)) for part in s.parts), const(0))
        return count if variables(count) <= set(sizes) else None
    total: Expr = const(0 if isinstance(s, Seq) else 1)
    parts: list[Expr] = []
    for child in child_stmts(s):
        work = work_of(child, sizes)
        if work is None:
            return None
        parts.append(work)
    known = [n for n in map(int_value, parts) if n is not None]
    if isinstance(s, If) and len(known) == 2:
        parts = [const(min(known))]
    total = sum(parts, total)
    if not isinstance(s, For):
        return total
    most = _most(s.extent, sizes)
    return None if most is None else total * most


def _most(extent: Expr, sizes: Collection[Var]) -> Expr | None:
    """An expression of `sizes` that is no less than an extent: of the end of an axis that is cut,
    the whole pieces."""
    if variables(extent) <= set(sizes):
        return extent
    if not isinstance(extent, BinOp) or extent.op != "min":
        return None
    found = _most(extent.a, sizes)  # which has no truth where a size is in it
    return _most(extent.b, sizes) if found is None else found
