"""Single-precision functions without branches, written once for a float and for vectors of them.

A libm call in a vector is sixteen calls. In the texts $V is the type, float or a vector such as
f32x16, and $N the short name that ends the names of helpers, f32 or f32x16; the helpers of a lane
are in backends.lanes_f32. Scalars and vectors therefore take the same steps, and the elements of a
tail get the bits that they would get in a vector.

An expression adds one product, so that contraction (one rounding for a * b + c where the machine
has such an instruction) leaves the compiler no choice; log10 adds two, of which either will do.

exp has the range reduction of Cephes and tanh its polynomial (S. Moshier, expf.c, tanhf.c); the
others were fitted by iteratively reweighted least squares (Lawson 1961), relative to the result.
docs/accuracy.md has the errors.
"""

from __future__ import annotations

_NEAREST = "12582912.0f"  # 1.5 * 2^23: what is added to it is rounded to an integer

# exp(c) - 1 without its factor 2^n: c = r + n log 2, and n = rint(c / log 2).
_EXP_REST = """($V c, $V n) {
    $V r = c - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    $V z = r * r, p = r * 8.368674e-3f + 4.1668262e-2f; /* in pairs: a shorter chain */
    p = z * 1.3821035e-3f + p;
    p = p * z + (r * 1.6666521e-1f + 4.9999994e-1f);
    return p * z + r;
}"""

_EXP = f"""($V x) {{
    $V c = minc_$N(($V){{0}} + 89.0f, maxc_$N(($V){{0}} - 104.0f, x)); /* NaN stays NaN */
    $V n = (c * 1.44269504f + {_NEAREST}) - {_NEAREST};
    return scale_$N(exp_rest_$N(c, n) + 1.0f, n);
}}"""

_EXP2 = f"""($V x) {{
    $V c = minc_$N(($V){{0}} + 129.0f, maxc_$N(($V){{0}} - 151.0f, x));
    $V n = (c + {_NEAREST}) - {_NEAREST}, r = c - n;
    $V p = r * 1.535336e-4f + 1.3398875e-3f;
    p = p * r + 9.618437e-3f;
    p = p * r + 5.5503324e-2f;
    p = p * r + 2.4022648e-1f;
    p = p * r + 6.931472e-1f;
    return scale_$N(p * r + 1.0f, n);
}}"""

_EXPM1 = f"""($V x) {{
    $V c = minc_$N(($V){{0}} + 89.0f, maxc_$N(($V){{0}} - 104.0f, x));
    $V n = (c * 1.44269504f + {_NEAREST}) - {_NEAREST};
    $V half = scale_$N(($V){{0}} + 0.5f, n); /* 2^n itself may overflow */
    $V r = exp_rest_$N(c, n) * half + (half - 0.5f);
    return copysign_$N(r + r, x);
}}"""

# exp(a) / 2 for a >= 0: finite wherever sinh and cosh are.
_HALF_EXP = f"""($V a) {{
    $V c = minc_$N(($V){{0}} + 89.75f, a);
    $V n = (c * 1.44269504f + {_NEAREST}) - {_NEAREST};
    return scale_$N(exp_rest_$N(c, n) + 1.0f, n - 1.0f);
}}"""

_SINH = """($V x) {
    $V a = fabs_$N(x), z = a * a, h = half_exp_$N(a);
    $V p = z * 2.8169513e-6f + 1.983616e-4f;
    p = p * z + 8.33335e-3f;
    p = p * z + 1.6666667e-1f;
    $V small = p * z * a + a;
    return copysign_$N(pick_$N(a, ($V){0} + 1.0f, small, h - 0.25f / h), x);
}"""

_COSH = """($V x) {
    $V h = half_exp_$N(fabs_$N(x));
    return h + 0.25f / h;
}"""

_TANH = f"""($V x) {{
    $V a = fabs_$N(x), z = a * a;
    $V p = z * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    $V small = p * z * a + a, c = minc_$N(($V){{0}} + 20.0f, a + a);
    $V n = (c * 1.44269504f + {_NEAREST}) - {_NEAREST};
    $V large = 1.0f - 2.0f / (scale_$N(exp_rest_$N(c, n) + 1.0f, n) + 1.0f);
    return copysign_$N(pick_$N(a, ($V){{0}} + 0.625f, small, large), x);
}}"""

_SIGMOID = f"""($V x) {{
    $V c = maxc_$N(($V){{0}} - 104.0f, -fabs_$N(x)); /* so that exp never overflows */
    $V n = (c * 1.44269504f + {_NEAREST}) - {_NEAREST};
    $V p = exp_rest_$N(c, n), m = p + 1.0f, e = scale_$N(m, n), s = 1.0f + e;
    $V less = scale_$N((p - (e - (s - 1.0f)) * m) + 1.0f, n); /* e less what s has lost of it */
    return pick_$N(x, ($V){{0}}, less, ($V){{0}} + 1.0f) / s;
}}"""

