"""narrow_integers: vectors compute with integers that are as narrow as their values allow."""

from __future__ import annotations

from collections.abc import Iterable

from tensorir import dtype as dt
from tensorir.expr import COMPARISONS, BinOp, Cast, Expr, Select, cast, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.intervals import Intervals, parts_of
from tensorir.passes.rewriting import with_body
from tensorir.stmt import For, ForKind, Stmt
from tensorir.visit import map_children, map_own_exprs, transform

DEAR, DEAR_BITS = ("//", "%", "<<", ">>"), 16
"""Operations that processors have for vectors of integers of so many bits, by one number."""

NARROW = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


def narrow_integers(func: PrimFunc) -> PrimFunc:
    """In vectorized loops, compute comparisons, and what is converted in the end, in the narrowest
    integers that hold all values on the way.

    rewrite:  (A of uint8)
        B[i] = int32(A[i]) + int32(A[i + 1]) == 3
                                ->  B[i] = int16(A[i]) + int16(A[i + 1]) == 3

    Values are the same, and a vector holds twice or four times as many. What is loaded in the wide
    type may have any value and stays.
    """
    return with_body(func, _Narrow().stmt(func.body, inside=False))


class _Narrow:
    def __init__(self) -> None:
        self.memo: dict[Expr, Expr] = {}
        self.intervals = Intervals()
        self.made: dict[tuple[Expr, str], Expr] = {}

    def stmt(self, stmt: Stmt, inside: bool) -> Stmt:
        inside = inside or (isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED)
        if inside:
            stmt = map_own_exprs(stmt, self.expr)
        return map_children(stmt, lambda child: self.stmt(child, inside))

    def expr(self, e: Expr) -> Expr:
        return transform(e, self.narrowed, self.memo)

    def narrowed(self, e: Expr) -> Expr | None:
        """`e`, a comparison or a conversion, of narrower integers; None where it has none."""
        if not e.has_loads:
            return None
        if isinstance(e, BinOp) and e.op in COMPARISONS and dt.is_int(e.a.dtype):
            goal = self.type_of(e.a, e.b)
            return None if goal is None else BinOp(e.op, self.cast(e.a, goal), self.cast(e.b, goal))
        if isinstance(e, Cast) and parts_of(e.a) and dt.bits(e.dtype) < dt.bits(e.a.dtype):
            goal = self.type_of(e.a, least=dt.bits(e.dtype))
            return None if goal is None else cast(e.dtype, self.cast(e.a, goal))
        return None

    def type_of(self, *roots: Expr, least: int = 0) -> str | None:
        """The narrowest type of at least so many bits for all steps of `roots`, if that is narrower
        than theirs."""
        if not dt.is_int(roots[0].dtype):
            return None
        steps = _steps(roots)
        found = [self.intervals.of(step) for step in steps]
        known = [interval for interval in found if interval is not None]
        if len(known) < len(found):
            return None
        for step in steps:
            if isinstance(step, BinOp) and step.op in DEAR:
                if int_value(step.b) is None:
                    return None
                least = max(least, DEAR_BITS)
        low, high = min(a for a, _ in known), max(b for _, b in known)
        limits = ((kind, dt.int_limits(kind)) for kind in NARROW if dt.bits(kind) >= least)
        goal = next((kind for kind, (a, b) in limits if a <= low and high <= b), None)
        wide = dt.bits(roots[0].dtype)
        return goal if goal is not None and dt.bits(goal) < wide else None

    def cast(self, e: Expr, goal: str) -> Expr:
        """`e`, all steps of which fit, in the type `goal`."""
        key = e, goal
        if key not in self.made:
            parts = [self.cast(part, goal) for part in parts_of(e)]
            if isinstance(e, Select):
                self.made[key] = Select(e.cond, *parts)
            elif isinstance(e, BinOp):
                self.made[key] = BinOp(e.op, *parts)
            else:
                self.made[key] = cast(goal, e.a if isinstance(e, Cast) else e)
        return self.made[key]


def _steps(roots: Iterable[Expr]) -> set[Expr]:
    """All that is computed for `roots` in their own type."""
    pending = list(roots)
    seen = set(pending)
    while pending:
        new = [part for part in parts_of(pending.pop()) if part not in seen]
        seen.update(new)
        pending += new
    return seen
