"""What the texts of math functions do with single lanes of both precisions.

As in backends.math.helpers, $V is the type and $F the ending of the builtins of C ("f" for float).
"""

from __future__ import annotations

from backends.math.forms import by_mask

HAS_FMA = "defined(__FP_FAST_FMA) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)"

LANES = {
    "pick": "($V x, $V y, $V a, $V b) { return x < y ? a : b; }",
    "fabs": "($V x) { return __builtin_fabs$F(x); }",
    "sqrt": "($V x) { return __builtin_sqrt$F(x); }",
    "whole": "($V x) { return __builtin_trunc$F(x); }",
    "copysign": "($V x, $V sign) { return __builtin_copysign$F(x, sign); }",
    # Where an expression has two products, the compiler would choose which one to contract.
    "fused": f"""($V a, $V b, $V c) {{
#if {HAS_FMA}
    return __builtin_fma$F(a, b, c);
#else
    return a * b + c;
#endif
}}""",
    # The smaller by the larger, both >= 0; 0 for two zeros, 1 for two infinities.
    "ratio": """($V a, $V b) {
    $V most = a > b ? a : b, least = a > b ? b : a;
    $V t = most > 0 ? least / most : least;
    t = least > 0 && least == most ? 1 : t;
    return a == a && b == b ? t : a + b;
}""",
    # pow(x, y) of w = pow(|x|, y): signs and special cases (C11 F.10.4.4).
    "power": """($V w, $V x, $V y) {
    $V half = y / 2;
    _Bool whole = __builtin_rint$F(y) == y, odd = whole & (__builtin_rint$F(half) != half);
    w = odd ? __builtin_copysign$F(w, x) : w;
    w = x < 0 && x > -__builtin_inf$F() && !whole ? __builtin_nan$F("") : w;
    return x == 1 || y == 0 ? 1 : w;
}""",
    # a / b rounded down, and what it leaves, of fmod(a, b): as NumPy's, zeros included.
    "quotient": """($V a, $V b, $V rest) {
    $V q = (a - rest) / b;
    q = ((rest != 0) & ((b < 0) != (rest < 0))) ? q - 1 : q;
    $V down = __builtin_floor$F(q), lack = q - down;
    down = lack + lack > 1 ? down + 1 : down;
    down = q == 0 ? __builtin_copysign$F(0, a / b) : down;
    return b == 0 ? a / b : down;
}""",
    "remainder": """($V b, $V rest) {
    $V sum = (b < 0) != (rest < 0) ? rest + b : rest;
    return rest == 0 ? __builtin_copysign$F(0, b) : sum;
}""",
}
"""Parameter list and body of each; the result is $V."""

IN_CLANG = {
    "pick": by_mask("$V", "$K", "x < y"),
    "copysign": "($V)((($K)x & ~($K)-$Z) | (($K)sign & ($K)-$Z))",
}
"""Whole vectors of these, by their bits: those of -0.0 are the signs."""

_FAR = """($V x, $V near) {{
    return __builtin_fabs$F(x) <= {most} ? near : __builtin_{name}$F(x); /* NaN and inf too */
}}"""
_FAR_REST = """($V x, $V a, $V b, $V near) {{
    return __builtin_fabs$F(x) <= {most} ? near : __builtin_fmod$F(a, b);
}}"""


def far(most: str) -> dict[str, str]:
    """What libm does for arguments beyond `most`: rare, and branched to."""
    functions = {name: _FAR.format(name=name, most=most) for name in ("sin", "cos", "tan")}
    return functions | {"fmod": _FAR_REST.format(most=most)}


REST = """($V a, $V b) {
    $V x = fabs_$N(a), y = fabs_$N(b), q = x / y, r = -residue_$N(whole_$N(q), y, x);
    r = pick_$N(r, $Z, r + y, r); /* exact, if the quotient was rounded to an integer */
    r = pick_$N(r, y, r, r - y);
    return fmod_far_$N(q, a, b, copysign_$N(pick_$N(x, y, x, r), a));
}"""
"""fmod: the quotient is less than 2^23, and so is the integer that is subtracted exact."""

WHOLE = {
    "fmod": REST,
    "floordiv": "($V a, $V b) { return quotient_$N(a, b, fmod_$N(a, b)); }",
    "floormod": "($V a, $V b) { return remainder_$N(b, fmod_$N(a, b)); }",
    "round": """($V x) {
    $V whole = whole_$N(x), next = whole + copysign_$N($Z + 1, x), lack = fabs_$N(x - whole);
    return copysign_$N(pick_$N(lack + lack, $Z + 1, whole, next), x); /* ties away from zero */
}""",
}
"""Functions about whole numbers, for scalars and vectors alike."""
