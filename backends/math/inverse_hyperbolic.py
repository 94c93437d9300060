"""asinh, acosh and atanh in single and double precision, for scalars and vectors alike.

As in backends.math.math_f32, $V is the type and $N its short name. All are logarithms of 1 + t,
where t has no cancellation; beyond `large`, where the square of the argument might overflow, of
twice the argument.
"""

from __future__ import annotations

from backends.math.polynomials import constants

_ASINH = """($V x) {{
    $V a = fabs_$N(x), zero = $Z, large = zero + {large};
    $V z = a * a, t = a + z / ({one} + sqrt_$N({one} + z)); /* a + (sqrt(1 + z) - 1) */
    $V more = pick_$N(a, large, zero, zero + {log2});
    return copysign_$N(log1p_$N(pick_$N(a, large, t, a)) + more, x);
}}"""

_ACOSH = """($V x) {{
    $V zero = $Z, one = zero + {one}, large = zero + {large};
    $V s = x - {one}, t = s + sqrt_$N(s * (s + {two}));
    $V r = log1p_$N(pick_$N(x, large, t, x)) + pick_$N(x, large, zero, zero + {log2});
    return pick_$N(x, one, zero + __builtin_nan$F(""), r);
}}"""

_ATANH = """($V x) {{
    $V a = fabs_$N(x), t = (a + a) / ({one} - a);
    return copysign_$N(log1p_$N(t) * {half}, x);
}}"""


def _texts(ending: str, large: float) -> dict[str, str]:
    words = constants(ending, half=0.5, one=1.0, two=2.0, log2=0.6931471805599453, large=large)
    return {
        "asinh": _ASINH.format(**words),
        "acosh": _ACOSH.format(**words),
        "atanh": _ATANH.format(**words),
    }


TEXTS = {"float32": _texts("f", 2.0**28), "float64": _texts("", 2.0**57)}
"""By type: parameter list and body of each function for $V; the name ends in $N."""
