"""Products, convolutions, pooling and other sums with reuse on GPUs: one nest of tiles for all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from autotune.choices import Categorical, Choice
from autotune.rules.gpu.move import launchable
from autotune.rules.group import Group
from autotune.rules.plan import Plan, Values
from schedule import Schedule, ScheduleError
from tensorir import Gpu, TensorIRError, allows

if TYPE_CHECKING:
    from autotune.rules.gpu.tile_cycles import TileCounts
    from schedule import library

MOST_OPTIONS = 64
"""Plans among which a search chooses: the first ones by the estimate."""

TRIED = 12
"""Plans of which the default is the first that the primitives accept."""


class ProductPlan(Plan):
    """The tiles of one contraction. They are looked for when they are asked for.

    `written` is the contraction as it was written, where it is brought on its axes first; `base` is
    on them then.
    """

    name = "product"
    group: Group
    numerics: str
    meanings: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "tile": "what warps, lanes and registers have of each axis; what goes through shared "
            "memory, and how far ahead; parts of a sum"
        }
    )

    def __init__(
        self,
        group: Group,
        base: Schedule,
        c: library.Contraction,
        gpu: Gpu,
        numerics: str = "reassociated",
        written: ProductPlan | None = None,
    ) -> None:
        self.group, self.base, self.contraction, self.gpu = group, base, c, gpu
        self.numerics, self.written = numerics, written
        self._refused: dict[str, str] = {}

    def within(self, numerics: str) -> ProductPlan | None:
        """With sums in the order of the text, if no other is allowed."""
        if allows(numerics, self.numerics):
            return self
        plan = self.written or self
        return _in_best_form(
            ProductPlan(plan.group, plan.base, plan.contraction, plan.gpu, "bitwise")
        )

    @cached_property
    def found(self) -> Sequence[TileCounts]:
        """All that are considered, best estimate first."""
        from autotune.rules.gpu.tiles import tile_plans

        return tile_plans(self.contraction, self.gpu, self.numerics == "bitwise")

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
    def refused(self) -> Mapping[str, str]:
        """Tiles of a better estimate than the default's that primitives refuse, and why; where
        none is accepted, those that were tried."""
        from autotune.rules.gpu.reuse import is_shared

        if self.works or self._refused or not is_shared(self.contraction):
            return self._refused
        return {"tiles": "none fits the shared memory and registers of a block of threads"}

    @cached_property
    def chosen(self) -> TileCounts:
        """The default, with what it takes."""
        refused: TensorIRError | None = None
        for counts in self.found[:TRIED]:
            try:
                made = self.base.copy()
                self._make(made, counts.plan)
            except TensorIRError as error:
                refused = error
                why = error.reason if isinstance(error, ScheduleError) else str(error)
                self._refused[counts.text] = why
                continue
            return counts
        if refused is None:
            raise TensorIRError(f"no tile is for block {self.group.block!r}: schedule it by hand")
        raise refused

    @property
    def works(self) -> bool:
        """Whether the primitives accept one of the best plans."""
        try:
            return self.chosen is not None
        except TensorIRError:
            return False

    def cycles(self, values: Values, constants: Collection[str] = ()) -> float:
        """The estimated time of one call with such values."""
        plan = self._plan(values)
        return next((x.cycles for x in self.found if x.plan == plan), float("inf"))

    def apply(self, sch: Schedule, values: Values) -> None:
        if self.written is not None:
            self.written.bring_on_axes(sch)
        self._make(sch, self._plan(values))

    def bring_on_axes(self, sch: Schedule) -> str | None:
        """Bring it on its axes, the terms of its sums too if their order is free."""
        from schedule import library

        return library.on_axes(sch, self.contraction, terms=self.numerics != "bitwise")

    def _plan(self, values: Values) -> library.gpu.TilePlan:
        from schedule import library

        return library.gpu.TilePlan.of(values[f"{self.group.block}.tile"])

    def _make(self, sch: Schedule, plan: library.gpu.TilePlan) -> None:
        from autotune.rules.gpu.reuse import has_windows
        from schedule import library

        call, block = f"product({self.group.block!r})", self.group.block
        windows = has_windows(self.contraction)  # of all else the plan knows what is kept
        with launchable(sch, call, block, self.gpu) if windows else nullcontext():
            library.gpu.make_tiles(sch, self.contraction, plan)


def product_plans(sch: Schedule, group: Group, gpu: Gpu) -> Sequence[Plan]:
    """The plan for sums of which several elements of the result read the same operands."""
    c = contraction_of(sch, group)
    if c is None:
        return []
    return [_in_best_form(ProductPlan(group, sch.copy(), c, gpu))]


def _in_best_form(written: ProductPlan) -> ProductPlan:
    """The plan for a contraction as it was written where its best tile is accepted, else the one on
    its axes if that takes less time: parts of variables are there for tiles to divide."""
    c = written.contraction
    whole = all(digit.whole for n in c.spatial for digit in c.axes[n].digits)
    if whole and all(len(c.axes[n].digits) == 1 for n in c.spatial):
        return written
    if whole and written.works and not written.refused:
        return written
    moved = _on_axes(written)
    if moved is None or not moved.works:
        return written
    slower = whole and written.works and written.chosen.cycles <= moved.chosen.cycles
    return written if slower else moved


def _on_axes(plan: ProductPlan) -> ProductPlan | None:
    """The plan for the same contraction with a variable for each of its axes; None where its loops
    were changed before."""
    from schedule import library

    group, base = plan.group, plan.base.copy()
    try:
        last = plan.bring_on_axes(base) or group.epilogue
        moved = library.find_contraction(base, group.block, last, group.padding, windows=False)
    except TensorIRError:
        return None
    return ProductPlan(group, base, moved, plan.gpu, plan.numerics, written=plan)


def contraction_of(sch: Schedule, group: Group) -> library.Contraction | None:
    """The contraction of a reduction with reuse, or whose windows lie side by side."""
    if not sch.state.block(group.block).is_reduction:
        return None
    from autotune.rules.gpu.reuse import has_windows
    from schedule import library

    try:
        c = library.find_contraction(
            sch, group.block, group.epilogue, group.padding, windows=False
        )
    except TensorIRError:  # it stores several values, or elsewhere than at its own variables
        return None
    if not c.spatial or not c.reduced or not c.operands:
        return None
    again = any(c.is_used_again(n) for n in range(len(c.operands)))
    return c if again or has_windows(c) else None
