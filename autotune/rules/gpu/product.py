"""Products, convolutions, pooling and other sums with reuse on GPUs: one nest of tiles for all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from autotune.choices import Categorical, Choice
from autotune.rules.gpu.draft import moved
from autotune.rules.gpu.move import bound_rooms, launchable
from autotune.rules.gpu.reuse import has_windows, is_shared
from autotune.rules.group import Group
from autotune.rules.plan import Plan, Values
from autotune.rules.ranked import FormedPlan, group_contraction
from schedule import Refusal, Schedule, library
from tensorir import Gpu, PrimFunc, body_loads

if TYPE_CHECKING:
    from autotune.gpu.work import Room, Work
    from autotune.rules.gpu.tile_cycles import TileCounts

MOST_OPTIONS = 64
"""Plans among which a search chooses: the first ones by the estimate."""

TRIED = 12
"""Plans of which the default is the first that the primitives accept."""


class ProductPlan(FormedPlan):
    """The tiles of one contraction. They are looked for when they are asked for."""

    name = "product"
    device: Gpu
    windows = False
    meanings: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "tile": "what warps, lanes and registers have of each axis; what goes through shared "
            "memory, and how far ahead; parts of a sum"
        }
    )

    @cached_property
    def _refused(self) -> dict[str, str]:
        return {}

    @cached_property
    def found(self) -> Sequence[TileCounts]:
        """All that are considered, best estimate first."""
        from autotune.rules.gpu.tiles import tile_plans

        return tile_plans(self.contraction, self.device, self.numerics == "bitwise")

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        plans = [self._first, *(counts.plan for counts in self.found[:MOST_OPTIONS])]
        values = tuple(dict.fromkeys(plan.values for plan in plans))
        return (Categorical(f"{self.group.block}.tile", values),)

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """The plan of the least estimated time that the primitives accept."""
        return {f"{self.group.block}.tile": self._first.values}

    @property
    def _first(self) -> library.gpu.TilePlan:
        return self.chosen.plan

    @property
    def chosen(self) -> TileCounts:
        """The default, with what it takes."""
        return self._default[0]

    @property
    def refused(self) -> Mapping[str, str]:
        """Tiles of a better estimate than the default's that primitives refuse, and why; where
        none is accepted, those that were tried."""
        if self.works or self._refused or not is_shared(self.contraction):
            return self._refused
        return {"tiles": "none fits the shared memory and registers of a block of threads"}

    @cached_property
    def _default(self) -> tuple[TileCounts, Schedule]:
        """The default, with what it takes, and the program that it makes."""
        refused: Refusal | None = None
        for counts in self.found[:TRIED]:
            try:
                made = self.base.copy()
                self._make(made, counts.plan)
            except Refusal as error:
                refused = error.with_traceback(None)  # which knows this frame: a cycle
                self._refused[counts.text] = error.reason
                continue
            return counts, made
        if refused is None:
            raise Refusal(f"no tile is for block {self.group.block!r}: schedule it by hand")
        raise refused

    @property
    def works(self) -> bool:
        """Whether the primitives accept one of the best plans."""
        try:
            return self.chosen is not None
        except Refusal:
            return False

    def estimate(self, constants: Collection[str] = ()) -> float | None:
        """With its launch, as other plans tell theirs."""
        return self.chosen.call

    def cycles(self, values: Values, constants: Collection[str] = ()) -> float:
        """The estimated time of one call with such values."""
        plan = self._plan(values)
        return next((x.cycles for x in self.found if x.plan == plan), float("inf"))

    def apply(self, sch: Schedule, values: Values) -> None:
        self.bring_in_form(sch)
        plan = self._plan(values)
        if not (self.works and plan == self._first and sch.follow(self._default[1])):
            self._make(sch, plan)

    def _plan(self, values: Values) -> library.gpu.TilePlan:
        return library.gpu.TilePlan.of(values[f"{self.group.block}.tile"])

    def _make(self, sch: Schedule, plan: library.gpu.TilePlan) -> None:
        call, block = f"product({self.group.block!r})", self.group.block
        most: int | None = None

        def needs(func: PrimFunc, gpu: Gpu, before: PrimFunc) -> Sequence[Room | Work]:
            fits = most is not None and most <= gpu.shared_most
            return () if fits else bound_rooms(func, gpu, before)

        windows = has_windows(self.contraction)  # of all else the plan knows what is kept
        with launchable(sch, call, block, self.device, needs) if windows else nullcontext():
            most = library.gpu.make_tiles(sch, self.contraction, plan)

    def in_best_form(self) -> ProductPlan:
        """With parts of the terms computed as they are fetched, if that takes less time."""
        plain = self._in_form()
        written = () if plain is self else (self,)  # on axes there may be other parts
        fetched = [way.with_values() for way in (*written, plain)]
        made = [plan._in_form() for plan in fetched if plan is not None]
        return min((p for p in (plain, *made) if p.works), key=_cycles, default=plain)

    def with_values(self) -> ProductPlan | None:
        """The plan for the same after blocks of their own were to make what is computed of operands
        and is the same for several elements of the result, such as what a mask leaves of a matrix:
        they are padding, which is computed as it is fetched. None where nothing is. What is only
        converted stays narrow in shared memory."""
        ways = library.gpu.ways_apart(self.base, self.contraction, self.numerics == "bitwise")
        if not ways or not is_shared(self.contraction):
            return None
        made: list[str] = []

        def step(sch: Schedule) -> None:
            made[:] = library.gpu.values_fetched(sch, self.contraction, ways[0])

        base = self.base.copy()
        try:
            step(base)
        except Refusal:  # its loops were changed before
            return None
        group = replace(self.group, padding=(*self.group.padding, *made))
        c = group_contraction(base, group, self.windows)
        if c is None:
            return None
        return type(self)(group, base, c, self.device, self.numerics, self, step)

    def _in_form(self) -> ProductPlan:
        """As it was written where its best tile is accepted, else on its axes if that takes less
        time: parts of variables are there for tiles to divide, and several as one to be filled."""
        c = self.contraction
        whole = all(digit.whole for n in c.spatial for digit in c.axes[n].digits)
        every = len(self.base.state.block(self.group.block).iters)  # some may have one value
        plain = whole and all(len(axis.digits) == 1 for axis in c.axes) and len(c.axes) == every
        ends = whole and not plain and self.works and self._asks_at_ends
        if whole and self.works and (plain or not (self.refused or ends)):
            return self
        moved = self.on_axes()
        if moved is None or not moved.works:
            return self
        mine = self.chosen.cycles if whole and self.works else inf
        return self if mine < moved.chosen.cycles + (not ends) else moved

    @property
    def _asks_at_ends(self) -> bool:
        """Whether sums of a tile that ends behind an axis of several variables are asked whether
        they are of it, though operands have it as one: only axes of one variable are filled up."""
        c, totals = self.contraction, self.chosen.plan.totals
        several = [n for n in c.spatial if len(c.axes[n].digits) > 1]
        ends = [n for n in several if (c.axes[n].extent or 0) % totals[n]]
        moved = [[sum(row[n] != 0 for row in o.dims) for o in c.operands] for n in ends]
        return any(max(dims, default=0) == 1 for dims in moved)


def product_plans(sch: Schedule, group: Group, gpu: Gpu) -> Sequence[Plan]:
    """The plan for sums of which several elements of the result read the same operands."""
    c = contraction_of(sch, group)
    return [] if c is None else [ProductPlan(group, sch.copy(), c, gpu).in_best_form()]


def least_cycles(
    sch: Schedule, groups: Sequence[Group], gpu: Gpu, enough: float = inf
) -> float:
    """Cycles that any plans for some groups take together: those of the best tiles of products,
    and those in which memory moves once what other sums read of these and of arguments. Stages
    between them may be computed where they are used. Tiles are looked for until it is known that
    all take more than `enough`: before, a product takes as long as its operations do."""
    from autotune.gpu.work import architecture_of, launch
    from autotune.rules.gpu.tile_cycles import computing_cycles
    from autotune.rules.gpu.tiles import tile_plans

    card, products = architecture_of(gpu).card, [g for g in groups if is_product(sch, g)]
    names = [group.block for group in groups if group not in products]
    sums = [name for name in names if sch.state.block(name).is_reduction]
    made = [group.epilogue or group.block for group in products]
    total = moved(sch, sums, made) * card.clock / card.bandwidth
    found = [c for c in (contraction_of(sch, group) for group in products) if c]
    start = launch(gpu)
    least = [computing_cycles(c, gpu) + start for c in found]
    for n, c in enumerate(found):
        if total + sum(least) > enough:
            break
        least[n] = min((x.call for x in tile_plans(c, gpu)), default=0.0)
    return total + sum(least)


def is_product(sch: Schedule, group: Group) -> bool:
    """Whether a sum reads nothing that is its own row's alone: tiles of many rows share it all."""
    node = sch.state.block(group.block)
    if not node.is_reduction or len(body_loads(node)) < 2:
        return False
    c = contraction_of(sch, group)
    return c is not None and all(map(c.is_used_again, range(len(c.operands))))


def contraction_of(sch: Schedule, group: Group) -> library.Contraction | None:
    """The contraction of a reduction with reuse, or whose windows lie side by side."""
    node = sch.state.block(group.block)
    c = group_contraction(sch, group, windows=False) if node.is_reduction else None
    if c is None or not c.spatial or not c.reduced or not c.operands:
        return None
    again = any(c.is_used_again(n) for n in range(len(c.operands)))
    return c if again or has_windows(c) else None


def _cycles(plan: ProductPlan) -> float:
    return plan.chosen.cycles
