"""wide_choices: narrow integers are chosen as wide as what decides, and converted in the end."""

from __future__ import annotations

from tensorir import dtype as dt
from tensorir.expr import COMPARISONS, BinOp, Cast, Const, Expr, Select, cast
from tensorir.func import PrimFunc
from tensorir.passes.rewriting import with_body
from tensorir.stmt import For, ForKind, Stmt
from tensorir.visit import children, map_children, map_own_exprs, transform


def wide_choices(func: PrimFunc) -> PrimFunc:
    """In vectorized loops, choose between narrow integers by wider numbers in integers that are as
    wide as these, where a side is a constant or was chosen so.

    rewrite:  (A of float32)
        B[i] = select(A[i] < 0.0, u8(1), u8(2))
                                        ->  B[i] = u8(select(A[i] < 0.0, 1, 2))

    Values are the same. A mask has the lanes of what was compared, and each one by itself would be
    brought to those of the result; of many choices in turn only the last result is.
    """
    return with_body(func, _Widen().stmt(func.body, inside=False))


class _Widen:
    def __init__(self) -> None:
        self.memo: dict[Expr, Expr] = {}
        self.made: dict[Expr, Expr] = {}
        """What was chosen in wide integers, of its conversion."""

    def stmt(self, stmt: Stmt, inside: bool) -> Stmt:
        inside = inside or (isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED)
        if inside:
            stmt = map_own_exprs(stmt, lambda e: transform(e, self.widened, self.memo))
        return map_children(stmt, lambda child: self.stmt(child, inside))

    def widened(self, e: Expr) -> Expr | None:
        """`e`, a choice whose parts are widened already, in wider integers; None if it stays."""
        if not isinstance(e, Select) or not dt.is_int(e.dtype) or dt.is_bool(e.dtype):
            return None
        bits = _compared(e.cond)
        if bits <= dt.bits(e.dtype) or not any(self._free(part, bits) for part in (e.a, e.b)):
            return None
        a, b = (self._wide(part, f"int{bits}") for part in (e.a, e.b))
        result = Cast(e.dtype, Select(e.cond, a, b))
        self.made[result] = result.a
        return result

    def _free(self, e: Expr, bits: int) -> bool:
        """Whether `e` is there in so many bits."""
        return isinstance(e, Const) or (e in self.made and dt.bits(self.made[e].dtype) == bits)

    def _wide(self, e: Expr, goal: str) -> Expr:
        if isinstance(e, Const):
            return Const(e.value, goal)
        wide = self.made.get(e)
        return wide if wide is not None and wide.dtype == goal else cast(goal, e)


def _compared(cond: Expr) -> int:
    """Bits of the widest numbers from memory that a condition compares; 0 where there are none."""
    if isinstance(cond, BinOp) and cond.op in COMPARISONS:
        return dt.bits(cond.a.dtype) if cond.has_loads else 0
    parts = children(cond) if isinstance(cond, BinOp) and dt.is_bool(cond.dtype) else ()
    return max(map(_compared, parts), default=0)
