"""What is copied ahead of a nest: operands that are packed, and padding."""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np

from autotune.estimate.facts import SYMBOLIC
from autotune.estimate.nests import Alike, packs_of
from autotune.streams import Column
from tensorir import dtype


class Copies(Alike):
    """Copies of a call; those of constants are made ahead of all calls."""

    def copies(self) -> tuple[Column, Column]:
        """Operands that are packed in the call, and padding; and what it takes to start threads for
        the nests, unless calls tell how much these have to do and kernels ask, and for each copy
        that is made ahead of one."""
        threads = self.cpu.threads if self.plan.threads else 1
        asked = any(self.c.axes[n].extent is None for n in self.c.spatial)
        total, starts = np.zeros(len(self.tile)), np.full(len(self.tile), 1.0 - asked)
        overlap = cache(self.overlap)
        for plan, rows in self.ways:
            pad = plan.pad
            packed = [(n, axis) for n, axis in packs_of(plan) if not self.of.is_constant(n)]
            padded = [n for n, o in enumerate(self.c.operands) if o.pad and pad != "inline"]
            for operand, axis in packed:
                total[rows] += self.packed(operand, axis, self.tile[rows, axis]) / threads
            for operand in padded:
                part = overlap(operand)[rows] if pad == "task" else None
                total[rows] += self.padded(operand, part) / threads
            starts[rows] += len(packed) + (len(padded) if pad == "root" else 0)
        return total, starts * (self.cpu.costs.start if threads > 1 else 0.0)

    def packed(self, operand: int, axis: int, width: Column) -> Column:
        """An operand in panels of so many values of an axis, by one thread."""
        stream, extents = self.of.plain[operand], self.of.extents
        elements = prod(e for n, e in enumerate(extents) if stream.moves(n))
        filled = np.ceil(extents[axis] / width) * width / extents[axis]
        turned = self.c.operands[operand].strides[axis] != 1
        return filled * self.cpu.packing(elements, stream.item, turned)

    def padded(self, operand: int, part: Column | None) -> Column | float:
        """An operand with its padding, by one thread, as often as `part` says where tasks copy what
        they read of it."""
        o, fill = self.c.operands[operand], self.cpu.costs.fill
        elements = prod(size or SYMBOLIC for size in o.shape)
        if part is not None:
            return fill * elements * part
        return fill * elements + self.moved(elements * dtype.itemsize(o.dtype))

    def moved(self, used: int) -> float:
        """Cycles for reading and writing so many bytes behind the caches that do not hold them."""
        return 2 * self.cpu.lines(used)

    def overlap(self, operand: int) -> Column:
        """How often an element of an operand is copied by tasks, on average."""
        o = self.c.operands[operand]
        part = np.ones(len(self.tile))
        for row, size in zip(o.dims, o.shape):
            reach = np.ones(len(self.tile))
            for n, step in enumerate(row):
                box = self.task[:, n] if n < self.task.shape[1] else float(self.of.extents[n])
                reach = reach + abs(step) * (box - 1) if step else reach
            part *= np.minimum(size or SYMBOLIC, reach)
        tasks = np.prod(np.ceil(self.of.spatial / self.task), axis=1)
        return np.maximum(1.0, part * tasks / prod(size or SYMBOLIC for size in o.shape))
