"""The arithmetic of register tiles, one after the other, without memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from autotune.estimate.results import Results
from autotune.streams import LINE, Column
from schedule import library
from tensorir import dtype

BESIDE = 8
"""Steps of a tile that go on beside the end of the one before, where it can be; and of its
beginning and ending, the share that is left."""

OVERLAPPED = 0.25

SINGLE = 0.5
"""Of an instruction on a vector, what one on a single element takes, which fills half a pipe."""

SHARED = 0.5
"""Of the loads that elements apart come from, what each takes where terms are written out, which
share these; choosing its lanes is an instruction by itself."""

PUT_BY = 2.0
"""Instructions for a term of a sum that has no room for what its lanes are chosen from."""

BROADCAST = 2.0
"""Conversions of a vector that one of a single element takes, which all lanes then get.

No instruction reads an element, converts it and fills a vector with it."""

WAITING = 64
"""Operations that wait for others in a processor while later ones begin."""


class Arithmetic(Results):
    """Instructions of a tile and the waits between them."""

    def stored(self, work: Column) -> Column:
        """What all tiles compute, with what it takes to write their results."""
        return work + self.writing(work)

    def work(self) -> Column:
        """All tiles, one after the other; what is left at the end of an axis counts as it runs, and
        at that of a symbolic one, which may have any, as a whole tile."""
        sizes, spatial = self.tile, self.of.spatial
        whole = np.floor(spatial / sizes)
        rest = spatial - whole * sizes
        symbolic = [n for n in self.c.spatial if self.c.axes[n].extent is None]
        whole[:, symbolic], rest[:, symbolic] = (spatial / sizes)[:, symbolic], sizes[:, symbolic]
        axes = np.flatnonzero(rest.any(axis=0))
        ends = np.zeros((1 << len(axes), 1, sizes.shape[1]), dtype=bool)
        ends[:, 0, axes] = [*product((False, True), repeat=len(axes))]
        counts = np.where(ends, rest > 0, whole)  # all ends at once: few long columns
        parts = np.where(ends, np.maximum(rest, 1), sizes)
        each = counts.prod(axis=2).ravel() * self.one_tile(parts.reshape(-1, sizes.shape[1]))
        return np.asarray(each.reshape(len(ends), -1).sum(axis=0))

    def one_tile(self, sizes: Column) -> Column:
        """All terms of the sums of register tiles of these sizes, as many of each plan."""
        costs, plan, of = self.cpu.costs, self.plan, self.of
        lanes, lane, terms = plan.lanes, plan.lane, of.terms
        others = [n for n in range(sizes.shape[1]) if n != lane]
        vectors = np.ceil(sizes[:, lane] / lanes)
        rows = np.prod(sizes[:, others], axis=1)
        sums = rows * self.pieces(sizes[:, lane])
        room = self.cpu.registers - (vectors if plan.flat == "single" else sums)
        shared = np.full(len(sizes), bool(plan.flat) or plan.written > 1)
        loads, converted, picked = (np.zeros(len(sizes)) for _ in range(3))
        inline = self.are(lambda each: each.pad == "inline")
        for n, stream in enumerate(self.streams):
            mine = np.prod(sizes[:, [m for m in others if stream.moves(m)]], axis=1)
            step = stream.strides[lane]
            each, windows = np.ones(len(sizes)), False
            if step != 0:
                near = self.c.is_read_in_vectors(n, lane)
                windows = bool(plan.flat or plan.written > 1) and near and step not in (None, 1)
                apart = costs.strided * (step or 0) / 2 if near else float(lanes)
                apart = SHARED * (step or 0) if windows else apart
                whole = 1.0 if stream.aligned(lanes) and not self.added else costs.unaligned
                each = vectors * (whole if step == 1 else apart)
            if self.c.operands[n].pad and inline.any():
                slower = np.where(inline, self.padding(n), 1.0)
                each = each * np.tile(slower, len(sizes) // len(self.tile))
            count = mine * terms
            if plan.flat or (plan.written > 1 and step != 0):  # an element is loaded to all lanes
                loaded, once = self.loaded(n, sizes, room)
                shared &= loaded <= once
                count = count if windows else loaded
            loads += count * each
            if windows:
                picked += terms * self.picking(mine * vectors, sizes, step or 1)
            if self.c.operands[n].converted:
                converted += count * (vectors if step != 0 else BROADCAST)
            asked = self.asked(n)
            if asked.any():  # a request takes as long as a load
                lines = mine * terms * np.ceil(sizes[:, lane] * stream.item / LINE)
                loads += np.where(np.tile(asked, len(sizes) // len(self.tile)), lines, 0.0)
        adds = self.operations(sizes, sums, shared) * terms + costs.convert * converted + picked
        adds = of.vector * adds / costs.units
        reads = of.vector * loads / costs.ports
        time = np.maximum(adds, reads) + costs.both * np.minimum(adds, reads)
        if plan.depth:  # sums are loaded and stored again; those of other tiles go on meanwhile
            return time + terms / plan.depth * (2 * sums / costs.ports + costs.turn / 2)
        waits = self.chains(rows, vectors) if plan.flat else self.waits(terms)
        time = np.maximum(time, waits)
        if plan.flat != "single":
            operands = len(self.streams) if plan.flat else self.live(sizes)
            spilled = np.maximum(0, np.minimum(sums, sums + operands - self.cpu.registers))
            time = time + costs.spill * spilled * terms
        if not plan.flat:
            time = time + terms / (of.extents[plan.steps[-1]] if plan.steps else 1) * costs.turn
        return time + (OVERLAPPED if self.added else 1.0) * costs.tile + costs.sum_ * sums

    def picking(self, used: Column, sizes: Column, step: int) -> Column:
        """Instructions that choose lanes of vectors whose elements are so many apart, each for
        itself: registers are few. With what they are chosen from they hold the sums, and what
        rows that follow each other share; what has no room in half of them is put by."""
        plan, held = self.plan, used * (1 + step)
        if plan.flat == "single":
            vectors = np.ceil(sizes[:, plan.lane] / plan.lanes)
            held = vectors * (1 + step)
            for stream in self.streams:
                others = (n for n in self.c.spatial if n != plan.lane and not stream.moves(n))
                again = sizes[:, [*others]].max(axis=1, initial=1) > 1
                held = held + self.of.terms * (again & (not stream.moves(plan.lane)))
        over = np.maximum(0.0, 1 - self.cpu.registers / 2 / held)
        return used * (np.log2(step) + PUT_BY * over)

    def pieces(self, sizes: Column) -> Column:
        """Vectors of so many lanes: the last ones are ever shorter, each of half the lanes or less,
        where they cannot be one of which a part counts. What is turned on the way out is whole."""
        lanes, lane, masked = self.plan.lanes, self.plan.lane, self.of.masked
        whole = np.floor(sizes / lanes)
        rest = (sizes - whole * lanes).astype(np.int64)
        used = [s for s in self.streams if s.strides[lane] != 0]
        whole_ends = all(s.strides[lane] == 1 and 8 * s.item in masked for s in used)
        if whole_ends or self.c.result.strides[lane] != 1:
            return np.asarray(whole + (rest > 0))
        return np.asarray(whole + np.array([n.bit_count() for n in range(lanes)])[rest])

    def operations(self, sizes: Column, sums: Column, near: npt.NDArray[np.bool_]) -> Column:
        """Instructions for a term of each sum of a tile. What a part of a product gives is computed
        once for all rows that it stands still along, and for all lanes."""
        total: Column = (self.of.work - self.c.chain[1] * self.plan.chained) * sums
        for operands in library.shared_parts(self.c, self.plan.apart):
            moves = [any(self.streams[o].moves(n) for o in operands) for n in self.c.spatial]
            own = np.full(len(sizes), 1.0 if moves[self.plan.lane] else SINGLE)
            for n, moved in enumerate(moves):
                lane = n == self.plan.lane
                if moved:
                    own = own * (self.pieces(sizes[:, n]) if lane else sizes[:, n])
            total = total - np.where(near | (not self.plan.flat), sums - own, 0.0)
        return total

    def live(self, sizes: Column) -> Column:
        """Vectors of operands that are at hand together, as rows of a tile follow each other: what
        rows after the next read again stays. Of those along the lanes the most of one operand: an
        operation reads another one from memory."""
        plan, single, lanes = self.plan, np.zeros(len(sizes)), np.zeros(len(sizes))
        order = sorted(range(sizes.shape[1]), key=lambda n: n == plan.lane)
        for operand, stream in enumerate(self.streams):
            slid = (
                plan.written > 1
                and stream.moves(plan.lane)
                and any(self.c.overlap(plan.steps[-1], n, operand) for n in order if n != plan.lane)
            )  # the next row reads it at the next term
            count, again = np.ones(len(sizes)), np.full(len(sizes), slid)
            for n in order:
                size = np.ceil(sizes[:, n] / plan.lanes) if n == plan.lane else sizes[:, n]
                if stream.moves(n):
                    count = np.where(again, count * size, count)
                else:
                    again |= size > 1
            if stream.moves(plan.lane):
                lanes = np.maximum(lanes, count)
            else:
                single += count
        return single + lanes

    def waits(self, terms: int) -> float:
        """The chain of additions of one sum. Tiles whose lanes are added up wait for nothing that
        others do: their first steps go on beside the last ones of the tile before."""
        return self.latency * (max(0, terms - BESIDE) if self.added else terms)

    def chains(self, rows: Column, vectors: Column) -> Column:
        """The same of terms that are written out, where a row takes some terms before the next row
        does: as many rows go on at once as operations can wait, of this tile and the next ones."""
        if self.added:
            return np.full(len(rows), self.waits(self.of.terms))
        outside, inside = (
            prod(self.of.extents[n] for n in steps) for steps in self.plan.around_rows(self.c)
        )
        room = WAITING / (vectors * inside)
        if outside > 1:  # the first row goes on when the last one has begun
            tiles = WAITING / (vectors * rows * self.of.terms)
            room = np.minimum(room, rows * np.maximum(tiles, 1.0))
        found: Column = self.of.terms * rows * self.latency / np.maximum(room, 1.0)
        return found

    @property
    def latency(self) -> float:
        """From a sum to the next term of it: all parts of a term that are chained."""
        return self.cpu.costs.latency * (self.c.chain[0] if self.plan.chained else 1)

    def padding(self, operand: int) -> Column | float:
        """How much longer loads take that look for padding in place."""
        costs, flat = self.cpu.costs, bool(self.plan.flat)
        along = self.c.in_padding(self.plan.lane, operand)
        if not along:  # all lanes are padding, or none
            return 1.0 if flat else costs.masked
        can = along == 1 and dtype.bits(self.c.operands[operand].dtype) in self.of.masked
        return np.where(self.decided[:, operand], 1.0, costs.masked if can else costs.asked)

    def loaded(self, operand: int, sizes: Column, room: Column) -> tuple[Column, Column]:
        """How often elements are loaded, or vectors of them, where terms are written out, and how
        many different ones there are. What rows of a tile read again is in a register still if all
        that comes in between fits into so much `room`."""
        plan, step = self.plan, self.streams[operand].strides[self.plan.lane]
        terms, times = {n: float(self.of.extents[n]) for n in plan.steps}, 1.0
        if not plan.flat:
            terms = {n: 1.0 for n in plan.steps} | {plan.steps[-1]: float(plan.written)}
            times = self.of.terms / plan.written
        each = np.ceil(sizes[:, plan.lane] / plan.lanes) if step != 0 else np.ones(len(sizes))
        loads = before = np.ones(len(sizes))
        outside, within = plan.around_rows(self.c)
        rows = (n for n in self.c.spatial if n != plan.lane)
        inside = _Distinct(self.c.operands[operand].dims, before)
        for n in reversed((*outside, *rows, *within)):
            count = terms[n] if n in terms else sizes[:, n]
            now = inside.along(n, count)
            loads = loads * np.where(before * each <= room, now / before, count)
            before = now
        return times * loads, times * before


class _Distinct:
    """The different elements, or vectors, of an operand that values of axes read, inner ones first:
    of each dimension as many as there are, or as lie within its reach."""

    def __init__(self, dims: Sequence[Sequence[int | None]], one: Column) -> None:
        self.dims, self.one = dims, one
        self.values, self.reach, self.least = ([one] * len(dims) for _ in range(3))

    def along(self, axis: int, count: Column | float) -> Column:
        """With so many values of one more axis."""
        for n, row in enumerate(self.dims):
            step = row[axis]
            if step:
                self.values[n] = self.values[n] * count
                self.reach[n] = self.reach[n] + abs(step) * (count - 1)
                self.least[n] = np.minimum(self.values[n], self.reach[n])
        return prod(self.least, start=self.one)
