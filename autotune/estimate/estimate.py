"""The time that nests of a contraction take on a CPU, in cycles, from strides and extents alone.

Every term is a function of what a nest is after all moves: of its loops, and of the elements that
each of them moves each operand by. Nothing asks what was chosen to get there, so that no choice can
switch a term off. Plans are estimated as columns of numbers, all that differ in sizes only at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from itertools import count

import numpy as np

from autotune.device import Cpu
from autotune.estimate.arithmetic import Arithmetic
from autotune.estimate.copies import Copies
from autotune.estimate.facts import Facts
from autotune.estimate.nests import Sizes, sizes_of
from autotune.estimate.traffic import Traffic
from autotune.streams import Column
from schedule import library

IN_ORDER = 0.9
"""What is hidden of arithmetic and traffic beside each other, where rows are read in order."""


_Asked = tuple[int, Hashable]
"""The number of a kind of plans, which differ in sizes only, and what tells one of them."""


class Estimate(Facts):
    """Of one contraction, for one processor; `constants` are packed ahead of all calls."""

    def __init__(self, c: library.Contraction, cpu: Cpu, constants: Collection[str] = ()) -> None:
        super().__init__(c, cpu, constants)
        self._tiles: dict[_Asked, float] = {}
        """Arithmetic of register tiles: plans for one tile differ in what is around it."""
        self._moved: dict[_Asked, float] = {}
        """Traffic of tiles in tasks: plans for these differ in how terms are written."""
        self._numbers: defaultdict[Hashable, int] = defaultdict(count().__next__)
        """Of what plans have in common: long keys are looked up once for each plan."""
        self._shared: dict[Hashable, tuple[int, ...]] = {}
        """The steps in which rows along some axes read what others of them read."""

    def cycles(self, plans: Sequence[library.NestPlan]) -> Column:
        """Of the busiest thread, from call to return; one number for each plan."""
        if not plans:
            return np.zeros(0)
        sizes = sizes_of(self, plans)
        added = [step == 0 for step in self.c.result.strides]
        number = self._numbers
        moving: list[_Asked] = [
            (number[added[p.lane], p.depth > 0],
             (number[p.lane, p.order, p.steps, own, p.depth, p.ahead, bool(p.flat)],
              p.tile, p.task))
            for p, own in zip(plans, sizes.packs)
        ]  # fmt: skip
        moved = self._known(self._moved, sizes, moving, _Nests.traffic)
        work = self._work(sizes)
        around = [(p.lane, p.lanes, p.threads, p.depth) for p in plans]
        return self._each(sizes, around, lambda nests, at: nests.cycles(work[at], moved[at]))

    def arithmetic(self, plans: Sequence[library.NestPlan]) -> Column:
        """The same without memory: the register tiles, one after the other, of one thread."""
        if not plans:
            return np.zeros(0)
        sizes = sizes_of(self, plans)
        work = self._work(sizes)
        stored = [(plan.lane, plan.lanes, plan.depth) for plan in plans]
        return self._each(sizes, stored, lambda nests, at: nests.stored(work[at]))

    def _work(self, sizes: Sizes) -> Column:
        """What register tiles compute, each of which is asked for once. The order of loops is none
        of it, nor are tasks, but for what they say about padding; and the rows of a tile count by
        what they share, not by their number."""
        keys: list[_Asked] = []
        for plan, own, known in zip(sizes.plans, sizes.packs, sizes.decided.tolist()):
            shared = self._shared_steps(plan) if plan.flat == "shifts" else ()
            tile = (plan.lane, plan.lanes, plan.flat, plan.depth, plan.written)
            kind = (tile, own, plan.steps, shared, plan.apart, plan.chained)
            pad = tuple(known) if plan.pad == "inline" else None
            keys.append((self._numbers[kind], (plan.tile, pad, plan.ahead)))
        return self._known(self._tiles, sizes, keys, _Nests.work)

    def _known(
        self,
        known: dict[_Asked, float],
        sizes: Sizes,
        keys: Sequence[_Asked],
        of: Callable[[_Nests], Column],
    ) -> Column:
        """A number for each plan: of those that are not `known`, of all of one kind at once."""
        places = {key: at for at, key in enumerate(keys) if key not in known}
        asked: defaultdict[Hashable, list[_Asked]] = defaultdict(list)
        for key in places:
            asked[key[0]].append(key)
        for alike in asked.values():
            some = sizes.some([places[key] for key in alike])
            known.update(zip(alike, of(_Nests(self, some)).tolist()))
        return np.array([known[key] for key in keys])

    def _shared_steps(self, plan: library.NestPlan) -> tuple[int, ...]:
        key = plan.lane, plan.steps, tuple([size > 1 for size in plan.tile])
        if key not in self._shared:
            self._shared[key] = plan.shared_steps(self.c)
        return self._shared[key]

    def _each(
        self,
        sizes: Sizes,
        keys: Iterable[Hashable],
        of: Callable[[_Nests, list[int]], Column],
    ) -> Column:
        """A number for each plan, of all with one key at once; `of` gets their places too."""
        groups: defaultdict[Hashable, list[int]] = defaultdict(list)
        for at, key in enumerate(keys):
            groups[key].append(at)
        found = np.zeros(len(sizes.plans))
        for places in groups.values():
            found[places] = of(_Nests(self, sizes.some(places)), places)
        return found


class _Nests(Arithmetic, Traffic, Copies):
    """The whole time of plans that differ in sizes only."""

    def cycles(self, work: Column, moved: Column) -> Column:
        """Of what tiles compute and what is moved."""
        costs, work = self.cpu.costs, self.stored(work)
        share = np.where(self.in_order(), IN_ORDER, costs.hidden)
        hidden, (copies, starts) = share * np.minimum(work, moved), self.copies()
        time = (work + moved - hidden + self.stalls()) * self.share() + starts
        return time * max(1, self.c.repeated) + copies
