"""MovePlan: a derived schedule for GPUs, with its parameters open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from autotune.choices import Categorical, Choice
from autotune.rules.group import Group
from autotune.rules.plan import Plan, Values
from schedule import Schedule, ScheduleError
from tensorir import Gpu

Move = Callable[..., object]
"""Schedules a group: takes the schedule, the group and a value for each of its options."""


@dataclass(frozen=True, eq=False)
class MovePlan(Plan):
    """Some blocks scheduled by one move, whose keyword arguments are the choices.

    base     the program that the rule looked at
    options  the values of each argument
    likely   points of these that may be good without tuning, preferred first; the one of the least
             estimated time is the default
    members  the blocks, where they are of several groups
    """

    name: str
    group: Group
    gpu: Gpu
    base: Schedule
    move: Move
    options: Mapping[str, tuple[Any, ...]]
    likely: Sequence[Mapping[str, Any]]
    numerics: str = "bitwise"
    members: tuple[str, ...] = ()
    says: Mapping[str, str] = field(default_factory=dict)

    @property
    def stages(self) -> tuple[str, ...]:
        return self.members

    @property
    def refused(self) -> Mapping[str, str]:
        return self.says

    def key(self, what: str) -> str:
        return f"{self.group.block}.{what}"

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        return tuple(Categorical(self.key(name), found) for name, found in self.options.items())

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        return {self.key(name): value for name, value in self._first.items()}

    @cached_property
    def _first(self) -> Mapping[str, Any]:
        refused: ScheduleError | None = None
        for point in self.likely:
            try:
                self.move(self.base.copy(), self.group, **point)
            except ScheduleError as error:
                refused = error
                continue
            return point
        assert refused is not None
        raise refused

    @property
    def works(self) -> bool:
        """Whether the primitives accept one of the likely points."""
        try:
            return self._first is not None
        except ScheduleError:
            return False

    def apply(self, sch: Schedule, values: Values) -> None:
        self.move(sch, self.group, **{name: values[self.key(name)] for name in self.options})
