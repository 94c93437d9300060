"""What a contraction in tiles takes of a GPU, counted: transactions, banks, operations, occupancy.

Plans are counted as columns of numbers, a row for each, since hundreds are looked at. Rates are
those of the table of architectures; how latencies are hidden follows Volkov, "Better Performance at
Lower Occupancy" (GTC 2010).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, gcd, prod

import numpy as np
import numpy.typing as npt

from autotune.rules.gpu.tile_plans import Flags, TilePlans
from autotune.rules.group import SYMBOLIC_SIZE
from autotune.streams import Column
from schedule import library
from tensorir import ADDRESSES, Gpu, dtype

LATENCY = 600.0
"""Cycles from asking memory to having what it holds (cuda.md has 500 to 700 for Hopper)."""

LAUNCH = 4000.0
"""Cycles that a kernel takes before it begins."""

NEVER_HIDDEN = 0.1
"""The part of the shorter one of what is computed and what is fetched that adds to the time."""

SHUFFLE = 30.0
"""Cycles from what a lane has to what another one has of it."""

WAIT = 20.0
"""Cycles in which warps that wait for each other compute nothing."""

PARTS = 4.0
"""Parts of a multiprocessor: each computes for warps of its own, and is idle without one."""

WRITTEN_BACK = 10.0
"""Instructions of a warp for each access that takes results through shared memory."""

SECTORS = 1.0
"""Sectors that the second cache delivers to a multiprocessor in a cycle."""

STORED = 2.0
"""Sectors that it takes from a multiprocessor in a cycle."""

MOST_REGISTERS = 164
"""Registers up to which no tile was seen to spill."""


def _size(axis: library.Axis) -> int:
    return SYMBOLIC_SIZE if axis.extent is None else axis.extent


def _lanes(c: library.Contraction, gpu: Gpu) -> int:
    """Multiplications and additions that a multiprocessor does in a cycle."""
    known, sums = gpu.architecture, c.sums.dtype
    double = dtype.itemsize(sums) > 4 and dtype.is_float(sums)
    return 64 if known is None else known.fp64_lanes if double else known.fp32_lanes


def _rounds(count: int, room: int, shifted: bool) -> int:
    """How often a thread waits that fetches so many elements, and has room for some: pieces that
    are asked for together run ahead of each other, some at a time."""
    from autotune.gpu.waits import UNROLLED

    together = library.gpu.asked_together(max(1, count), room, shifted)
    return 1 if together >= count else ceil(count / together / UNROLLED)


def computing_cycles(c: library.Contraction, gpu: Gpu) -> float:
    """Cycles in which all multiprocessors together do the operations of a contraction: no tiles
    take less."""
    operations = prod(map(_size, c.axes)) * max(1, c.operations)
    return operations / (_lanes(c, gpu) * gpu.multiprocessors)


@dataclass(frozen=True)
class TileCounts:
    """What one plan takes: a row of columns. `cycles` is the estimate, infinite for what cannot be
    launched."""

    of: TileColumns
    row: int

    @property
    def plan(self) -> library.gpu.TilePlan:
        return self.of.plans[self.row]

    @property
    def tiles(self) -> list[library.gpu.StagedTile]:
        """What is fetched to shared memory."""
        every = [self.of.tiles[n] for n in self.plan.shared]
        return [found[places[self.row]] for found, places in every]

    @property
    def text(self) -> str:
        """The tile in words: what a block of threads has of each axis, and terms of a step."""
        cuts, c = self.plan.cuts, self.of.c
        tile, step = (
            " x ".join(str(cuts[n].total) for n in axes) for axes in (c.spatial, c.reduced)
        )
        how = f", {self.plan.split} parts" * (self.plan.split > 1)
        laid = "".join(f", {c.operands[n].buffer} laid out ahead" for n in self.plan.laid)
        how += ", from sectors" * self.plan.sectors + ", results from sectors" * self.plan.results
        return f"tile {tile}, steps of {step}{', copied ahead' * bool(self.plan.ahead)}{how}{laid}"

    @property
    def blocks(self) -> int:
        """Blocks of threads."""
        return int(self.of.blocks[self.row])

    @property
    def steps(self) -> int:
        """Steps of the sum, in each block."""
        return int(self.of.steps[self.row])

    @property
    def at_once(self) -> int:
        """Blocks that a multiprocessor runs at once."""
        return int(self.of.at_once[self.row])

    @property
    def occupancy(self) -> float:
        """The share of the warps that a multiprocessor can run, 0 to 1."""
        known = self.of.gpu.architecture
        warps = self.at_once * int(self.of.warps[self.row])
        return 1.0 if known is None else warps / known.warps

    @property
    def transactions(self) -> float:
        """Sectors of global memory, of all blocks."""
        return float(self.of.transactions[self.row])

    @property
    def cycles(self) -> float:
        """Estimated cycles of one call, the launch of the first kernel apart."""
        return float(self.of.cycles[self.row])


class TileColumns:
    """What several plans for one contraction take; `rough` before banks are looked at.

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
        self.c, self.gpu, self.plans, self.tiles, self.rough = c, gpu, plans, tiles, rough
        self.laying = laying
        self.split, self.ahead, self.results = plans.split, plans.ahead, plans.results
        self.warps_of, _, self.lanes, self.near = np.moveaxis(plans.cuts, 2, 0)
        self.total, self.own_of = plans.cuts.prod(2), plans.cuts[:, :, 1] * self.near
        self.staged = [plans.fetches(n) for n in range(len(c.operands))]

    def rows(self) -> list[TileCounts]:
        """All that can be launched, one by one."""
        return [TileCounts(self, row) for row in np.flatnonzero(self.at_once).tolist()]

    def first(self, count: int, *by: Column, where: Flags | bool = True) -> list[TileCounts]:
        """So many of those that can be launched, or of these `where` that holds: the ones of the
        least numbers, of the first column before the others."""
        known = np.flatnonzero((self.at_once > 0) & where)
        order = np.lexsort([column[known] for column in reversed(by)])
        return [TileCounts(self, row) for row in known[order[:count]].tolist()]

    def extent(self, n: int) -> int:
        """The extent of an axis; symbolic ones count as usual sizes."""
        return _size(self.c.axes[n])

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
    def begins(self) -> Column:
        """Times that each block waits for a first step: what is copied ahead is a part of the last
        axis of which there are several steps."""
        begins = last = np.ones(len(self.plans))
        for n in self.c.written:
            parts = self._parts([n])
            begins, last = begins * np.where(parts > 1, last, 1), np.where(parts > 1, parts, last)
        return np.where(self.ahead > 0, begins, 1.0)

    @cached_property
    def own(self) -> npt.NDArray[np.int64]:
        """Sums of a thread."""
        return self._own(self.c.spatial)

    @cached_property
    def registers(self) -> npt.NDArray[np.int64]:
        """Registers of 32 bits of a thread: its sums, what it multiplies, addresses."""
        last = self.c.spatial[-1]  # which come before those of the sum
        read = sum(self._own(n for n in axes if n <= last) for axes in self.c.moving)
        used = self.own + np.maximum(np.minimum(read, self.own + 8), self.held)
        return library.gpu.words(self.c.sums.dtype) * used + ADDRESSES

    @cached_property
    def held(self) -> npt.NDArray[np.int64]:
        """Elements that a thread reads where they are in a step, and keeps for all of it."""
        held = np.zeros(len(self.plans), np.int64)
        for axes, staged in zip(self.c.moving, self.staged):
            count = self._own(axes)
            held += np.where(staged | (count > Gpu.most_held), 0, count)
        return held

    @cached_property
    def added(self) -> Column:
        """Cycles in which threads that share terms add up what they have, at the end of a block:
        lanes exchange it in five steps, warps by way of shared memory, for each sum."""
        terms = list(self.c.reduced)
        lanes, warps = self.lanes[:, terms].prod(1), self.warps_of[:, terms].prod(1)
        exchanged = np.where(lanes > 1, 10 * self.own * self.warps / 4 + SHUFFLE * 5, 0.0)
        return exchanged + self.own * (2 * WAIT + (warps + 1) * self.warps) * (warps > 1)

    @cached_property
    def written_back(self) -> Column:
        """Cycles in which threads take results to shared memory and from there, at the end of a
        block."""
        row = self.total[:, self.c.spatial[-1]]
        whole = row >= self.extent(self.c.spatial[-1])
        sector = Gpu.sector_bytes // dtype.itemsize(self.c.result.dtype)
        accesses = np.where(whole, row / Gpu.warp, -(-(row + sector - 1) // Gpu.warp))
        back = 2 * WAIT + WRITTEN_BACK / PARTS * self.tile / row * accesses
        return np.where(self.results, back, 0.0)

    @cached_property
    def shared(self) -> Column:
        """Bytes of shared memory of a block."""
        every = [
            self._tile(n, lambda tile: tile.elements * tile.item if self.rough else tile.bytes)
            for n in self.tiles
        ]
        staged = sum(every, np.zeros(len(self.plans))) * (self.ahead + 1)
        return np.asarray(np.maximum(staged, np.where(self.results, self.results_apart, 0)))

    @cached_property
    def results_apart(self) -> npt.NDArray[np.int64]:
        """Bytes of a tile of results in shared memory, at the most: rows are apart for banks."""
        near = self.total[:, self.c.spatial[-1]]
        return self.tile // near * (near + Gpu.warp) * dtype.itemsize(self.c.result.dtype)

    @cached_property
    def tile(self) -> npt.NDArray[np.int64]:
        """Elements of the result that a block has."""
        return self.total[:, list(self.c.spatial)].prod(1)

    @cached_property
    def at_once(self) -> npt.NDArray[np.int64]:
        """Blocks that a multiprocessor runs at once."""
        gpu, registers, threads = self.gpu, self.registers, 32 * self.warps
        fits = (registers <= min(MOST_REGISTERS, gpu.registers_per_thread)) & (
            (self.shared <= gpu.shared_most) & (threads <= gpu.threads_per_block)
        )
        asked = list(zip(threads.tolist(), registers.tolist(), self.shared.tolist()))
        found = {need: gpu.blocks_at_once(*map(int, need)) for need in set(asked)}
        return np.where(fits, [found[need] for need in asked], 0)

    @cached_property
    def loaded(self) -> Column:
        """Sectors that a block loads in a step."""
        loaded = np.zeros(len(self.plans))
        for n in self.tiles:
            loaded += self._tile(n, lambda tile: tile.sectors)
        direct = [
            np.where(staged, 0.0, 0.0 if staged.all() else self._direct(n))
            for n, staged in enumerate(self.staged)
        ]
        return np.asarray(loaded + sum(direct))

    def _direct(self, operand: int) -> Column:
        """Sectors of what threads read where it is: for each read of a warp, those of its lanes."""
        o = self.c.operands[operand]
        size = dtype.itemsize(o.dtype)
        near = self.own_of[:, [n for n, s in enumerate(o.strides) if s == 1]].max(1, initial=1)
        wide = np.ones(len(self.plans), np.int64)
        reads = self._own(self.c.moving[operand])
        for count in (2, 4, 8, 16):
            if count * size <= Gpu.access_bytes:
                wide[(near % count == 0) & (reads <= Gpu.most_held)] = count
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
        return np.asarray(sectors * np.maximum(1, reads // wide) * self.warps)

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
        known = self.gpu.architecture
        return 0.0 if known is None else self.least * known.card.clock / known.card.bandwidth

    @cached_property
    def step(self) -> Column:
        """Cycles of a multiprocessor for a step of one block, with nothing to wait for."""
        lanes = _lanes(self.c, self.gpu)
        adds = self.warps * self.own * self._own(self.c.reduced) * max(1, self.c.operations)
        asked, turns, copied, again = np.zeros((4, len(self.plans)))
        for n in self.tiles:
            moved, item = self.c.moving[n], dtype.itemsize(self.c.operands[n].dtype)
            read = written = np.ones(len(self.plans))
            if self.rough:
                wide = self.near[:, list(moved)].max(1)
            else:
                read = self._tile(n, lambda tile: tile.met[0])
                written = self._tile(n, lambda tile: tile.met[1])
                wide = self._tile(n, lambda tile: tile.wide)
            wide = np.maximum(1, wide)
            reads = self.warps * self._reads(n) * self.staged[n] / wide
            asked += reads
            turns += reads * np.maximum(read, wide * item // Gpu.bank_bytes)
            again += reads * (read - 1)
            fetched = self._tile(n, lambda tile: tile.asked) / Gpu.warp
            vector = np.maximum(1, self._tile(n, lambda tile: tile.vector))
            straight = self._tile(n, lambda tile: tile.vector if tile.straight else 1)
            copied += fetched / vector + fetched * written / np.maximum(1, straight)
        issued = adds + asked + 6 * copied
        waits = WAIT * (2 - self.ahead)
        busy = np.maximum(np.maximum(adds * Gpu.warp / lanes, turns + copied), issued / 4)
        return np.asarray(busy + again / 4 + waits)

    @cached_property
    def waits(self) -> Column:
        """Cycles in which a thread waits for what it fetches in a step, all operands together."""
        words, each = library.gpu.words, np.zeros(len(self.plans), int)
        for n in self.tiles:
            each = each + self.staged[n] * words(self.c.operands[n].dtype)
        sums = self.own * words(self.c.sums.dtype)
        needs = list(zip(sums.tolist(), each.tolist()))
        rooms = {need: library.gpu.room_for_fetched(*need) for need in set(needs)}
        room = [rooms[need] for need in needs]
        rounds = np.ones(len(self.plans))
        for n in self.tiles:
            fetched = self._tile(n, lambda tile: tile.filled / tile.vector)
            shifted = self._tile(n, lambda tile: tile.from_sectors) > 0
            counts = np.ceil(fetched / (Gpu.warp * self.warps)).astype(int)
            asked = list(zip(counts.tolist(), room, shifted.tolist()))
            found = {one: _rounds(*one) for one in set(asked)}
            rounds = np.maximum(rounds, [found[one] for one in asked])
        return LATENCY * rounds

    @cached_property
    def cycles(self) -> Column:
        """Estimated cycles of one call."""
        sms, at_once = self.gpu.multiprocessors, np.maximum(1, self.at_once)
        full, rest = np.divmod(self.blocks, sms * at_once)
        time = full * self._wave(at_once)
        time += np.where(rest > 0, self._wave(-(-rest // sms)), 0.0)
        time += np.where(self.split > 1, LAUNCH + 2 * self.stored * self.blocks / sms, 0.0)
        known = self.gpu.architecture
        time = np.maximum(time, self.moving)
        if known is not None:
            time += self.copied.sum(1) * known.card.clock / known.card.bandwidth
        time += LAUNCH * (self.copied > 0).sum(1)
        return np.where(self.at_once > 0, time, np.inf)

    def _wave(self, together: npt.NDArray[np.int64]) -> Column:
        """Cycles of so many blocks on one multiprocessor."""
        asked = self.loaded / SECTORS
        step = self.step * np.maximum(1.0, PARTS / np.maximum(1, together * self.warps))
        longer, shorter = np.maximum(step, asked), np.minimum(step, asked)
        busy = together * (longer + NEVER_HIDDEN * shorter)
        alone = np.where(self.ahead > 0, np.maximum(step, self.waits), step + self.waits)
        issued, moved = self.steps * step, self.steps * asked + self.stored / STORED
        back = np.maximum(issued + self.written_back, moved) - np.maximum(issued, moved)
        ends = self.stored / STORED + back + self.added
        steps = self.steps * np.maximum(busy, alone)
        return np.asarray(self.waits * self.begins + steps + together * ends)
