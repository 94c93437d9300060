"""Which variables a sum of products is summed over first, so that the fewest products are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tensorir.expr import Var


def sums_ahead(
    factors: Sequence[Sequence[Var]], kept: Sequence[Var], sizes: Mapping[Var, int]
) -> list[tuple[Var, ...]]:
    """The variables of each sum that is taken of some factors before the others are multiplied.

    `factors` are the variables of each, `kept` those of the result. A sum is of all factors that
    have one of its variables, and what is left of these is one factor from there on; the last sum,
    of all that is left then, is none of the answer.
    """
    return _least([tuple(dict.fromkeys(each)) for each in factors], kept, sizes)[2]


def _least(
    factors: Sequence[tuple[Var, ...]], kept: Sequence[Var], sizes: Mapping[Var, int]
) -> tuple[int, int, list[tuple[Var, ...]]]:
    """Products and sums, elements that are stored between the sums, and the variables of these."""
    every = dict.fromkeys(v for each in factors for v in each)
    best = (len(factors) - 1) * prod(sizes[v] for v in every), 0, list[tuple[Var, ...]]()
    for first in (v for v in every if v not in kept):
        used = [each for each in factors if first in each]
        others = [each for each in factors if first not in each]
        if not others:
            continue
        inside = dict.fromkeys(v for each in used for v in each)
        apart = {*kept, *(v for each in others for v in each)}
        left = tuple(v for v in inside if v in apart)
        work = max(1, len(used) - 1) * prod(sizes[v] for v in inside)
        after, stored, sums = _least([*others, left], kept, sizes)
        over = tuple(v for v in inside if v not in apart)
        found = work + after, stored + prod(sizes[v] for v in left), [over, *sums]
        best = min(best, found, key=lambda each: each[:2])
    return best
