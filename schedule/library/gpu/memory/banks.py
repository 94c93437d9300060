"""banks: how arrays in shared memory are to lie so that lanes of a warp meet in few banks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tensorir import Gpu

Places = npt.NDArray[np.int64]
"""Elements of arrays, or steps between them, as numbers."""

TILES = 1024
"""Tiles that look different of which the pitch is kept."""

LOOKED_AT = 8
"""Warps of which the places are looked at, of those that take a box together."""


class Pitch(NamedTuple):
    """Where neighbours along a dimension lie: arguments of `storage_align`."""

    dim: int
    factor: int
    offset: int


def asked(places: Places, item: int, at_once: int = Gpu.warp) -> Places:
    """Words of one bank that so many lanes want at once, at the most, for rows of places: those of
    elements of `item` bytes that lanes access, one after the other."""
    wide = max(item, Gpu.bank_bytes)
    banks = Gpu.banks * Gpu.bank_bytes // wide
    at_once = min(at_once, banks)
    words = places * item // wide
    if missing := -words.shape[1] % at_once:
        words = np.pad(words, ((0, 0), (0, missing)), mode="edge")
    words = np.sort(words.reshape(-1, at_once))
    other = np.ones(words.shape, bool)
    other[:, 1:] = words[:, 1:] != words[:, :-1]
    bank = words % banks + banks * np.arange(len(words))[:, None]
    held = np.bincount(bank[other], minlength=banks * len(words))
    return np.asarray(held.reshape(len(places), -1, banks).max(2))


def best_pitch(
    extents: Sequence[int], taken: Sequence[Mapping[int, int]], item: int
) -> tuple[int, Pitch | None]:
    """How often some warps have to ask, at least, and the pitch for that of an array with
    dimensions of such extents, None where it is that of the extents: threads take elements one
    after the other, each time so many along each dimension, in the order of these."""
    word, factor = max(1, Gpu.bank_bytes // item), Gpu.banks * Gpu.bank_bytes // item
    places = [_places(len(extents), sizes) for sizes in taken]
    offsets = range(word, factor, word)

    def meets(weights: Places) -> Places:
        return np.asarray(sum(asked(weights @ at.T, item).sum(1) for at in places))

    best, found = int(meets(_weights(extents)[None])[0]), None
    free = sum(asked(at[None, :, 0] * 0, item).size for at in places)
    for dim in reversed(range(len(extents) - 1)):
        if extents[dim] > 1 and best > free:
            ways = meets(np.stack([_weights(extents, Pitch(dim, factor, n)) for n in offsets]))
            least = int(ways.argmin())
            if ways[least] < best:
                best, found = int(ways[least]), Pitch(dim, factor, offsets[least])
    return best, found


def _places(dims: int, sizes: Mapping[int, int]) -> Places:
    """Where along each dimension lanes of some warps are, a row for each lane."""
    count = prod(sizes.values())
    last = -(-count // Gpu.warp) - 1
    warps = sorted({n * last // (LOOKED_AT - 1) for n in range(LOOKED_AT)})
    lanes = np.add.outer(np.array(warps) * Gpu.warp, np.arange(Gpu.warp)).ravel().clip(0, count - 1)
    places = np.zeros((len(lanes), dims), np.int64)
    places[:, list(sizes)] = np.stack(np.unravel_index(lanes, list(sizes.values())), -1)
    return places


def _weights(extents: Sequence[int], pitch: Pitch | None = None) -> Places:
    """Elements between neighbours of each dimension."""
    found = [1]
    for dim in reversed(range(len(extents) - 1)):
        step = found[0] * extents[dim + 1]
        if pitch is not None and dim == pitch.dim:
            step += (pitch.offset - step) % pitch.factor
        found.insert(0, step)
    return np.array(found, np.int64)


@lru_cache(maxsize=TILES)
def pitch_of_boxes(
    extents: tuple[int, ...], order: tuple[int, ...], threads: tuple[int, ...],
    steps: tuple[tuple[int, ...], ...], near: tuple[int, int], item: int, read_often: float,
) -> Pitch | None:  # fmt: skip
    """The pitch of a box of an array with which lanes meet in the fewest banks; None where that of
    its extents is as good.

    extents  as it lies in shared memory
    order    its dimensions in the order in which threads copy them
    threads  of a block along each axis of the result
    steps    between them in each dimension of the array
    near     the one that is behind all others in shared memory, and parts into which it is divided
    read_often  times that elements are read for each time that they are copied
    """
    dim, parts = near
    read = _first(threads) @ np.array(steps, np.int64).T
    at = read[:, dim : dim + 1]
    read = np.concatenate([np.delete(read, dim, 1), *[at % parts] * (parts > 1), at // parts], 1)
    sizes = [extents[n] for n in order]
    row = next((n for n in range(1, len(sizes)) if prod(sizes[-n:]) >= Gpu.warp), len(sizes))
    begins = parts * np.arange(Gpu.banks // 4)[:, None]  # of lanes within a row
    lanes = (begins + np.arange(Gpu.warp)).ravel() % prod(sizes[-row:])
    copied = np.zeros((len(lanes), len(extents)), np.int64)
    copied[:, order[-row:]] = np.stack(np.unravel_index(lanes, sizes[-row:]), -1)
    word, factor = max(1, Gpu.bank_bytes // item), Gpu.banks * Gpu.bank_bytes // item
    dims = [n for n in range(len(extents) - 1) if prod(extents[: n + 1]) > 1]
    ways: list[Pitch | None] = [None]
    ways += [Pitch(n, factor, offset) for n in dims for offset in range(0, factor, word)]
    weights = np.stack([_weights(extents, pitch) for pitch in ways])
    turns = asked(weights @ copied.T, item).mean(1)
    turns = turns + read_often * asked(weights @ read.T, item).mean(1)
    return ways[int(np.lexsort((weights[:, 0], turns))[0])]


def _first(extents: Sequence[int]) -> Places:
    """The first iterations of nested loops that the lanes of a warp have: a row for each lane."""
    lanes = np.arange(min(Gpu.warp, prod(extents)))
    return np.stack(np.unravel_index(lanes, extents), 1)
