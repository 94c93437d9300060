"""Plan: one way to schedule one group, with its choices open."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from autotune.choices import Categorical, Choice
from autotune.rules.group import Group
from schedule import Schedule, ScheduleError
from tensorir import Target, dtype

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Machine:
    """What the rules need to know of the target."""

    lanes: int
    registers: int
    threads: int
    l1_bytes: int
    l2_bytes: int
    target: Target | None = None

    def lanes_of_sums(self, kind: str) -> int:
        """Lanes of sums of one type; of narrower types than 32 bits as of those."""
        return self.lanes * 32 // max(32, dtype.bits(kind))


class Plan(Protocol):
    """A rule applied to a group: `choices` are its open decisions, named `<block>.<what>`."""

    @property
    def name(self) -> str: ...

    @property
    def group(self) -> Group: ...

    @property
    def choices(self) -> tuple[Choice, ...]: ...

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """Values that are good without tuning."""
        ...

    def feasible(self, values: Values) -> bool:
        """A cheap test before any program is built."""
        ...

    def apply(self, sch: Schedule, values: Values) -> None:
        """Schedule the group with every choice made."""
        ...


def at_most(choice: Choice, wanted: Any) -> Any:
    """The wanted option, else the largest below it, else the first."""
    assert isinstance(choice, Categorical)
    if wanted in choice.options:
        return wanted
    return max((o for o in choice.options if o < wanted), default=choice.options[0])


def works_out(sch: Schedule, plan: Plan) -> bool:
    """Whether the default values of a plan give a schedule, which its rule does not foresee."""
    try:
        plan.apply(sch.copy(), plan.default())
    except ScheduleError:
        return False
    return True
