"""Sums of integers whose terms take no instruction of their own.

Products of at most 16 bits: x86 multiplies pairs of 16 bits and adds both products to a sum of 32
bits. Where the upper half of one factor is 0, that is a multiply-add; the product of 32 bits takes
it twice or three times as long.

Terms of which some lanes add nothing: counts, and sums of what fulfils a condition. A mask is -1
where it holds, so that counting subtracts it. Vectors of AVX-512 add under a mask, in one
instruction with the condition of as many bits.
"""

from __future__ import annotations

from backends.c.emit.conversions import ConversionEmitter
from backends.c.emit.native import added_product, product
from backends.c.emit.vectors import lane_value
from backends.emit.expressions import ADD, ATOM, Text
from tensorir import BinOp, Broadcast, Cast, Expr, Load, Select, convert
from tensorir import dtype as dt


class ProductEmitter(ConversionEmitter):
    """Adds sums of products of integers to the emitter."""

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


class CountEmitter(ProductEmitter):
    """Adds sums of integers under conditions to the emitter."""

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
