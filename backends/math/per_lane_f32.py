"""What the texts of backends.math.math_f32 do with single lanes: choices, signs and exponents.

Each is a function of floats; for vectors it is a loop over the lanes that calls it, or a builtin of
x86 (backends.c.emit.native).
"""

from __future__ import annotations

from backends.math.per_lane import HAS_FMA, far

LANES = {
    # p * 2^n for whole n from -252 to 254, rounded once if |p| is at least 2^-20.
    "scale": """($V p, $V n) {
    i32 k = (i32)n, half = k >> 1;
    union { i32 i; float f; } a = {(half + 127) << 23}, b = {(k - half + 127) << 23};
    return p * a.f * b.f;
}""",
    # x = mant * 2^expo with mant in [3/4, 3/2). Of 0, inf and NaN expo is -inf, inf and NaN, and
    # mant is not NaN for the first two; mant of a negative number is NaN.
    "mant": """($V x) {
    union { float f; i32 i; } v = {x < 1.17549435e-38f ? x * 33554432.0f : x};
    v.i -= (v.i - 0x3f400000) & -0x800000;
    return x < 0 ? __builtin_nanf("") : v.f;
}""",
    "expo": """($V x) {
    int tiny = x < 1.17549435e-38f;
    union { float f; i32 i; } v = {tiny ? x * 33554432.0f : x};
    float n = (float)(((v.i - 0x3f400000) >> 23) - (tiny ? 25 : 0));
    n = x == 0 ? -__builtin_inff() : n;
    n = x < 0 ? __builtin_nanf("") : n;
    return x < __builtin_inff() ? n : x;
}""",
    # a * b - p, where p is near a * b: exact (Dekker 1971).
    "residue": f"""($V a, $V b, $V p) {{
#if {HAS_FMA}
    return __builtin_fmaf(a, b, -p);
#else
    union {{ float f; i32 i; }} u = {{a}}, v = {{b}};
    u.i &= -0x1000;
    v.i &= -0x1000;
    float dv = b - v.f;
    return ((u.f * v.f - p) + u.f * dv) + (a - u.f) * b;
#endif
}}""",
    # Where the last bits of `turns` are the number of quarter turns (backends.math.math_f32).
    "odd": """($V turns, $V a, $V b) {
    union { float f; i32 i; } v = {turns};
    return v.i & 1 ? b : a;
}""",
    "turned": """($V turns, $V a, $V b) {
    union { float f; i32 i; } v = {turns}, w = {v.i & 1 ? b : a};
    w.i ^= (v.i & 2) << 30;
    return w.f;
}""",
}
"""Parameter list and body of each; the result is $V."""

FAR = far("6000.0f")
"""Arguments so large that only libm reduces them."""
