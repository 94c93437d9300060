"""Functions of angles in single precision, for scalars and vectors: as backends.math.math_f32."""

from __future__ import annotations

_NEAREST = "12582912.0f"  # 1.5 * 2^23: what is added to it is rounded to an integer

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
    near = pick_$N(fabs_$N(x), $Z + 1e-4f, x, near); /* -0 stays -0 */
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
    $V p = z * 4.3795872e-3f + 8.503333e-5f;
    p = p * z + 1.0837108e-2f;
    p = p * z + 2.1282887e-2f;
    p = p * z + 5.405944e-2f;
    p = p * z + 1.3332672e-1f;
    p = p * z + 3.333335e-1f;
    $V low = turn_low_$N(rest, r, turns), q = p * (z * r) + (z * low + low);
    $V t = q + r, lost = q - (t - r), u = -1.0f / t, one = $Z + 1.0f;
    u = fused_$N(u, fused_$N(u, lost, residue_$N(u, t, -one)), u); /* -1 / (t + lost) */
    $V near = odd_$N(turns, t, u);
    return tan_far_$N(x, pick_$N(fabs_$N(x), $Z + 1e-4f, x, near));
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
