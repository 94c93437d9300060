"""Helpers: small functions that a kernel's text brings along when it needs them.

Each is written once for one scalar type; vector forms are loops over the lanes that call it,
which gcc 12 and clang turn into the vector instruction of the target (vmaxps, vsqrtps, ...).
In the texts $T is the C type, $S its short name, $F the ending of math functions ("f" for float),
$W the bits, $U the unsigned type of the same width, $D a floating-point type that has all values of
$T, and $I the integer that one is converted to. Texts with $V, $N and $Z (backends.math.math_f32)
are for vectors too; $Z is zero in every lane.
"""

from __future__ import annotations

import re

from backends.math import (
    inverse_hyperbolic,
    inverse_trig,
    math_f32,
    math_f64,
    per_lane,
    per_lane_f32,
    per_lane_f64,
    power,
    trig_f32,
    trig_f64,
)
from backends.math.forms import Form, Helper, by_mask
from backends.math.integers import integer_helpers
from tensorir import dtype as dt

_TWO = "($T a, $T b)"


def _extremum(sign: str) -> dict[str, Helper]:
    name = "max" if sign == ">" else "min"
    known = f"{name}c"
    return {
        # x86 has exactly this as one instruction: the second operand where either is NaN.
        known: Helper(
            f"{_TWO} {{ return a {sign} b ? a : b; }}", whole=by_mask("$V", "$K", f"a {sign} b")
        ),
        # NaN wherever a or b is NaN. `b` should be the accumulator: the test is then off its path.
        name: Helper(
            f"{_TWO} {{\n    $T m = {known}_$S(a, b);\n    return a != a ? a : m;\n}}",
            needs=((known, ""),),
        ),
    }


FLOAT = {
    **_extremum(">"),
    **_extremum("<"),
    "rsqrt": Helper("($T x) { return 1 / __builtin_sqrt$F(x); }"),
    "isnan": Helper("($T x) { return x != x; }", "_Bool"),
    "isinf": Helper("($T x) { return __builtin_isinf(x); }", "_Bool"),
    "isfinite": Helper("($T x) { return __builtin_isfinite(x); }", "_Bool"),
}


_Table = dict[str, Helper]


def _math(text: str, form: Form, whole: str = "") -> Helper:
    called = dict.fromkeys(re.findall(r"(\w+)_\$N\(", text))
    words = (("int32", "i32"), ("int64", "i64"), ("uint64", "u64"))
    types = tuple(t for t, word in words if re.search(rf"\b{word}\b", text))
    return Helper(text, "$V", tuple((c, "") for c in called), types, form, whole)


def _functions(texts: dict[str, str], form: Form) -> _Table:
    whole = per_lane.IN_CLANG if form is Form.LANES else {}
    return {name: _math(text, form, whole.get(name, "")) for name, text in texts.items()}


def _floats(dtype: str, lane: dict[str, str], far: dict[str, str], *own: dict[str, str]) -> _Table:
    helpers = FLOAT | _functions(per_lane.LANES | lane, Form.LANES)
    helpers |= _functions({f"{name}_far": text for name, text in far.items()}, Form.FAR)
    arcs, areas = inverse_trig.TEXTS[dtype], inverse_hyperbolic.TEXTS[dtype]
    for texts in (*own, arcs, areas, power.TEXTS[dtype], per_lane.WHOLE):
        helpers |= _functions(texts, Form.SAME)
    return helpers


FLOAT32 = _floats("float32", per_lane_f32.LANES, per_lane_f32.FAR, math_f32.TEXTS, trig_f32.TEXTS)
FLOAT64 = _floats("float64", per_lane_f64.LANES, per_lane_f64.FAR, math_f64.TEXTS, trig_f64.TEXTS)

