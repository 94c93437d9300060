"""The time that nests of a contraction take on a CPU, in cycles, from strides and extents alone.

Every term is a function of what a nest is after all moves: of its loops, and of the elements that
each of them moves each operand by. Nothing asks what was chosen to get there, so that no choice can
switch a term off. Plans are estimated as columns of numbers, all that differ in sizes only at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from autotune.estimate.arithmetic import Arithmetic
from autotune.estimate.copies import Copies
from autotune.estimate.nests import Facts
from autotune.estimate.traffic import Traffic
from autotune.streams import Column
from schedule import library

IN_ORDER = 0.9
"""What is hidden of arithmetic and traffic beside each other, where rows are read in order."""


class Estimate(Facts):
    """Of one contraction, for one processor; `constants` are packed ahead of all calls."""

    def cycles(self, plans: Sequence[library.NestPlan]) -> Column:
        """Of the busiest thread, from call to return; one number for each plan."""
        moved = self._each(plans, self._moving, lambda alike, _: alike.traffic())
        work = self.arithmetic(plans)
        return self._each(plans, _around, lambda alike, at: alike.cycles(work[at], moved[at]))

    def arithmetic(self, plans: Sequence[library.NestPlan]) -> Column:
        """The same without memory: the register tiles, one after the other, of one thread."""
        return self._each(plans, self._computing, lambda alike, _: alike.arithmetic())

    def _computing(self, plan: library.NestPlan) -> Hashable:
        """What arithmetic depends on besides sizes: the order of loops is none of it, unless it has
        to ask for padding; and the rows of a tile count by what they share, not by their number."""
        shared = plan.shared_steps(self.c) if plan.flat == "shifts" else ()
        order = plan.order if plan.pad == "inline" else ()
        tile = (plan.lane, plan.lanes, plan.pad, plan.flat, plan.depth, plan.written)
        terms = plan.steps, shared, plan.apart, plan.chained
        return tile, _packs(plan), terms, order, plan.ahead

    def _moving(self, plan: library.NestPlan) -> Hashable:
        """What traffic depends on besides sizes and the order of loops: many plans that compute
        otherwise move the same."""
        step = self.c.result.strides[plan.lane]
        kind = step if step in (0, 1) else None  # added, as they are, or turned
        steps = plan.steps if plan.packs else ()  # the order of panels
        return kind, _packs(plan), steps, plan.depth > 0, plan.ahead

    def _each(
        self,
        plans: Sequence[library.NestPlan],
        key: Callable[[library.NestPlan], Hashable],
        of: Callable[[_Nests, list[int]], Column],
    ) -> Column:
        """A number for each plan, of all with one `key` at once; `of` gets their places too."""
        groups: dict[Hashable, list[int]] = {}
        for at, plan in enumerate(plans):
            groups.setdefault(key(plan), []).append(at)
        found = np.zeros(len(plans))
        for places in groups.values():
            found[places] = of(_Nests(self, [plans[at] for at in places]), places)
        return found


def _around(plan: library.NestPlan) -> Hashable:
    """What the rest depends on besides sizes: threads, and what is copied ahead."""
    return plan.lane, plan.lanes, _packs(plan), plan.pad, plan.threads, plan.depth, plan.ahead


def _packs(plan: library.NestPlan) -> tuple[tuple[int, int], ...]:
    return tuple((p.operand, p.axis) for p in plan.packs)


class _Nests(Arithmetic, Traffic, Copies):
    """The whole time of plans that differ in sizes only."""

    def cycles(self, work: Column, moved: Column) -> Column:
        """Of what is computed and what is moved."""
        costs = self.cpu.costs
        share = np.where(self.in_order(), IN_ORDER, costs.hidden)
        hidden = share * np.minimum(work, moved)
        time = (work + moved - hidden + self.stalls()) * self.share() + self.starts()
        return time * max(1, self.c.repeated) + self.copies()

    def starts(self) -> float:
        """Of threads: for the nest, and for each copy that is made ahead of it."""
        if not self.plan.threads or self.cpu.threads == 1:
            return 0.0
        packed = [p for p in self.plan.packs if not self.of.is_constant(p.operand)]
        padded = [o for o in self.c.operands if o.pad] if self.plan.pad == "root" else []
        return self.cpu.costs.start * (1 + len(packed) + len(padded))
