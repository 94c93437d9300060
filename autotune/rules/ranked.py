"""Plans for one contraction: its nests are put in order by an estimate, when they are asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from itertools import islice
from math import inf
from typing import Any, ClassVar, Generic, TypeVar

from autotune.choices import Categorical, Choice
from autotune.rules.group import Group
from autotune.rules.plan import Plan, Values
from schedule import Refusal, Schedule, library
from tensorir import allows

MOST_OPTIONS = 64
"""Nests of which the choices have the values: the first ones by the estimate."""

TRIED = 16
"""Nests of which the default is the first that the primitives accept."""

N = TypeVar("N")
"""What a nest is made by."""

F = TypeVar("F", bound="FormedPlan")


class RankedPlan(Plan, Generic[N]):
    """Choices have the values of the best nests, and the default is the first of these that the
    primitives accept. `base` is the schedule that nests are made in, `operands` are the buffers of
    which it matters whether they are constants."""

    base: Schedule
    operands: frozenset[str]

    @abstractmethod
    def look_for(self, constants: frozenset[str]) -> list[tuple[float, N]]:
        """Estimates in cycles and nests, best first."""

    @abstractmethod
    def values(self, nest: N) -> dict[str, Any]:
        """A nest as values of the choices."""

    @abstractmethod
    def make(self, sch: Schedule, nest: N) -> None:
        """Make a nest in the `base`, or a copy of it."""

    @abstractmethod
    def nest(self, values: Values) -> N:
        """The nest of such values."""

    def apply(self, sch: Schedule, values: Values) -> None:
        self.make(sch, self.nest(values))

    @cached_property
    def _found(self) -> dict[frozenset[str], list[tuple[float, N]]]:
        return {}

    def ranked(self, constants: Collection[str] = ()) -> list[tuple[float, N]]:
        """Estimates in cycles and all nests that are considered, best first."""
        key = frozenset(constants) & self.operands
        if key not in self._found:
            self._found[key] = self.look_for(key)
        return self._found[key]

    def estimate(self, constants: Collection[str] = ()) -> float:
        """Infinite where there is no nest."""
        found = self.ranked(constants)
        return found[0][0] if found else inf

    def offered(self) -> Sequence[N]:
        """The nests whose values are the choices."""
        return [nest for _, nest in self.ranked()[:MOST_OPTIONS]]

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        rows = list(map(self.values, self.offered()))
        found = {name: dict.fromkeys(row[name] for row in rows) for name in rows[0]}
        return tuple(Categorical(name, tuple(values)) for name, values in found.items())

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """The nest of the least estimated time that the primitives accept."""
        refused: Refusal | None = None
        for _, nest in islice(self.ranked(constants), TRIED):
            try:
                self.make(made := self.base.copy(), nest)
            except Refusal as error:
                refused = error
                continue
            self.accepted = values, _ = self.values(nest), made
            return values
        assert refused is not None
        raise refused


class FormedPlan(Plan):
    """A contraction as it was written, or brought in another form by a `step`, such as on its axes:
    `written` is then the plan for what it was, and `base` is the program after that step.

    Raises Refusal, where it is brought on its axes, if its loops were changed before.
    """

    device: Any
    group: Group
    numerics: str
    windows: ClassVar[bool] = True
    """Whether windows are one axis with what lies beside them (`find_contraction`)."""

    def __init__(
        self,
        group: Group,
        base: Schedule,
        c: library.Contraction,
        device: Any,
        numerics: str = "reassociated",
        written: Any = None,
        step: Callable[[Schedule], object] | None = None,
    ) -> None:
        self.group, self.base, self.contraction, self.device = group, base, c, device
        self.numerics, self.written, self.step = numerics, written, step

    @abstractmethod
    def in_best_form(self: F) -> F | None:
        """This plan of a contraction as it was written, or that on its axes; None without any."""

    def within(self: F, numerics: str) -> F | None:
        """With sums in the order of the text, if no other is allowed."""
        if allows(numerics, self.numerics):
            return self
        plan = self
        while plan.written is not None:
            plan = plan.written
        kept = type(self)(plan.group, plan.base, plan.contraction, plan.device, "bitwise")
        return kept.in_best_form()

    def on_axes(self: F) -> F | None:
        """The plan for the same with a variable for each axis."""
        return self.after(self.bring_on_axes, "on its axes")

    def after(self: F, step: Callable[[Schedule], str | None], what: str) -> F | None:
        """The plan for the same after a step, which returns the stage that is last then, if another
        is; None if that is refused, as where loops were changed, which this plan tells."""
        group, base = self.group, self.base.copy()
        try:
            last = step(base) or group.epilogue
        except Refusal as error:
            self.told = {f"{group.block!r} {what}": str(error)}
            return None
        moved = group_contraction(base, Group(group.block, last, group.padding), self.windows)
        if moved is None:
            return None
        return type(self)(group, base, moved, self.device, self.numerics, self, step)

    def bring_on_axes(self, sch: Schedule) -> str | None:
        """Bring it on its axes, the terms of its sums too if their order is free."""
        return library.on_axes(sch, self.contraction, terms=self.numerics != "bitwise")

    def bring_in_form(self, sch: Schedule) -> None:
        """Do to the program as it was written what makes the `base` of it."""
        if self.written is not None and self.step is not None:
            self.written.bring_in_form(sch)
            self.step(sch)


def group_contraction(
    sch: Schedule, group: Group, windows: bool = True, steps: bool = False
) -> library.Contraction | None:
    """What a group computes; None where it stores several values, or elsewhere than at its own
    variables."""
    try:
        return library.find_contraction(
            sch, group.block, group.epilogue, group.padding, windows=windows, steps=steps
        )
    except library.NoContraction:
        return None