# erf is x + x P(x^2) near 0, and 1 - exp(-t - t Q(t)) beyond, which needs no division.
_ERF = f"""($V x) {{
    $V a = fabs_$N(x), z = x * x, t = minc_$N(($V){{0}} + 4.0f, a);
    $V p = z * -5.9537403e-4f + 4.98594e-3f;
    p = p * z - 2.676172e-2f;
    p = p * z + 1.12816826e-1f;
    p = p * z - 3.761248e-1f;
    p = p * z + 1.2837915e-1f;
    $V small = p * a + a;
    $V q = t * 1.1885375e-5f - 3.2930847e-4f;
    q = q * t + 3.6687215e-3f;
    q = q * t - 2.3817189e-2f;
    q = q * t + 1.0630036e-1f;
    q = q * t + 6.3511324e-1f;
    q = q * t + 1.2865779e-1f;
    $V c = -(q * t + t), n = (c * 1.44269504f + {_NEAREST}) - {_NEAREST};
    $V large = 1.0f - scale_$N(exp_rest_$N(c, n) + 1.0f, n);
    return copysign_$N(pick_$N(a, ($V){{0}} + 0.93f, small, large), x);
}}"""

# log(1 + f) for f in [-1/4, 1/2).
_LOG_NEAR = """($V f) {
    $V p = f * -4.4909324e-2f + 1.0448302e-1f;
    p = p * f - 1.3162227e-1f;
    p = p * f + 1.4482065e-1f;
    p = p * f - 1.6647768e-1f;
    p = p * f + 1.9990607e-1f;
    p = p * f - 2.5000054e-1f;
    p = p * f + 3.3333454e-1f;
    p = p * f - 0.5f;
    return p * (f * f) + f;
}"""

_LOG = """($V x) {
    $V n = expo_$N(x), r = log_near_$N(mant_$N(x) - 1.0f);
    r = n * 9.0580006145e-6f + r;
    return n * 6.9313812256e-1f + r;
}"""

_LOG1P = """($V x) {
    $V n = expo_$N(1.0f + x), s = scale_$N(($V){0} + 1.0f, -n);
    $V r = log_near_$N(x * s + (s - 1.0f)); /* 1 + x = (1 + f) 2^n, without rounding 1 + x */
    r = n * 9.0580006145e-6f + r;
    r = copysign_$N(n * 6.9313812256e-1f + r, x);
    r = pick_$N(($V){0} - 1.0f, x, r, n);
    return pick_$N(x, ($V){0} + __builtin_inff(), r, n);
}"""

_LOG2 = """($V x) {
    $V n = expo_$N(x), f = mant_$N(x) - 1.0f;
    $V p = f * -6.434384e-2f + 1.5066661e-1f;
    p = p * f - 1.902784e-1f;
    p = p * f + 2.0910105e-1f;
    p = p * f - 2.4014822e-1f;
    p = p * f + 2.8838405e-1f;
    p = p * f - 3.6067486e-1f;
    p = p * f + 4.8090076e-1f;
    p = p * f - 7.213475e-1f;
    p = p * f + 4.4269502e-1f; /* 1 / log 2 - 1 */
    return p * f + (n + f);
}"""

_LOG10 = """($V x) {
    $V n = expo_$N(x), f = mant_$N(x) - 1.0f;
    $V p = f * -7.747771e-2f + 1.8142067e-1f;
    p = p * f - 2.2911802e-1f;
    p = p * f + 2.5178275e-1f;
    p = p * f - 2.8916728e-1f;
    p = p * f + 3.4724897e-1f;
    p = p * f - 4.342958e-1f;
    p = p * f + 5.790622e-1f;
    p = p * f - 8.68589e-1f;
    p = p * f - 2.6282206e-1f;
    $V small = p * f + n * 1.8420156e-5f; /* four times the result, less n 4 log10 2 + 2 f */
    return ((n * 1.2041015625f + (f + f)) + small) * 0.25f;
}"""

# x - n pi/2 in four steps, of which the first three are exact up to |n| = 4096.
_TURNS = f"""($V x) {{ return x * 6.3661977e-1f + {_NEAREST}; }}"""

_TURN_REST = f"""($V x, $V turns) {{
    $V n = turns - {_NEAREST};
    $V r = x - n * 1.5703125f;
    return r - n * 4.837512969970703e-4f;
}}"""

_TURN_LOW = f"""($V rest, $V r, $V turns) {{
    $V n = turns - {_NEAREST};
    $V low = (rest - r) - n * 7.549533620476723e-8f;
    return low - n * 2.5633441e-12f;
}}"""

# sin(r + low), where low is what r lacks.
_SIN_NEAR = """($V r, $V low) {
    $V z = r * r, p = z * -1.9515217e-4f + 8.33216e-3f;
    p = p * z - 1.6666655e-1f;
    return (p * (z * r) + low) + r;
}"""

_COS_NEAR = """($V r) {
    $V z = r * r, p = z * 2.4383482e-5f - 1.3886681e-3f;
    p = p * z + 4.166662e-2f;
    p = p * z - 0.5f;
    return p * z + 1.0f;
}"""

