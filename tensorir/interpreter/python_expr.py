"""Expressions as Python text, for the interpreter; see python_source.py."""

from __future__ import annotations

import builtins
import keyword

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError
from tensorir.expr import BinOp, Call, Cast, Const, Expr, Load, Not, Select, Var
from tensorir.names import Names
from tensorir.numbers.intrin import REINTERPRET
from tensorir.vector_expr import Broadcast, Ramp, Shuffle

ROUNDED = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
"""The runtime function that rounds a float to a type; float64 needs none."""

PRECEDENCE = {
    **dict.fromkeys(("<", "<=", "==", "!="), 4),
    **{"|": 5, "^": 6, "&": 7},
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("*", "//", "%"), 10),
}
UNARY, ATOM = 11, 12
STRICT = {"and": "&", "or": "|"}
"""Python's own `and` and `or` would not look at their second operand; the IR's do."""

WRAPPED = ("+", "-", "*", "//")


class Expressions:
    """Writes expressions; a vector is written as the value of its lane `lane`.

    `block` is the block they stand in, for messages; `precise` leaves out the rounding of floats.
    """

    def __init__(self, block: str, precise: bool, names: Names) -> None:
        self.block = block
        self.precise = precise
        self.names = names
        self.names.taken.update(keyword.kwlist, dir(builtins))
        self.identifiers: dict[Var | Buffer, str] = {}

    def name(self, thing: Var | Buffer) -> str:
        found = self.identifiers.get(thing)
        if found is None:
            found = self.identifiers[thing] = self.names.unique(thing.name)
        return found

    def rounded(self, text: str, dtype: str) -> str:
        dtype = dt.element(dtype)
        if dt.is_int(dtype):
            return f"wrap_{dtype}({text})"
        return f"{ROUNDED[dtype]}({text})" if dtype in ROUNDED and not self.precise else text

    def expr(self, e: Expr, above: int = 0) -> str:
        """The text of `e`, in parentheses if it binds no tighter than `above`."""
        method = getattr(self, f"expr_{type(e).__name__.lower()}", None)
        if method is None:
            raise TensorIRError(f"the interpreter cannot run {e!r}, a {type(e).__name__}")
        text, precedence = method(e)
        return f"({text})" if precedence <= above else text

    def expr_const(self, e: Const) -> tuple[str, int]:
        if not dt.is_float(e.dtype):
            return repr(e.value), ATOM if e.value >= 0 else UNARY
        text = repr(e.value)
        return text, UNARY if text.startswith("-") else ATOM

    def expr_var(self, e: Var) -> tuple[str, int]:
        name = self.name(e)
        return (name if dt.lanes(e.dtype) == 1 else f"{name}[lane]"), ATOM

    def expr_binop(self, e: BinOp) -> tuple[str, int]:
        kind = dt.element(e.a.dtype)
        if e.op in ("min", "max"):
            name = f"f{e.op}" if dt.is_float(kind) else e.op
            return f"{name}({self.expr(e.a)}, {self.expr(e.b)})", ATOM
        if e.op == "/":
            return f"div({self.expr(e.a)}, {self.expr(e.b)})", ATOM
        if e.op in ("<<", ">>"):
            name = "shift_left" if e.op == "<<" else "shift_right"
            text = f"{name}({self.expr(e.a)}, {self.expr(e.b)})"
            return f"wrap_{kind}({text})", ATOM
        symbol = STRICT.get(e.op, e.op)
        level = PRECEDENCE[symbol]
        left = self.expr(e.a, above=level if level == 4 else level - 1)
        text = f"{left} {symbol} {self.expr(e.b, above=level)}"
        if e.op in WRAPPED and dt.is_int(kind) and (kind != dt.INDEX or _is_large(e)):
            return f"wrap_{kind}({text})", ATOM
        return text, level

    def expr_not(self, e: Not) -> tuple[str, int]:
        return f"not {self.expr(e.a, above=2)}", 3

    def expr_cast(self, e: Cast) -> tuple[str, int]:
        source, target = dt.element(e.a.dtype), dt.element(e.dtype)
        if dt.is_bool(target):
            return f"{self.expr(e.a, above=4)} != 0", 4
        if dt.is_int(target):
            if dt.is_float(source):
                return f"truncate({self.expr(e.a)}, {target!r})", ATOM
            return f"wrap_{target}(int({self.expr(e.a)}))", ATOM
        if dt.is_float(source):
            return self.rounded(f"({self.expr(e.a)})", target), ATOM
        return self.rounded(f"float({self.expr(e.a)})", target), ATOM

    def expr_select(self, e: Select) -> tuple[str, int]:
        cond, then = self.expr(e.cond, above=0), self.expr(e.a, above=0)
        return f"({then} if {cond} else {self.expr(e.b, above=0)})", ATOM

    def access(self, buffer: Buffer, indices: tuple[Expr, ...]) -> list[str]:
        lane = ["lane"] if dt.lanes(buffer.dtype) > 1 else []
        return [self.expr(i) for i in indices] + lane

    def expr_load(self, e: Load) -> tuple[str, int]:
        indices = self.access(e.buffer, e.indices)
        return f"load_{self.name(e.buffer)}({', '.join([*indices, repr(self.block)])})", ATOM

    def expr_call(self, e: Call) -> tuple[str, int]:
        args = ", ".join(self.expr(a) for a in e.args)
        kind = dt.element(e.args[0].dtype)
        if e.name == REINTERPRET:
            return f"reinterpret({args}, {kind!r}, {dt.element(e.dtype)!r})", ATOM
        if not dt.is_float(kind):
            return f"integer_math({e.name!r}, {kind!r}, {args})", ATOM
        return f"math_{e.name}({args})", ATOM

    def expr_ramp(self, e: Ramp) -> tuple[str, int]:
        return f"{self.expr(e.base, above=8)} + lane * {self.expr(e.stride, above=10)}", 9

    def expr_broadcast(self, e: Broadcast) -> tuple[str, int]:
        return self.expr(e.a, above=UNARY), ATOM

    def expr_shuffle(self, e: Shuffle) -> tuple[str, int]:
        """Each vector is a function of `lane`, called with the lane that is wanted of it."""
        count, a, b = dt.lanes(e.a.dtype), self.expr(e.a, above=0), self.expr(e.b, above=0)
        sides = f"({a}) if lane < {count} else (lambda lane: {b})(lane - {count})"
        return f"(lambda lane: {sides})({e.indices!r}[lane])", ATOM


def _is_large(e: Expr) -> bool:
    """Whether an int64 may go beyond its type: data, unlike an index."""
    return e.has_loads or any([not dt.is_int(v.dtype) or v.dtype == "uint64" for v in e.variables])
