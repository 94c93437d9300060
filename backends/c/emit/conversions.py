"""Conversions of vectors, masks and the storage types float16 and bfloat16 included."""

from __future__ import annotations

from string import Template

from backends.c.emit.native import Native, float16, narrowed, picked, widened
from backends.c.emit.vectors import VectorEmitter
from backends.emit.expressions import ADD, ATOM, COMPARE, UNARY, Text
from tensorir import Broadcast, Cast, Expr
from tensorir import dtype as dt

_TO_F16 = Template(
    """\
f32x$L y = __builtin_convertvector(x, f32x$L); /* made odd where inexact: rounds as x does */
    f64x$L z = $widened;
    i64x$L most = (i64x$L){0} + 0x7fffffffffffffff;
    i64x$L over = (f64x$L)((i64x$L)z & most) > (f64x$L)((i64x$L)x & most), off = z != x;
    y = (f32x$L)(((i32x$L)y + $over) | ($off & 1));
    return $rounded;"""
)

_TO_BF16 = Template(
    """\
u32x$L u = (u32x$L)x, rounded = u + 0x7fff + (u >> 16 & 1); /* to nearest, ties to even */
    for (int i = 0; i < $L; i++) rounded[i] = x[i] != x[i] ? u[i] | 0x400000 : rounded[i];
    return $narrowed;"""
)


_ONES = {"float32": "0x3f800000", "float64": "0x3ff0000000000000"}
"""The bits of 1.0."""

_PINNED = """\
#ifdef __AVX512F__ /* gcc 12 fails where it merges the load of less than a register with masks */
#define PINNED(v) __asm__("" : "+v"(v))
#else
#define PINNED(v) ((void)0)
#endif"""

TURNED = """\
/* Floats become integers, and integers floats: with -fno-trapping-math, gcc 12 takes (float)(int)x
   for trunc(x), which is -0.0 for some x. */"""


class ConversionEmitter(VectorEmitter):
    """Adds the conversions to the emitter of vectors."""

    def expr_vector(self, e: Expr) -> Text:
        return self.vector_cast(e) if isinstance(e, Cast) else super().expr_vector(e)

    def expr_cast(self, e: Cast) -> Text:
        self.tell_of_turns(e.a.dtype, e.dtype)
        return super().expr_cast(e)

    def tell_of_turns(self, source: str, goal: str) -> None:
        """Say in the text where floats become integers, and integers floats."""
        kinds = [dt.is_float(dt.element(kind)) for kind in (source, goal) if not dt.is_bool(kind)]
        if len({*kinds}) == 2:
            self.turned.add(kinds[1])
        if len(self.turned) == 2:
            self.declarations.setdefault("TURNED", TURNED)

    def vector_cast(self, e: Cast) -> Text:
        source, goal = e.a.dtype, e.dtype
        self.tell_of_turns(source, goal)
        if isinstance(e.a, Broadcast):
            return self.splat(Cast(dt.element(goal), e.a.a), e.a.lanes)
        if dt.is_bool(source):
            return self.mask_to_number(e)
        if dt.is_bool(goal):
            return f"{self.widened(e.a, ADD)} != 0", COMPARE
        return self.converted(self.expr(e.a), source, goal), ATOM

    def converted(self, text: str, source: str, goal: str) -> str:
        """A vector of numbers in lanes of another type, in as many steps as that takes."""
        steps = [source, *conversion_steps(source, goal)]
        while len(steps) > 1:
            far = next((k for k in (3, 2) if _in_one(steps, k) and not self.on_arm), 1)
            text = self.convert(text, steps[0], steps[far])
            steps = steps[far:]
        return text

    def convert(self, text: str, source: str, goal: str) -> str:
        """One step of a conversion between vectors of numbers."""
        if dt.STORAGE_ONLY[0] in (dt.element(source), dt.element(goal)):
            name = self.convert_float16(source, goal)
        elif dt.STORAGE_ONLY[1] in (dt.element(source), dt.element(goal)):
            name = self.convert_bfloat16(source, goal)
        elif self.on_arm:
            return f"__builtin_convertvector({text}, {self.vector_type(goal)})"
        elif dt.element(source) == "uint32" and dt.element(goal) == "float64":
            signed = dt.with_lanes("int32", dt.lanes(goal))
            text = f"({self.vector_type(signed)})(({text}) ^ 0x80000000)"
            return f"({self.convert(text, signed, goal)} + 2147483648.0)"
        elif widened(source, goal) is not None:
            name = self.convert_by(source, goal, widened(source, goal))
        elif _narrows(source, goal):
            name = self.convert_by(source, goal, narrowed(source, goal), picked(source, goal))
        else:
            return f"__builtin_convertvector({text}, {self.vector_type(goal)})"
        return f"{name}({text})"

    def convert_by(self, source: str, goal: str, *known: Native | None) -> str:
        """The name of a conversion that x86 has instructions for, the first ones preferred."""
        before, after = self.vector_type(source), self.vector_type(goal)
        name, usual = f"{before}_to_{after}", "x"
        for step in conversion_steps(source, goal) if _narrows(source, goal) else [goal]:
            usual = f"__builtin_convertvector({usual}, {self.vector_type(step)})"
        use, body = f"    return ({after})$;", f"    return {usual};"
        if dt.itemsize(source) < 16:
            self.declarations.setdefault("PINNED", _PINNED)
            use = f"    PINNED(x);\n{use}"
        for native in reversed(known):
            body = self.native_or(native, use, body)
        self.define(name, before, after, body)
        return name

    def convert_bfloat16(self, source: str, goal: str) -> str:
        """The name of the conversion between bfloat16 and float32 vectors."""
        before, after, lanes = self.vector_type(source), self.vector_type(goal), dt.lanes(goal)
        wide, narrow = f"uint32x{lanes}", f"uint16x{lanes}"
        self.vector_type(wide)
        name = f"{before}_to_{after}"
        if dt.element(source) == "bfloat16":
            body = f"return ({after})({self.convert('x', narrow, wide)} << 16);"
        else:
            narrowed = self.convert("rounded >> 16", wide, narrow)
            body = _TO_BF16.substitute(L=lanes, narrowed=f"({after}){narrowed}")
        self.define(name, before, after, f"    {body}")
        return name

    def convert_float16(self, source: str, goal: str) -> str:
        """The name of the conversion between float16 and float32 or float64 vectors."""
        before, after, lanes = self.vector_type(source), self.vector_type(goal), dt.lanes(goal)
        name = f"{before}_to_{after}"
        if dt.element(source) == "float64":
            single, wide, narrow = (f"{d}x{lanes}" for d in ("float32", "int64", "int32"))
            words = {"widened": self.convert("y", single, source)}
            words["rounded"] = self.convert("y", single, goal)
            words |= {n: self.convert(n, wide, narrow) for n in ("over", "off")}
            self.vector_type(wide)
            self.define(name, before, after, f"    {_TO_F16.substitute(words, L=lanes)}")
            return name
        reads = dt.element(source) == "float16"
        scalar = self.helper("to_f32" if reads else "from_f32", "float16")
        params, native = f"{before} x", float16(source, goal)
        return self.lanes_helper(name, after, params, f"{scalar}(x[i])", lanes, native)

    def define(self, name: str, before: str, after: str, body: str) -> None:
        """A function of a vector x."""
        text = f"{self.inline} {after} {name}({before} x) {{\n{body}\n}}"
        self.declarations.setdefault(name, text)

    def mask_to_number(self, e: Cast) -> Text:
        goal, lanes = e.dtype, dt.lanes(e.dtype)
        if dt.is_bool(goal):
            return self.render(e.a)
        if dt.element(goal) in dt.STORAGE_ONLY:
            return self.vector_cast(Cast(goal, Cast(f"float32x{lanes}", e.a)))
        one = _ONES.get(dt.element(goal), "1")
        return (
            f"({self.vector_type(goal)})({self.masked(e.a, dt.bits(goal), UNARY)} & {one})",
            UNARY,
        )


