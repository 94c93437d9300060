"""Single-precision functions without branches, written once for a float and for vectors of them.

A libm call in a vector is sixteen calls. In the texts $V is the type, float or a vector such as
f32x16, and $N the short name that ends the names of helpers, f32 or f32x16; the helpers of a lane
are in backends.math.per_lane_f32. Scalars and vectors therefore take the same steps, and the
elements of a tail get the bits that they would get in a vector.

An expression adds one product, so that contraction (one rounding for a * b + c where the machine
has such an instruction) leaves the compiler no choice; log10 adds two, of which either will do.

A result that is too small for its type is computed as zero: processors take a hundred cycles for a
sum or a product that becomes one, and masks make many.

exp has the range reduction of Cephes and tanh its polynomial (S. Moshier, expf.c, tanhf.c); the
others were fitted by iteratively reweighted least squares (Lawson 1961), relative to the result.
docs/accuracy.md has the errors.
"""

from __future__ import annotations

from backends.math.polynomials import polynomial

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
    $V least = $Z - 104.0f, c = minc_$N($Z + 89.0f, maxc_$N(least, x)); /* NaN stays NaN */
    $V n = (c * 1.44269504f + {_NEAREST}) - {_NEAREST};
    return scale_$N(pick_$N(x, least, $Z, exp_rest_$N(c, n) + 1.0f), n);
}}"""

# (2^r - 1) / r for r in [-1/2, 1/2].
_EXP2_NEAR = """($V r) {
    $V p = r * 1.535336e-4f + 1.3398875e-3f;
    p = p * r + 9.618437e-3f;
    p = p * r + 5.5503324e-2f;
    p = p * r + 2.4022648e-1f;
    return p * r + 6.931472e-1f;
}"""

_EXP2 = f"""($V x) {{
    $V least = $Z - 151.0f, c = minc_$N($Z + 129.0f, maxc_$N(least, x));
    $V n = (c + {_NEAREST}) - {_NEAREST}, r = c - n;
    return scale_$N(pick_$N(x, least, $Z, exp2_near_$N(r) * r + 1.0f), n);
}}"""

_EXPM1 = f"""($V x) {{
    $V c = minc_$N($Z + 89.0f, maxc_$N($Z - 40.0f, x)); /* -1 from there on */
    $V n = (c * 1.44269504f + {_NEAREST}) - {_NEAREST};
    $V half = scale_$N($Z + 0.5f, n); /* 2^n itself may overflow */
    $V r = exp_rest_$N(c, n) * half + (half - 0.5f);
    return copysign_$N(r + r, x);
}}"""

# exp(a) / 2 for a >= 0: finite wherever sinh and cosh are.
_HALF_EXP = f"""($V a) {{
    $V c = minc_$N($Z + 89.75f, a);
    $V n = (c * 1.44269504f + {_NEAREST}) - {_NEAREST};
    return scale_$N(exp_rest_$N(c, n) + 1.0f, n - 1.0f);
}}"""

_SINH = """($V x) {
    $V a = fabs_$N(x), z = a * a, h = half_exp_$N(a);
    $V p = z * 2.8169513e-6f + 1.983616e-4f;
    p = p * z + 8.33335e-3f;
    p = p * z + 1.6666667e-1f;
    $V small = p * z * a + a;
    return copysign_$N(pick_$N(a, $Z + 1.0f, small, h - 0.25f / h), x);
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
    $V small = p * z * a + a, c = minc_$N($Z + 20.0f, a + a);
    $V n = (c * 1.44269504f + {_NEAREST}) - {_NEAREST};
    $V large = 1.0f - 2.0f / (scale_$N(exp_rest_$N(c, n) + 1.0f, n) + 1.0f);
    return copysign_$N(pick_$N(a, $Z + 0.625f, small, large), x);
}}"""

# 2^-24 / (2^-24 (1 + exp(-x))): the factor keeps the divisor finite where the result is not zero.
# exp(-x) is p 2^n + 2^n, of which p 2^n is exact, and lost is what 1 + 2^n leaves of 1.
_SIGMOID = f"""($V x) {{
    $V least = $Z - 104.0f, c = minc_$N($Z + 20.0f, maxc_$N(least, x)), one = $Z + 0x1p-24f;
    $V n = (c * -1.44269504f + {_NEAREST}) - {_NEAREST}, e = scale_$N(one, n), s = e + one;
    $V lost = one - (s - e);
    return pick_$N(x, least, $Z, one) / ((exp_rest_$N(-c, n) * e + lost) + s);
}}"""

_ERF_SMALL = "-5.9537403e-4 4.98594e-3 -2.676172e-2 1.12816826e-1 -3.761248e-1 1.2837915e-1"
_ERF_LARGE = """
    1.1885375e-5 -3.2930847e-4 3.6687215e-3 -2.3817189e-2 1.0630036e-1 6.3511324e-1 1.2865779e-1
"""

# erf is x + x P(x^2) near 0, and 1 - exp(-t - t Q(t)) beyond, which needs no division.
_ERF_P = f"""($V z) {{
{polynomial("z", _ERF_SMALL, "f")}
    return p;
}}"""

_ERF_Q = f"""($V t) {{
{polynomial("t", _ERF_LARGE, "f")}
    return p;
}}"""

_ERF = f"""($V x) {{
    $V a = fabs_$N(x), z = x * x, t = minc_$N($Z + 4.0f, a), small = erf_p_$N(z) * a + a;
    $V c = -(erf_q_$N(t) * t + t), n = (c * 1.44269504f + {_NEAREST}) - {_NEAREST};
    $V large = 1.0f - scale_$N(exp_rest_$N(c, n) + 1.0f, n);
    return copysign_$N(pick_$N(a, $Z + 0.93f, small, large), x);
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
    $V n = expo_$N(1.0f + x), s = scale_$N($Z + 1.0f, -n);
    $V r = log_near_$N(x * s + (s - 1.0f)); /* 1 + x = (1 + f) 2^n, without rounding 1 + x */
    r = n * 9.0580006145e-6f + r;
    r = copysign_$N(n * 6.9313812256e-1f + r, x);
    r = pick_$N($Z - 1.0f, x, r, n);
    return pick_$N(x, $Z + __builtin_inff(), r, n);
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

TEXTS = {
    "exp_rest": _EXP_REST,
    "half_exp": _HALF_EXP,
    "exp2_near": _EXP2_NEAR,
    "log_near": _LOG_NEAR,
    "exp": _EXP,
    "exp2": _EXP2,
    "expm1": _EXPM1,
    "log": _LOG,
    "log2": _LOG2,
    "log10": _LOG10,
    "log1p": _LOG1P,
    "sinh": _SINH,
    "cosh": _COSH,
    "tanh": _TANH,
    "sigmoid": _SIGMOID,
    "erf_p": _ERF_P,
    "erf_q": _ERF_Q,
    "erf": _ERF,
}
"""Parameter list and body of each function for $V; the name ends in $N."""
