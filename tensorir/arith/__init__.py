"""Integer arithmetic: simplification, bounds and proofs; bindings of blocks; touched regions.

What primitives may do rests on two questions about quasi-affine indices: `determines`, whether the
values of indices fix a loop variable, and `relax`, the part of a buffer that loops touch.
"""

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.exhaustive import connected, few_values, holds_everywhere, tells_apart
from tensorir.arith.linear import Linear
from tensorir.arith.regions.dense import is_dense
from tensorir.arith.regions.inverse import inverse_of
from tensorir.arith.regions.iter_map import (
    Digit,
    decompose,
    determines,
    determines_all,
)
from tensorir.arith.regions.region import Interval, covers, intersect_with, relax, union
from tensorir.arith.slope import slope

__all__ = [
    "Analyzer",
    "Digit",
    "Interval",
    "Linear",
    "connected",
    "covers",
    "decompose",
    "determines",
    "determines_all",
    "few_values",
    "holds_everywhere",
    "intersect_with",
    "inverse_of",
    "is_dense",
    "relax",
    "slope",
    "tells_apart",
    "union",
]