# Conversions of storage types go by the bits. _Float16 is used where the compiler has it.
F16 = {
    "to_f32": Helper(
        """(f16 h) {
#ifdef __FLT16_MANT_DIG__
    union { f16 h; _Float16 f; } v = {h};
    return (float)v.f;
#else
    union { u32 u; float f; } v = {(u32)(h & 0x7fff) << 13}, m = {0x77800000}; /* 2^112 */
    v.f *= m.f;
    if ((h & 0x7c00) == 0x7c00) v.u |= 0x7f800000;
    v.u |= (u32)(h & 0x8000) << 16;
    return v.f;
#endif
}""",
        "float",
        types=("uint32",),
    ),
    "from_f64": Helper(
        """(double x) {
#ifdef __FLT16_MANT_DIG__
    union { _Float16 f; f16 h; } v = {(_Float16)x};
    return v.h;
#else
    union { double f; u64 u; } v = {x};
    u64 sign = v.u >> 63 << 15;
    v.u = v.u << 1 >> 1;
    if (v.u > 0x7ff0000000000000) return (f16)(sign | 0x7e00);
    if (v.f >= 65520.0) return (f16)(sign | 0x7c00);
    if (v.f < 0x1p-14) return (f16)(sign | (u64)__builtin_rint(v.f * 0x1p24));
    v.u += ((u64)1 << 41) - 1 + (v.u >> 42 & 1); /* to nearest, ties to even */
    return (f16)(sign | ((v.u >> 42) - ((u64)1008 << 10)));
#endif
}""",
        "f16",
        types=("uint64",),
    ),
    "from_f32": Helper(
        """(float x) {
#ifdef __FLT16_MANT_DIG__
    union { _Float16 f; f16 h; } v = {(_Float16)x};
    return v.h;
#else
    return f16_from_f64(x);
#endif
}""",
        "f16",
        needs=(("from_f64", ""),),
    ),
}

BF16 = {
    "to_f32": Helper(
        "(bf16 h) {\n    union { u32 u; float f; } v = {(u32)h << 16};\n    return v.f;\n}",
        "float",
        types=("uint32",),
    ),
    "from_f32": Helper(
        """(float x) {
    union { float f; u32 u; } v = {x};
    u32 rounded = (v.u + 0x7fff + (v.u >> 16 & 1)) >> 16; /* to nearest, ties to even */
    return (bf16)(x != x ? v.u >> 16 | 0x40 : rounded);
}""",
        "bf16",
        types=("uint32",),
    ),
}


def find_helper(name: str, dtype: str) -> Helper | None:
    """The helper `name` for a scalar type; None where that type has no such helper."""
    return _table(dtype).get(name)


def _table(dtype: str) -> dict[str, Helper]:
    if dtype in dt.STORAGE_ONLY:
        return F16 if dtype == "float16" else BF16
    if dt.is_float(dtype):
        return FLOAT32 if dtype == "float32" else FLOAT64
    return integer_helpers(dtype)


def helper_name(name: str, dtype: str) -> str:
    """max_f32x16, f16_to_f32: every helper's name has a type in it."""
    base, lanes = dt.SHORT[dt.element(dtype)], dt.lanes(dtype)
    width = f"x{lanes}" if lanes > 1 else ""
    if name.startswith(("to_", "from_")):
        return f"{base}{width}_{name}{width}"
    return f"{name}_{base}{width}"


def substitutions(dtype: str, type_name: str) -> dict[str, str]:
    """The values of the $ words for a type; a vector has $V, $N and $Z."""
    base = dt.element(dtype)
    words = {"T": type_name, "S": dt.SHORT[base], "F": "f" if base == "float32" else ""}
    words |= {"V": type_name, "N": helper_name("", dtype)[1:], "Z": f"({type_name}){{0}}"}
    if dt.is_int(dtype):
        bits = dt.bits(dtype)
        words |= {"W": str(bits), "U": f"u{bits}", "D": "float" if bits < 32 else "double"}
        words["I"] = type_name if bits >= 32 else "int"
    return words
