"""Winograd's algorithm: the stages around a sum of products, by the plan of least estimate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from autotune.rules.group import Group
from autotune.rules.inlined import join_epilogue
from autotune.rules.plan import Values
from autotune.rules.ranked import RankedPlan
from autotune.streams import Column
from schedule import Refusal, Schedule, library
from tensorir import Cpu, IterKind, body_loads


class WinogradStages(RankedPlan["library.WinogradPlan"]):
    """The stages of one sum; open are the split of the work and the register tile."""

    name = "winograd"
    numerics = "bitwise"
    group: Group

    def __init__(
        self, base: Schedule, found: library.Winograd, cpu: Cpu, told: Mapping[str, str]
    ) -> None:
        self.told = told
        self.group, self.base, self.found, self.cpu = Group(found.products), base, found, cpu
        self.operands = frozenset((found.operand, found.weight))

    @property
    def stages(self) -> tuple[str, ...]:
        return self.found.blocks

    def look_for(self, constants: frozenset[str]) -> list[tuple[float, library.WinogradPlan]]:
        from autotune.winograd import winograd_leaders

        return winograd_leaders(self.found, self.cpu, constants)

    @property
    def subject(self) -> Any:
        return (self.name, self.found)

    def offered(self) -> Sequence[library.WinogradPlan]:
        from autotune.winograd import winograd_plans

        return [plan for _, plan in winograd_plans(self.found, self.cpu)]

    def values(self, plan: library.WinogradPlan) -> dict[str, Any]:
        found = {"task": (plan.rows, plan.shares), "tile": (plan.tiles, plan.panel)}
        return {self.key(what): value for what, value in found.items()}

    def columns(self, rows: Sequence[Values], constants: Collection[str] = ()) -> Column:
        from autotune.winograd import winograd_cycles

        return winograd_cycles(self.found, self.cpu, [*map(self.nest, rows)], constants)

    def nest(self, values: Values) -> library.WinogradPlan:
        (rows, shares), (tiles, panel) = (values[self.key(what)] for what in ("task", "tile"))
        return library.WinogradPlan(self.cpu.lanes(self.found.dtype), tiles, panel, rows, shares)

    def make(self, sch: Schedule, plan: library.WinogradPlan) -> None:
        library.make_winograd(sch, self.found, plan)


def winograd_stages(sch: Schedule, cpu: Cpu) -> Sequence[WinogradStages]:
    """A plan for each sum of a program that lies between the transforms of Winograd's algorithm, to
    the last of which what follows elementwise is joined."""
    found = []
    for name in sch.get_blocks():
        if _may_be_products(sch, str(name)):
            with suppress(Refusal):  # a sum of another kind
                found.append(library.find_winograd(sch, str(name)))
    taken = {name for stages in found for name in stages.blocks}
    joined = [(s.products, join_epilogue(sch, s.results[-1], taken).values()) for s in found]
    told, base = {name: why for name, refused in joined for why in refused}, sch.copy()
    return [WinogradStages(base, stages, cpu, told.get(stages.products, {})) for stages in found]


def _may_be_products(sch: Schedule, name: str) -> bool:
    """Whether a block has sums, enough variables for points, tiles and filters, and points in front
    of both operands: asked before anything is loaded that finds stages."""
    node = sch.state.block(name)
    kinds, fronts = [it.kind for it in node.iters], {e.indices[:1] for e in body_loads(node)}
    return IterKind.REDUCE in kinds and kinds.count(IterKind.SPATIAL) >= 3 and len(fronts) == 1
