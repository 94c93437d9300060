"""skip_stores: what stores an element's own value under a condition does nothing there."""

from __future__ import annotations

from tensorir import dtype as dt
from tensorir.analysis.combiner import neutral
from tensorir.arith.logic import negated
from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Const, Expr, Load, Select, Var, conjuncts
from tensorir.func import PrimFunc
from tensorir.passes.rewriting import with_body
from tensorir.stmt import Extern, For, ForKind, If, Stmt, Store, replace
from tensorir.visit import loads, map_children, variables, walk


def skip_stores(func: PrimFunc) -> PrimFunc:
    """Store only where the value changes, if that is up to a place in the loops around.

    rewrite:
        for k in range(8):                             for k in range(8):
            C[i] = select(k < i, C[i] + A[k], C[i])  ->    if k < i:
                                                               C[i] = C[i] + A[k]

    So it does for `C[i] = C[i] + select(k < i, A[k], 0)`, for other operators and what is neutral
    to them, and the other way round. partition_loops then ends the loop where the condition does.
    Conditions that tell the lanes of a vector apart, or ask for data in each iteration, stay.
    """
    return with_body(func, _Skip(func).visit(func.body, ()))


class _Skip:
    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.sums: dict[Buffer, bool] = {}

    def visit(self, stmt: Stmt, loops: tuple[For, ...]) -> Stmt:
        if isinstance(stmt, For):
            loops = (*loops, stmt)
        if not isinstance(stmt, Store):
            return map_children(stmt, lambda child: self.visit(child, loops))
        cond, value = self.change(stmt)
        if not loops or cond is None or not all(_is_place(part, loops) for part in conjuncts(cond)):
            return stmt
        return If(cond, replace(stmt, value=value))

    def change(self, stmt: Store) -> tuple[Expr | None, Expr]:
        """The condition under which `stmt` changes its element, if there is one, and its value."""
        own, value = Load(stmt.buffer, stmt.indices), stmt.value
        if isinstance(value, Select):
            return _other_side(value, own) or (None, value)
        if isinstance(value, BinOp) and value.a is own and isinstance(value.b, Select):
            found = _other_side(value.b, neutral(value.op, value.dtype))
            if found is not None and self.is_unchanged(value, stmt):
                return found[0], BinOp(value.op, own, found[1])
        return None, value

    def is_unchanged(self, value: BinOp, stmt: Store) -> bool:
        """Whether `value` is the element where a neutral number is combined with it: -0.0 + 0.0
        is 0.0, but sums that begin with 0.0 are never -0.0."""
        if value.op != "+" or not dt.is_float(value.dtype):
            return True
        if stmt.buffer not in self.sums:
            self.sums[stmt.buffer] = stmt.buffer not in self.func.in_outs and all(
                _keeps_sum(s, stmt.buffer) for s in walk(self.func.body)
            )
        return self.sums[stmt.buffer]


def _other_side(choice: Select, none: Expr | None) -> tuple[Expr, Expr] | None:
    """When `choice` is something else than `none`, which is one of its sides, and what it is."""
    if choice.b is none:
        return choice.cond, choice.a
    return (negated(choice.cond), choice.b) if choice.a is none else None


def _keeps_sum(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether what `stmt` stores in `buffer`, if anything, is 0.0 or a sum with what was there."""
    if isinstance(stmt, Extern):
        return all(part.buffer is not buffer for part in stmt.outputs)
    if not isinstance(stmt, Store) or stmt.buffer is not buffer:
        return True
    own, value = Load(buffer, stmt.indices), stmt.value
    if isinstance(value, Select):
        value = (_other_side(value, own) or (None, value))[1]
    if isinstance(value, BinOp):
        return value.op == "+" and value.a is own
    return isinstance(value, Const) and value is neutral("+", value.dtype)


def _is_place(part: Expr, loops: tuple[For, ...]) -> bool:
    if not isinstance(part, BinOp) or part.op not in ("<", "<=") or part.a.dtype != dt.INDEX:
        return False
    lanes: set[Var] = {f.var for f in loops if f.kind is ForKind.VECTORIZED}
    asked = {v for load in loads(part) for v in variables(load)}
    serial = [f.var for f in loops if f.kind is not ForKind.VECTORIZED]
    return not variables(part) & lanes and (not serial or serial[-1] not in asked)
