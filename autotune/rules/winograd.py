"""Winograd's algorithm: the stages around a sum of products, by the plan of least estimate."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

from autotune.choices import Categorical, Choice
from autotune.rules.group import Group, join_epilogue
from autotune.rules.plan import Plan, Values, first_accepted
from schedule import Schedule, library
from tensorir import Cpu, IterKind, TensorIRError


class WinogradStages(Plan):
    """The stages of one sum; open are the split of the work and the register tile."""

    name = "winograd"
    numerics = "bitwise"
    group: Group

    def __init__(self, base: Schedule, found: library.Winograd, cpu: Cpu) -> None:
        self.group, self.base, self.found, self.cpu = Group(found.products), base, found, cpu
        self._plans: dict[frozenset[str], list[tuple[float, library.WinogradPlan]]] = {}

    @property
    def stages(self) -> tuple[str, ...]:
        return self.found.blocks

    def plans(self, constants: Collection[str] = ()) -> list[tuple[float, library.WinogradPlan]]:
        """Estimates in cycles and plans, best first."""
        key = frozenset(constants) & {self.found.operand, self.found.weight}
        if key not in self._plans:
            from autotune.winograd import winograd_plans

            self._plans[key] = winograd_plans(self.found, self.cpu, key)
        return self._plans[key]

    @property
    def subject(self) -> Any:
        return (self.name, self.found)

    def estimate(self, constants: Collection[str] = ()) -> float:
        return self.plans(constants)[0][0]

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """With the values of all plans, the best ones first."""
        rows = [self.values(plan) for _, plan in self.plans()]
        return tuple(
            Categorical(name, tuple(dict.fromkeys(row[name] for row in rows))) for name in rows[0]
        )

    def values(self, plan: library.WinogradPlan) -> dict[str, Any]:
        block = self.group.block
        return {
            f"{block}.task": (plan.rows, plan.shares),
            f"{block}.tile": (plan.tiles, plan.panel),
        }

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """The plan of the least estimated time that the primitives accept."""

        def make(sch: Schedule, plan: library.WinogradPlan) -> None:
            library.make_winograd(sch, self.found, plan)

        plans = (plan for _, plan in self.plans(constants))
        return self.values(first_accepted(self.base, plans, make))

    def apply(self, sch: Schedule, values: Values) -> None:
        (rows, shares), (tiles, panel) = (
            values[f"{self.group.block}.{part}"] for part in ("task", "tile")
        )
        lanes = self.cpu.lanes(self.found.dtype)
        plan = library.WinogradPlan(lanes, tiles, panel, rows, shares)
        library.make_winograd(sch, self.found, plan)


def winograd_stages(sch: Schedule, cpu: Cpu) -> Sequence[WinogradStages]:
    """A plan for each sum of a program that lies between the transforms of Winograd's algorithm.

    What follows elementwise is joined to the last of the transforms.
    """
    found = []
    for name in sch.get_blocks():
        if not _may_be_products(sch, str(name)):
            continue
        try:
            found.append(library.find_winograd(sch, str(name)))
        except TensorIRError:  # a sum of another kind
            continue
    taken = {name for stages in found for name in stages.blocks}
    for stages in found:
        join_epilogue(sch, stages.results[-1], taken)
    base = sch.copy()
    return [WinogradStages(base, stages, cpu) for stages in found]


def _may_be_products(sch: Schedule, name: str) -> bool:
    """Whether a block has sums and enough variables for points, tiles and filters: asked before
    anything is loaded that finds stages."""
    kinds = [it.kind for it in sch.state.block(name).iters]
    return IterKind.REDUCE in kinds and kinds.count(IterKind.SPATIAL) >= 3
