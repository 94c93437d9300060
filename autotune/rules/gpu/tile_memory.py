"""What tiles of a contraction have in shared memory: operands that several threads use, and results
whose rows begin within a sector of memory."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np

from autotune.rules.gpu.tile_plans import Cuts, Flags, TilePlans
from schedule import library
from tensorir import Gpu, dtype

LONG = 2 * Gpu.warp
"""Elements of rows of results, at least, that are written one by one, as they are where lanes of a
warp store to several: a sector more of each is little then."""


class TileMemory:
    """For tiles of some axes of the result, `free`, which share what others move; `few` are bytes
    of a result up to which it does not matter from where it is written."""

    def __init__(self, c: library.Contraction, free: Set[int], few: float = 0.0) -> None:
        self.c, self.free, self.few = c, free, few

    @cached_property
    def shared(self) -> tuple[int, ...]:
        """Operands whose elements several threads of a block use, in different places of its tile.
        What batches alone move, or no terms, is held in registers: a thread has all that it needs
        of it. What terms alone move, all threads use."""
        c = self.c
        return tuple(
            n
            for n, o in enumerate(c.operands)
            if None not in o.strides and all(map(c.is_used_again, self.alike(n)))
            if o.pad is None or len(self.alike(n)) == 1
            if any(o.strides[axis] != 0 for axis in c.reduced)
            if any(o.strides[axis] != 0 for axis in self.free)
            or all(o.strides[axis] == 0 for axis in c.spatial)
        )

    def alike(self, operand: int) -> list[int]:
        """The operands of the same buffer, which are fetched all or none."""
        operands = self.c.operands
        return [n for n, o in enumerate(operands) if o.buffer == operands[operand].buffer]

    @cached_property
    def gathered(self) -> tuple[int, ...]:
        """Operands of which what lies between the elements is not used; and those of a buffer that
        is read in other places too, as in a product of a matrix by itself."""
        found = [n for n in self.shared if len(self.alike(n)) > 1]
        for n in self.shared:
            for row in self.c.operands[n].dims:
                moved = [axis for axis, step in enumerate(row) if step]
                if len(moved) == 1 and abs(row[moved[0]] or 1) > 1:
                    found.append(n)
        return tuple(dict.fromkeys(found))

    def to_sectors(self, plan: library.gpu.TilePlan) -> library.gpu.TilePlan:
        """The same with results written from one sector to the next: if rows of these begin within
        one, whole warps have them, and tiles are boxes of them."""
        if not self.odd_results or plan.split > 1:
            return plan
        (box,) = self.are_boxes(TilePlans([plan], len(self.c.axes)).cuts)
        return replace(plan, results=True) if box else plan

    def are_boxes(self, cuts: Cuts) -> Flags:
        """Whether tiles with such cuts can be written so."""
        if not self.odd_results:
            return np.zeros(len(cuts), bool)
        near, lanes, totals = self.c.spatial[-1], cuts[:, :, 2], cuts.prod(2)
        run = np.minimum(self.sizes[near], totals[:, near])
        boxes = (lanes.prod(1) == Gpu.warp) & ((lanes[:, near] == Gpu.warp) | (run >= LONG))
        for n in self.parts_of_results:
            boxes &= self.sizes[n] % totals[:, n] == 0
        for n in self.in_several:
            boxes &= (totals[:, n] == 1) | (totals[:, n] == self.sizes[n])
        return boxes

    def without_conflicts(
        self, plans: Iterable[library.gpu.TilePlan]
    ) -> list[library.gpu.TilePlan]:
        """Those of which lanes that store results to shared memory meet in no bank."""
        kept, asked = list(plans), dict[tuple[library.gpu.Cut, ...], library.gpu.StagedTile]()
        for plan in kept:
            if plan.results and not plan.fills_warps(self.c.spatial[-1]) and plan.cuts not in asked:
                asked[plan.cuts] = library.gpu.staged_results(self.c, plan)
        several = {cuts: tile for cuts, tile in asked.items() if len(tile.in_memory) > 1}
        found = library.gpu.tile_pitches([tile.layout_as_in_memory for tile in several.values()])
        meet = {cuts for cuts, pitched in zip(several, found) if pitched.met[0] > 1}
        return [plan for plan in kept if not plan.results or plan.cuts not in meet]

    @cached_property
    def odd_results(self) -> bool:
        """Whether rows of the result, neighbours in them the last axis, begin within sectors."""
        o = self.c.result
        row = o.shape[o.row] or 0 if o.shape else 0
        size = prod(self.sizes[n] for n in self.c.spatial) * dtype.itemsize(o.dtype)
        odd = row % library.gpu.in_sector(o.dtype) > 0 and size > self.few
        return odd and o.strides[self.c.spatial[-1]] == 1

    @cached_property
    def sizes(self) -> list[int]:
        """The extents of all axes, 1 for symbolic ones."""
        return [axis.extent or 1 for axis in self.c.axes]

    @cached_property
    def in_several(self) -> list[int]:
        """Axes that go on through several dimensions of the result: parts of them are no boxes."""
        rows = [row for row, size in zip(self.c.result.dims, self.c.result.shape) if size != 1]
        return [n for n in self.c.spatial if sum(row[n] != 0 for row in rows) > 1]

    @cached_property
    def parts_of_results(self) -> list[int]:
        """Axes beside others in a dimension of the result, but the outermost: ends of their tiles
        lie before elements of other tiles."""
        found = list[int]()
        for row in self.c.result.dims:
            moved = sorted((n for n in self.c.spatial if row[n] != 0), key=lambda n: -(row[n] or 0))
            found += moved[1:]
        return found