_SIN = f"""($V x) {{
    $V turns = turns_$N(x), rest = turn_rest_$N(x, turns);
    $V r = rest - (turns - {_NEAREST}) * 7.549533620476723e-8f;
    $V near = sin_near_$N(r, turn_low_$N(rest, r, turns));
    near = turned_$N(turns, near, cos_near_$N(r));
    near = pick_$N(fabs_$N(x), ($V){{0}} + 1e-4f, x, near); /* -0 stays -0 */
    return sin_far_$N(x, near);
}}"""

_COS = f"""($V x) {{
    $V turns = turns_$N(x), rest = turn_rest_$N(x, turns);
    $V r = rest - (turns - {_NEAREST}) * 7.549533620476723e-8f;
    $V near = sin_near_$N(r, turn_low_$N(rest, r, turns));
    return cos_far_$N(x, turned_$N(turns + 1.0f, near, cos_near_$N(r)));
}}"""

_TAN = f"""($V x) {{
    $V turns = turns_$N(x), rest = turn_rest_$N(x, turns);
    $V r = rest - (turns - {_NEAREST}) * 7.549533620476723e-8f, z = r * r;
    $V p = z * 4.3773656e-3f + 8.737348e-5f;
    p = p * z + 1.08374795e-2f;
    p = p * z + 2.128156e-2f;
    p = p * z + 5.4060034e-2f;
    p = p * z + 1.3332662e-1f;
    p = p * z + 3.3333335e-1f;
    $V low = turn_low_$N(rest, r, turns), q = p * (z * r) + (z * low + low);
    $V t = q + r, u = -1.0f / t;
    u = u * (q - (t - r)) * u + u; /* what t lacks counts twice in 1 / t */
    $V near = odd_$N(turns, t, u);
    return tan_far_$N(x, pick_$N(fabs_$N(x), ($V){{0}} + 1e-4f, x, near));
}}"""

_POW = """(float x, float y) {
    union { double f; i64 i; } m = {__builtin_fabs((double)x)}, e;
    i64 k = (m.i - 0x3fe8000000000000) >> 52; /* |x| = m 2^k, and m is in [3/4, 3/2) */
    m.i -= k << 52;
    double f = m.f - 1;
    double p = f * 0.037989639462423702 - 0.10204068496132279;
    p = p * f + 0.1387930457030396;
    p = p * f - 0.14920811893271924;
    p = p * f + 0.1605030802661864;
    p = p * f - 0.18000364916818865;
    p = p * f + 0.20605685756408332;
    p = p * f - 0.24045841750035332;
    p = p * f + 0.28854042803019558;
    p = p * f - 0.36067365346840752;
    p = p * f + 0.4808983326412003;
    p = p * f - 0.72134752083155007;
    p = p * f + 1.4426950409106449;
    double l = p * f + (double)k;
    l = x == 0 ? -__builtin_inf() : l;
    l = x != x ? (double)x : l;
    l = __builtin_fabsf(x) > 3.402823466e38f ? __builtin_inf() : l;
    l *= (double)y;
    l = l > 160 ? 160 : l;
    l = l < -160 ? -160 : l;
    l = __builtin_fabsf(x) == 1 && y == y ? 0 : l; /* where y is infinite */
    double n = (l + 6755399441055744.0) - 6755399441055744.0, r = l - n;
    double q = r * 1.5201919708468514e-5 + 1.546929112710838e-4;
    q = q * r + 1.3333922573180116e-3;
    q = q * r + 9.618027253787749e-3;
    q = q * r + 5.55041035343416e-2;
    q = q * r + 2.4022651198163014e-1;
    q = q * r + 6.931471807284517e-1;
    q = q * r + 1;
    e.i = ((i64)n + 1023) << 52;
    float w = (float)(q * e.f), half = y * 0.5f;
    _Bool whole = __builtin_rintf(y) == y, odd = whole & (__builtin_rintf(half) != half);
    w = odd ? __builtin_copysignf(w, x) : w;
    w = x < 0 && x > -__builtin_inff() && !whole ? __builtin_nanf("") : w;
    return x == 1 || y == 0 ? 1 : w;
}"""

TEXTS = {
    "exp_rest": _EXP_REST,
    "half_exp": _HALF_EXP,
    "log_near": _LOG_NEAR,
    "turns": _TURNS,
    "turn_rest": _TURN_REST,
    "turn_low": _TURN_LOW,
    "sin_near": _SIN_NEAR,
    "cos_near": _COS_NEAR,
    "exp": _EXP,
    "exp2": _EXP2,
    "expm1": _EXPM1,
    "log": _LOG,
    "log2": _LOG2,
    "log10": _LOG10,
    "log1p": _LOG1P,
    "sin": _SIN,
    "cos": _COS,
    "tan": _TAN,
    "sinh": _SINH,
    "cosh": _COSH,
    "tanh": _TANH,
    "sigmoid": _SIGMOID,
    "erf": _ERF,
}
"""Parameter list and body of each function for $V; the name ends in $N."""

LANE_TEXTS = {"pow": _POW}
"""The same for single lanes, in double precision; vectors are loops over the lanes."""
