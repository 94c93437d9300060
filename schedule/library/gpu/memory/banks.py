"""banks: how arrays in shared memory are to lie so that lanes of a warp meet in few banks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tensorir import Gpu

Places = npt.NDArray[np.int64]
"""Elements of arrays, or steps between them, as numbers."""

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
