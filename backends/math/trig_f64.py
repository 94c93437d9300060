"""Functions of angles in double precision, for scalars and vectors: as backends.math.math_f64.

The polynomials of sin and cos are those of fdlibm (Sun Microsystems 1993), that of tan is minimax
(Remez 1934, with 50 digits).
"""

from __future__ import annotations

from backends.math.polynomials import polynomial

_NEAREST = "6755399441055744.0"  # 1.5 * 2^52: what is added to it is rounded to an integer

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
    near = pick_$N(fabs_$N(x), $Z + 1e-8, x, near); /* -0 stays -0 */
    return sin_far_$N(x, near);
}}"""

_COS = f"""($V x) {{
    $V turns = turns_$N(x), rest = turn_rest_$N(x, turns);
    $V r = rest - (turns - {_NEAREST}) * 6.12323399538461e-17;
    $V low = turn_low_$N(rest, r, turns);
    return cos_far_$N(x, turned_$N(turns + 1.0, sin_near_$N(r, low), cos_near_$N(r, low)));
}}"""

_TAN_COEFFICIENTS = """
    9.80059995389066e-06 -2.4191684397433873e-05 4.8265441273297104e-05 -2.4911162144732268e-05
    6.639870383429465e-05 8.416969813443453e-05 0.00024344080931071847 0.0005889748421866035
    0.0014560180414162599 0.003592105644078162 0.008863237365500848 0.021869488441144676
    0.0539682539710504 0.13333333333329475 0.3333333333333335
"""

_TAN = f"""($V x) {{
    $V turns = turns_$N(x), rest = turn_rest_$N(x, turns);
    $V r = rest - (turns - {_NEAREST}) * 6.12323399538461e-17, z = r * r;
{polynomial("z", _TAN_COEFFICIENTS, parts=4)}
    $V low = turn_low_$N(rest, r, turns), q = p * (z * r) + (z * low + low);
    $V t = q + r, lost = q - (t - r), u = -1.0 / t, one = $Z + 1.0;
    u = fused_$N(u, fused_$N(u, lost, residue_$N(u, t, -one)), u); /* -1 / (t + lost) */
    $V near = odd_$N(turns, t, u);
    return tan_far_$N(x, pick_$N(fabs_$N(x), $Z + 1e-8, x, near));
}}"""

TEXTS = {
    "turns": _TURNS,
    "turn_rest": _TURN_REST,
    "turn_low": _TURN_LOW,
    "sin_near": _SIN_NEAR,
    "cos_near": _COS_NEAR,
    "sin": _SIN,
    "cos": _COS,
    "tan": _TAN,
}
"""Parameter list and body of each function for $V; the name ends in $N."""
