"""Double-precision functions for scalars and vectors: what backends.math.math_f32 is for float32.

Those of angles are in backends.math.trig_f64 and backends.math.inverse_trig, pow is in
backends.math.power. The two parts of log 2 are those of fdlibm (Sun Microsystems 1993), and so is
the form of log, f - (f^2 / 2 - s (f^2 / 2 + R)) with s = f / (2 + f). The polynomial of log was
interpolated at Chebyshev nodes with 60 digits; the others are minimax (Remez 1934, with 50 digits),
relative to the result.
"""

from __future__ import annotations

from backends.math.polynomials import halved, polynomial

_NEAREST = "6755399441055744.0"  # 1.5 * 2^52: what is added to it is rounded to an integer

_EXP_COEFFICIENTS = """
    2.511451335554139e-08 2.7625074874670795e-07 2.7557228041673545e-06 2.480150901702623e-05
    0.00019841269902552239 0.0013888888926471734 0.008333333333315103 0.04166666666660497
    0.16666666666666685 0.5
"""
_EXP2_COEFFICIENTS = """
    4.4573114109111087e-10 7.0738116300642744e-09 1.0178047079756508e-07 1.321543514077833e-06
    1.5252733865716789e-05 0.00015403530457321318 0.001333355814638134 0.009618129107594053
    0.05550410866482173 0.2402265069591013 0.6931471805599453
"""
_SINH_COEFFICIENTS = """
    7.760411617748744e-13 1.605721707647953e-10 2.5052123477359666e-08 2.7557319156695965e-06
    0.00019841269841425354 0.008333333333333174 0.16666666666666669
"""
_ERF_SMALL = """
    -7.779462971758002e-10 1.3710988704188445e-08 -1.6206318752968687e-07 1.6447132699786545e-06
    -1.4924712439534808e-05 0.0001205529358693695 -0.0008548325929766244 0.005223977606130842
    -0.026866170643113415 0.112837916709442 -0.3761263890318352 0.12837916709551256
"""
_ERF_LARGE = """
    -4.649662954712809e-16 2.7218159595651032e-14 -7.509709017105999e-13 1.2972154856506475e-11
    -1.5704608820441668e-10 1.4116320044019982e-09 -9.714606080671967e-09 5.179441548515283e-08
    -2.1200794730799407e-07 6.338673579535785e-07 -1.1310035099305457e-06 -5.148745069440702e-07
    1.1959320810218494e-05 -4.517713067948121e-05 8.600488574765666e-05 2.189998088025293e-06
    -0.000569397300156979 0.0016819091480639147 -0.0002015731007458123 -0.019131480034970692
    0.10277345199812632 0.6366196233810658 0.1283791794398622
"""
_LOG_COEFFICIENTS = """
    0.13609030262907734 0.13209708242052065 0.15388867805614162 0.18181737626302924
    0.2222222304835159 0.28571428567275936 0.4000000000000794 0.6666666666666666
"""

# (exp(r) - 1 - r) / r^2 for |r| <= log(2) / 2.
_EXP_NEAR = f"""($V r) {{
{polynomial("r", _EXP_COEFFICIENTS)}
    return p;
}}"""

# exp(c) - 1 without its factor 2^n: c = r + n log 2, and n = rint(c / log 2).
_EXP_REST = """($V c, $V n) {
    $V r = c - n * 6.93147180369123816490e-01;
    r = r - n * 1.90821492927058770002e-10;
    return exp_near_$N(r) * (r * r) + r;
}"""

_EXP = f"""($V x) {{
    $V least = $Z - 746.0, c = minc_$N($Z + 710.0, maxc_$N(least, x)); /* NaN stays NaN */
    $V n = (c * 1.4426950408889634 + {_NEAREST}) - {_NEAREST};
    return scale_$N(pick_$N(x, least, $Z, exp_rest_$N(c, n) + 1.0), n);
}}"""

# (2^r - 1) / r for r in [-1/2, 1/2].
_EXP2_NEAR = f"""($V r) {{
{polynomial("r", _EXP2_COEFFICIENTS)}
    return p;
}}"""

_EXP2 = f"""($V x) {{
    $V least = $Z - 1077.0, c = minc_$N($Z + 1025.0, maxc_$N(least, x));
    $V n = (c + {_NEAREST}) - {_NEAREST}, r = c - n;
    return scale_$N(pick_$N(x, least, $Z, exp2_near_$N(r) * r + 1.0), n);
}}"""

# Half of exp(x) - 1 is r 2^(n - 1) + (2^(n - 1) - 1/2), what that sum loses, and a small part.
_EXPM1 = f"""($V x) {{
    $V c = minc_$N($Z + 710.0, maxc_$N($Z - 80.0, x)); /* -1 from there on */
    $V n = (c * 1.4426950408889634 + {_NEAREST}) - {_NEAREST};
    $V rest = c - n * 6.93147180369123816490e-01, r = rest - n * 1.90821492927058770002e-10;
    $V low = (rest - r) - n * 1.90821492927058770002e-10;
    $V half = scale_$N($Z + 0.5, n), top = half - 0.5; /* 2^n itself may overflow */
    $V sum = r * half + top, lost = r * half - (sum - top);
    sum = sum + ((exp_near_$N(r) * (r * r) + low) * half + lost);
    return copysign_$N(sum + sum, x);
}}"""

# exp(a) / 2 for a >= 0: finite wherever sinh and cosh are.
_HALF_EXP = f"""($V a) {{
    $V c = minc_$N($Z + 711.0, a);
    $V n = (c * 1.4426950408889634 + {_NEAREST}) - {_NEAREST};
    return scale_$N(exp_rest_$N(c, n) + 1.0, n - 1.0);
}}"""

