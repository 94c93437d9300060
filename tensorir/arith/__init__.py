"""Integer arithmetic: simplification, bounds and proofs; bindings of blocks; touched regions."""

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.iter_map import (
    Digit,
    decompose,
    determines,
    determines_all,
    is_bijective,
    is_compact,
)
from tensorir.arith.region import Interval, covers, intersect_with, relax, union
from tensorir.arith.slope import slope

__all__ = [
    "Analyzer",
    "Digit",
    "Interval",
    "covers",
    "decompose",
    "determines",
    "determines_all",
    "intersect_with",
    "is_bijective",
    "is_compact",
    "relax",
    "slope",
    "union",
]
