"""Expressions of the C family. Every method answers a text and its precedence.

What differs between C and CUDA stands in class attributes (tables) and small methods, which a
subclass overrides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import Template
from typing import ClassVar

from backends.emit.bounds import Bounds
from backends.emit.literals import literal
from backends.emit.names import Names
from backends.emit.sharing import Place, place_of
from backends.errors import BuildError
from backends.math.helpers import find_helper, helper_name, substitutions
from tensorir import (
    MATH,
    REINTERPRET,
    BinOp,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Not,
    PrimFunc,
    Ramp,
    Select,
    Shuffle,
    Target,
    Var,
    children,
    int_value,
    no_such_function,
)
from tensorir import dtype as dt

Text = tuple[str, int]

TERNARY, OR, AND, COMPARE, ADD, MUL, UNARY, ATOM = range(1, 9)
"""Precedences, from loose to tight. Bitwise operators are always put in parentheses."""


class ExpressionEmitter:
    """Prints the expressions of one lowered PrimFunc; `declarations` collects what they need."""

    inline = "static inline"
    type_names: ClassVar[dict[str, str]] = {
        **{d: dt.SHORT[d] for d in (*dt.SIGNED, *dt.UNSIGNED, *dt.STORAGE_ONLY)},
        "bool": "_Bool",
        "float32": "float",
        "float64": "double",
    }
    typedefs: ClassVar[dict[str, str]] = {
        **{d: f"typedef __{d.upper()}_TYPE__ {dt.SHORT[d]};" for d in dt.SIGNED + dt.UNSIGNED},
        "float16": "typedef __UINT16_TYPE__ f16; /* the bits of a half-precision number */",
        "bfloat16": "typedef __UINT16_TYPE__ bf16; /* the upper half of a float's bits */",
    }
    binary_ops: ClassVar[dict[str, tuple[int, int, int]]] = {
        "+": (ADD, ADD, MUL),
        "-": (ADD, ADD, MUL),
        "*": (MUL, MUL, UNARY),
        "/": (MUL, MUL, UNARY),
        "&": (TERNARY, UNARY, UNARY),
        "|": (TERNARY, UNARY, UNARY),
        "^": (TERNARY, UNARY, UNARY),
        "<": (COMPARE, ADD, ADD),
        "<=": (COMPARE, ADD, ADD),
        "==": (COMPARE, ADD, ADD),
        "!=": (COMPARE, ADD, ADD),
        "and": (AND, AND, COMPARE),
        "or": (OR, COMPARE, COMPARE),
    }
    """Operator: precedence of the result, and what the left and right operand must have."""
    spelling: ClassVar[dict[str, str]] = {"and": "&&", "or": "||"}

    def __init__(self, func: PrimFunc, target: Target) -> None:
        self.func = func
        self.target = target
        self.names = Names()
        self.bounds = Bounds(func.size_ranges, values=func.value_vars)
        self.declarations: dict[str, str] = {}
        self.named: dict[Expr, str] = {}
        self.places: dict[Place, tuple[str, int]] = {}
        """Pointers near places, and how many elements before: accesses have constant indices."""
        self.stored: Buffer | None = None

    # What a text brings along

    def type_name(self, dtype: str) -> str:
        """The name of a scalar type; its typedef comes along."""
        name = self.type_names[dtype]
        if dtype in self.typedefs:
            self.declarations.setdefault(name, self.typedefs[dtype])
        return name

    def stored_type(self, dtype: str) -> str:
        """The type of an element in memory."""
        return self.type_name(dtype)

    def helper(self, name: str, dtype: str) -> str:
        """The name of a helper function for a scalar type; its text comes along."""
        full = helper_name(name, dtype)
        if full in self.declarations:
            return full
        found = find_helper(name, dtype)
        if found is None:
            raise BuildError(f"{self.func.name}: {name!r} is not defined for {dtype}")
        for needed, of in found.needs:
            self.helper(needed, of or dtype)
        words = self.words(dtype)
        for text in found.types:
            self.type_name(dt.LONG.get(Template(text).substitute(words), text))
        result = Template(found.result).substitute(words)
        text = self.spelled(f"{result} {full}{Template(found.text).substitute(words)}")
        self.declarations[full] = f"{self.inline} {text}"
        return full

    def words(self, dtype: str) -> dict[str, str]:
        """The values of the $ words of helpers for a scalar type."""
        return substitutions(dtype, self.type_name(dtype))

    def spelled(self, text: str) -> str:
        """The C text of a helper as this language spells it."""
        return text

    # Expressions

    def expr(self, e: Expr, level: int = 0) -> str:
        """`e` as text, in parentheses where it binds looser than `level`."""
        text, precedence = self.render(e)
        return f"({text})" if precedence < level else text

    def render(self, e: Expr) -> Text:
        name = self.named.get(e)
        if name is not None:
            return name, ATOM
        method = self.expressions.get(type(e))
        if method is None:
            raise BuildError(f"{self.func.name}: {type(e).__name__} is left in the lowered program")
        return method(self, e)

    def expr_const(self, e: Const) -> Text:
        text = literal(e.value, e.dtype)
        if text[0] != "-":
            return text, ATOM
        return text, ADD if text.endswith("- 1") else UNARY

    def expr_var(self, e: Var) -> Text:
        return self.names.of(e), ATOM

    def expr_not(self, e: Not) -> Text:
        return f"!{self.expr(e.a, UNARY)}", COMPARE  # `!a == b` draws a warning

    def expr_load(self, e: Load) -> Text:
        return self.element(e.buffer, e.indices), ATOM

    def element(self, buffer: Buffer, indices: Sequence[Expr]) -> str:
        """`buffer[index]`; lowered programs have one index."""
        if len(indices) != 1:
            raise BuildError(
                f"{self.func.name}: buffer {buffer.name!r} has {len(indices)} indices; "
                "lower the program first"
            )
        place, distance = place_of(buffer, indices[0])
        if place in self.places:
            name, before = self.places[place]
            return f"{name}[{distance + before}]"
        return f"{self.names.of(buffer)}[{self.expr(indices[0])}]"

    def expr_binop(self, e: BinOp) -> Text:
        special = self.special_binary.get(e.op)
        return self.binary_operator(e) if special is None else special(self, e)

    def is_operator(self, e: BinOp) -> bool:
        """Whether `e` is printed as an operator between two sides, which `+=` may stand for."""
        return True

    def binary_operator(self, e: BinOp) -> Text:
        """An operator that C has."""
        precedence, left, right = self.binary_ops[e.op]
        text = f"{self.expr(e.a, left)} {self.spelling.get(e.op, e.op)} {self.expr(e.b, right)}"
        if dt.is_int(e.dtype) and dt.bits(e.dtype) < 32:  # C computes in int
            return f"({self.type_name(e.dtype)})({text})", UNARY
        return text, precedence

    def binary_logic(self, e: BinOp) -> Text:
        """and, or: both sides are computed where floats are compared and that is safe.

        gcc 12 with -fno-trapping-math takes `a < b || a == b` for "not greater", which is true of
        NaN; it does not do that to `|`.
        """
        floats = any(_compares_floats(part) for part in (e.a, e.b))
        if not floats or not self._is_plain(e.b):
            return self.binary_operator(e)
        sign = "&" if e.op == "and" else "|"
        return f"{self.expr(e.a, UNARY)} {sign} {self.expr(e.b, UNARY)}", TERNARY

    def _is_plain(self, e: Expr) -> bool:
        """Whether `e` may be computed although it is not needed: no memory, nothing slow."""
        if e in self.named:
            return True
        slow = isinstance(e, (Load, Select, Call)) and not (
            isinstance(e, Call) and dt.is_bool(e.dtype)
        )
        divides = isinstance(e, BinOp) and e.op in ("//", "%")
        return not slow and not divides and all(map(self._is_plain, children(e)))

    def call_helper(self, name: str, dtype: str, *args: Expr) -> Text:
        return f"{self.helper(name, dtype)}({', '.join(map(self.expr, args))})", ATOM

    def binary_division(self, e: BinOp) -> Text:
        divisor = int_value(e.b)
        quotient = e.op == "//"
        if divisor is not None and divisor > 0 and not divisor & (divisor - 1):
            by = divisor.bit_length() - 1
            text = f"{self.expr(e.a, UNARY)} {f'>> {by}' if quotient else f'& {divisor - 1}'}"
        elif self.bounds.plain_division(e.a, e.b):
            text = f"{self.expr(e.a, MUL)} {'/' if quotient else '%'} {self.expr(e.b, UNARY)}"
            if dt.bits(e.dtype) >= 32:
                return text, MUL
        else:
            return self.call_helper("floordiv" if quotient else "floormod", e.dtype, e.a, e.b)
        if dt.bits(e.dtype) < 32:
            return f"({self.type_name(e.dtype)})({text})", UNARY
        return text, TERNARY

    def binary_extremum(self, e: BinOp) -> Text:
        """max and min. A constant on one side cannot be NaN, which makes it one instruction."""
        if not dt.is_float(e.dtype):
            return self.call_helper(e.op, e.dtype, e.a, e.b)
        for known, other in ((e.a, e.b), (e.b, e.a)):
            if is_number(known):
                return self.call_helper(f"{e.op}c", e.dtype, known, other)
        accumulates = isinstance(e.a, Load) and e.a.buffer is self.stored
        a, b = (e.b, e.a) if accumulates else (e.a, e.b)
        return self.call_helper(e.op, e.dtype, a, b)

    def binary_shift(self, e: BinOp) -> Text:
        by = int_value(e.b)
        if by is None or not 0 <= by < dt.bits(e.dtype):
            return self.call_helper("shl" if e.op == "<<" else "shr", e.dtype, e.a, e.b)
        text = f"{self.expr(e.a, UNARY)} {e.op} {by}"
        if dt.bits(e.dtype) < 32:
            return f"({self.type_name(e.dtype)})({text})", UNARY
        return text, TERNARY

    def binary_equality(self, e: BinOp) -> Text:
        a, b = self.widened(e.a, ADD), self.widened(e.b, ADD)
        return f"{a} {e.op} {b}", COMPARE

    def widened(self, e: Expr, level: int) -> str:
        """`e`, as a float where it is of a storage type."""
        if dt.element(e.dtype) in dt.STORAGE_ONLY:
            return self.expr(Cast(dt.with_lanes("float32", dt.lanes(e.dtype)), e), level)
        return self.expr(e, level)

    def expr_cast(self, e: Cast) -> Text:
        source, goal = e.a.dtype, e.dtype
        if source == goal:
            return self.render(e.a)
        if source in dt.STORAGE_ONLY:
            single = self.call_helper("to_f32", source, e.a)
            if goal in dt.STORAGE_ONLY:
                return f"{self.helper('from_f32', goal)}({single[0]})", ATOM
            return single if goal == "float32" else (f"({self.type_name(goal)}){single[0]}", UNARY)
        if goal == "bfloat16":
            return f"{self.helper('from_f32', goal)}({self.expr(e.a)})", ATOM
        if goal == "float16":
            exact = source == "float32" or dt.bits(source) <= 16
            function = self.helper("from_f32" if exact else "from_f64", goal)
            return f"{function}({self.expr(e.a)})", ATOM
        if dt.is_bool(goal):
            return f"{self.expr(e.a, ADD)} != 0", COMPARE
        return f"({self.type_name(goal)}){self.expr(e.a, UNARY)}", UNARY

    def expr_select(self, e: Select) -> Text:
        a, b = self.expr(e.a, OR), self.expr(e.b, OR)
        narrow = dt.is_int(e.dtype) and dt.bits(e.dtype) < 32 and dt.lanes(e.dtype) == 1
        if isinstance(e.a, Const) and isinstance(e.b, Const) and dt.is_int(e.dtype) and not narrow:
            a = f"({self.type_name(e.dtype)}){self.expr(e.a, UNARY)}"
        text = f"{self.expr(e.cond, OR)} ? {a} : {b}"
        if narrow:  # of which C chooses an int
            return f"({self.type_name(e.dtype)})({text})", UNARY
        return text, TERNARY

    def expr_call(self, e: Call) -> Text:
        if e.name == REINTERPRET:
            return self.reinterpret(e)
        return self.math(e.name, dt.element(e.args[0].dtype), [self.expr(a) for a in e.args]), ATOM

    def reinterpret(self, e: Call) -> Text:
        """The bits of one scalar as another; storage types are held in integers anyway."""
        (value,) = e.args
        held = [dt.is_int(d) or d in dt.STORAGE_ONLY for d in (value.dtype, e.dtype)]
        if all(held):
            return f"({self.type_name(e.dtype)}){self.expr(value, UNARY)}", UNARY
        return f"{self.bits_as(value.dtype, e.dtype)}({self.expr(value)})", ATOM

    def bits_as(self, source: str, goal: str) -> str:
        """The name of the function from a number to that of another type with the same bits."""
        before, after = self.type_name(source), self.type_name(goal)
        name = f"bits_of_{dt.SHORT[source]}_as_{dt.SHORT[goal]}"
        body = f"    union {{ {before} x; {after} y; }} v = {{x}};\n    return v.y;"
        self.declarations.setdefault(
            name, f"{self.inline} {after} {name}({before} x) {{\n{body}\n}}"
        )
        return name

    def math(self, name: str, dtype: str, args: Sequence[str]) -> str:
        """A call of a math function for scalars of `dtype`."""
        self.check_math(name, dtype)
        if find_helper(name, dtype) is not None:
            function = self.helper(name, dtype)
        else:
            ending = "f" if dtype == "float32" else ""
            function = f"__builtin_{name}{ending}"
        return f"{function}({', '.join(args)})"

    def check_math(self, name: str, dtype: str) -> None:
        """Raise BuildError for what is no math function, which may be the name of a helper or of a
        builtin for another type, and for one that takes no operands of `dtype`."""
        row = MATH.get(name)
        if row is None:
            raise BuildError(f"{self.func.name}: {no_such_function(name)}")
        if dtype in dt.STORAGE_ONLY or not row.takes(dtype):
            raise BuildError(
                f"{self.func.name}: {name!r} is not defined for {dtype}; "
                "convert the argument with .astype('float32')"
            )

    def expr_vector(self, e: Expr) -> Text:
        raise BuildError(f"{self.func.name}: this backend has no vectors such as {e!r}")

    def value_type(self, e: Expr) -> str:
        """The C type of a variable that holds `e`."""
        return self.type_name(e.dtype)

    expressions: ClassVar[dict[type, Callable[..., Text]]] = {
        Const: lambda self, e: self.expr_const(e),
        Var: lambda self, e: self.expr_var(e),
        BinOp: lambda self, e: self.expr_binop(e),
        Not: lambda self, e: self.expr_not(e),
        Cast: lambda self, e: self.expr_cast(e),
        Select: lambda self, e: self.expr_select(e),
        Load: lambda self, e: self.expr_load(e),
        Call: lambda self, e: self.expr_call(e),
        Ramp: lambda self, e: self.expr_vector(e),
        Broadcast: lambda self, e: self.expr_vector(e),
        Shuffle: lambda self, e: self.expr_vector(e),
    }
    special_binary: ClassVar[dict[str, Callable[..., Text]]] = {
        **dict.fromkeys(("//", "%"), lambda self, e: self.binary_division(e)),
        **dict.fromkeys(("min", "max"), lambda self, e: self.binary_extremum(e)),
        **dict.fromkeys(("<<", ">>"), lambda self, e: self.binary_shift(e)),
        **dict.fromkeys(("==", "!="), lambda self, e: self.binary_equality(e)),
        **dict.fromkeys(("and", "or"), lambda self, e: self.binary_logic(e)),
    }


def _compares_floats(e: Expr) -> bool:
    """Whether a condition has a comparison of floats in it, or a question about one."""
    if isinstance(e, (BinOp, Call)):
        of = e.args[0] if isinstance(e, Call) else e.a
        if dt.is_bool(e.dtype) and dt.is_float(dt.element(of.dtype)):
            return True
    return any(map(_compares_floats, children(e)))


def is_number(e: Expr) -> bool:
    """Whether `e` is a constant that is not NaN, in every lane."""
    if isinstance(e, Broadcast):
        e = e.a
    return isinstance(e, Const) and e.value == e.value
