"""Sums in parts that are computed side by side, in lanes of vectors or by threads, and added up.

For rows that lie in memory one after the other, products with a vector or of few rows, long sums
with few results, sums of columns. Results are reassociated.

Source: the split-K schedules of NVIDIA's CUTLASS ("Efficient GEMM in CUDA"), and for lanes along
the terms the kernels without packing of LIBXSMM (Heinecke et al., SC 2016).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from autotune.choices import Categorical, Choice
from autotune.rules.contraction import (
    MOST_OPTIONS,
    TRIED,
    ContractionPlan,
    nest_of,
    nest_values,
)
from autotune.rules.group import Group
from autotune.rules.lanes import reduces_by_one
from autotune.rules.plan import Plan, Values
from schedule import Schedule
from tensorir import Cpu, TensorIRError

if TYPE_CHECKING:
    from schedule import library

SURELY, ABOUT = 1.35, 0.95
"""How much better an estimate has to be than that of another kind of nest."""

Ranked = list[tuple[float, "library.PartialPlan"]]


class PartialSums(Plan):
    """The partial sums of one contraction by cuts of the same kinds, one after the other: its
    `name`. They are looked for again where operands are constants."""

    name: str
    group: Group
    numerics = "reassociated"

    def __init__(
        self, group: Group, base: Schedule, c: library.Contraction, cpu: Cpu, found: Ranked
    ) -> None:
        self.group, self.base, self.contraction, self.cpu = group, base, c, cpu
        self.kinds = _kinds(found[0][1])
        self.name = "_".join(self.kinds)
        self._found: dict[frozenset[str], Ranked] = {frozenset(): found}

    def found(self, constants: Collection[str] = ()) -> Ranked:
        """Estimates and plans, best first."""
        key = frozenset(constants) & {o.buffer for o in self.contraction.operands}
        if key not in self._found:
            ranked = _ranked(self.contraction, self.cpu, key)
            self._found[key] = ranked.get(self.kinds, [])
        return self._found[key]

    @cached_property
    def always(self) -> bool:  # type: ignore[override]
        """Whether there is no nest without partial sums."""
        from autotune.plans import has_plans

        return not has_plans(self.contraction, self.cpu)

    def suits(self, constants: Collection[str]) -> bool:
        """Whether it takes less time than the best nest without partial sums: surely so where that
        has reuse; else memory decides, which is best read in its order."""
        if self.always:
            return True
        from autotune.plans import plans

        c = self.contraction
        reuse = all(c.is_used_again(n) for n in range(len(c.operands)))
        whole = plans(c, self.cpu, constants)
        return self.found(constants)[0][0] * (SURELY if reuse else ABOUT) < whole[0][0]

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        rows = [self._values(plan) for _, plan in self.found()[:MOST_OPTIONS]]
        return tuple(Categorical(k, tuple(dict.fromkeys(row[k] for row in rows))) for k in rows[0])

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """The plan of the least estimated time that the primitives accept."""
        from schedule import library

        refused: TensorIRError | None = None
        for _, plan in self.found(constants)[:TRIED]:
            try:
                library.make_partial_nest(self.base.copy(), self.contraction, plan)
            except TensorIRError as error:
                refused = error
                continue
            return self._values(plan)
        assert refused is not None
        raise refused

    def feasible(self, values: Values) -> bool:
        nest = self._plan(values).nest
        return -(-prod(nest.tile) // nest.lanes) <= self.cpu.registers

    def apply(self, sch: Schedule, values: Values) -> None:
        from schedule import library

        library.make_partial_nest(sch, self.contraction, self._plan(values))

    def _values(self, plan: library.PartialPlan) -> dict[str, Any]:
        """A plan as values of choices; the cut alone says how many lanes there are, and so how
        their terms are written."""
        nest, block = plan.nest, self.group.block
        if self.kinds[-1] == "lanes":
            nest = _with_lanes(nest, 1, "")
        return {
            f"{block}.cut": (
                tuple((p.operand, p.axis, p.width) for p in plan.packs),
                tuple((p.kind, p.axis, p.count, p.step) for p in plan.partials),
            ),
            f"{block}.ahead": nest.ahead,
            f"{block}.depth": nest.depth,
            **nest_values(block, nest),
        }

    def _plan(self, values: Values) -> library.PartialPlan:
        from schedule import library

        block, after = self.group.block, self.contraction
        copied, parts = values[f"{block}.cut"]
        packs = tuple(library.Pack(*each) for each in copied)
        cut = tuple(library.Partial(axis, count, kind, step) for kind, axis, count, step in parts)
        for what in packs:
            after = library.with_panel(after, what.operand, what.axis)
        for partial in cut:
            after = library.with_partial(after, partial)
        ahead, depth = values[f"{block}.ahead"], values[f"{block}.depth"]
        nest = replace(nest_of(after, values), ahead=ahead, depth=depth)
        if self.kinds[-1] == "lanes":
            from autotune.partials import flat_of

            flat = flat_of(after)
            nest = _with_lanes(replace(nest, ahead=() if flat else ahead), cut[-1].count, flat)
        return library.PartialPlan(cut, nest, packs)


def _with_lanes(nest: library.NestPlan, count: int, flat: str) -> library.NestPlan:
    """The nest with so many lanes, and their terms so written."""

    def at(sizes: tuple[int, ...]) -> tuple[int, ...]:
        return (*sizes[: nest.lane], count, *sizes[nest.lane + 1 :])

    return replace(nest, tile=at(nest.tile), task=at(nest.task), flat=flat)


def partial_sums_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[Plan]:
    """A plan for each way to cut the sums of a reduction by one associative operation; and for the
    nest without partial sums, for where it takes less time."""
    if not reduces_by_one(sch.state.block(group.block)):
        return []
    from schedule import library

    try:
        c = library.find_contraction(sch, group.block, group.epilogue, group.padding)
    except TensorIRError:  # it stores elsewhere than at its own variables
        return []
    base = sch.copy()
    made = [PartialSums(group, base, c, cpu, found) for found in _ranked(c, cpu, ()).values()]
    return [*made, *([] if not made or made[0].always else [ContractionPlan(group, base, c, cpu)])]


def _ranked(
    c: library.Contraction, cpu: Cpu, constants: Collection[str]
) -> dict[tuple[str, ...], Ranked]:
    """The plans by the kinds of their cuts, the best kind first, and of each the best plan."""
    from autotune.partials import partial_plans

    found: dict[tuple[str, ...], Ranked] = {}
    for item in partial_plans(c, cpu, constants):
        found.setdefault(_kinds(item[1]), []).append(item)
    return found


def _kinds(plan: library.PartialPlan) -> tuple[str, ...]:
    return tuple(cut.kind for cut in plan.partials)
