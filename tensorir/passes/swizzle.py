"""Elements in another order in memory: the function attribute "swizzle".

{"swizzle": {buffer: [bits, base, shift]}} puts element n of a buffer, counted row by row, at
n ^ (n >> shift & (2**bits - 1) << base), as CUTLASS's Swizzle<bits, base, shift> does: `bits` bits
from bit `base` on are changed by those `shift` further up. Elements that lie in one bank of shared
memory, rows of a power of two apart, then lie in different ones.

With a shift of at least 1 every bit is changed by higher ones only, so the map can be undone; and
it changes bits below base + bits only, so each run of 2**(base + bits) elements keeps its place. A
buffer of a multiple of that size is mapped to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorir.arith import Analyzer
from tensorir.expr import Const, Expr

SWIZZLE = "swizzle"

LARGEST_RUN = 16
"""bits + base at the most: the longest run is 128 KB of elements of two bytes."""

Swizzles = Mapping[str, Sequence[int]]


def swizzled(index: Expr, wanted: Sequence[int], analyzer: Analyzer) -> Expr:
    """Where the element `index` lies; runs of 2**base elements stay together."""
    bits, base, shift = wanted
    high = analyzer.simplify(index // (1 << base))
    low = analyzer.simplify(index % (1 << base))
    changing = analyzer.simplify(high // (1 << shift) % (1 << bits))
    if isinstance(changing, Const) and changing.value == 0:
        return index
    return analyzer.simplify((high ^ changing) * (1 << base) + low)


def swizzled_size(size: Expr, wanted: Sequence[int], analyzer: Analyzer) -> Expr:
    """How many elements a buffer of `size` takes: whole runs."""
    bits, base, _ = wanted
    run = 1 << (bits + base)
    return analyzer.simplify((size + (run - 1)) // run * run)
