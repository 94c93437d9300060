"""What a contraction in tiles asks of a GPU's memory, counted for many plans at once: transactions
of blocks, those of threads that read where an operand is, what is laid out ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import gcd, prod

import numpy as np
import numpy.typing as npt

from autotune.rules.gpu.tile_plans import TilePlans
from autotune.rules.group import SYMBOLIC_SIZE
from autotune.streams import Column
from schedule import library
from tensorir import Gpu, dtype


def size_of(axis: library.Axis) -> int:
    """The extent of an axis; symbolic ones count as usual sizes."""
    return SYMBOLIC_SIZE if axis.extent is None else axis.extent


def is_made(o: library.Operand) -> bool:
    """Whether an operand is computed, of what memory has, as it is fetched: more than filled up."""
    return o.pad is not None and not (o.filled or o.numbers)


class TileRequests:
    """What several plans for one contraction ask of memory; `rough` before banks are looked at.

    tiles  for each operand that one of them fetches to shared memory the different tiles, and
           which of them each plan has
    laying  bytes that are moved to lay out ahead each of the operands that one of them does
    """

    def __init__(
        self,
        c: library.Contraction,
        gpu: Gpu,
        plans: TilePlans,
        tiles: Mapping[int, tuple[Sequence[library.gpu.StagedTile], Sequence[int]]],
        laying: Mapping[int, int],
        rough: bool = False,
    ) -> None:
        from autotune.gpu.work import architecture_of, launch

        self.c, self.gpu, self.plans, self.tiles, self.rough = c, gpu, plans, tiles, rough
        self.laying, self.arch, self.launch = laying, architecture_of(gpu), launch(gpu)
        self.split, self.results = plans.split, plans.results
        self.warps_of, _, self.lanes, self.near = np.moveaxis(plans.cuts, 2, 0)
        self.total, self.own_of = plans.cuts.prod(2), plans.cuts[:, :, 1] * self.near
        self.staged = [plans.fetches(n) for n in range(len(c.operands))]

    def extent(self, n: int) -> int:
        """The extent of an axis; symbolic ones count as usual sizes."""
        return size_of(self.c.axes[n])

    def _parts(self, axes: Sequence[int]) -> npt.NDArray[np.int64]:
        """Boxes of some axes; of ten that are symbolic there are more than int64 holds."""
        extents = np.array([self.extent(n) for n in axes], np.int64)
        parts = (-(-extents // self.total[:, list(axes)])).prod(1, dtype=np.float64)
        return np.minimum(parts, 1 << 48).astype(np.int64)

    def _own(self, axes: Iterable[int]) -> npt.NDArray[np.int64]:
        """What a thread has of some axes."""
        return self.own_of[:, list(axes)].prod(1)

    def _reads(self, n: int) -> npt.NDArray[np.int64]:
        """Elements of an operand that a thread reads in a step: what axes of the result move by
        their sum alone once for each sum, if there are registers for all of these."""
        reads, dims = self._own(self.c.moving[n]), self.c.operands[n].dims
        for row in dims:
            axes = [axis for axis in self.c.spatial if row[axis]]
            apart = any(other[axis] for other in dims if other is not row for axis in axes)
            if len(axes) < 2 or apart or min(row[axis] or 0 for axis in axes) < 1:
                continue
            each = self._own(axes)
            steps = self.lanes[:, axes] ** (self.near[:, axes] == 1) * [row[axis] for axis in axes]
            least = 1 + ((self.own_of[:, axes] - 1) * steps).sum(1) // steps.min(1)
            once = reads // each * np.minimum(each, least)
            reads = np.where(once <= Gpu.most_held * self._own(self.c.reduced), once, reads)
        return reads

    def _tile(self, n: int, of: Callable[[library.gpu.StagedTile], float]) -> Column:
        """A number of the tile of an operand in each plan; 0 where it has none."""
        tiles, places = self.tiles[n]
        return np.where(self.staged[n], np.array(list(map(of, tiles)), np.float64)[places], 0.0)

    @cached_property
    def blocks(self) -> npt.NDArray[np.int64]:
        """Blocks of threads."""
        return self._parts(self.c.spatial) * self.split

    @cached_property
    def warps(self) -> npt.NDArray[np.int64]:
        """Warps of a block."""
        return self.warps_of.prod(1)

    @cached_property
    def steps(self) -> npt.NDArray[np.int64]:
        """Steps of the sum, in each block."""
        return -(-self._parts(self.c.reduced) // self.split)

    @cached_property
    def own(self) -> npt.NDArray[np.int64]:
        """Sums of a thread."""
        return self._own(self.c.spatial)

    @cached_property
    def held(self) -> npt.NDArray[np.int64]:
        """Elements that a thread reads where they are in a step, and keeps for all of it."""
        held = np.zeros(len(self.plans), np.int64)
        for axes, staged in zip(self.c.moving, self.staged):
            count = self._own(axes)
            held += np.where(staged | (count > Gpu.most_held), 0, count)
        return held

    @cached_property
    def tile(self) -> npt.NDArray[np.int64]:
        """Elements of the result that a block has."""
        return self.total[:, list(self.c.spatial)].prod(1)

    @cached_property
    def loaded(self) -> Column:
        """Sectors that a block loads in a step."""
        loaded = np.zeros(len(self.plans))
        for n in self.tiles:
            loaded += self._tile(n, lambda tile: tile.sectors)
        direct = [
            np.where(staged, 0.0, 0.0 if staged.all() else self._direct_sectors(n))
            for n, staged in enumerate(self.staged)
        ]
        return np.asarray(loaded + sum(direct))

    def _direct(self, operand: int) -> Column:
        """Accesses of a block, in a step, to an operand that threads read where it is."""
        o = self.c.operands[operand]
        size = dtype.itemsize(o.dtype)
        beside = [n for n, s in enumerate(o.strides) if s == 1]
        near = self.own_of[:, beside].max(1, initial=1)
        apart = [s or 1 for s in o.strides if s not in (0, 1)]
        apart += [self.c.axes[n].extent or 1 for n in beside]
        wide = np.ones(len(self.plans), np.int64)
        reads = self._own(self.c.moving[operand])
        for count in (2, 4, 8, 16):
            if count * size <= Gpu.access_bytes and not any(step % count for step in apart):
                wide[(near % count == 0) & (reads <= Gpu.most_held)] = count
        return np.asarray(np.maximum(1, reads // wide) * self.warps)

    def _direct_sectors(self, operand: int) -> Column:
        """Sectors of these: for each access of a warp, those of its lanes."""
        o = self.c.operands[operand]
        size = dtype.itemsize(o.dtype)
        apart = (size * s for s in o.strides if s not in (0, 1, None))
        within = 1.0 - gcd(Gpu.sector_bytes, *apart) / Gpu.sector_bytes
        sectors = np.ones(len(self.plans))
        for n, stride in enumerate(o.strides):
            if stride != 0:
                step = size * self.near[:, n] * abs(stride or Gpu.sector_bytes)
                lanes = self.lanes[:, n]
                every = lanes * np.minimum(step, Gpu.sector_bytes) / Gpu.sector_bytes
                more = within if stride == 1 else 0.0
                sectors *= np.where(lanes > 1, np.maximum(1.0, every) + more, 1.0)
        return np.asarray(sectors * self._direct(operand))

    @cached_property
    def stored(self) -> Column:
        """Sectors that a block stores."""
        c, (*outer, near) = self.c, self.c.spatial
        size, steps = dtype.itemsize(c.result.dtype), c.result.strides
        if steps[near] != 1:
            return self.tile.astype(float)
        row, total = self.extent(near), self.total[:, near]
        run = np.where(self.results, total, self.lanes[:, near] * self.near[:, near])
        count, run = self.tile / run, np.where(self.results, np.minimum(run, row), run)
        if outer and steps[outer[-1]] == row:  # rows that lie side by side, whole ones as one
            beside, whole = outer.pop(), run == row
            whole &= ~self.results | (self.lanes[:, near] == Gpu.warp)
            at_once = np.where(self.near[:, beside] > 1, 1, self.lanes[:, beside])
            rows = np.where(self.results, self.total[:, beside], at_once)
            count, run = np.where(whole, count / rows, count), np.where(whole, run * rows, run)
            total = np.where(whole, row * self.total[:, beside], np.gcd(total, row))
        apart = (size * (s or 1) for n in outer if (s := steps[n]) != 1)
        begin = np.where(self.split > 1, Gpu.sector_bytes, gcd(Gpu.sector_bytes, *apart))
        step = np.gcd(begin, total * size)  # parts of sums lie in whole sectors
        touched = -(-run * size // step) * step + Gpu.sector_bytes - step  # wherever the run begins
        return np.asarray(count * touched / Gpu.sector_bytes)

    @cached_property
    def transactions(self) -> Column:
        """Sectors of global memory, of all blocks."""
        c = self.c
        results = prod(map(self.extent, c.spatial)) / (self._parts(c.spatial) * self.tile)
        read = self.blocks * (self.steps * self.loaded + self.stored * results)
        return np.asarray(read + self.copied.sum(1) / Gpu.sector_bytes)

    @cached_property
    def copied(self) -> npt.NDArray[np.int64]:
        """Bytes that are moved to lay out each of the operands ahead."""
        moved = [np.array(self.plans.lays_out(n)) * most for n, most in self.laying.items()]
        return np.array([np.zeros(len(self.plans), np.int64), *moved]).T

    @cached_property
    def least(self) -> float:
        """Bytes that memory has to move."""
        operands = sum(
            dtype.itemsize(o.dtype)
            * (
                prod(self.extent(n) for n in range(len(self.c.axes)) if o.strides[n] != 0)
                if None in o.shape
                else prod(size or 0 for size in o.shape)
            )
            for o in self.c.operands
        )
        result = dtype.itemsize(self.c.result.dtype) * prod(map(self.extent, self.c.spatial))
        return float(operands + result)

    @property
    def moving(self) -> float:
        """Cycles in which memory moves them."""
        return self.least * self.per_byte

    @property
    def per_byte(self) -> float:
        """Cycles in which memory moves a byte."""
        return self.arch.card.clock / self.arch.card.bandwidth

    @cached_property
    def sectors(self) -> float:
        """Sectors that the second cache and a multiprocessor exchange in a cycle."""
        return self.arch.l2_bytes / Gpu.sector_bytes
