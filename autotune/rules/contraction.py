"""Reductions: a nest made of moves, chosen by the estimate of its time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from math import prod
from typing import Any

from autotune.rules.group import SYMBOLIC_SIZE, Group, instances
from autotune.rules.plan import Values
from autotune.rules.ranked import MOST_OPTIONS, FormedPlan, RankedPlan, group_contraction
from autotune.rules.transposed import placing_plan
from autotune.streams import Column
from schedule import Schedule, library
from tensorir import Cpu, dtype

PARTS = ("tile", "task", "order", "read", "steps", "threads")
"""The parts of a plan that are choices."""

SURELY = 1.1
"""How many times less a nest has to take whose results are turned behind it."""


class ContractionPlan(FormedPlan, RankedPlan["library.NestPlan"]):
    """The nests of one contraction."""

    name = "contraction"
    device: Cpu
    behind = 0.0
    """Cycles of what turns the results after all of them are there."""

    @property
    def operands(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset(o.buffer for o in self.contraction.operands)

    @property
    def subject(self) -> Any:
        return (self.name, self.contraction, self.numerics)

    def look_for(self, constants: frozenset[str]) -> list[tuple[float, library.NestPlan]]:
        from autotune.plans import plans

        found = plans(self.contraction, self.device, constants, self.numerics)
        return [(cycles + self.behind, nest) for cycles, nest in found]

    def offered(self) -> Sequence[library.NestPlan]:
        """The best ones, whatever operands are constants."""
        constant = self.ranked([o.buffer for o in self.contraction.operands if o.param])
        return [*super().offered(), *(nest for _, nest in constant[:MOST_OPTIONS])]

    @cached_property
    def _has_depth(self) -> bool:
        """Whether some nest does not keep its sums in registers, if no operand is a constant."""
        from autotune.kept import kept_nests

        nests = kept_nests(self.contraction, self.device, (), self.numerics == "bitwise")
        return next(nests, None) is not None

    def values(self, nest: library.NestPlan) -> dict[str, Any]:
        from autotune.estimate.traffic import far_operands

        c, values = self.contraction, nest_values(self.contraction, nest)
        may = {self.key("depth"): self._has_depth, self.key("ahead"): far_operands(c, self.device)}
        return {k: v for k, v in values.items() if may.get(k, True)}

    def columns(self, rows: Sequence[Values], constants: Collection[str] = ()) -> Column:
        from autotune.estimate.estimate import Estimate

        estimate = Estimate(self.contraction, self.device, constants)
        return self.behind + estimate.cycles(list(map(self.nest, rows)))

    def make(self, sch: Schedule, nest: library.NestPlan) -> None:
        from autotune.estimate.traffic import with_results

        library.make_nest(sch, self.contraction, with_results(self.contraction, nest, self.device))

    def nest(self, values: Values) -> library.NestPlan:
        return nest_of(self.contraction, values)

    def apply(self, sch: Schedule, values: Values) -> None:
        self.bring_in_form(sch)
        super().apply(sch, values)

    def in_best_form(self) -> ContractionPlan | None:
        """As it is, or on its axes where these are parts of variables, whichever takes less time;
        in the order of the largest operand where that takes surely less."""
        from autotune.plans import has_plans

        best = self
        if not all(digit.whole for axis in self.contraction.axes for digit in axis.digits):
            best = min((plan for plan in (self, self.on_axes()) if plan), key=RankedPlan.estimate)
        behind = self.turned_behind()
        if behind is not None and behind.estimate() * SURELY < best.estimate():
            return behind
        return best if has_plans(best.contraction, self.device) else None

    def turned_behind(self) -> ContractionPlan | None:
        """The plan for the same in the order of the largest operand, the results of which are
        turned when all are there; None where they lie so, or it is refused."""
        from autotune.cuts import steps_of_largest

        c, cpu = self.contraction, self.device
        near = steps_of_largest(c)
        order = sorted(c.spatial, key=lambda n: (near[n] > 0, -near[n]))
        if not order or near[order[-1]] != 1 or c.result.strides[order[-1]] in (0, 1, None):
            return None

        def step(sch: Schedule) -> None:
            made = library.on_axes(sch, c, order, self.numerics != "bitwise")
            plan = placing_plan(sch, made or str(sch.reindex(c.last, 0)), cpu)
            plan.apply(sch, plan.default())

        found = self.after(step, "turned behind")
        if found is not None:
            size = prod(c.axes[n].extent or SYMBOLIC_SIZE for n in order)
            time = cpu.packing(size, dtype.itemsize(c.result.dtype), turned=True)
            found.behind = min(time, cpu.costs.start + time / cpu.threads)
        return found


def contraction_plans(sch: Schedule, group: Group, cpu: Cpu) -> Sequence[ContractionPlan]:
    """The plan for a reduction for which there is a nest."""
    reduces = sch.state.block(group.block).is_reduction
    c = group_contraction(sch, group, steps=True) if reduces else None
    plan = c and ContractionPlan(group, sch.copy(), c, cpu).in_best_form()
    return [plan] if plan else []


def least_cycles(sch: Schedule, groups: Sequence[Group], cpu: Cpu, _: float = 0.0) -> float:
    """Cycles that plans for some groups take at least: their multiplications, on all threads."""
    total = 0.0
    for group in groups:
        node = sch.state.block(group.block)
        c = group_contraction(sch, group) if node.is_reduction else None
        kinds = {o.dtype for o in c.operands} if c and len(c.operands) > 1 else set()
        if c and kinds == {c.sums.dtype} and dtype.is_float(c.sums.dtype):
            total += instances(node) / cpu.lanes(c.sums.dtype) * cpu.vector
    return total / (cpu.costs.units * cpu.threads)


def nest_values(c: library.Contraction, plan: library.NestPlan) -> dict[str, Any]:
    """A plan as values of choices: tasks in tiles, and packs without their width, which is that of
    the tile. Only where there are products that can be regrouped are their groups a choice."""
    block = c.block
    parts = tuple(-(-task // tile) for task, tile in zip(plan.task, plan.tile))
    return {
        f"{block}.depth": plan.depth,
        f"{block}.ahead": plan.ahead,
        f"{block}.tile": (plan.lane, plan.lanes, plan.tile, plan.flat),
        f"{block}.task": parts,
        f"{block}.order": plan.order,
        f"{block}.read": (tuple((p.operand, p.axis) for p in plan.packs), plan.pad),
        f"{block}.steps": plan.steps,
        f"{block}.threads": "parallel" if plan.threads else "serial",
        **({f"{block}.apart": plan.apart} if c.products else {}),
        **({f"{block}.chained": plan.chained} if c.chain[1] else {}),
        **({f"{block}.written": plan.written} if any(map(c.is_window, c.reduced)) else {}),
    }


def nest_of(c: library.Contraction, values: Values) -> library.NestPlan:
    """The plan of such values, whatever they were drawn with."""
    from autotune.estimate.traffic import asking

    tile_, task, order, read, steps, threads = (values[f"{c.block}.{part}"] for part in PARTS)
    lane, lanes, tile, flat = tile_
    packs, pad = read
    wanted = dict(packs)
    for n, operand in enumerate(c.operands):  # lanes that are apart cannot be read otherwise
        if not c.is_read_in_vectors(n, lane) and operand.pad is None:
            wanted[n] = lane
    kept = tuple(library.Pack(n, axis, tile[axis]) for n, axis in wanted.items() if tile[axis] > 1)
    sizes = tuple(parts * size for parts, size in zip(task, tile))
    apart = values.get(f"{c.block}.apart") if c.products else None  # which moves may make
    depth = 0 if flat or c.result.strides[lane] != 1 else values.get(f"{c.block}.depth", 0)
    written = 1 if flat or depth else values.get(f"{c.block}.written", 1)
    written = min([written, *(c.axes[n].extent or written for n in steps[-1:])])
    plan = library.NestPlan(
        lane, lanes, tile, sizes, steps, order, kept, pad, flat, threads == "parallel",
        depth=depth, written=written, apart=apart,
        chained=c.chain[1] > 0 and values.get(f"{c.block}.chained", False),
    )  # fmt: skip
    return asking(c, plan, values.get(f"{c.block}.ahead", ()))


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
        and (not c.products or values.get(f"{c.block}.apart") in (None, *c.spatial))
    )
