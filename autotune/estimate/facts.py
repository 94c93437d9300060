"""What an estimate knows of a contraction and of a processor."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

import numpy as np

from autotune.device import Cpu
from autotune.streams import Stream, pieces_of, stays
from schedule import library
from tensorir import dtype, masked_bits

SYMBOLIC = 256
"""The extent assumed for a symbolic axis."""


class Facts:
    """Of one contraction and one processor; `constants` are packed ahead of all calls."""

    def __init__(self, c: library.Contraction, cpu: Cpu, constants: Collection[str] = ()) -> None:
        self.c, self.cpu, self.constants = c, cpu, constants
        self.extents = tuple(axis.extent or SYMBOLIC for axis in c.axes)
        self.spatial = np.array([self.extents[n] for n in c.spatial], dtype=np.float64)
        self.plain = [self.stream(o) for o in c.operands]
        self.result = self.stream(c.result)
        arrays = {o.buffer: o for o in (*c.operands, c.result)}.values()
        sizes = [prod(s or SYMBOLIC for s in o.shape) * dtype.itemsize(o.dtype) for o in arrays]
        self.used = np.array([float(sum(sizes))])
        """Bytes of all arrays."""
        self.terms = prod(self.extents[n] for n in c.reduced)
        self.steps = [float(e) for e in self.extents]
        """The extents; of an axis whose last step lacks terms, as many as there are."""
        for n in c.reduced if c.missing else ():
            lane = c.spatial[-1]
            if all(o.strides[n] == self.extents[lane] * (o.strides[lane] or 0) for o in c.operands):
                self.steps[n] -= c.missing / self.extents[lane]
        self.work = max(1, c.operations - sum(o.converted for o in c.operands))
        """Instructions for a term, but for those that tiles share: conversions of what is read."""
        self.vector = cpu.vector
        self.masked = masked_bits(cpu.target)

    def stream(self, what: library.Access) -> Stream:
        """What is read or written of an array as it lies."""
        item = dtype.itemsize(what.dtype)
        used = prod(size or SYMBOLIC for size in what.shape) * item
        return Stream(what.strides, item, used, dims=what.dims)

    def crowds(self, operand: int, axis: int, width: int) -> bool:
        """Whether so many values of an axis, and all terms of their sums, lie in too few sets of
        the second cache to stay there, which as a panel of their own they would."""
        sizes = [1 if n in self.c.spatial else e for n, e in enumerate(self.extents)]
        sizes[axis] = width
        stream, room = self.plain[operand], self.cpu.caches[1][0]
        box = np.array([sizes], dtype=np.float64)
        used = np.array([prod(s for n, s in enumerate(sizes) if stream.moves(n)) * stream.item])
        return bool(stays(pieces_of([stream], box, 1).crowded()[1], room) < stays(used, room))

    def is_constant(self, operand: int) -> bool:
        """Whether an operand is known when the kernel is built: it is packed ahead of all calls."""
        return self.c.operands[operand].buffer in self.constants
