"""Math functions: each row has its NumPy meaning; backends translate the names.

Public as te.exp, te.sqrt, ...; an unknown name cannot be built.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class MathFunction:
    """`numpy` computes the result from float arrays; `result` is "same" or "bool"."""

    name: str
    arity: int
    numpy: Callable[..., Any]
    result: str = "same"


_erf = np.frompyfunc(math.erf, 1, 1)


def _sigmoid(x: Any) -> Any:
    # Two branches so that exp never overflows; same value as 1 / (1 + exp(-x)).
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


_ROWS = [
    *(
        MathFunction(name, 1, getattr(np, name))
        for name in (
            "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh floor ceil trunc"
        ).split()
    ),
    MathFunction("asin", 1, np.arcsin),
    MathFunction("acos", 1, np.arccos),
    MathFunction("atan", 1, np.arctan),
    MathFunction("round", 1, np.rint),  # to nearest, ties to even
    MathFunction("fabs", 1, np.abs),
    MathFunction("rsqrt", 1, lambda x: 1 / np.sqrt(x)),
    MathFunction("sigmoid", 1, _sigmoid),
    MathFunction("erf", 1, lambda x: np.asarray(_erf(x), dtype=np.asarray(x).dtype)),
    MathFunction("pow", 2, np.power),
    MathFunction("atan2", 2, np.arctan2),
    MathFunction("fmod", 2, np.fmod),
    MathFunction("isnan", 1, np.isnan, "bool"),
    MathFunction("isinf", 1, np.isinf, "bool"),
    MathFunction("isfinite", 1, np.isfinite, "bool"),
]

MATH: dict[str, MathFunction] = {row.name: row for row in _ROWS}
