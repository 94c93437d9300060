"""Vector expressions in GCC's and clang's vector extensions.

Arithmetic and comparisons are operators of the language; a scalar on one side is broadcast by it.
Everything else is a helper that loops over the lanes, which the compiler turns back into the vector
instruction where the target has one, so that no text here knows an instruction set.
"""

from __future__ import annotations

from functools import cached_property

from backends.c.emit.division import by_constant
from backends.c.emit.masks import MaskEmitter, is_mask
from backends.c.emit.native import Native, chosen_by_bits, joined, merged
from backends.c.emit.vector_math import vector_helper
from backends.emit.expressions import ADD, ATOM, OR, TERNARY, UNARY, Text
from backends.math.forms import by_mask
from backends.math.helpers import find_helper
from tensorir import (
    REINTERPRET,
    BinOp,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Intervals,
    Load,
    Not,
    PrimFunc,
    Ramp,
    Select,
    Shuffle,
    Target,
    Var,
    cast,
    int_value,
)
from tensorir import dtype as dt


class VectorEmitter(MaskEmitter):
    """Adds expressions of vectors to the emitter."""

    def __init__(self, func: PrimFunc, target: Target) -> None:
        super().__init__(func, target)
        self.shuffles: dict[tuple[str, tuple[int, ...]], str] = {}  # by the type of the sources
        self.turned: set[bool] = set()  # conversions of floats to integers, or (True) of these
        self.on_arm = "arm_neon" in target.features  # then the builtins of x86 are left out

    @cached_property
    def intervals(self) -> Intervals:
        """What integers that are computed from data can be."""
        return Intervals.within(self.func)

    # Expressions

    def render(self, e: Expr) -> Text:
        if dt.lanes(e.dtype) == 1 or e in self.named:
            return super().render(e)
        if isinstance(e, (Var, Load)) or (isinstance(e, Const) and e.dtype == dt.element(e.dtype)):
            return super().render(e)
        return self.expr_vector(e)

    def expr_vector(self, e: Expr) -> Text:
        if isinstance(e, Const):
            return self.splat(Const(e.value, dt.element(e.dtype)), dt.lanes(e.dtype))
        if isinstance(e, Broadcast):
            return self.splat(e.a, e.lanes)
        if isinstance(e, Ramp):
            return self.ramp(e)
        if isinstance(e, Shuffle):
            return self.shuffle(e)
        if isinstance(e, Not):
            return f"~{self.expr(e.a, UNARY)}", UNARY
        if isinstance(e, Select):
            return self.vector_select(e)
        if isinstance(e, Call):
            return self.vector_call(e)
        return super().render(e)

    def lanes_helper(
        self,
        name: str,
        result: str,
        params: str,
        lane: str,
        lanes: int,
        native: Native | None = None,
        whole: str = "",
    ) -> str:
        """A function that computes each lane by the text `lane`, in which `i` is its number, and
        in clang, which takes some of such loops apart, by the text `whole`, if it is given."""
        if name in self.declarations:
            return name
        loop = f"for (int i = 0; i < {lanes}; i++) r[i] = {lane};"
        if lanes == 2:  # gcc writes two turns out before it looks for vectors
            loop = f'_Pragma("GCC unroll 1") {loop}'
        body = f"    {result} r = {{0}};\n    {loop}\n    return r;"
        if whole:
            body = f"#ifdef __clang__\n    return {whole};\n#else\n{body}\n#endif"
        body = self.native_or(native, "    return $;", body)
        self.declarations[name] = f"{self.inline} {result} {name}({params}) {{\n{body}\n}}"
        return name

    def native_or(self, native: Native | None, use: str, usual: str) -> str:
        """`use` with the builtin in place of $ where there is one, and elsewhere `usual`."""
        if native is None or self.on_arm:
            return usual
        test = f"defined({native.feature})"
        if not native.in_clang:
            test += " && !defined(__clang__)"
        return f"#if {test}\n{use.replace('$', native.expression)}\n#else\n{usual}\n#endif"

    def splat(self, scalar: Expr, lanes: int, bits: int = 8) -> Text:
        """All lanes equal to `scalar`; of a bool, masks of so many bits."""
        if dt.is_bool(scalar.dtype):
            dtype = f"int{bits}x{lanes}"
            text = f"-{self.expr(scalar, UNARY)}"
        else:
            dtype = dt.with_lanes(scalar.dtype, lanes)
            text = self.expr(scalar)
            if isinstance(scalar, Const) and scalar.value == 0 and text[0] != "-":
                return f"({self.vector_type(dtype)}){{0}}", ATOM
        return f"{self.splatter(dtype)}({text})", ATOM

    def splatter(self, dtype: str) -> str:
        """The function that makes a vector with one number in all lanes."""
        vector, lanes = self.vector_type(dtype), dt.lanes(dtype)
        name = f"splat_{vector}"
        if name not in self.declarations:
            text = f"({vector}){{{', '.join(['x'] * lanes)}}}"
            if self.is_wide(dtype):  # gcc 12 would store them to memory, one by one
                half = f"{self.splatter(dt.with_lanes(dt.element(dtype), lanes // 2))}(x)"
                text = joined(half, half, lanes)
            head = f"{self.inline} {vector} {name}({self.type_name(dt.element(dtype))} x)"
            self.declarations[name] = f"{head} {{ return {text}; }}"
        return name

    def is_wide(self, dtype: str) -> bool:
        """Whether a vector fills several registers."""
        bits = self.target.vector_bits or 0
        return 0 < bits < 8 * dt.itemsize(dtype) and dt.lanes(dtype) % 2 == 0

    def masked(self, e: Expr, bits: int, level: int = 0) -> str:
        if isinstance(e, Broadcast) and e not in self.named:
            return self.splat(e.a, e.lanes, bits)[0]
        return super().masked(e, bits, level)

    def ramp(self, e: Ramp) -> Text:
        vector, element = self.vector_type(e.dtype), self.type_name(e.base.dtype)
        name = f"ramp_{vector}"
        steps = f"({vector}){{{', '.join(map(str, range(e.lanes)))}}}"
        self.declarations.setdefault(
            name,
            f"{self.inline} {vector} {name}({element} base, {element} step) {{\n"
            f"    return base + step * {steps};\n}}",
        )
        base, beyond = self.parted(e.base)
        text = f"{name}({self.expr(base)}, {self.expr(e.stride)})"
        return (f"{text} + {beyond}", ADD) if beyond else (text, ATOM)

    def parted(self, base: Expr) -> tuple[Expr, int]:
        """Where lanes begin, and a number that is added to all of them: what begins at several
        numbers from one place has the place in all lanes once."""
        inner = base.a if isinstance(base, Cast) and dt.is_int(base.a.dtype) else base
        by = inner.b if isinstance(inner, BinOp) and inner.op == "+" else None
        if {base, inner} & set(self.named) or not isinstance(by, Const):
            return base, 0
        assert isinstance(inner, BinOp)
        most = dt.int_limits(base.dtype)[1]
        fits = 0 < by.value <= most and dt.bits(base.dtype) >= 32
        return (cast(base.dtype, inner.a), int(by.value)) if fits else (base, 0)

    def shuffle(self, e: Shuffle) -> Text:
        """A helper for each order of the lanes; the builtin is in clang and in gcc from 12 on."""
        source, vector = self.vector_type(e.a.dtype), self.vector_type(e.dtype)
        name = self.shuffles.get((source, e.indices))
        if name is None:
            name = self.names.fresh(f"shuffle_{vector}")
            self.shuffles[source, e.indices] = name
            call = f"__builtin_shufflevector(a, b, {', '.join(map(str, e.indices))})"
            native = merged(e.a.dtype, e.indices)
            if native is None or self.on_arm:  # calls in place take gcc time
                self.declarations[name] = f"#define {name}(a, b) {call}"
            else:
                head = f"{self.inline} {vector} {name}({source} a, {source} b)"
                body = self.native_or(native, f"    return ({vector})$;", f"    return {call};")
                self.declarations[name] = f"{head} {{\n{body}\n}}"
        # Commas within braces would part the arguments of a macro.
        sides = (f"({side})" if "{" in side else side for side in map(self.expr, (e.a, e.b)))
        return f"{name}({', '.join(sides)})", ATOM

    def operand(self, e: Expr, other: Expr, level: int) -> str:
        """One side of an operator: a broadcast needs no text where the other side is a vector."""
        scalar = e.a if isinstance(e, Broadcast) else None
        if scalar is None or e in self.named or isinstance(other, (Broadcast, Const)):
            return self.expr(e, level)
        if scalar.dtype == "uint64" and not isinstance(scalar, Load):
            # Numbers are long long, which clang does not take.
            return f"({self.type_name(scalar.dtype)}){self.expr(scalar, UNARY)}"
        return self.expr(scalar, level)

    def expr_binop(self, e: BinOp) -> Text:
        if dt.lanes(e.a.dtype) == 1:
            return super().expr_binop(e)
        if dt.is_bool(e.a.dtype):
            return self.mask_operation(e)
        if e.op in ("==", "!=") and dt.element(e.a.dtype) in dt.STORAGE_ONLY:
            single = dt.with_lanes("float32", dt.lanes(e.a.dtype))
            return self.expr_binop(BinOp(e.op, Cast(single, e.a), Cast(single, e.b)))
        if e.op in ("//", "%"):
            return self.vector_division(e)
        wide = None if self.on_arm else computed_as(e)
        if wide is not None:
            return self.render(Cast(e.dtype, BinOp(e.op, Cast(wide, e.a), Cast(wide, e.b))))
        if e.op in ("min", "max"):
            return self.binary_extremum(e)
        if e.op in ("<<", ">>"):
            return self.vector_shift(e)
        precedence, left, right = self.binary_ops[e.op]
        return f"{self.operand(e.a, e.b, left)} {e.op} {self.operand(e.b, e.a, right)}", precedence

    def call_helper(self, name: str, dtype: str, *args: Expr) -> Text:
        if dt.lanes(dtype) == 1:
            return super().call_helper(name, dtype, *args)
        return f"{vector_helper(self, name, dtype)}({', '.join(map(self.expr, args))})", ATOM

    def vector_division(self, e: BinOp) -> Text:
        divisor = lane_value(e.b)
        quotient = e.op == "//"
        if divisor is not None and divisor > 0 and not divisor & (divisor - 1):
            by = divisor.bit_length() - 1
            text = self.expr(e.a, UNARY)
            return f"{text} >> {by}" if quotient else f"{text} & {divisor - 1}", TERNARY
        helper = by_constant(self, e)
        if helper is not None:
            return f"{helper}({self.expr(e.a)})", ATOM
        return self.call_helper("lanediv" if quotient else "lanemod", e.dtype, e.a, e.b)

    def vector_shift(self, e: BinOp) -> Text:
        by = lane_value(e.b)
        if by is None or not 0 <= by < dt.bits(e.dtype):
            return self.call_helper("shl" if e.op == "<<" else "shr", e.dtype, e.a, e.b)
        return f"{self.expr(e.a, UNARY)} {e.op} {by}", TERNARY

    def vector_select(self, e: Select) -> Text:
        lanes, boolean = dt.lanes(e.dtype), is_mask(e)
        bits = self.mask_bits(e) if boolean else dt.bits(e.dtype)
        level = OR if dt.lanes(e.cond.dtype) == 1 else 0
        a, b = (self.masked(s, bits, level) if boolean else self.expr(s, level) for s in (e.a, e.b))
        if level:
            return f"{self.expr(e.cond, level)} ? {a} : {b}", TERNARY
        mask = self.mask_type(bits, lanes)
        vector = mask if boolean else self.vector_type(e.dtype)
        name = self.select_helper(vector, mask, lanes, not dt.is_float(e.dtype))
        if not boolean and self.mask_bits(e.cond) != bits:
            by_bits = self.select_by_bits(e, name)
            if by_bits is not None:
                return f"{by_bits}, {a}, {b})", ATOM
        return f"{name}({self.masked(e.cond, bits)}, {a}, {b})", ATOM

    def select_by_bits(self, e: Select, usual: str) -> str | None:
        """The beginning of a choice by lanes of another width: AVX-512 chooses by the bits that it
        compares to, and brings no mask to the lanes that are chosen between."""
        cond, lanes = e.cond, dt.lanes(e.dtype)
        op, of, params = "", f"int{self.mask_bits(cond)}x{lanes}", "x"
        sides: tuple[Expr, ...] = (cond,)
        if isinstance(cond, BinOp) and cond.op in _WORDS and cond not in self.named:
            element = dt.element(cond.a.dtype)
            if not dt.is_bool(element) and element not in dt.STORAGE_ONLY:
                op, of, params = cond.op, dt.with_lanes(element, lanes), "xy"
                sides = cond.a, cond.b
        native = chosen_by_bits(e.dtype, of, op)
        if native is None or self.on_arm:
            return None
        vector, other = self.vector_type(e.dtype), self.vector_type(of)
        name = f"{usual}_{_WORDS[op]}{other}"
        if name not in self.declarations:
            masks = (f"int{bits}x{lanes}" for bits in (self.mask_bits(cond), dt.bits(e.dtype)))
            wide = self.converted(f" {op} ".join(params), *masks)
            body = self.native_or(native, "    return $;", f"    return {usual}({wide}, a, b);")
            given = ", ".join(f"{other} {p}" for p in params)
            head = f"{self.inline} {vector} {name}({given}, {vector} a, {vector} b)"
            self.declarations[name] = f"{head} {{\n{body}\n}}"
        return f"{name}({', '.join(map(self.expr, sides))}"

    def select_helper(self, vector: str, mask: str, lanes: int, whole: bool) -> str:
        """The function that chooses between vectors, of integers if `whole`, lane by lane."""
        params, lane = f"{mask} m, {vector} a, {vector} b", "m[i] ? a[i] : b[i]"
        if lanes == 2 and whole:  # gcc 12 makes the mask of m ? 1 : 0
            lane = "(m[i] & a[i]) | (~m[i] & b[i])"
        chosen = by_mask(vector, mask, "m")
        return self.lanes_helper(f"select_{vector}", vector, params, lane, lanes, whole=chosen)

    def vector_call(self, e: Call) -> Text:
        if e.name == REINTERPRET:
            return f"({self.vector_type(e.dtype)}){self.expr(e.args[0], UNARY)}", UNARY
        source = dt.with_lanes(dt.element(e.args[0].dtype), dt.lanes(e.dtype))
        self.check_math(e.name, dt.element(source))
        vector, lanes = self.vector_type(source), dt.lanes(e.dtype)
        if find_helper(e.name, dt.element(source)) is not None and not dt.is_bool(e.dtype):
            args = ", ".join(map(self.expr, e.args))
            return f"{vector_helper(self, e.name, source)}({args})", ATOM
        if dt.is_bool(e.dtype):
            return f"{self.kind_helper(e.name, source)}({self.expr(e.args[0])})", ATOM
        names = "abc"[: len(e.args)]
        lane = self.math(e.name, dt.element(source), [f"{n}[i]" for n in names])
        params = ", ".join(f"{vector} {n}" for n in names)
        name = self.lanes_helper(f"{e.name}_{vector}", vector, params, lane, lanes)
        return f"{name}({', '.join(map(self.expr, e.args))})", ATOM

    def kind_helper(self, name: str, dtype: str) -> str:
        """The function that tells for each lane whether it is NaN, infinite, finite."""
        vector, lanes = self.vector_type(dtype), dt.lanes(dtype)
        mask, full = self.mask_type(dt.bits(dtype), lanes), f"{name}_{vector}"
        less = f"    {vector} d = x - x; /* 0 or NaN */\n" if name != "isnan" else ""
        body = f"{less}    return {_KINDS[name]};"
        text = f"{self.inline} {mask} {full}({vector} x) {{\n{body}\n}}"
        self.declarations.setdefault(full, text)
        return full


_WORDS = {"": "", "==": "eq_", "!=": "ne_", "<": "lt_", "<=": "le_", ">": "gt_", ">=": "ge_"}
_KINDS = {"isnan": "x != x", "isinf": "(x == x) & (d != d)", "isfinite": "d == d"}


def lane_value(e: Expr) -> int | None:
    """The integer that all lanes hold, if it is known."""
    return int_value(e.a if isinstance(e, Broadcast) else e)


def computed_as(e: BinOp) -> str | None:
    """The type that an operation on vectors of narrow integers is computed in, where processors
    have none for their own; None for others. The bits that both have are the same."""
    bits, lanes = dt.bits(e.dtype), dt.lanes(e.dtype)
    if e.op in ("<<", ">>") and bits < 32 and lane_value(e.b) is None:
        wide = 32
    elif e.op in ("*", "<<", ">>") and bits == 8 and lanes < 16:
        wide = min(64, max(16, 128 // lanes))
    else:
        return None
    return dt.with_lanes(f"{'u' * dt.is_unsigned(e.dtype)}int{wide}", lanes)
