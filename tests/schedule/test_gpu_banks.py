"""Pitches of arrays in shared memory: counted anew, lane by lane."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import islice, product

import pytest

from schedule.library.gpu.memory.banks import best_pitch
from schedule.library.gpu.memory.pitches import TileLayout, tile_pitches
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


TILES = {
    "rows": ((8, 128), (0, 1), 0, 4, 4, True, (8, 4), ((0, 8), (0, 4))),
    "turned": ((8, 128), (1, 0), 0, 4, 4, False, (8, 4), ((0, 8), (0, 4))),
    "of 2 bytes": ((7, 36), (1, 0), 0, 2, 1, False, (4, 3), ((1, 0), (0, 5))),
    "of 8 bytes": ((3, 5, 9), (2, 0, 1), 1, 8, 1, False, (2, 9), ((0, 2, 0), (0, 0, 1))),
    "few lanes": ((6, 10), (0, 1), 0, 4, 2, True, (3,), ((1, 0),)),
    "one dimension": ((40,), (0,), 0, 4, 1, True, (32,), ((1,),)),
}


def taken_together(tile):
    """Elements that one access of a copy stores."""
    return tile.vector if tile.straight else 1


def met(tile, offset):
    """How often a warp asks for one read and one write with a pitch, lane by lane; and elements."""
    factor, dims = Gpu.banks * Gpu.bank_bytes // tile.item, range(len(tile.extents))
    steps = [1]
    for dim in dims[:0:-1]:
        step = steps[0] * tile.extents[dim]
        while dim - 1 == tile.apart and step % factor != offset:
            step += 1
        steps.insert(0, step)
    lanes = product(*map(range, tile.lanes))
    reads = [[sum(map(int.__mul__, at, way)) for way in zip(*tile.steps)] for at in lanes]
    *outer, last = [tile.extents[dim] for dim in tile.fetched]
    copies = [
        [at[tile.fetched.index(dim)] for dim in dims]
        for at in product(*map(range, outer), range(0, last, tile.vector))
    ]
    wide = max(tile.item, Gpu.bank_bytes)
    banks, found = Gpu.banks * Gpu.bank_bytes // wide, []
    for places, at_once in ((reads, Gpu.warp), (copies, Gpu.warp // taken_together(tile))):
        most, together = 0, min(at_once, banks)
        for first in range(0, min(Gpu.warp, len(places)), together):
            words = defaultdict(set)
            for place in places[first : first + together]:
                word = sum(map(int.__mul__, place, steps)) * tile.item // wide
                words[word % banks].add(word)
            most = max(most, *(len(bank) for bank in words.values()))
        found.append(most)
    return tuple(found), steps[0] * tile.extents[0]


def test_pitches_of_many_tiles_are_those_that_meet_least():
    """Found together, whatever they have in common."""
    tiles = [TileLayout(*tile) for tile in TILES.values()]
    for tile, pitched in zip(tiles, tile_pitches(tiles)):
        factor, offset = pitched.pitch
        assert (pitched.met, pitched.elements) == met(tile, offset)
        others = range(0, factor, max(1, Gpu.bank_bytes // tile.item, taken_together(tile)))
        assert sum(pitched.met) == min(sum(met(tile, other)[0]) for other in others)