_SINH = f"""($V x) {{
    $V a = fabs_$N(x), z = a * a, h = half_exp_$N(a);
{polynomial("z", _SINH_COEFFICIENTS)}
    $V small = p * z * a + a;
    return copysign_$N(pick_$N(a, $Z + 1.0, small, h - 0.25 / h), x);
}}"""

_COSH = """($V x) {
    $V h = half_exp_$N(fabs_$N(x));
    return h + 0.25 / h;
}"""

_SIGMOID = f"""($V x) {{
    $V a = -fabs_$N(x), least = $Z - 746.0, c = maxc_$N(least, a); /* exp never overflows */
    $V n = (c * 1.4426950408889634 + {_NEAREST}) - {_NEAREST};
    $V p = pick_$N(a, least, $Z - 1.0, exp_rest_$N(c, n)), m = p + 1.0;
    $V e = scale_$N(m, n), s = 1.0 + e;
    $V less = scale_$N((p - (e - (s - 1.0)) * m) + 1.0, n); /* e less what s has lost of it */
    return pick_$N(x, $Z, less, $Z + 1.0) / s;
}}"""

# a + a^3 P / Q near 0, and 1 - 2 / (exp(2 a) + 1) beyond, with one division for both.
_TANH = f"""($V x) {{
    $V a = fabs_$N(x), z = a * a, c = minc_$N($Z + 40.0, a + a);
    $V n = (c * 1.4426950408889634 + {_NEAREST}) - {_NEAREST};
    $V more = scale_$N(exp_rest_$N(c, n) + 1.0, n) + 1.0;
    $V p = z * -1.991780435861275e-4 - 2.0498799708498872e-2;
    p = p * z - 0.3333333333333333;
    $V q = z * 2.0653373748750246e-4 + 2.3291331876298858e-2;
    q = q * z + 0.4614963991254931;
    q = q * z + 1.0;
    $V edge = $Z + 0.625, over = pick_$N(a, edge, p * z * a, $Z - 2.0);
    $V under = pick_$N(a, edge, q, more), most = pick_$N(a, edge, a, $Z + 1.0);
    return copysign_$N(most + over / under, x);
}}"""

# erf is x + x P(x^2) near 0, and 1 - exp(-t - t Q(t)) beyond, which needs no division.
_ERF_P = f"""($V z) {{
{halved("z", _ERF_SMALL)}
    return p;
}}"""

_ERF_Q = f"""($V t) {{
{polynomial("t", _ERF_LARGE, parts=4)}
    return p;
}}"""

_ERF = f"""($V x) {{
    $V a = fabs_$N(x), z = x * x, t = minc_$N($Z + 6.0, a);
    $V small = erf_p_$N(z) * a + a;
    $V c = -(erf_q_$N(t) * t + t), n = (c * 1.4426950408889634 + {_NEAREST}) - {_NEAREST};
    $V large = 1.0 - scale_$N(exp_rest_$N(c, n) + 1.0, n);
    return copysign_$N(pick_$N(a, $Z + 1.0, small, large), x);
}}"""

# f - log(1 + f) for f in [-1/4, 1/2).
_LOG_LACK = f"""($V f) {{
    $V s = f / (2.0 + f), z = s * s;
{polynomial("z", _LOG_COEFFICIENTS)}
    $V half = f * f * 0.5;
    return half - s * (p * z + half);
}}"""

_LOG = """($V x) {
    $V n = expo_$N(x), f = mant_$N(x) - 1.0, r = f - log_lack_$N(f);
    r = n * 1.90821492927058770002e-10 + r;
    return n * 6.93147180369123816490e-01 + r;
}"""

_LOG1P = """($V x) {
    $V n = expo_$N(1.0 + x), s = scale_$N($Z + 1.0, -n);
    $V f = x * s + (s - 1.0); /* 1 + x = (1 + f) 2^n, without rounding 1 + x */
    $V r = n * 1.90821492927058770002e-10 + (f - log_lack_$N(f));
    r = copysign_$N(n * 6.93147180369123816490e-01 + r, x);
    r = pick_$N($Z - 1.0, x, r, n);
    return pick_$N(x, $Z + __builtin_inf(), r, n);
}"""

_LOG2 = """($V x) {
    $V n = expo_$N(x), f = mant_$N(x) - 1.0, lack = log_lack_$N(f) * 1.4426950408889634;
    $V sum = n + f, lost = f - (sum - n); /* log2(1 + f) = f + 0.44 f - 1.44 lack */
    $V small = f * 0.4426950408889634 + (lost - lack);
    return pick_$N(fabs_$N(n), $Z + 4096.0, sum + small, n);
}"""

_LOG10 = """($V x) {
    $V n = expo_$N(x), f = mant_$N(x) - 1.0, lack = log_lack_$N(f) * 1.7371779276130073;
    $V top = n * 1.2041199826553566, sum = top + (f + f), lost = (f + f) - (sum - top);
    $V small = f * -0.2628220723869927 + (lost - lack); /* four times the result, in three parts */
    small = n * 5.68200929090644e-13 + small;
    return pick_$N(fabs_$N(n), $Z + 4096.0, (sum + small) * 0.25, n);
}"""

TEXTS = {
    "exp_near": _EXP_NEAR,
    "exp_rest": _EXP_REST,
    "half_exp": _HALF_EXP,
    "exp2_near": _EXP2_NEAR,
    "log_lack": _LOG_LACK,
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
