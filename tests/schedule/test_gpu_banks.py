"""Pitches of arrays in shared memory: counted anew, lane by lane."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import islice, product

import pytest

from schedule.library.gpu.memory.banks import best_pitch
from tensorir import Gpu

CASES = {
    "a row for each lane": ([64, 32], [{0: 64, 1: 32}, {1: 32, 0: 64}], 4),
    "eight columns": ([64, 8], [{0: 64, 1: 8}, {1: 8, 0: 64}], 4),
    "seven columns": ([64, 7], [{0: 64, 1: 7}, {1: 7, 0: 64}], 4),
    "twelve columns of 2 bytes": ([64, 12], [{0: 64, 1: 12}, {1: 12, 0: 64}], 2),
    "of 8 bytes": ([40, 6], [{0: 40, 1: 6}, {1: 6, 0: 40}], 8),
    "three axes": ([2, 16, 16], [{0: 2, 1: 16, 2: 16}, {2: 16, 1: 16, 0: 2}], 4),
}


def asks(extents, sizes, item, pitch):
    """How often warps ask, for all elements in the order of `sizes`."""
    steps = [1]
    for dim in range(len(extents) - 2, -1, -1):
        step = steps[0] * extents[dim + 1]
        while pitch is not None and dim == pitch.dim and step % pitch.factor != pitch.offset:
            step += 1
        steps.insert(0, step)
    places = iter(
        sum(steps[dim] * n for dim, n in zip(sizes, at))
        for at in product(*map(range, sizes.values()))
    )
    together = Gpu.warp // max(1, item // Gpu.bank_bytes)
    found = 0
    while lanes := list(islice(places, together)):
        words = defaultdict(set)
        for place in lanes:
            word = place * item // max(item, Gpu.bank_bytes)
            words[word % together].add(word)
        found += max(map(len, words.values()))
    return found


@pytest.mark.parametrize("name", CASES)
def test_no_other_pitch_meets_less(name):
    extents, taken, item = CASES[name]
    factor = Gpu.banks * Gpu.bank_bytes // item
    _, best = best_pitch(extents, taken, item)
    met = Counter({best: sum(asks(extents, sizes, item, best) for sizes in taken)})
    for dim, offset in product(range(len(extents) - 1), range(0, factor, max(1, 4 // item))):
        pitch = type(best)(dim, factor, offset) if best is not None else None
        met[pitch] = sum(asks(extents, sizes, item, pitch) for sizes in taken)
    assert met[best] == min(met.values())
