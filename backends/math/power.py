"""pow in single and double precision, for scalars and vectors alike: exp2(y log2 |x|).

An error in y log2 |x|, which goes up to 150 or 1074, is one of the result: so log2 and the product
are sums of two numbers (Dekker 1971), the products exact by fused multiply-add where the machine
has it. With |x| = m 2^n, f = m - 1, s = f / (2 + f) and z = s^2, log2 m is s (C0 + z (C1 + z T(z)))
where Ck = 2 / ((2 k + 1) log 2), and T is minimax (Remez 1934, with 50 digits).
"""

from __future__ import annotations

from backends.math.polynomials import constants, polynomial

# n + log2(1 + f) is this and what `low` becomes.
_LOG2_NEAR = """($V f, $V n, $V *low) {{
    $V d = f + {two}, inverse = {one} / d, s = f * inverse; /* d lacks f - (d - 2) of f + 2 */
    $V ds = -fused_$N(s, f - (d - {two}), residue_$N(s, d, f)) * inverse;
    $V z = s * s, dz = fused_$N(s + s, ds, residue_$N(s, s, z));
{polynomial}
    $V t = p * z;
    $V a = t + {c1}, da = (t - (a - {c1})) + {low1};
    $V b = z * a, db = fused_$N(z, da, fused_$N(dz, a, residue_$N(z, a, b)));
    $V c = b + {c0}, dc = (b - (c - {c0})) + (db + {low0});
    $V l = s * c, dl = fused_$N(s, dc, fused_$N(ds, c, residue_$N(s, c, l)));
    $V sum = n + l;
    *low = (l - (sum - n)) + dl;
    return sum;
}}"""

_POW = """($V x, $V y) {{
    $V a = fabs_$N(x), low, l = log2_near_$N(mant_$N(a) - {one}, expo_$N(a), &low);
    $V zero = $Z, most = zero + {most}, huge = zero + {huge};
    $V t = minc_$N(huge, maxc_$N(-huge, y)), e = t * l; /* NaN stays NaN; infinity times 0 is 0 */
    low = fused_$N(t, low, residue_$N(t, l, e));
    low = pick_$N(fabs_$N(e), most, low, zero);
    e = minc_$N(most, maxc_$N(-most, e));
    $V n = (e + {nearest}) - {nearest}, r = (e - n) + low;
    $V part = pick_$N(e, zero - {least}, zero, exp2_near_$N(r) * r + {one}); /* 0 as it is small */
    return power_$N(scale_$N(part, n), x, y);
}}"""

_LOG2_32 = "0.28793603 0.31958732 0.41221502 0.5770779"
_LOG2_64 = """
    0.1653959025274072 0.14941215195163624 0.1698444987658249 0.19235610283343485
    0.2219531380069382 0.2623081887055012 0.3205988979782997 0.412198583111125 0.5770780163555854
"""


def _texts(ending: str, log2: str, **numbers: float) -> dict[str, str]:
    words = constants(ending, one=1.0, two=2.0, **numbers)
    return {
        "log2_near": _LOG2_NEAR.format(polynomial=polynomial("z", log2, ending, parts=4), **words),
        "pow": _POW.format(**words),
    }


# Ck is ck + lowk; what is added to `nearest` is rounded to an integer.
_SINGLE = {
    "c0": 2.88539,
    "low0": 3.851926e-08,
    "c1": 0.9617967,
    "low1": -7.028462e-09,
    "most": 200.0,
    "least": 151.0,
    "huge": 1e30,
    "nearest": 12582912.0,
}
_DOUBLE = {
    "c0": 2.8853900817779268,
    "low0": 4.0710547481862066e-17,
    "c1": 0.9617966939259756,
    "low1": 5.0577616648125907e-17,
    "most": 1100.0,
    "least": 1077.0,
    "huge": 1e300,
    "nearest": 6755399441055744.0,
}

TEXTS = {
    "float32": _texts("f", _LOG2_32, **_SINGLE),
    "float64": _texts("", _LOG2_64, **_DOUBLE),
}
"""By type: parameter list and body of each function for $V; the name ends in $N."""
