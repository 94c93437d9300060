"""What an estimate knows of a contraction, and nests of it that differ in sizes only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from autotune.device import Cpu
from autotune.streams import Column, Stream, pieces_of, stays
from schedule import library
from tensorir import dtype, masked_bits

UNSURE = 1.25
"""Times as long as tasks take that are along symbolic axes alone: a call may have one of them."""

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


@dataclass(frozen=True)
class Sizes:
    """Tiles and tasks of some plans, each a row of values of the spatial axes; `tall` are the tiles
    without their lanes."""

    plans: Sequence[library.NestPlan]
    tile: Column
    task: Column
    tall: Column

    def some(self, places: list[int]) -> Sizes:
        """Those of the plans at some places."""
        own = [self.plans[at] for at in places]
        return Sizes(own, self.tile[places], self.task[places], self.tall[places])


def sizes_of(of: Facts, plans: Sequence[library.NestPlan]) -> Sizes:
    """The tiles and tasks of plans for one contraction."""
    tile = np.array([each.tile for each in plans], dtype=np.float64)
    tall = tile.copy()
    tall[np.arange(len(plans)), [each.lane for each in plans]] = 1
    return Sizes(plans, tile, np.minimum([each.task for each in plans], of.spatial), tall)


Packs = tuple[tuple[int, int], ...]
"""Operands that are packed, each with the axis of its panels."""


def packs_of(plan: library.NestPlan) -> Packs:
    """Those of a plan."""
    return tuple([(p.operand, p.axis) for p in plan.packs]) if plan.packs else ()


class Alike:
    """Plans that differ in sizes of tiles and tasks only, as far as what is asked of them goes;
    for that the first one stands for all."""

    def __init__(self, of: Facts, sizes: Sizes) -> None:
        self.of, self.plans, self.c, self.cpu = of, sizes.plans, of.c, of.cpu
        self.tile, self.task, self.tall = sizes.tile, sizes.task, sizes.tall
        self.plan = plan = sizes.plans[0]
        self.added = of.c.result.strides[plan.lane] == 0  # lanes are sums of one result
        self.streams = self.read(plan)

    def share(self) -> Column:
        """The part of the work that the busiest thread has."""
        if not self.plan.threads:
            return np.ones(len(self.tile))
        tasks = np.prod(np.ceil(self.of.spatial / self.task), axis=1)
        whole = np.prod(self.task / self.of.spatial, axis=1)
        part = np.minimum(1.0, np.ceil(tasks / self.cpu.threads) * whole)
        known = [n for n in self.c.spatial if self.c.axes[n].extent is not None]
        if len(known) == len(self.c.spatial):
            return part
        surely = np.prod(np.ceil(self.of.spatial / self.task)[:, known], axis=1)
        return part * np.where(surely < self.cpu.threads, UNSURE, 1.0)

    def read(self, plan: library.NestPlan) -> list[Stream]:
        """The operands as a nest reads them, and those that pack as it does."""
        found, extents = list(self.of.plain), self.of.extents
        for pack in plan.packs:
            old = found[pack.operand]
            strides: list[int | None] = [0] * len(extents)
            strides[pack.axis] = step = 1
            for n in reversed(plan.steps):
                if old.moves(n):
                    strides[n] = step
                    step *= extents[n]
            far = step
            step *= extents[pack.axis]
            for n in reversed(self.c.spatial):
                if old.moves(n) and n != pack.axis:
                    strides[n] = step
                    step *= extents[n]
            found[pack.operand] = Stream(
                tuple(strides), old.item, old.bytes, pack.axis, self.tile[:, pack.axis], far
            )
        return found

    def rows(self, stream: Stream | None = None) -> Column:
        """The rows of a register tile, or those that a stream is not the same for."""
        axes = [n for n in range(self.tile.shape[1]) if stream is None or stream.moves(n)]
        return np.prod(self.tall[:, axes], axis=1)
