"""What a contraction in tiles takes of a GPU, counted: transactions, banks, operations, occupancy.

Rates are those of the table of architectures; how latencies are hidden follows Volkov, "Better
Performance at Lower Occupancy" (GTC 2010).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod
from typing import TYPE_CHECKING

from autotune.rules.group import SYMBOLIC_SIZE
from tensorir import Gpu, dtype

if TYPE_CHECKING:
    from schedule import library

LATENCY = 600.0
"""Cycles from asking memory to having what it holds (cuda.md has 500 to 700 for Hopper)."""

LAUNCH = 4000.0
"""Cycles that a second kernel takes before it begins."""

OVERHEAD = 28
"""Registers of a thread for addresses and counters."""

NEVER_HIDDEN = 0.1
"""The part of the shorter one of what is computed and what is fetched that adds to the time."""

SHUFFLE = 30.0
"""Cycles from what a lane has to what another one has of it."""

WAIT = 20.0
"""Cycles in which warps that wait for each other compute nothing."""

MOST_HELD = 64
"""Elements of an operand that are kept in registers for a step, at most."""

SECTORS = 1.0
"""Sectors that the second cache delivers to a multiprocessor in a cycle."""

MOST_REGISTERS = 168
"""Registers up to which no tile was seen to spill."""


@dataclass(frozen=True)
class TileCounts:
    """What one plan takes. `cycles` is the estimate, infinite for what cannot be launched."""

    c: library.Contraction
    plan: library.gpu.TilePlan
    gpu: Gpu
    tiles: tuple[library.gpu.StagedTile, ...]
    rough: bool = False
    """Whether banks are not looked at."""

    def extent(self, n: int) -> int:
        """The extent of an axis; symbolic ones count as usual sizes."""
        known = self.c.axes[n].extent
        return SYMBOLIC_SIZE if known is None else known

    @property
    def text(self) -> str:
        """The tile in words: what a block of threads has of each axis, and terms of a step."""
        cuts = self.plan.cuts
        sides = (self.c.spatial, self.c.reduced)
        tile, step = (" x ".join(str(cuts[n].total) for n in axes) for axes in sides)
        how = f", {self.plan.split} parts" * (self.plan.split > 1)
        return f"tile {tile}, steps of {step}{', copied ahead' * bool(self.plan.ahead)}{how}"

    @cached_property
    def blocks(self) -> int:
        """Blocks of threads."""
        cuts = self.plan.cuts
        parts = [ceil(self.extent(n) / cuts[n].total) for n in self.c.spatial]
        return prod(parts) * self.plan.split

    @cached_property
    def warps(self) -> int:
        """Warps of a block."""
        return prod([cut.warps for cut in self.plan.cuts])

    @cached_property
    def steps(self) -> int:
        """Steps of the sum, in each block."""
        cuts = self.plan.cuts
        count = prod([ceil(self.extent(n) / cuts[n].total) for n in self.c.reduced])
        return ceil(count / self.plan.split)

    @cached_property
    def own(self) -> int:
        """Sums of a thread."""
        cuts = self.plan.cuts
        return prod([cuts[n].own for n in self.c.spatial])

    @cached_property
    def terms(self) -> int:
        """Terms that a thread adds to each of its sums in a step."""
        cuts = self.plan.cuts
        return prod([cuts[n].own for n in self.c.reduced])

    @cached_property
    def registers(self) -> int:
        """Registers of 32 bits of a thread: its sums, what it multiplies, addresses."""
        words = max(1, dtype.itemsize(self.c.sums.dtype) // 4)
        cuts, last = self.plan.cuts, self.c.spatial[-1]  # which come before those of the sum
        read = sum([prod([cuts[n].own for n in axes if n <= last]) for axes in self.c.moving])
        return words * (self.own + max(min(read, self.own + 8), self.held)) + OVERHEAD

    @cached_property
    def held(self) -> int:
        """Elements that a thread reads where they are in a step, and keeps for all of it."""
        cuts, shared = self.plan.cuts, self.plan.shared
        found = [
            prod([cuts[n].own for n in axes])
            for k, axes in enumerate(self.c.moving)
            if k not in shared
        ]
        return sum([count for count in found if count <= MOST_HELD])

    @cached_property
    def added(self) -> float:
        """Cycles in which threads that share terms add up what they have, at the end of a block:
        lanes exchange it in five steps, warps by way of shared memory, for each sum."""
        lanes, warps = (
            prod(getattr(self.plan.cuts[n], kind) for n in self.c.reduced)
            for kind in ("lanes", "warps")
        )
        exchanged = 10 * self.own * self.warps / 4 + SHUFFLE * 5 if lanes > 1 else 0.0
        return exchanged + self.own * (2 * WAIT + (warps + 1) * self.warps) * (warps > 1)

    @cached_property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        held = [t.elements * t.item if self.rough else t.bytes for t in self.tiles]
        return sum(held) * (self.plan.ahead + 1)

    @cached_property
    def at_once(self) -> int:
        """Blocks that a multiprocessor runs at once."""
        if self.registers > min(MOST_REGISTERS, self.gpu.registers_per_thread):
            return 0
        if self.shared > self.gpu.shared_bytes or 32 * self.warps > self.gpu.threads_per_block:
            return 0
        return self.gpu.blocks_at_once(32 * self.warps, self.registers, self.shared)

    @cached_property
    def occupancy(self) -> float:
        """The share of the warps that a multiprocessor can run, 0 to 1."""
        known = self.gpu.architecture
        return 1.0 if known is None else self.at_once * self.warps / known.warps

    @cached_property
    def loaded(self) -> float:
        """Sectors that a block loads in a step."""
        staged = sum([tile.sectors for tile in self.tiles])
        every = range(len(self.c.operands))
        return staged + sum([self._direct(n) for n in every if n not in self.plan.shared])

    def _direct(self, operand: int) -> float:
        """Sectors of what threads read where it is: for each read of a warp, those of its lanes."""
        o, cuts = self.c.operands[operand], self.plan.cuts
        size = dtype.itemsize(o.dtype)
        near = max((cut.own for cut, s in zip(cuts, o.strides) if s == 1), default=1)
        wide = next(n for n in (4, 2, 1) if near % n == 0 and n * size <= Gpu.access_bytes)
        sectors = 1.0
        for stride, cut in zip(o.strides, cuts):
            if cut.lanes > 1 and stride != 0:
                step = size * cut.elements * abs(stride or Gpu.sector_bytes)
                sectors *= max(1.0, cut.lanes * min(step, Gpu.sector_bytes) / Gpu.sector_bytes)
        reads = prod([cuts[n].own for n in self.c.moving[operand]])
        return sectors * max(1, reads // wide) * self.warps

    @cached_property
    def stored(self) -> float:
        """Sectors that a block stores."""
        near, c = self.c.spatial[-1], self.c
        cut, size = self.plan.cuts[near], dtype.itemsize(c.result.dtype)
        values = prod([self.plan.cuts[n].total for n in c.spatial])
        if c.result.strides[near] != 1:
            return float(values)
        run = cut.lanes * cut.elements * size
        pitch = min((s or 1 for n in c.spatial if (s := c.result.strides[n]) != 1), default=8)
        apart = 0.0 if pitch * size % Gpu.sector_bytes == 0 else 0.5
        return values * size / run * (ceil(run / Gpu.sector_bytes) + apart)

    @property
    def transactions(self) -> float:
        """Sectors of global memory, of all blocks."""
        return self.blocks * (self.steps * self.loaded + self.stored)

    @cached_property
    def least(self) -> float:
        """Bytes that memory has to move."""
        operands = sum(
            prod(self.extent(n) for n in range(len(self.c.axes)) if o.strides[n] != 0)
            if None in o.shape
            else prod(size or 0 for size in o.shape)
            for o in self.c.operands
        )
        return 4.0 * (operands + prod(self.extent(n) for n in self.c.spatial))

    @cached_property
    def step(self) -> float:
        """Cycles of a multiprocessor for a step of one block, with nothing to wait for."""
        cuts, known = self.plan.cuts, self.gpu.architecture
        double = dtype.itemsize(self.c.sums.dtype) > 4 and dtype.is_float(self.c.sums.dtype)
        lanes = 64 if known is None else known.fp64_lanes if double else known.fp32_lanes
        adds = self.warps * self.own * self.terms * max(1, self.c.operations)
        asked = copied = again = 0.0
        for tile in self.tiles:
            moved = self.c.moving[tile.operand]
            reads = float(self.warps * prod([cuts[n].own for n in moved]))
            read, written = (1, 1) if self.rough else tile.ways(*tile.pitch)
            reads /= max([cuts[n].elements for n in moved]) if self.rough else tile.wide
            asked += reads * read
            again += reads * (read - 1)
            fetched = tile.elements / Gpu.warp
            copied += fetched / tile.vector + fetched * written / (
                tile.vector if tile.straight else 1
            )
        issued = adds + asked + 6 * copied
        waits = WAIT * (2 - self.plan.ahead)
        return max(adds * Gpu.warp / lanes, asked + copied, issued / 4) + again / 4 + waits

    @cached_property
    def cycles(self) -> float:
        """Estimated cycles of one call."""
        if self.at_once == 0:
            return float("inf")
        sms = self.gpu.multiprocessors
        full, rest = divmod(self.blocks, sms * self.at_once)
        time = full * self._wave(self.at_once)
        if rest:
            time += self._wave(ceil(rest / sms))
        if self.plan.split > 1:
            time += LAUNCH + 2 * self.stored * self.blocks / sms
        known = self.gpu.architecture
        if known is None:
            return time
        return max(time, self.least * known.card.clock / known.card.bandwidth)

    def _wave(self, together: int) -> float:
        """Cycles of so many blocks on one multiprocessor."""
        asked = self.loaded / SECTORS
        busy = together * (max(self.step, asked) + NEVER_HIDDEN * min(self.step, asked))
        alone = self.step + LATENCY if not self.plan.ahead else max(self.step, LATENCY)
        ends = together * self.stored / SECTORS + together * self.added
        return LATENCY + self.steps * max(busy, alone) + ends
