"""What is copied ahead of a nest: operands that are packed, and padding."""

from __future__ import annotations

from math import prod

import numpy as np

from autotune.estimate.facts import SYMBOLIC
from autotune.estimate.nests import Alike
from autotune.streams import LINE, Column
from tensorir import dtype


class Copies(Alike):
    """Copies of a call; those of constants are made ahead of all calls."""

    def copies(self) -> Column:
        """Operands that are packed in the call, and padding."""
        costs, plan, extents = self.cpu.costs, self.plan, self.of.extents
        threads = self.cpu.threads if plan.threads else 1
        total = np.zeros(len(self.tile))
        for pack in plan.packs:
            operand = self.c.operands[pack.operand]
            if self.of.is_constant(pack.operand):
                continue
            stream = self.of.plain[pack.operand]
            elements = prod(e for n, e in enumerate(extents) if stream.moves(n))
            turned, width = operand.strides[pack.axis] != 1, self.tile[:, pack.axis]
            filled = np.ceil(extents[pack.axis] / width) * width / extents[pack.axis]
            total += filled * self.cpu.packing(elements, stream.item, turned) / threads
        for n, operand in enumerate(self.c.operands):
            if operand.pad is None or plan.pad == "inline":
                continue
            elements = prod(size or SYMBOLIC for size in operand.shape)
            if plan.pad == "task":
                total += costs.fill * elements * self.overlap(n) / threads
                continue
            used = elements * dtype.itemsize(operand.dtype)
            total += (costs.fill * elements + self.moved(used)) / threads
        return total

    def moved(self, used: int) -> float:
        """Cycles for reading and writing so many bytes behind the caches that do not hold them."""
        return sum(2 * cost * used / LINE for size, cost in self.cpu.caches if used > size)

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