def _narrows(source: str, goal: str) -> bool:
    """Whether a register of integers becomes one of narrower integers."""
    whole = dt.is_int(source) and dt.is_int(goal) and dt.bits(goal) < dt.bits(source)
    return whole and dt.itemsize(source) in (16, 32, 64)


def _in_one(steps: list[str], count: int) -> bool:
    """Whether the first `count` steps are one instruction."""
    if count >= len(steps):
        return False
    return _narrows(steps[0], steps[count]) or widened(steps[0], steps[count]) is not None


def conversion_steps(source: str, goal: str) -> list[str]:
    """Vector types from `source` to `goal`, such that each step is one that gcc 12 does well.

    Widths double or halve at each step; between integers and floats they are made equal first.
    """
    lanes = dt.lanes(goal)
    return [dt.with_lanes(step, lanes) for step in _steps(dt.element(source), dt.element(goal))]


def _steps(source: str, goal: str) -> list[str]:
    if source == goal:
        return []
    if source in dt.STORAGE_ONLY:
        return ["float32", *_steps("float32", goal)]
    if goal in dt.STORAGE_ONLY:
        direct = source == "float64" and goal == "float16"  # integers beyond float32's are infinite
        return [goal] if direct else [*_steps(source, "float32"), goal]
    before, after = dt.bits(source), dt.bits(goal)
    if dt.is_float(source) or dt.is_float(goal):
        return _float_steps(source, goal, before, after)
    if after > 2 * before:
        kind = "uint" if dt.is_unsigned(source) else "int"
        return [f"{kind}{2 * before}", *_steps(f"{kind}{2 * before}", goal)]
    if before > 2 * after:
        return [f"int{before // 2}", *_steps(f"int{before // 2}", goal)]
    return [goal]


def _float_steps(source: str, goal: str, before: int, after: int) -> list[str]:
    if dt.is_int(source) and before < after:
        return [*_steps(source, "int32"), goal] if source != "uint32" else [goal]
    if dt.is_int(goal) and after < 32:
        return ["int32", *_steps("int32", goal)]
    return [goal]
