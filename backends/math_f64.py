"""Double-precision functions for scalars and vectors: what backends.math_f32 is for float32.

The two parts of log 2 are those of fdlibm (Sun Microsystems 1993), and so are the polynomials of
sin and cos and the form of log, f - (f^2 / 2 - s (f^2 / 2 + R)) with s = f / (2 + f). The other
polynomials were interpolated at Chebyshev nodes with 60 digits.
"""

from __future__ import annotations

_NEAREST = "6755399441055744.0"  # 1.5 * 2^52: what is added to it is rounded to an integer

# exp(c) - 1 without its factor 2^n: c = r + n log 2, and n = rint(c / log 2).
_EXP_REST = """($V c, $V n) {
    $V r = c - n * 6.93147180369123816490e-01;
    r = r - n * 1.90821492927058770002e-10;
    $V p = r * 2.510038549551032e-08 + 2.7620088445409746e-07;
    p = p * r + 2.7557268459997064e-06;
    p = p * r + 2.4801521595954376e-05;
    p = p * r + 0.00019841269863053618;
    p = p * r + 0.0013888888917213717;
    p = p * r + 0.008333333333330062;
    p = p * r + 0.04166666666662413;
    p = p * r + 0.16666666666666669;
    p = p * r + 0.5;
    return p * (r * r) + r;
}"""

_EXP = f"""($V x) {{
    $V c = minc_$N(($V){{0}} + 710.0, maxc_$N(($V){{0}} - 746.0, x)); /* NaN stays NaN */
    $V n = (c * 1.4426950408889634 + {_NEAREST}) - {_NEAREST};
    return scale_$N(exp_rest_$N(c, n) + 1.0, n);
}}"""

_SIGMOID = f"""($V x) {{
    $V c = maxc_$N(($V){{0}} - 746.0, -fabs_$N(x)); /* so that exp never overflows */
    $V n = (c * 1.4426950408889634 + {_NEAREST}) - {_NEAREST};
    $V p = exp_rest_$N(c, n), m = p + 1.0, e = scale_$N(m, n), s = 1.0 + e;
    $V less = scale_$N((p - (e - (s - 1.0)) * m) + 1.0, n); /* e less what s has lost of it */
    return pick_$N(x, ($V){{0}}, less, ($V){{0}} + 1.0) / s;
}}"""

_TANH = f"""($V x) {{
    $V a = fabs_$N(x), c = minc_$N(($V){{0}} + 40.0, a + a);
    $V n = (c * 1.4426950408889634 + {_NEAREST}) - {_NEAREST};
    $V t = scale_$N(($V){{0}} + 1.0, n), e = exp_rest_$N(c, n) * t + (t - 1.0);
    return copysign_$N(e / (e + 2.0), x);
}}"""

_LOG = """($V x) {
    $V n = expo_$N(x), f = mant_$N(x) - 1.0, s = f / (2.0 + f), z = s * s;
    $V p = z * 0.13609030262907734 + 0.13209708242052065;
    p = p * z + 0.15388867805614162;
    p = p * z + 0.18181737626302924;
    p = p * z + 0.2222222304835159;
    p = p * z + 0.28571428567275936;
    p = p * z + 0.4000000000000794;
    p = p * z + 0.6666666666666666;
    $V half = f * f * 0.5, r = f - (half - s * (p * z + half));
    r = n * 1.90821492927058770002e-10 + r;
    return n * 6.93147180369123816490e-01 + r;
}"""

# x - n pi/2 in four steps, of which the first three are exact up to |n| = 2^20.
_TURNS = f"""($V x) {{ return x * 0.6366197723675814 + {_NEAREST}; }}"""

_TURN_REST = f"""($V x, $V turns) {{
    $V n = turns - {_NEAREST};
    $V r = x - n * 1.5707963267341256;
    return r - n * 6.077094383272197e-11;
}}"""

_TURN_LOW = f"""($V rest, $V r, $V turns) {{
    $V n = turns - {_NEAREST};
    $V low = (rest - r) - n * 6.12323399538461e-17;
    return low - n * 3.5215598651832e-27;
}}"""

# sin(r + low), where low is what r lacks.
_SIN_NEAR = """($V r, $V low) {
    $V z = r * r, p = z * 1.58969099521155010221e-10 - 2.50507602534068634195e-08;
    p = p * z + 2.75573137070700676789e-06;
    p = p * z - 1.98412698298579493134e-04;
    p = p * z + 8.33333333332248946124e-03;
    p = p * z - 1.66666666666666324348e-01;
    return (p * (z * r) + low) + r;
}"""

_COS_NEAR = """($V r, $V low) {
    $V z = r * r, p = z * -1.13596475577881948265e-11 + 2.08757232129817482790e-09;
    p = p * z - 2.75573143513906633035e-07;
    p = p * z + 2.48015872894767294178e-05;
    p = p * z - 1.38888888888741095749e-03;
    p = p * z + 4.16666666666666019037e-02;
    $V half = z * 0.5, one = 1.0 - half, rest = (1.0 - one) - half; /* half is exact */
    rest = rest - r * low;
    return one + (p * (z * z) + rest);
}"""

_SIN = f"""($V x) {{
    $V turns = turns_$N(x), rest = turn_rest_$N(x, turns);
    $V r = rest - (turns - {_NEAREST}) * 6.12323399538461e-17;
    $V low = turn_low_$N(rest, r, turns);
    $V near = turned_$N(turns, sin_near_$N(r, low), cos_near_$N(r, low));
    near = pick_$N(fabs_$N(x), ($V){{0}} + 1e-8, x, near); /* -0 stays -0 */
    return sin_far_$N(x, near);
}}"""

_COS = f"""($V x) {{
    $V turns = turns_$N(x), rest = turn_rest_$N(x, turns);
    $V r = rest - (turns - {_NEAREST}) * 6.12323399538461e-17;
    $V low = turn_low_$N(rest, r, turns);
    return cos_far_$N(x, turned_$N(turns + 1.0, sin_near_$N(r, low), cos_near_$N(r, low)));
}}"""

TEXTS = {
    "exp_rest": _EXP_REST,
    "turns": _TURNS,
    "turn_rest": _TURN_REST,
    "turn_low": _TURN_LOW,
    "sin_near": _SIN_NEAR,
    "cos_near": _COS_NEAR,
    "exp": _EXP,
    "log": _LOG,
    "sin": _SIN,
    "cos": _COS,
    "tanh": _TANH,
    "sigmoid": _SIGMOID,
}
"""Parameter list and body of each function for $V; the name ends in $N."""

LANES = {
    "pick": "($V x, $V y, $V a, $V b) { return x < y ? a : b; }",
    "fabs": "($V x) { return __builtin_fabs(x); }",
    "copysign": "($V x, $V sign) { return __builtin_copysign(x, sign); }",
    # p * 2^n for whole n from -2000 to 2000, rounded once if |p| is at least 2^-40.
    "scale": f"""($V p, $V n) {{
    union {{ double f; i64 i; }} v = {{n + {_NEAREST}}}, a, b;
    i64 k = v.i - 0x4338000000000000, half = (i64)((u64)(k + 4096) >> 1) - 2048;
    a.i = (half + 1023) << 52;
    b.i = (k - half + 1023) << 52;
    return p * a.f * b.f;
}}""",
    # As in backends.lanes_f32.
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

_FAR = """($V x, $V near) {{
    return __builtin_fabs(x) <= 1e6 ? near : __builtin_{name}(x); /* NaN and inf too */
}}"""

FAR = {name: _FAR.format(name=name) for name in ("sin", "cos")}
"""As in backends.lanes_f32."""
