"""Sums of products of integers of at most 16 bits: one instruction that adds, where there is one.

x86 multiplies pairs of 16 bits and adds both products to a sum of 32 bits. Where the upper half of
one factor is 0, that is a multiply-add; the product of 32 bits takes it twice or three times as
long.
"""

from __future__ import annotations

from backends.c.emit.conversions import ConversionEmitter
from backends.c.emit.native import added_product, product
from backends.emit.expressions import ATOM, Text
from tensorir import BinOp, Broadcast, Expr
from tensorir import dtype as dt


class ProductEmitter(ConversionEmitter):
    """Adds sums of products to the emitter."""

    def expr_binop(self, e: BinOp) -> Text:
        found = self._added(e)
        if found is None:
            return super().expr_binop(e)
        vector = self.vector_type(e.dtype)
        name = f"add_product_{vector}"
        if name not in self.declarations:
            body = self.native_or(product(e.dtype), "    return s + $;", "    return s + a * b;")
            body = self.native_or(added_product(e.dtype), "    return $;", body)
            head = f"{self.inline} {vector} {name}({vector} s, {vector} a, {vector} b)"
            note = " /* of 16 bits */"
            self.declarations[name] = f"{head} {{{note}\n{body}\n}}"
        return f"{name}({', '.join(map(self.expr, found))})", ATOM

    def is_operator(self, e: BinOp) -> bool:
        return self._added(e) is None

    def _added(self, e: BinOp) -> tuple[Expr, Expr, Expr] | None:
        """What a product is added to, and its factors, one that all lanes share first; None where
        that is no instruction, or the product has a name."""
        if e.op != "+" or self.on_arm or added_product(e.dtype) is None:
            return None
        for other, found in ((e.a, e.b), (e.b, e.a)):
            if isinstance(found, BinOp) and found.op == "*" and found not in self.named:
                a, b = found.a, found.b
                if self._is_short(a) and self._is_short(b):
                    return (other, b, a) if isinstance(b, Broadcast) else (other, a, b)
        return None

    def _is_short(self, e: Expr) -> bool:
        interval, (low, high) = self.intervals.of(e), dt.int_limits("int16")
        return interval is not None and low <= interval[0] and interval[1] <= high
