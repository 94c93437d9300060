"""What may be computed ahead of where it stands, and of whether it is reached at all."""

from __future__ import annotations

from collections.abc import Collection

from tensorir import dtype
from tensorir.expr import BinOp, Const, Expr, Var
from tensorir.visit import walk_exprs


def may_stand_ahead(e: Expr, inside: Collection[Var]) -> bool:
    """Whether `e` has the same value ahead of a statement as in it, and cannot fail there.

    It reads no memory, which may change, and none of the variables of loops and lets `inside`. An
    integer is divided by constants only: what stands around may ask first whether it is zero.
    """
    if e.has_loads or not e.variables.isdisjoint(inside):
        return False
    return not any(_may_fail(part) for part in walk_exprs(e))


def _may_fail(e: Expr) -> bool:
    if not isinstance(e, BinOp) or e.op not in ("//", "%") or not dtype.is_int(e.dtype):
        return False
    return not isinstance(e.b, Const) or e.b.value == 0
