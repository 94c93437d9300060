"""How languages of GPUs spell what the C family has in common: types, constants, functions.

The texts of helpers are those of C. What other languages lack is written otherwise here: builtins
of gcc, compound literals, and choices by the preprocessor, of which a GPU's is always the same:
it has fused multiply-add.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from backends.emit.cstyle import CStyleEmitter
from backends.emit.expressions import COMPARE, UNARY, Text
from backends.emit.literals import literal
from backends.math.helpers import substitutions
from backends.math.per_lane import HAS_FMA
from tensorir import BinOp, Call, Cast, Const, Load, walk_exprs
from tensorir import dtype as dt

_FUSED = re.compile(rf"#if {re.escape(HAS_FMA)}\n(.*?\n)#else\n.*?#endif\n", re.DOTALL)
_BUILTIN = re.compile(r"__builtin_(\w+)")
_SPECIAL = {
    "__builtin_inff()": ("INF_F32", "float32", "0x7f800000"),
    "__builtin_inf()": ("INF_F64", "float64", "0x7ff0000000000000LL"),
    '__builtin_nanf("")': ("NAN_F32", "float32", "0x7fc00000"),
    '__builtin_nan("")': ("NAN_F64", "float64", "0x7ff8000000000000LL"),
}
"""What has no literals: the macro for it, its type and its bits."""

_BITS = {"float32": "int32", "float64": "int64"}


class SpellingEmitter(CStyleEmitter):
    """The emitter of the C family without what only compilers of C have."""

    type_names: ClassVar[dict[str, str]] = {
        **CStyleEmitter.type_names,
        "bool": "bool",
        "int32": "int",
    }
    zeros: ClassVar[dict[str, str]] = {"float32": "0.0f", "float64": "0.0"}

    def words(self, dtype: str) -> dict[str, str]:
        zero = self.zeros.get(dtype, literal(0, dtype))
        return substitutions(dtype, self.type_name(dtype)) | {"Z": zero}

    def spelled(self, text: str) -> str:
        text = _FUSED.sub(r"\1", text)
        for word, (macro, dtype, bits) in _SPECIAL.items():
            if word in text:
                value = f"{self.bits_as(_BITS[dtype], dtype)}({bits})"
                self.declarations.setdefault(macro, f"#define {macro} {value}")
                text = text.replace(word, macro)
        text = _BUILTIN.sub(lambda found: self.function(found[1]), text)
        for word, dtype in (("_Bool", "bool"), ("i32", "int32")):
            text = re.sub(rf"\b{word}\b", self.type_name(dtype), text)
        return text

    def function(self, name: str) -> str:
        """A function of C's math library: fabsf, floor."""
        return name

    def math(self, name: str, dtype: str, args: Sequence[str]) -> str:
        return self.spelled(super().math(name, dtype, args))

    def expr_const(self, e: Const) -> Text:
        text, level = super().expr_const(e)
        return (self.spelled(text), level) if "__builtin_" in text else (text, level)

    # Memory: a bool is a byte there, of which all values but 0 are true.

    def stored_type(self, dtype: str) -> str:
        return self.type_name("uint8" if dt.is_bool(dtype) else dtype)

    def expr_load(self, e: Load) -> Text:
        text, level = super().expr_load(e)
        return (f"{text} != 0", COMPARE) if dt.is_bool(e.dtype) else (text, level)

    # Integers wrap, which signed ones of C++ do not.

    def binary_operator(self, e: BinOp) -> Text:
        if e.op in ("+", "-", "*") and _wraps(e):
            unsigned = self.type_name("uint32")
            a, b = (f"({unsigned}){self.expr(part, UNARY)}" for part in (e.a, e.b))
            return f"({self.type_name(e.dtype)})({a} {e.op} {b})", UNARY
        return super().binary_operator(e)


def _wraps(e: BinOp) -> bool:
    """Whether the result may leave the type: of indices, which are never read, it does not."""
    if dt.element(e.dtype) not in ("int32", "int16", "uint16"):
        return False
    if dt.bits(e.dtype) < 32:
        return e.op == "*"  # which C computes in int
    return any(isinstance(part, (Load, Call, Cast)) for part in walk_exprs(e))
