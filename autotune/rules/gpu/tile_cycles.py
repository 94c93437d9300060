"""What a contraction in tiles takes of a GPU, counted: transactions, banks, operations, occupancy.

Plans are counted as columns of numbers, a row for each, since hundreds are looked at. Rates are
those of the table of architectures; how latencies are hidden follows Volkov, "Better Performance at
Lower Occupancy" (GTC 2010).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, prod

import numpy as np
import numpy.typing as npt

from autotune.rules.gpu.tile_plans import Flags
from autotune.rules.gpu.tile_requests import TileRequests, is_made, size_of
from autotune.streams import Column
from schedule import library
from tensorir import ADDRESSES, Gpu, dtype

NEVER_HIDDEN = 0.1
"""The part of the shorter one of what is computed and what is fetched that adds to the time."""

EXCHANGES = Gpu.warp.bit_length() - 1
"""Steps in which the lanes of a warp add up what they have; each waits half as long as threads of a
block do for each other."""

WAIT = 20.0
"""Cycles in which warps that wait for each other compute nothing."""

PARTS = 4.0
"""Parts of a multiprocessor: each computes for warps of its own, and is idle without one."""

WRITTEN_BACK = 10.0
"""Instructions of a warp for each access that takes results through shared memory."""

MOST_REGISTERS = 164
"""Registers up to which no tile was seen to spill."""


def _lanes(c: library.Contraction, gpu: Gpu) -> int:
    """Multiplications and additions that a multiprocessor does in a cycle."""
    from autotune.gpu.work import architecture_of

    arch, sums = architecture_of(gpu), c.sums.dtype
    double = dtype.itemsize(sums) > 4 and dtype.is_float(sums)
    return arch.fp64_lanes if double else arch.fp32_lanes


def _rounds(count: int, room: int, shifted: bool, rows: int) -> int:
    """How often a thread waits that fetches so many elements, and has room for some: pieces that
    are asked for together run ahead of each other, some at a time. They are so many `rows` where
    lanes copy row by row."""
    from autotune.gpu.waits import UNROLLED

    if rows:
        count, room, shifted = rows, max(1, room * rows // count), False
    together = library.gpu.asked_together(max(1, count), room, shifted)
    return 1 if together >= count else ceil(count / together / UNROLLED)


def computing_cycles(c: library.Contraction, gpu: Gpu) -> float:
    """Cycles in which all multiprocessors together do the operations of a contraction: no tiles
    take less."""
    operations = prod(map(size_of, c.axes)) * max(1, c.operations)
    return operations / (_lanes(c, gpu) * gpu.multiprocessors)


@dataclass(frozen=True)
class TileCounts:
    """What one plan takes: a row of columns. `cycles` is the estimate, infinite for what cannot be
    launched."""

    of: TileColumns
    row: int

    @property
    def plan(self) -> library.gpu.TilePlan:
        """As it was asked for, but nothing is copied ahead for which there are no registers."""
        plan, ahead = self.of.plans[self.row], int(self.of.ahead[self.row])
        return plan if plan.ahead == ahead else replace(plan, ahead=ahead)

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
        warps = self.at_once * int(self.of.warps[self.row])
        return warps / self.of.arch.warps

    @property
    def transactions(self) -> float:
        """Sectors of global memory, of all blocks."""
        return float(self.of.transactions[self.row])

    @property
    def cycles(self) -> float:
        """Estimated cycles of one call, the launch of the first kernel apart."""
        return float(self.of.cycles[self.row])

    @property
    def call(self) -> float:
        """The same with that launch."""
        return self.cycles + self.of.launch


class TileColumns(TileRequests):
    """What several plans for one contraction take."""

    def rows(self) -> list[TileCounts]:
        """All that can be launched, one by one."""
        return [TileCounts(self, row) for row in np.flatnonzero(self.at_once).tolist()]

    def first(self, count: int, *by: Column, where: Flags | bool = True) -> list[TileCounts]:
        """So many of those that can be launched, or of these `where` that holds: the ones of the
        least numbers, of the first column before the others."""
        known = np.flatnonzero((self.at_once > 0) & where)
        order = np.lexsort([column[known] for column in reversed(by)])
        return [TileCounts(self, row) for row in known[order[:count]].tolist()]

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
    def registers(self) -> npt.NDArray[np.int64]:
        """Registers of 32 bits of a thread: its sums, what it multiplies, addresses; where copies
        run ahead what is on its way, and what it multiplies next."""
        last = self.c.spatial[-1]  # which come before those of the sum
        read = sum(self._own(n for n in axes if n <= last) for axes in self.c.moving)
        read = np.minimum(read, self.own + 8)
        words, used = library.gpu.words(self.c.sums.dtype), self.own + np.maximum(read, self.held)
        return words * used + ADDRESSES + (self.ahead > 0) * (self.fetched + words * read)

    @cached_property
    def asked_by_thread(self) -> dict[int, npt.NDArray[np.int64]]:
        """Accesses of each thread to global memory for the tile of an operand."""
        found = dict[int, npt.NDArray[np.int64]]()
        for n in self.tiles:
            fetched = self._tile(n, lambda tile: tile.filled / tile.vector)
            each = np.ceil(fetched / (Gpu.warp * self.warps)).astype(np.int64)
            rows = self.row_by_row[n]
            found[n] = np.where(rows[:, 0] > 0, rows.prod(1), each)
        return found

    @cached_property
    def fetched(self) -> npt.NDArray[np.int64]:
        """Registers of 32 bits for what a thread fetches in a step."""
        found = np.zeros(len(self.plans), np.int64)
        for n, asked in self.asked_by_thread.items():
            vector = self._tile(n, lambda tile: tile.vector).astype(np.int64)
            found += asked * vector * library.gpu.words(self.c.operands[n].dtype)
        return found

    @cached_property
    def ahead(self) -> npt.NDArray[np.int64]:
        """Steps that copies run ahead: where the registers that sums leave have room for all that
        is on its way, and for where it is, and nothing is computed of it as it is fetched, which is
        waited for."""
        left = Gpu.roomy_registers - ADDRESSES - self.own * library.gpu.words(self.c.sums.dtype)
        places = sum(self.asked_by_thread.values(), np.zeros(len(self.plans), np.int64))
        able = self.fetched + places <= left
        for n in self.tiles:
            if is_made(self.c.operands[n]):
                able &= ~self.staged[n] | self.plans.lays_out(n)
        return np.where(able, self.plans.ahead, 0)

    @cached_property
    def apart(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Lanes and warps that share terms."""
        terms = list(self.c.reduced)
        return self.lanes[:, terms].prod(1), self.warps_of[:, terms].prod(1)

    @cached_property
    def added(self) -> Column:
        """Cycles in which threads that share terms add up what they have, at the end of a block:
        lanes exchange it, warps by way of shared memory, for each sum."""
        lanes, warps = self.apart
        exchanged = 2 * EXCHANGES * self.own * self.warps / PARTS * (lanes > 1)
        return np.asarray(exchanged + self.own * (warps + 1) * self.warps * (warps > 1))

    @cached_property
    def added_waits(self) -> Column:
        """Cycles in which they wait for each other meanwhile, one sum after the other."""
        lanes, warps = self.apart
        each = EXCHANGES / 2 * (lanes > 1) + 2.0 * (warps > 1)
        return np.asarray(self.arch.wait * self.own * each)

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
    def row_by_row(self) -> dict[int, npt.NDArray[np.int64]]:
        """Rows of each warp and parts of them, in each plan, that copies the tile of an operand row
        by row; 0 where it does not."""
        found: dict[int, npt.NDArray[np.int64]] = {}
        for n, (tiles, places) in self.tiles.items():
            asked = list(zip(places, self.warps.tolist()))
            known = {one: tiles[one[0]].by_rows(one[1]) or (0, 0) for one in set(asked)}
            found[n] = np.array([known[one] for one in asked])
        return found

    @cached_property
    def step(self) -> Column:
        """Cycles of a multiprocessor for a step of one block, with nothing to wait for."""
        lanes = _lanes(self.c, self.gpu)
        adds = self.warps * self.own * self._own(self.c.reduced) * max(1, self.c.operations)
        asked, turns, requests, stored, again = np.zeros((5, len(self.plans)))
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
            if not self.rough:
                rows = self.row_by_row[n].prod(1)  # lanes without an element take as long
                fetched = np.where(rows > 0, rows * self.warps, fetched)
            vector = np.maximum(1, self._tile(n, lambda tile: tile.vector))
            straight = self._tile(n, lambda tile: tile.vector if tile.straight else 1)
            requests += fetched / vector
            stored += fetched * written / np.maximum(1, straight)
        issued = adds + asked + 6 * (requests + stored)
        for n, staged in enumerate(self.staged):
            if not staged.all():
                direct = np.where(staged, 0.0, self._direct(n))
                requests, issued = requests + direct, issued + direct
        waits = WAIT * (2 - self.ahead)
        first = np.maximum(requests, self.loaded * Gpu.sector_bytes / self.arch.l1_bytes)
        busy = np.maximum(np.maximum(adds * Gpu.warp / lanes, first + turns + stored), issued / 4)
        return np.asarray(busy + again / 4 + waits)

    @cached_property
    def waits(self) -> Column:
        """Cycles in which a thread waits for what it fetches in a step, all operands together; what
        runs ahead is asked for at once, and of steps without barriers, where it reads all where it
        is, some run ahead of each other."""
        from autotune.gpu.waits import UNROLLED

        words, each = library.gpu.words, np.zeros(len(self.plans), int)
        for n in self.tiles:
            each = each + self.staged[n] * words(self.c.operands[n].dtype)
        sums = self.own * words(self.c.sums.dtype)
        needs = list(zip(sums.tolist(), each.tolist()))
        rooms = {need: library.gpu.room_for_fetched(*need) for need in set(needs)}
        room = [rooms[need] for need in needs]
        rounds = np.ones(len(self.plans))
        for n in self.tiles:
            shifted = self._tile(n, lambda tile: tile.from_sectors) > 0
            counts, rows = self.asked_by_thread[n].tolist(), self.row_by_row[n][:, 0].tolist()
            asked = list(zip(counts, room, shifted.tolist(), rows))
            found = {one: _rounds(*one) for one in set(asked)}
            rounds = np.maximum(rounds, [found[one] for one in asked])
        staged, rounds = np.any(self.staged, 0), np.where(self.ahead > 0, 1.0, rounds)
        return self.arch.latency * np.where(staged, rounds, 1 / np.minimum(self.steps, UNROLLED))

    @cached_property
    def asked_late(self) -> Column:
        """Cycles in which it waits for what it reads where it is, once it has what it fetched."""
        late = np.any(self.staged, 0) & ~np.all(self.staged, 0)
        return np.where(late, self.arch.latency, 0.0)

    @cached_property
    def cycles(self) -> Column:
        """Estimated cycles of one call."""
        return self._call(self.waits)

    @cached_property
    def busy(self) -> Column:
        """The same with nothing to wait for, as in longer steps."""
        return self._call(np.zeros(len(self.plans)))

    def _call(self, waits: Column) -> Column:
        sms, at_once = self.gpu.multiprocessors, np.maximum(1, self.at_once)
        full, rest = np.divmod(self.blocks, sms * at_once)
        time = full * self._wave(at_once, waits)
        time += np.where(rest > 0, self._wave(-(-rest // sms), waits), 0.0)
        again = self.launch + self.arch.latency + 2 * self.stored * self.blocks / sms
        time = np.maximum(time, self.moving) + np.where(self.split > 1, again, 0.0)
        time += self.copied.sum(1) * self.per_byte + self.launch * (self.copied > 0).sum(1)
        return np.where(self.at_once > 0, time, np.inf)

    def _wave(self, together: npt.NDArray[np.int64], waits: Column) -> Column:
        """Cycles of so many blocks on one multiprocessor."""
        asked = self.loaded / self.sectors
        step = self.step * np.maximum(1.0, PARTS / np.maximum(1, together * self.warps))
        longer, shorter = np.maximum(step, asked), np.minimum(step, asked)
        busy = together * (longer + NEVER_HIDDEN * shorter)
        known = WAIT * (self.ahead > 0)  # in a step; what waits for memory arrives one by one
        alone = step + self.asked_late + self.arch.wait * (2 - self.ahead) - known
        alone = np.where(self.ahead > 0, np.maximum(alone, waits), alone + waits)
        issued, moved = self.steps * step, self.steps * asked + self.stored / self.sectors
        back = np.maximum(issued + self.written_back, moved) - np.maximum(issued, moved)
        ends = self.stored / self.sectors + back + self.added
        steps = self.steps * np.maximum(busy, alone)
        begins = waits * self.begins + self.added_waits
        return np.asarray(begins + steps + together * ends)
