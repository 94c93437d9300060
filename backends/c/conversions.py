"""Conversions of vectors, masks and the storage types float16 and bfloat16 included."""

from __future__ import annotations

from string import Template

from backends.c.native import float16, widened
from backends.c.vectors import VectorEmitter
from backends.expressions import ADD, ATOM, COMPARE, UNARY, Text
from tensorir import Broadcast, Cast, Expr
from tensorir import dtype as dt

_TO_BF16 = Template(
    """\
u32x$L u = (u32x$L)x, rounded = u + 0x7fff + (u >> 16 & 1); /* to nearest, ties to even */
    for (int i = 0; i < $L; i++) rounded[i] = x[i] != x[i] ? u[i] | 0x400000 : rounded[i];
    return __builtin_convertvector(rounded >> 16, bf16x$L);"""
)


class ConversionEmitter(VectorEmitter):
    """Adds the conversions to the emitter of vectors."""

    def expr_vector(self, e: Expr) -> Text:
        return self.vector_cast(e) if isinstance(e, Cast) else super().expr_vector(e)

    def vector_cast(self, e: Cast) -> Text:
        source, goal = e.a.dtype, e.dtype
        if isinstance(e.a, Broadcast):
            return self.splat(Cast(dt.element(goal), e.a.a), e.a.lanes)
        if dt.is_bool(source):
            return self.mask_to_number(e)
        if dt.is_bool(goal):
            return f"{self.widened(e.a, ADD)} != 0", COMPARE
        text = self.expr(e.a)
        steps = [source, *conversion_steps(source, goal)]
        while len(steps) > 1:
            far = next((k for k in (3, 2, 1) if _in_one(steps, k)), 1)
            text = self.convert(text, steps[0], steps[far])
            steps = steps[far:]
        return text, ATOM

    def convert(self, text: str, source: str, goal: str) -> str:
        """One step of a conversion between vectors of numbers."""
        if dt.STORAGE_ONLY[0] in (dt.element(source), dt.element(goal)):
            name = self.convert_float16(source, goal)
        elif dt.STORAGE_ONLY[1] in (dt.element(source), dt.element(goal)):
            name = self.convert_bfloat16(source, goal)
        elif widened(source, goal) is not None and not self.on_arm:
            name = self.convert_wider(source, goal)
        else:
            return f"__builtin_convertvector({text}, {self.vector_type(goal)})"
        return f"{name}({text})"

    def convert_wider(self, source: str, goal: str) -> str:
        """The name of a conversion to wider elements that x86 has as an instruction."""
        before, after = self.vector_type(source), self.vector_type(goal)
        name, native = f"{before}_to_{after}", widened(source, goal)
        usual = f"    return __builtin_convertvector(x, {after});"
        body = self.native_or(native, f"    return ({after})$;", usual)
        self.declarations.setdefault(
            name, f"{self.inline} {after} {name}({before} x) {{\n{body}\n}}"
        )
        return name

    def convert_bfloat16(self, source: str, goal: str) -> str:
        """The name of the conversion between bfloat16 and float32 vectors."""
        before, after, lanes = self.vector_type(source), self.vector_type(goal), dt.lanes(goal)
        self.vector_type(f"uint32x{lanes}")
        name = f"{before}_to_{after}"
        if dt.element(source) == "bfloat16":
            u = self.convert("x", f"uint16x{lanes}", f"uint32x{lanes}")
            body = f"return ({after})({u} << 16);"
        else:
            body = _TO_BF16.substitute(L=lanes)
        if name not in self.declarations:
            self.declarations[name] = f"{self.inline} {after} {name}({before} x) {{\n    {body}\n}}"
        return name

    def convert_float16(self, source: str, goal: str) -> str:
        """The name of the conversion between float16 and float32 or float64 vectors."""
        before, after, lanes = self.vector_type(source), self.vector_type(goal), dt.lanes(goal)
        reads = dt.element(source) == "float16"
        wide = dt.SHORT[dt.element(goal if reads else source)]
        scalar = self.helper(f"to_{wide}" if reads else f"from_{wide}", "float16")
        name = f"{before}_to_{after}"
        params, native = f"{before} x", float16(source, goal)
        return self.lanes_helper(name, after, params, f"{scalar}(x[i])", lanes, native)

    def mask_to_number(self, e: Cast) -> Text:
        goal, lanes = e.dtype, dt.lanes(e.dtype)
        if dt.is_bool(goal):
            return self.render(e.a)
        if dt.element(goal) in dt.STORAGE_ONLY:
            return self.vector_cast(Cast(goal, Cast(f"float32x{lanes}", e.a)))
        bits = dt.bits(goal)
        text = f"({self.masked(e.a, bits, UNARY)} & 1)"
        vector = self.vector_type(goal)
        if dt.is_float(goal):
            return f"__builtin_convertvector({text}, {vector})", ATOM
        return f"({vector}){text}", UNARY


def _in_one(steps: list[str], count: int) -> bool:
    """Whether the first `count` steps are one instruction."""
    return count < len(steps) and widened(steps[0], steps[count]) is not None


def conversion_steps(source: str, goal: str) -> list[str]:
    """Vector types from `source` to `goal`, such that each step is one that gcc 12 does well.

    Widening doubles at each step; between integers and floats the widths are made equal first.
    """
    lanes = dt.lanes(goal)
    return [dt.with_lanes(step, lanes) for step in _steps(dt.element(source), dt.element(goal))]


def _steps(source: str, goal: str) -> list[str]:
    if source == goal:
        return []
    if source in dt.STORAGE_ONLY:
        return ["float32", *_steps("float32", goal)]
    if goal in dt.STORAGE_ONLY:
        exact = goal == "bfloat16" or source == "float32" or dt.bits(source) <= 16
        middle = "float32" if exact else "float64"
        return [*_steps(source, middle), goal]
    before, after = dt.bits(source), dt.bits(goal)
    if dt.is_float(source) or dt.is_float(goal):
        return _float_steps(source, goal, before, after)
    if after > 2 * before:
        kind = "uint" if dt.is_unsigned(source) else "int"
        return [f"{kind}{2 * before}", *_steps(f"{kind}{2 * before}", goal)]
    return [goal]


def _float_steps(source: str, goal: str, before: int, after: int) -> list[str]:
    if dt.is_int(source) and before < after:
        return [*_steps(source, f"int{after}"), goal]
    if dt.is_int(goal) and after < 32:
        return ["int32", goal]
    return [goal]
