"""Nests of a contraction that differ in sizes only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np
import numpy.typing as npt

from autotune.estimate.decided import Decided, decided
from autotune.estimate.facts import Facts
from autotune.streams import Column, Stream
from schedule import library

UNSURE = 1.25
"""Times as long as tasks take that are along symbolic axes alone: a call may have one of them."""


Packs = tuple[tuple[int, int], ...]
"""Operands that are packed, each with the axis of its panels."""


def packs_of(plan: library.NestPlan) -> Packs:
    """Those of a plan."""
    return tuple([(p.operand, p.axis) for p in plan.packs])


@dataclass(frozen=True)
class Sizes:
    """What some plans pack, their lane axis, and tiles and tasks, a row of values of axes for each;
    `tall` are tiles without their lanes, `decided` tells of which operands padding is known.
    Plans of one `kind` differ in sizes, and in how threads and results go, alone."""

    plans: Sequence[library.NestPlan]
    packs: Sequence[Packs]
    lane: npt.NDArray[np.int64]
    tile: Column
    task: Column
    tall: Column
    decided: Decided
    kind: npt.NDArray[np.int64]

    def some(self, places: list[int]) -> Sizes:
        """Those of the plans at some places."""
        plans, packs = [self.plans[at] for at in places], [self.packs[at] for at in places]
        at = np.array(places)
        each = (self.lane, self.tile, self.task, self.tall, self.decided, self.kind)
        return Sizes(plans, packs, *(column[at] for column in each))


def sizes_of(of: Facts, plans: Sequence[library.NestPlan]) -> Sizes:
    """The tiles and tasks of plans for one contraction."""
    tile = np.array([each.tile for each in plans], dtype=np.float64)
    lane, tall = np.array([each.lane for each in plans]), tile.copy()
    tall[np.arange(len(plans)), lane] = 1
    task = np.minimum([each.task for each in plans], of.spatial)
    packs = [packs_of(each) if each.packs else () for each in plans]
    number: defaultdict[object, int] = defaultdict(count().__next__)
    kind = np.array([
        number[p.lane, p.order, p.steps, own, p.ahead, p.flat, p.pad]
        for p, own in zip(plans, packs)
    ])  # fmt: skip
    known = decided(of, plans, tile, task, tall)
    return Sizes(plans, packs, lane, tile, task, tall, known, kind)


class Alike:
    """Plans that differ in sizes of tiles and tasks only, as far as what is asked of them goes;
    for that the first one stands for all."""

    def __init__(self, of: Facts, sizes: Sizes) -> None:
        self.of, self.plans, self.c, self.cpu = of, sizes.plans, of.c, of.cpu
        self.lane, self.tile, self.task, self.tall = sizes.lane, sizes.tile, sizes.task, sizes.tall
        self.decided, self.packs, self.kind = sizes.decided, sizes.packs, sizes.kind
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

    @cached_property
    def ways(self) -> list[tuple[library.NestPlan, npt.NDArray[np.int64]]]:
        """The places of plans that differ in nothing else indeed, with one that stands for them."""
        kinds = dict.fromkeys(self.kind.tolist())
        found = [np.flatnonzero(self.kind == kind) for kind in kinds]
        return [(self.plans[rows[0]], rows) for rows in found]

    def are(self, what: Callable[[library.NestPlan], bool]) -> npt.NDArray[np.bool_]:
        """Which plans are something that those alike are too."""
        found = np.zeros(len(self.plans), dtype=bool)
        for plan, rows in self.ways:
            if what(plan):
                found[rows] = True
        return found

    def asked(self, *operands: int) -> npt.NDArray[np.bool_]:
        """Which plans ask ahead for one of some operands."""
        return self.are(lambda plan: any(n in operands for n, _ in plan.ahead))

    def rows(self, stream: Stream | None = None) -> Column:
        """The rows of a register tile, or those that a stream is not the same for."""
        axes = [n for n in range(self.tile.shape[1]) if stream is None or stream.moves(n)]
        return np.prod(self.tall[:, axes], axis=1)
