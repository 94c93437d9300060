"""The emitter of the C family: prints a lowered program, and decides nothing but its spelling.

What differs between C and CUDA stands in class attributes (tables) and small methods, which a
subclass overrides. Every expression method answers the text and its precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from string import Template
from typing import ClassVar

from backends.bounds import Bounds
from backends.errors import BuildError
from backends.helpers import find_helper, helper_name, substitutions
from backends.literals import literal
from backends.names import Names
from backends.sharing import SharedLoad, shared_loads, shared_values
from tensorir import (
    Alloc,
    BinOp,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    For,
    ForKind,
    If,
    Let,
    Load,
    Not,
    PrimFunc,
    Ramp,
    Select,
    Seq,
    Stmt,
    Store,
    Target,
    Var,
    int_value,
)
from tensorir import dtype as dt

Text = tuple[str, int]

TERNARY, OR, AND, COMPARE, ADD, MUL, UNARY, ATOM = range(1, 9)
"""Precedences, from loose to tight. Bitwise operators are always put in parentheses."""


class CStyleEmitter:
    """Prints one lowered PrimFunc. `lines` collects statements, `declarations` what they need."""

    indent = "    "
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
    math_names: ClassVar[dict[str, str]] = {"round": "rint"}
    """Where C's name of a function differs from the one of tensorir.intrin."""

    def __init__(self, func: PrimFunc, target: Target) -> None:
        self.func = func
        self.target = target
        self.names = Names()
        self.bounds = Bounds(func.size_vars)
        self.declarations: dict[str, str] = {}
        self.lines: list[str] = []
        self.depth = 1
        self.named: dict[Expr, str] = {}
        self.stored: Buffer | None = None

    # What a text brings along

    def type(self, dtype: str) -> str:
        """The name of a scalar type; its typedef comes along."""
        name = self.type_names[dtype]
        if dtype in self.typedefs:
            self.declarations.setdefault(name, self.typedefs[dtype])
        return name

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
        words = substitutions(dtype, self.type(dtype))
        for text in found.types:
            self.type(dt.LONG.get(Template(text).substitute(words), text))
        result = Template(found.result).substitute(words)
        body = Template(found.text).substitute(words)
        self.declarations[full] = f"{self.inline} {result} {full}{body}"
        return full

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
        return f"!{self.expr(e.a, UNARY)}", UNARY

    def expr_load(self, e: Load) -> Text:
        return self.element(e.buffer, e.indices), ATOM

    def element(self, buffer: Buffer, indices: Sequence[Expr]) -> str:
        """`buffer[index]`; lowered programs have one index."""
        if len(indices) != 1:
            raise BuildError(
                f"{self.func.name}: buffer {buffer.name!r} has {len(indices)} indices; "
                "lower the program first"
            )
        return f"{self.names.of(buffer)}[{self.expr(indices[0])}]"

    def expr_binop(self, e: BinOp) -> Text:
        special = self.special_binary.get(e.op)
        if special is not None:
            return special(self, e)
        precedence, left, right = self.binary_ops[e.op]
        text = f"{self.expr(e.a, left)} {self.spelling.get(e.op, e.op)} {self.expr(e.b, right)}"
        if dt.is_int(e.dtype) and dt.bits(e.dtype) < 32:  # C computes in int
            return f"({self.type(e.dtype)})({text})", UNARY
        return text, precedence

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
            return f"({self.type(e.dtype)})({text})", UNARY
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
            return f"({self.type(e.dtype)})({text})", UNARY
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
            return single if goal == "float32" else (f"({self.type(goal)}){single[0]}", UNARY)
        if goal == "bfloat16":
            return f"{self.helper('from_f32', goal)}({self.expr(e.a)})", ATOM
        if goal == "float16":
            exact = source == "float32" or dt.bits(source) <= 16
            function = self.helper("from_f32" if exact else "from_f64", goal)
            return f"{function}({self.expr(e.a)})", ATOM
        if dt.is_bool(goal):
            return f"{self.expr(e.a, ADD)} != 0", COMPARE
        return f"({self.type(goal)}){self.expr(e.a, UNARY)}", UNARY

    def expr_select(self, e: Select) -> Text:
        a, b = self.expr(e.a, OR), self.expr(e.b, OR)
        if isinstance(e.a, Const) and isinstance(e.b, Const) and dt.is_int(e.dtype):
            a = f"({self.type(e.dtype)}){self.expr(e.a, UNARY)}"
        return f"{self.expr(e.cond, OR)} ? {a} : {b}", TERNARY

    def expr_call(self, e: Call) -> Text:
        return self.math(e.name, dt.element(e.args[0].dtype), [self.expr(a) for a in e.args]), ATOM

    def math(self, name: str, dtype: str, args: Sequence[str]) -> str:
        """A call of a math function for scalars of `dtype`."""
        if dtype not in ("float32", "float64"):
            raise BuildError(
                f"{self.func.name}: {name!r} is not defined for {dtype}; "
                "convert the argument with .astype('float32')"
            )
        if find_helper(name, dtype) is not None:
            function = self.helper(name, dtype)
        else:
            ending = "f" if dtype == "float32" else ""
            function = f"__builtin_{self.math_names.get(name, name)}{ending}"
        return f"{function}({', '.join(args)})"

    def expr_vector(self, e: Expr) -> Text:
        raise BuildError(f"{self.func.name}: this backend has no vectors such as {e!r}")

    # Statements

    def line(self, text: str) -> None:
        self.lines.append(f"{self.indent * self.depth}{text}")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines between `head {` and `}`."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def stmt(self, s: Stmt) -> None:
        """Print a statement into `lines`."""
        method = self.statements.get(type(s))
        if method is None:
            raise BuildError(f"{self.func.name}: {type(s).__name__} is left in the lowered program")
        method(self, s)

    def stmt_seq(self, s: Seq) -> None:
        run: list[Store] = []
        for child in s.stmts:
            if isinstance(child, Store):
                run.append(child)
                continue
            self.stmt_run(run)
            run = []
            if isinstance(child, (Let, Alloc)):  # their names end with their bodies
                with self.block(""):
                    self.stmt(child)
            else:
                self.stmt(child)
        self.stmt_run(run)

    def stmt_run(self, run: Sequence[Store]) -> None:
        """Consecutive stores: what they load several times gets a name where first used."""
        pending = shared_loads(run)
        for position, store in enumerate(run):
            while pending and pending[0].first == position:
                self.name_load(pending.pop(0))
            added = self.name_values((*store.indices, store.value))
            self.stored = store.buffer
            self.store(store)
            for value in added:
                del self.named[value]
        self.named = {e: n for e, n in self.named.items() if not isinstance(e, Load)}

    def name_load(self, shared: SharedLoad) -> str:
        name = self.names.fresh(f"{self.names.of(shared.load.buffer)}_v")
        self.line(f"const {self.value_type(shared.load)} {name} = {self.expr(shared.load)};")
        self.named[shared.load] = name
        return name

    def name_values(self, roots: Sequence[Expr]) -> list[Expr]:
        """Name the compound values that `roots` use several times; returns those."""
        added = []
        for value in shared_values(roots):
            if value not in self.named:
                text = self.expr(value)
                name = self.names.fresh("t")
                self.line(f"const {self.value_type(value)} {name} = {text};")
                self.named[value] = name
                added.append(value)
        return added

    def value_type(self, e: Expr) -> str:
        """The C type of a variable that holds `e`."""
        return self.type(e.dtype)

    def store(self, s: Store) -> None:
        target = self.element(s.buffer, s.indices)
        value = s.value
        if isinstance(value, BinOp) and value.op == "+" and isinstance(value.a, Load):
            load = value.a
            same = load.buffer is s.buffer and all(a is b for a, b in zip(load.indices, s.indices))
            if same and value not in self.named:
                self.line(f"{target} += {self.expr(value.b)};")
                return
        self.line(f"{target} = {self.expr(value)};")

    def stmt_store(self, s: Store) -> None:
        self.stmt_run((s,))

    def stmt_let(self, s: Let) -> None:
        added = self.name_values((s.value,))
        name, kind = self.names.of(s.var), self.value_type(s.value)
        self.line(f"const {kind} {name} = {self.expr(s.value)};")
        for value in added:
            del self.named[value]
        self.stmt(s.body)

    def stmt_if(self, s: If) -> None:
        with self.block(f"if ({self.expr(s.cond)})"):
            self.stmt(s.then)
        if s.orelse is not None:
            self.lines.pop()
            with self.block("} else"):
                self.stmt(s.orelse)

    def stmt_for(self, s: For) -> None:
        self.loop_prefix[s.kind](self, s)
        var, index = self.names.of(s.var), self.type(s.var.dtype)
        head = f"for ({index} {var} = 0; {var} < {self.expr(s.extent, ADD)}; {var}++)"
        with self.block(head), self.bounds.loop(s.var, s.extent):
            self.stmt(s.body)

    def prefix_none(self, s: For) -> None:
        """Nothing stands before a loop of this kind."""

    def prefix_unroll(self, s: For) -> None:
        count = s.const_extent
        if count is not None and count > 1:
            self.line(f"#pragma unroll {count}")

    def prefix_thread(self, s: For) -> None:
        raise BuildError(
            f"{self.func.name}: loop {s.name!r} is bound to {s.thread!r}, "
            f"and target {self.target.kind!r} has no such threads; bind is for cuda"
        )

    def stmt_alloc(self, s: Alloc) -> None:
        raise BuildError(f"{self.func.name}: cannot place buffer {s.buffer.name!r}")

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
    }
    special_binary: ClassVar[dict[str, Callable[..., Text]]] = {
        **dict.fromkeys(("//", "%"), lambda self, e: self.binary_division(e)),
        **dict.fromkeys(("min", "max"), lambda self, e: self.binary_extremum(e)),
        **dict.fromkeys(("<<", ">>"), lambda self, e: self.binary_shift(e)),
        **dict.fromkeys(("==", "!="), lambda self, e: self.binary_equality(e)),
    }
    statements: ClassVar[dict[type, Callable[..., None]]] = {
        Seq: lambda self, s: self.stmt_seq(s),
        For: lambda self, s: self.stmt_for(s),
        Store: lambda self, s: self.stmt_store(s),
        Let: lambda self, s: self.stmt_let(s),
        If: lambda self, s: self.stmt_if(s),
        Alloc: lambda self, s: self.stmt_alloc(s),
    }
    loop_prefix: ClassVar[dict[ForKind, Callable[..., None]]] = {
        ForKind.SERIAL: lambda self, s: self.prefix_none(s),
        ForKind.VECTORIZED: lambda self, s: self.prefix_none(s),
        ForKind.PARALLEL: lambda self, s: self.prefix_none(s),
        ForKind.UNROLLED: lambda self, s: self.prefix_unroll(s),
        ForKind.THREAD: lambda self, s: self.prefix_thread(s),
    }


def is_number(e: Expr) -> bool:
    """Whether `e` is a constant that is not NaN, in every lane."""
    if isinstance(e, Broadcast):
        e = e.a
    return isinstance(e, Const) and e.value == e.value
