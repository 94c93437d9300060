"""asin, acos, atan and atan2 in single and double precision, for scalars and vectors alike.

As in backends.math.math_f32, $V is the type and $N its short name. The polynomials are minimax
relative to the result (Remez 1934, with 50 digits; those of float32 rounded one after the other).
asin and acos beyond 1/2 are those of sqrt((1 - |x|) / 2), atan beyond 1 that of 1 / x. Sums of
large and small parts are made of three numbers, so that one rounding of a large number counts
(Dekker 1971).
"""

from __future__ import annotations

from backends.math.polynomials import constants, halved, polynomial

_ASIN_NEAR = """($V z) {{ /* asin(s) / s - 1 for z = s^2 in [0, 1/4] */
{polynomial}
    return p * z;
}}"""

_ASIN = """($V x) {{
    $V a = fabs_$N(x), zero = $Z, edge = zero + {half}, half = edge - a * {half};
    $V z = pick_$N(a, edge, a * a, half), s = pick_$N(a, edge, a, sqrt_$N(half));
    $V q = asin_near_$N(z), small = fused_$N(q, s, s), two = s + s;
    $V top = {quarter} - two, lost = ({quarter} - top) - two;
    $V large = top + fused_$N(-q, two, lost + {low});
    return copysign_$N(pick_$N(a, edge, small, large), x);
}}"""

_ACOS = """($V x) {{
    $V a = fabs_$N(x), zero = $Z, edge = zero + {half}, half = edge - a * {half};
    $V z = pick_$N(a, edge, a * a, half), s = sqrt_$N(half), two = s + s;
    $V base = pick_$N(x, zero, zero + {turn}, zero);
    base = pick_$N(a, edge, zero + {quarter}, base);
    s = pick_$N(a, edge, x, pick_$N(x, zero, two, -two)); /* acos(x) = base - s - s q */
    $V low = base * {ratio}, top = base - s, lost = (base - top) - s;
    return top + fused_$N(-asin_near_$N(z), s, lost + low);
}}"""

_ATAN_NEAR = """($V t) {{ /* atan(t) / t - 1 for t in [0, 1] */
    $V z = t * t;
{polynomial}
    return p * z;
}}"""

_ATAN = """($V x) {{
    $V a = fabs_$N(x), one = $Z + {one}, t = pick_$N(one, a, one / a, a);
    $V q = atan_near_$N(t), top = {quarter} - t, lost = ({quarter} - top) - t;
    $V large = top + fused_$N(-q, t, lost + {low});
    return copysign_$N(pick_$N(one, a, large, fused_$N(q, t, t)), x);
}}"""

# The angle of the point (x, y): that of the quotient in [0, 1], a quarter or a half turn less it.
_ATAN2 = """($V y, $V x) {{
    $V a = fabs_$N(y), b = fabs_$N(x), zero = $Z, t = ratio_$N(a, b), q = atan_near_$N(t);
    $V sign = copysign_$N(zero + {one}, x), base = pick_$N(sign, zero, zero + {turn}, zero);
    base = pick_$N(b, a, zero + {quarter}, base);
    t = t * pick_$N(b, a, -sign, sign);
    $V low = base * {ratio}, top = base + t, lost = t - (top - base);
    return copysign_$N(top + fused_$N(q, t, lost + low), y);
}}"""

_ASIN_32 = "0.04221767 0.024149053 0.04547648 0.074952506 0.16666754"
_ATAN_32 = """
    -0.0017816827 0.010865276 -0.031093186 0.057879474 -0.083992645 0.109508775 -0.14264016
    0.1999853 -0.333333
"""
_ASIN_64 = """
    0.032741483895665426 -0.02106005804078315 0.02165687868893905 0.0037700243477113878
    0.010750760692863225 0.011406698302304591 0.013979523139738418 0.01735175262503841
    0.022372205133791817 0.030381943138356373 0.04464285716374379 0.07499999999984425
    0.16666666666666702
"""
_ATAN_64 = """
    -8.49700471768182e-06 0.00010254652527488448 -0.000588107909822582 0.002142540426633009
    -0.0056053430068805365 0.01132581060810669 -0.01864656661560076 0.026202141510517998
    -0.03283661013802988 0.03824747867295582 -0.0428843831381979 0.04745776824599171
    -0.0525970268414427 0.058817803515109006 -0.06666595121066546 0.07692301179380102
    -0.09090908679165004 0.1111111109425902 -0.1428571428531463 0.19999999999995496
    -0.3333333333333332
"""


def _texts(ending: str, asin: str, atan: str, **numbers: float) -> dict[str, str]:
    words = constants(ending, half=0.5, one=1.0, **numbers)
    return {
        "asin_near": _ASIN_NEAR.format(polynomial=polynomial("z", asin, ending)),
        "asin": _ASIN.format(**words),
        "acos": _ACOS.format(**words),
        "atan_near": _ATAN_NEAR.format(polynomial=halved("z", atan, ending)),
        "atan": _ATAN.format(**words),
        "atan2": _ATAN2.format(**words),
    }


# pi / 2 and pi rounded; what pi / 2 then lacks, and its ratio to pi / 2, which pi has too.
_SINGLE = {"quarter": 1.5707964, "turn": 3.1415927, "low": -4.371139e-08, "ratio": -2.7827534e-08}
_DOUBLE = {
    "quarter": 1.5707963267948966,
    "turn": 3.141592653589793,
    "low": 6.123233995736766e-17,
    "ratio": 3.8981718325193755e-17,
}

TEXTS = {
    "float32": _texts("f", _ASIN_32, _ATAN_32, **_SINGLE),
    "float64": _texts("", _ASIN_64, _ATAN_64, **_DOUBLE),
}
"""By type: parameter list and body of each function for $V; the name ends in $N."""
