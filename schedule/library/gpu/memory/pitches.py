"""Pitches of tiles in shared memory, found for many tiles at once: as columns of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from schedule.library.gpu.memory.banks import Places, asked
from tensorir import Gpu

TILES = 1024
"""Tiles that look different of which the pitch is kept."""

FREE = 2
"""Times that a warp asks for one read and one write without conflicts of banks."""


class TileLayout(NamedTuple):
    """A tile as far as its banks depend on it.

    extents   of the dimensions, as they lie in shared memory; `fetched` says which these are from
              the outermost in memory inwards, `apart` at which of them the pitch is aligned, -1 for
              none
    vector    elements of `item` bytes that one copy moves, where they are neighbours in shared
              memory too if `straight`
    lanes     of a warp along each axis, and how far each of these moves in each dimension (`steps`)
    beside    how many of the last dimensions are one row for the copy, and elements of it that
              lanes take side by side, others those of the next rows; 0 for whole rows
    """

    extents: tuple[int, ...]
    fetched: tuple[int, ...]
    apart: int
    item: int
    vector: int
    straight: bool
    lanes: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    beside: tuple[int, int] = (1, 0)


class Pitched(NamedTuple):
    """The pitch of a tile, with which lanes of a warp meet in the fewest banks.

    pitch     factor and offset for storage_align, in elements
    met       how many times a warp has to ask then, for one read of the sums and for one write of
              the copy: 1 without conflicts
    elements  of the tile with what lies between its rows
    """

    pitch: tuple[int, int]
    met: tuple[int, int]
    elements: int


_known: dict[TileLayout, Pitched] = {}


def tile_pitches(tiles: Sequence[TileLayout]) -> list[Pitched]:
    """The best pitch of each tile."""
    found = {tile: _known.get(tile) for tile in tiles}
    groups: dict[tuple[int, int], list[TileLayout]] = {}
    for tile in found:
        if found[tile] is None:
            together = tile.vector if tile.straight else 1
            groups.setdefault((tile.item, together), []).append(tile)
    for how, group in groups.items():
        found.update(zip(group, _best(group, *how)))
    if groups:
        if len(_known) > TILES:
            _known.clear()
        _known.update({tile: pitched for tile, pitched in found.items() if pitched})
    return [pitched for tile in tiles if (pitched := found[tile])]


def _best(tiles: Sequence[TileLayout], item: int, together: int) -> list[Pitched]:
    """Those of tiles of elements of as many bytes, so many of which are copied at once. Pitches
    that are aligned are looked at first, and others where these meet in banks."""
    unit, factor = max(1, Gpu.bank_bytes // item), Gpu.banks * Gpu.bank_bytes // item
    every = range(0, factor, max(unit, together))
    aligned = [n for n in every if n % (4 * unit) == 0]
    left = [n for n in every if n not in aligned]
    group = _Tiles(tiles, item, together)
    best = group.best(np.arange(len(tiles)), aligned)
    meet = np.flatnonzero(best[:, 0] > FREE)
    if left and len(meet):
        others = group.best(meet, left)
        ahead = [tuple(other) < tuple(best[n]) for n, other in zip(meet, others)]
        best[meet[ahead]] = others[ahead]
    sizes = group.weights(np.arange(len(tiles)), best[:, 1:2])[:, 0, 0] * group.extents[:, 0]
    return [
        Pitched((factor, offset), (read, written), size)
        for (_, offset, read, written), size in zip(best.tolist(), sizes.tolist())
    ]


class _Tiles:
    """Tiles with as many dimensions each, the first ones of extent 1 where one has fewer: rows of
    lanes by tile, lane and dimension."""

    def __init__(self, tiles: Sequence[TileLayout], item: int, together: int) -> None:
        self.item, self.together = item, together
        dims = max([len(tile.extents) for tile in tiles])
        more = [dims - len(tile.extents) for tile in tiles]
        self.extents = np.array([(1,) * n + tile.extents for n, tile in zip(more, tiles)], np.int64)
        self.apart = np.array([n + t.apart if t.apart >= 0 else dims for n, t in zip(more, tiles)])
        axes = max([len(tile.lanes) for tile in tiles])
        lanes = [(1,) * (axes - len(tile.lanes)) + tile.lanes for tile in tiles]
        steps = np.zeros((len(tiles), axes, dims), np.int64)
        for row, n, tile in zip(steps, more, tiles):
            row[-len(tile.lanes) :, n:] = tile.steps
        self.reads = _lanes(np.array(lanes, np.int64)) @ steps
        order = np.array([(*range(n), *[n + at for at in t.fetched]) for n, t in zip(more, tiles)])
        vectors = np.array([tile.vector for tile in tiles])
        copied = np.take_along_axis(self.extents, order, 1)
        sizes = copied.copy()
        copied[:, -1] = -(-copied[:, -1] // vectors)
        for row, tile in zip(copied, tiles):
            if tile.beside[1]:
                row[-tile.beside[0] :] = [1] * (tile.beside[0] - 1) + [tile.beside[1]]
        copies = _lanes(copied)
        copies[:, :, -1] *= vectors[:, None]
        for at, size, tile in zip(copies, sizes, tiles):
            if tile.beside[1]:
                run = size[-tile.beside[0] :].tolist()
                at[:, -len(run) :] = np.stack(np.unravel_index(at[:, -1], run), -1)
        self.copies = np.zeros_like(copies)
        np.put_along_axis(self.copies, order[:, None], copies, 2)

    def weights(self, rows: Places, offsets: Places) -> Places:
        """Elements between neighbours of each dimension of some tiles, by tile, offset and
        dimension."""
        dims = self.extents.shape[1]
        found = np.ones((len(rows), offsets.shape[-1], dims), np.int64)
        factor = Gpu.banks * Gpu.bank_bytes // self.item
        for n in range(dims - 1, 0, -1):
            pitch = found[:, :, n] * self.extents[rows, n, None]
            aligned = pitch + (offsets - pitch) % factor
            found[:, :, n - 1] = np.where(self.apart[rows, None] == n - 1, aligned, pitch)
        return found

    def best(self, rows: Places, offsets: Sequence[int]) -> Places:
        """Of some tiles, for that of the offsets for which they ask least: how often warps ask for
        both, the offset, and for one read and one write."""
        weights = self.weights(rows, np.array([offsets]))
        read = self._asked(weights, self.reads[rows], Gpu.warp)
        written = self._asked(weights, self.copies[rows], Gpu.warp // self.together)
        at = (read + written).argmin(1)
        own = np.arange(len(rows))
        found = [(read + written)[own, at], np.array(offsets)[at], read[own, at], written[own, at]]
        return np.stack(found, 1)

    def _asked(self, weights: Places, lanes: Places, at_once: int) -> Places:
        places = weights @ lanes.transpose(0, 2, 1)
        flat = places.reshape(-1, places.shape[2])
        return np.asarray(asked(flat, self.item, at_once).max(1).reshape(places.shape[:2]))


def _lanes(extents: Places) -> Places:
    """The first iterations of nested loops, a row of extents for each nest, that the lanes of a
    warp have: by nest, lane and loop. Where there are fewer the others do what the last one does.
    """
    left = np.minimum(np.arange(Gpu.warp), extents.prod(1)[:, None] - 1)
    found = np.zeros((*left.shape, extents.shape[1]), np.int64)
    for n in range(extents.shape[1] - 1, -1, -1):
        left, found[:, :, n] = np.divmod(left, extents[:, n, None])
    return found
