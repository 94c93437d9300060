"""Intervals of paired differences from their signed ranks (Wilcoxon; Hodges and Lehmann 1963).

They assume no distribution, and blocks that something else spoiled move them little. What is timed
in a random order within each round has differences that are symmetric about the true one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True)
class Interval:
    """An estimate of a number, and bounds that hold with the confidence that was asked for."""

    estimate: float
    low: float
    high: float


def interval(differences: np.ndarray, confidence: float) -> Interval:
    """The interval of the centre of `differences`, of any number of rounds, nan left out.

    It is unbounded where there are too few rounds for the confidence: nothing is known then.
    """
    known = np.asarray(differences, dtype=np.float64)
    known = known[np.isfinite(known)]
    if not known.size:
        return Interval(math.nan, -math.inf, math.inf)
    first, second = np.triu_indices(len(known))
    means = np.sort((known[first] + known[second]) / 2)
    rank = _rank(len(known), (1 - confidence) / 2)
    if rank == 0:
        return Interval(float(np.median(means)), -math.inf, math.inf)
    return Interval(float(np.median(means)), float(means[rank - 1]), float(means[-rank]))


@lru_cache(maxsize=512)
def _rank(count: int, tail: float) -> int:
    """Which of the sorted means is the bound: as far in as leaves at most `tail` outside."""
    # The distribution of the sum of those ranks from 1 to `count` whose difference is positive.
    chance = np.zeros(count * (count + 1) // 2 + 1)
    chance[0] = 1.0
    for rank in range(1, count + 1):
        chance[rank:] = chance[rank:] + chance[:-rank]
        chance /= 2
    return int(np.searchsorted(np.cumsum(chance), tail, side="right"))
