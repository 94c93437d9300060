"""Places that memory says: numbers are drawn for what an index reads, one for each element.

Lanes that read one number go to one place, and from there on side by side where they do so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from autotune.gpu.lanes import Values, values_of
from autotune.rules.group import size
from tensorir import Expr, Ramp, loads

MIXED = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
"""Shifts and factors that make a number of each place that looks random: those of SplitMix64
(Steele, Lea and Flood, OOPSLA 2014)."""

STEP = 0x9E3779B97F4A7C15


def places_of(
    index: Expr, known: Mapping[Expr, Values], extent: int, shape: tuple[int, ...]
) -> Values:
    """The values of an index of `extent` elements, with numbers drawn for what it reads."""
    first = index.base if isinstance(index, Ramp) else index
    read = list(loads(first))[::-1]  # what tells the place of others first
    told = [(first, extent)]
    told += [(load.indices[0], prod(map(size, load.buffer.shape))) for load in read if load.indices]
    given: dict[Expr, Values] = {**known}
    for load in read:
        at = values_of(load.indices[0], given) if load.indices else np.zeros((), np.int64)
        count = max(_count(*each, load, read, known) for each in told)
        given[load] = _drawn(at, count, shape)
    found = values_of(first, given)
    if found is None:  # floats say the place
        return np.asarray(_drawn(None, extent, shape))
    return np.asarray(found % extent) if read else found


def _count(
    index: Expr, extent: int, load: Expr, read: Sequence[Expr], known: Mapping[Expr, Values]
) -> int:
    """How many numbers `load` may have that lead to places of their own: as many steps as the
    extent has, or as are left of them where an index is kept within limits; 1 if it does not
    tell the place."""
    zeros: dict[Expr, Values] = {other: np.zeros((), np.int64) for other in read}
    ends = [values_of(index, {**known, **zeros, load: np.full((), n)}) for n in (0, 1, extent)]
    none, one, most = (np.zeros(()) if end is None else end for end in ends)
    step, reach = (max(1, int(np.abs(end - none).max())) for end in (one, most))
    return max(1, min(extent, reach) // step)


def _drawn(at: Values | None, count: int, shape: tuple[int, ...]) -> Values:
    """A number below `count` for each of some places; for each lane where they are not known."""
    if at is None:
        return np.random.default_rng(0).integers(0, count, shape)
    mixed = (np.atleast_1d(at).astype(np.uint64) + np.uint64(1)) * np.uint64(STEP)
    for shift, factor in MIXED:
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return ((mixed >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.int64)
