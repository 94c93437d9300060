"""Types of vectors, and masks: vectors of bool as integer vectors of 0 and -1.

Comparisons give masks whose lanes are as wide as what was compared; `masked` converts them. In
memory a bool is one byte.
"""

from __future__ import annotations

from typing import ClassVar

from backends.emit.cstyle import CStyleEmitter
from backends.emit.expressions import TERNARY, UNARY, Text
from tensorir import BinOp, Call, Cast, Expr, Let, Not, PrimFunc, Select, Target, Var
from tensorir import dtype as dt


class MaskEmitter(CStyleEmitter):
    """Adds vector types and masks to the emitter."""

    bitwise: ClassVar[dict[str, str]] = {"and": "&", "or": "|", "!=": "^"}

    def __init__(self, func: PrimFunc, target: Target) -> None:
        super().__init__(func, target)
        self.mask_widths: dict[Expr, int] = {}

    # Types

    def vector_type(self, dtype: str) -> str:
        """The name of a vector type; bool has masks and no vector type of its own."""
        base, lanes = dt.element(dtype), dt.lanes(dtype)
        name = f"{dt.SHORT[base]}x{lanes}"
        if name not in self.declarations:
            element = self.type_name(base)
            size = f"vector_size({dt.itemsize(dtype)})"
            self.declarations[name] = f"typedef {element} {name} __attribute__(({size}));"
        return name

    def type_name(self, dtype: str) -> str:
        return super().type_name(dtype) if dt.lanes(dtype) == 1 else self.vector_type(dtype)

    def mask_type(self, bits: int, lanes: int) -> str:
        return self.vector_type(f"int{bits}x{lanes}")

    def value_type(self, e: Expr) -> str:
        if is_mask(e):
            return self.mask_type(self.mask_bits(e), dt.lanes(e.dtype))
        return self.type_name(e.dtype)

    def stmt_let(self, s: Let) -> None:
        if is_mask(s.value):
            self.mask_widths[s.var] = self.mask_bits(s.value)
        super().stmt_let(s)

    # Masks

    def mask_bits(self, e: Expr) -> int:
        """The width of the lanes of the mask that `render` gives for a vector of bool."""
        if isinstance(e, BinOp):
            if dt.is_bool(e.a.dtype):
                return max(self.mask_bits(e.a), self.mask_bits(e.b))
            return _compared_bits(e.a)
        if isinstance(e, Not):
            return self.mask_bits(e.a)
        if isinstance(e, Select):
            return max(self.mask_bits(e.a), self.mask_bits(e.b))
        if isinstance(e, Cast):
            return self.mask_bits(e.a) if dt.is_bool(e.a.dtype) else _compared_bits(e.a)
        if isinstance(e, Call):
            return dt.bits(e.args[0].dtype)
        return self.mask_widths.get(e, 8) if isinstance(e, Var) else 8

    def masked(self, e: Expr, bits: int, level: int = 0) -> str:
        """The mask of a vector of bool with lanes of `bits` bits."""
        if self.mask_bits(e) == bits:
            return self.expr(e, level)
        source, goal = (f"int{b}x{dt.lanes(e.dtype)}" for b in (self.mask_bits(e), bits))
        return self.converted(self.expr(e), source, goal)

    def converted(self, text: str, source: str, goal: str) -> str:
        """A vector of numbers in lanes of another type."""
        return f"__builtin_convertvector({text}, {self.vector_type(goal)})"

    def mask_operation(self, e: BinOp) -> Text:
        bits = self.mask_bits(e)
        sign = self.bitwise.get(e.op, "^")
        text = f"{self.masked(e.a, bits, UNARY)} {sign} {self.masked(e.b, bits, UNARY)}"
        return (f"~({text})", UNARY) if e.op == "==" else (text, TERNARY)


def is_mask(e: Expr) -> bool:
    """Whether `e` is a vector of bool."""
    return dt.lanes(e.dtype) > 1 and dt.is_bool(e.dtype)


def _compared_bits(e: Expr) -> int:
    """The bits of a number when it is compared: storage types become float32."""
    return 32 if dt.element(e.dtype) in dt.STORAGE_ONLY else dt.bits(e.dtype)
