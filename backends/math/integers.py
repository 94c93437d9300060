"""Helpers of integers: extrema, division, shifts, powers. See helpers.py for the $ words.

`lanediv` and `lanemod` are floordiv and floormod for the lanes of vectors: without branches, and by
a quotient of floating-point numbers. That one is rounded to a number on the wrong side of an
integer only if $D has fewer than twice the bits of $T (the quotient of a and b is no nearer to an
integer than 1 / b). For 64 bits there are two steps, each too small by less than a 2^-49th part.
"""

from __future__ import annotations

from backends.math import philox
from backends.math.forms import Helper, by_mask
from tensorir import dtype as dt

_TWO = "($T a, $T b)"

_ANY_INT = {
    "lanemod": Helper(
        f"{_TWO} {{ return b == 0 ? 0 : ($T)(a - lanediv_$S(a, b) * b); }}",
        needs=(("lanediv", ""),),
    ),
    "min": Helper(f"{_TWO} {{ return a < b ? a : b; }}", whole=by_mask("$V", "$K", "a < b")),
    "max": Helper(f"{_TWO} {{ return a > b ? a : b; }}", whole=by_mask("$V", "$K", "a > b")),
    "popcount": Helper(
        """($T a) { /* sums of 2, 4 and 8 bits, then of the bytes */
    $U x = ($U)a, all = ($U)-1;
    x = ($U)(x - (x >> 1 & all / 3));
    x = ($U)((x & all / 15 * 3) + (x >> 2 & all / 15 * 3));
    x = ($U)((x + (x >> 4)) & all / 255 * 15);
    return ($T)(($U)(x * (all / 255)) >> ($W - 8));
}""",
        types=("$U",),
    ),
}

_POWER = """\
    $U r = 1, x = ($U)a, n = ($U)b;
    for (; n; n = ($U)(n >> 1)) {
        if (n & 1) r = ($U)(1u * r * x);
        x = ($U)(1u * x * x);
    }
    return ($T)r;
}"""

# Towards zero, and 0 for the power of 0.
_FRACTION = "    if (b < 0) return ($T)(a == 1 ? 1 : a == -1 ? 1 - (b & 1) * 2 : 0);"

SIGNED = {
    **_ANY_INT,
    "pow": Helper(f"{_TWO} {{\n{_FRACTION}\n{_POWER}", types=("$U",)),
    "floordiv": Helper(
        f"""{_TWO} {{
    if (b == 0) return 0; /* as NumPy: no trap */
    if (b == -1) return ($T)-a;
    return ($T)(a / b - ((a % b != 0) & ((a ^ b) < 0)));
}}"""
    ),
    "floormod": Helper(
        f"""{_TWO} {{
    if (b == 0 || b == -1) return 0;
    $T r = ($T)(a % b);
    return ($T)(r != 0 && (r ^ b) < 0 ? r + b : r);
}}"""
    ),
    "lanediv": Helper(
        f"""{_TWO} {{
    $T q = ($T)($I)(($D)a / ($D)b), r = ($T)(a - q * b);
    q = ($T)(q - ((r != 0) & ((r ^ b) < 0)));
    return b == 0 ? 0 : b == -1 ? ($T)-a : q;
}}"""
    ),
    "shl": Helper(f"{_TWO} {{ return ($T)(($U)b < $W ? ($T)(a << b) : 0); }}", types=("$U",)),
    "shr": Helper(f"{_TWO} {{ return ($T)(a >> (($U)b < $W ? b : $W - 1)); }}", types=("$U",)),
}

UNSIGNED = {
    **_ANY_INT,
    "pow": Helper(f"{_TWO} {{\n{_POWER}", types=("$U",)),
    "floordiv": Helper(f"{_TWO} {{ return ($T)(b == 0 ? 0 : a / b); }}"),
    "floormod": Helper(f"{_TWO} {{ return ($T)(b == 0 ? 0 : a % b); }}"),
    "lanediv": Helper(f"{_TWO} {{ return b == 0 ? 0 : ($T)($I)(($D)a / ($D)b); }}"),
    "shl": Helper(f"{_TWO} {{ return ($T)(b < $W ? a << b : 0); }}"),
    "shr": Helper(f"{_TWO} {{ return ($T)(b < $W ? a >> b : 0); }}"),
}

# The quotient of x and y, which is 0 or more, and what it leaves: both steps round down.
_TWO_STEPS = """\
    double by = (1 - 0x1p-50) / (double)y;
    u64 q = (u64)((double)x * by), r = x - q * y, more = (u64)((double)r * by);
    q += more;
    r -= more * y;
    q += r >= y;"""

_LONG = {
    "int64": f"""{_TWO} {{
#if defined(__AVX512DQ__) || defined(__aarch64__)
    i64 sa = a >> 63, sb = b >> 63, s = sa ^ sb;
    u64 x = (u64)((a ^ sa) - sa), y = (u64)((b ^ sb) - sb);
{_TWO_STEPS}
    i64 d = ((i64)q ^ s) - s; /* rounded towards zero */
    return b == 0 ? 0 : d + (s & -(i64)(d * b != a));
#else
    return floordiv_i64(a, b);
#endif
}}""",
    "uint64": f"""{_TWO} {{
#if defined(__AVX512DQ__) || defined(__aarch64__)
    u64 x = a, y = b;
{_TWO_STEPS}
    return b == 0 ? 0 : q;
#else
    return floordiv_u64(a, b);
#endif
}}""",
}


def integer_helpers(dtype: str) -> dict[str, Helper]:
    """The helpers of a type of integers."""
    known = UNSIGNED if dt.is_unsigned(dtype) else SIGNED
    known = known | philox.HELPERS.get(dtype, {})
    if dtype not in _LONG:
        return known
    return known | {"lanediv": Helper(_LONG[dtype], "$T", (("floordiv", ""),), ("uint64",))}
