"""What the texts of backends.math.math_f64 do with single lanes: per_lane_f32.py for float64."""

from __future__ import annotations

from backends.math.per_lane import HAS_FMA, far

_NEAREST = "6755399441055744.0"  # 1.5 * 2^52: what is added to it is rounded to an integer

LANES = {
    # p * 2^n for whole n from -2000 to 2000, rounded once if |p| is at least 2^-40.
    "scale": f"""($V p, $V n) {{
    union {{ double f; i64 i; }} v = {{n + {_NEAREST}}}, a, b;
    i64 k = v.i - 0x4338000000000000, half = (i64)((u64)(k + 4096) >> 1) - 2048;
    a.i = (half + 1023) << 52;
    b.i = (k - half + 1023) << 52;
    return p * a.f * b.f;
}}""",
    # a * b - p, where p is a * b rounded: exact, or within 2^-106 of a * b (Dekker 1971).
    "residue": f"""($V a, $V b, $V p) {{
#if {HAS_FMA}
    return __builtin_fma(a, b, -p);
#else
    union {{ double f; i64 i; }} u = {{a}}, v = {{b}};
    u.i &= -0x8000000;
    v.i &= -0x8000000;
    double dv = b - v.f;
    return ((u.f * v.f - p) + u.f * dv) + (a - u.f) * b;
#endif
}}""",
    # As in backends.math.per_lane_f32.
    "odd": """($V turns, $V a, $V b) {
    union { double f; i64 i; } v = {turns};
    return v.i & 1 ? b : a;
}""",
    "turned": """($V turns, $V a, $V b) {
    union { double f; i64 i; } v = {turns}, w = {v.i & 1 ? b : a};
    w.i ^= (i64)((u64)(v.i & 2) << 62);
    return w.f;
}""",
    "mant": """($V x) {
    union { double f; i64 i; } v = {x < 2.2250738585072014e-308 ? x * 18014398509481984.0 : x};
    v.i -= (v.i - 0x3fe8000000000000) & -0x10000000000000;
    return x < 0 ? __builtin_nan("") : v.f;
}""",
    "expo": """($V x) {
    int tiny = x < 2.2250738585072014e-308;
    union { double f; i64 i; } v = {tiny ? x * 18014398509481984.0 : x};
    double n = (double)(((v.i - 0x3fe8000000000000) >> 52) - (tiny ? 54 : 0));
    n = x == 0 ? -__builtin_inf() : n;
    n = x < 0 ? __builtin_nan("") : n;
    return x < __builtin_inf() ? n : x;
}""",
}
"""Functions of single lanes; for vectors, loops over them or builtins."""

FAR = far("1e6")
"""Arguments so large that only libm reduces them."""
