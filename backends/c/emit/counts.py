"""Sums of integers of which some lanes add nothing: counts, and sums of what fulfils a condition.

A mask is -1 where it holds, so that counting subtracts it. Vectors of AVX-512 add under a mask, in
one instruction with the condition of as many bits.
"""

from __future__ import annotations

from backends.c.emit.products import ProductEmitter
from backends.c.emit.vectors import lane_value
from backends.emit.expressions import ADD, Text
from tensorir import BinOp, Cast, Expr, Load, Select, convert
from tensorir import dtype as dt


class CountEmitter(ProductEmitter):
    """Adds such sums to the emitter."""

    def expr_binop(self, e: BinOp) -> Text:
        found = self._counted(e)
        if found is None:
            return super().expr_binop(e)
        other, cond, added = found
        if self._adds_under(cond, other, e.dtype):
            return self.vector_select(Select(cond, BinOp("+", other, added), other))
        mask = f"({self.vector_type(e.dtype)})({self.masked(cond, dt.bits(e.dtype))})"
        return f"{self.expr(other, ADD)} - {mask}", ADD

    def is_operator(self, e: BinOp) -> bool:
        return self._counted(e) is None and super().is_operator(e)

    def _counted(self, e: BinOp) -> tuple[Expr, Expr, Expr] | None:
        """A number, the condition of the lanes that something is added to, and that: 1, or what one
        instruction adds. None for other operations."""
        if e.op != "+" or dt.lanes(e.dtype) == 1 or not dt.is_int(e.dtype):
            return None
        for other, term in ((e.a, e.b), (e.b, e.a)):
            if isinstance(term, Cast):
                cond, added = term.a, convert(1, dt.element(e.dtype))
            elif isinstance(term, Select) and lane_value(term.b) == 0:
                cond, added = term.cond, term.a
            else:
                continue
            if term in self.named or not dt.is_bool(cond.dtype) or dt.lanes(cond.dtype) == 1:
                continue
            if lane_value(added) == 1 or self._adds_under(cond, other, e.dtype):
                return other, cond, added
        return None

    def _adds_under(self, cond: Expr, other: Expr, dtype: str) -> bool:
        """Whether lanes of a number that needs no computing are added to under a mask."""
        ready = isinstance(other, Load) or other in self.named
        whole = dt.itemsize(dtype) == 64 and not self.on_arm
        return ready and whole and self.mask_bits(cond) == dt.bits(dtype)
