"""Philox for scalars and vectors of uint32 and uint64; see tensorir.numbers.philox.

The rounds are one text for both. Which word is wanted is chosen by masks: a number of the program
as a rule, and the compiler then leaves the other words out. `mulhi` is the upper half of a product;
that of 64 bits is made of products of halves, which vectors have too.
"""

from __future__ import annotations

from backends.math.forms import Form, Helper
from tensorir import PHILOX_MULTIPLIERS, PHILOX_ROUNDS, PHILOX_STEPS

_MULHI = {
    "uint32": "($T a, $T b) { return ($T)((u64)a * b >> 32); }",
    "uint64": """($T a, $T b) {
    $T p = (a & 0xffffffff) * (b & 0xffffffff), q = (a >> 32) * (b & 0xffffffff) + (p >> 32);
    $T r = (a & 0xffffffff) * (b >> 32) + (q & 0xffffffff);
    return (a >> 32) * (b >> 32) + (q >> 32) + (r >> 32);
}""",
}


def _rounds(dtype: str) -> str:
    numbers = (*PHILOX_MULTIPLIERS[dtype], *PHILOX_STEPS[dtype])
    m0, m1, s0, s1 = (f"{n:#x}u" for n in numbers)
    return f"""($V a, $V b, $V c, $V d, $V k, $V l, $V word) {{
    for (int n = 0; n < {PHILOX_ROUNDS}; n++) {{
        $V x = mulhi_$N(c, $Z + {m1}) ^ b ^ k, y = mulhi_$N(a, $Z + {m0}) ^ d ^ l;
        b = c * {m1};
        d = a * {m0};
        a = x;
        c = y;
        k += {s0};
        l += {s1};
    }}
    $V odd = -(word & 1u), late = -(word >> 1 & 1u);
    $V early = a ^ ((a ^ b) & odd), other = c ^ ((c ^ d) & odd);
    return early ^ ((early ^ other) & late);
}}"""


HELPERS = {
    dtype: {
        "mulhi": Helper(text, types=("uint64",)),
        "philox": Helper(_rounds(dtype), "$V", (("mulhi", ""),), form=Form.SAME),
    }
    for dtype, text in _MULHI.items()
}
"""By the type of the words."""
