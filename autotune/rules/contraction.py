"""Reductions: a nest made of moves, chosen by the estimate of its time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from math import inf
from typing import Any

from autotune.choices import Categorical, Choice
from autotune.rules.group import Group
from autotune.rules.plan import Plan, Values, first_accepted
from schedule import Schedule, library
from tensorir import Cpu, TensorIRError, allows

MOST_OPTIONS = 64
"""Values of a choice: the first ones by the estimate."""

PARTS = ("tile", "task", "order", "read", "steps", "threads")
"""The parts of a plan that are choices."""


class ContractionPlan(Plan):
    """The nests of one contraction. They are looked for when they are asked for.

    `written` is the plan for it as it was written, where it is brought on its axes first.
    """

    name = "contraction"
    group: Group
    numerics: str

    def __init__(
        self,
        group: Group,
        base: Schedule,
        c: library.Contraction,
        cpu: Cpu,
        numerics: str = "reassociated",
        written: ContractionPlan | None = None,
    ) -> None:
        self.group, self.base, self.contraction, self.cpu = group, base, c, cpu
        self.numerics, self.written = numerics, written
        self._found: dict[frozenset[str], list[tuple[float, library.NestPlan]]] = {}

    def within(self, numerics: str) -> ContractionPlan | None:
        """With sums in the order of the text, if no other is allowed."""
        if allows(numerics, self.numerics):
            return self
        plan = self.written or self
        kept = ContractionPlan(plan.group, plan.base, plan.contraction, plan.cpu, "bitwise")
        return kept if self.written is None else next(iter(_of_parts(kept)), None)

    @property
    def subject(self) -> Any:
        return (self.name, self.contraction, self.numerics)

    def ranked(self, constants: Collection[str] = ()) -> list[tuple[float, library.NestPlan]]:
        """Estimates and all plans that are considered, best first."""
        key = frozenset(constants) & {o.buffer for o in self.contraction.operands}
        if key not in self._found:
            from autotune.plans import plans

            self._found[key] = plans(self.contraction, self.cpu, key, self.numerics)
        return self._found[key]

    def found(self, constants: Collection[str] = ()) -> list[library.NestPlan]:
        """The plans, best estimate first."""
        return [plan for _, plan in self.ranked(constants)]

    def estimate(self, constants: Collection[str] = ()) -> float:
        """Infinite where there is no plan."""
        return min((cycles for cycles, _ in self.ranked(constants)), default=inf)

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """One for each part of a plan, with the values that the best plans have, whatever operands
        are constants."""
        params = [o.buffer for o in self.contraction.operands if o.param]
        found = [*self.found()[:MOST_OPTIONS], *self.found(params)]
        rows = [nest_values(self.contraction, plan) for plan in found]
        return tuple(
            Categorical(name, tuple(dict.fromkeys(row[name] for row in rows))[:MOST_OPTIONS])
            for name in self._open(rows[0])
        )

    def _open(self, values: Values) -> Values:
        """Without the depth, where all nests keep their sums in registers."""
        if any(plan.depth for plan in self.found()):
            return values
        return {name: value for name, value in values.items() if name != self._depth}

    @property
    def _depth(self) -> str:
        return f"{self.group.block}.depth"

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """The plan of the least estimated time that the primitives accept."""

        def make(sch: Schedule, plan: library.NestPlan) -> None:
            library.make_nest(sch, self.contraction, plan)

        first = first_accepted(self.base, self.found(constants), make)
        return dict(self._open(nest_values(self.contraction, first)))

    def cycles(self, values: Values, constants: Collection[str] = ()) -> float:
        """The estimated time of one call with such values."""
        from autotune.estimate import Estimate

        plan = nest_of(self.contraction, values)
        return float(Estimate(self.contraction, self.cpu, constants).cycles([plan])[0])

    def apply(self, sch: Schedule, values: Values) -> None:
        if self.written is not None:
            self.written.bring_on_axes(sch)
        library.make_nest(sch, self.contraction, nest_of(self.contraction, values))

    def bring_on_axes(self, sch: Schedule) -> str | None:
        """Bring it on its axes, the terms of its sums too if their order is free."""
        return library.on_axes(sch, self.contraction, terms=self.numerics != "bitwise")


def contraction_plans(sch: Schedule, group: Group, cpu: Cpu) -> Sequence[ContractionPlan]:
    """The plan for a reduction for which there is a nest."""
    if not sch.state.block(group.block).is_reduction:
        return []
    from autotune.plans import has_plans

    try:
        c = library.find_contraction(sch, group.block, group.epilogue, group.padding)
    except TensorIRError:  # it stores several values, or elsewhere than at its own variables
        return []
    plan = ContractionPlan(group, sch.copy(), c, cpu)
    if not all(digit.whole for n in c.spatial for digit in c.axes[n].digits):
        return _of_parts(plan)
    return [plan] if has_plans(c, cpu) else []


def _of_parts(plan: ContractionPlan) -> Sequence[ContractionPlan]:
    """The plan where axes are parts of variables, which tiles have to divide then: as it is, or on
    its axes, whichever takes less time."""
    group, base, found = plan.group, plan.base.copy(), [plan]
    try:
        last = plan.bring_on_axes(base) or group.epilogue
        moved = library.find_contraction(base, group.block, last, group.padding)
        found.append(ContractionPlan(group, base, moved, plan.cpu, plan.numerics, written=plan))
    except TensorIRError:  # its loops were changed before
        pass
    best = min(found, key=ContractionPlan.estimate)
    return [best] if best.estimate() < inf else []


def nest_values(c: library.Contraction, plan: library.NestPlan) -> dict[str, Any]:
    """A plan as values of choices: tasks in tiles, and packs without their width, which is that of
    the tile. Only where there are products that can be regrouped are their groups a choice."""
    block = c.block
    parts = tuple(-(-task // tile) for task, tile in zip(plan.task, plan.tile))
    packs = tuple((p.operand, p.axis) for p in plan.packs)
    return {
        f"{block}.depth": plan.depth,
        f"{block}.tile": (plan.lane, plan.lanes, plan.tile, plan.flat),
        f"{block}.task": parts,
        f"{block}.order": plan.order,
        f"{block}.read": (packs, plan.pad),
        f"{block}.steps": plan.steps,
        f"{block}.threads": "parallel" if plan.threads else "serial",
        **({f"{block}.apart": plan.apart} if c.products else {}),
    }


def nest_of(c: library.Contraction, values: Values) -> library.NestPlan:
    """The plan of such values, whatever they were drawn with."""
    tile_, task, order, read, steps, threads = (values[f"{c.block}.{part}"] for part in PARTS)
    lane, lanes, tile, flat = tile_
    packs, pad = read
    wanted = dict(packs)
    for n, operand in enumerate(c.operands):  # lanes that are apart cannot be read otherwise
        if not c.is_read_in_vectors(n, lane) and operand.pad is None:
            wanted[n] = lane
    kept = tuple(library.Pack(n, axis, tile[axis]) for n, axis in wanted.items() if tile[axis] > 1)
    sizes = tuple(parts * size for parts, size in zip(task, tile))
    apart = values[f"{c.block}.apart"] if c.products else None
    depth = values.get(f"{c.block}.depth", 0)
    if flat or c.result.strides[lane] != 1:  # sums are in registers until they are whole
        depth = 0
    return library.NestPlan(
        lane, lanes, tile, sizes, steps, order, kept, pad, flat, threads == "parallel",
        depth=depth, apart=apart,
    )  # fmt: skip


def fits(c: library.Contraction, values: Values) -> bool:
    """Whether such values are those of a nest with the axes of this contraction."""
    lane_, task, order, read, steps, _ = (values[f"{c.block}.{part}"] for part in PARTS)
    lane, _, tile, _ = lane_
    packed = [operand for operand, _ in read[0]]
    return (
        (sorted(order), sorted(steps)) == (list(c.spatial), list(c.reduced))
        and len(tile) == len(task) == len(c.spatial)
        and lane in c.spatial
        and all(operand < len(c.operands) for operand in packed)
        and (not c.products or values[f"{c.block}.apart"] in (None, *c.spatial))
    )
