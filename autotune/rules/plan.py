"""Plan: one way to schedule one group, with its choices open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from autotune.choices import Categorical, Choice
from autotune.rules.group import Group
from schedule import Schedule, ScheduleError
from tensorir import NUMERICS, allows

Values = Mapping[str, Any]


class Plan(ABC):
    """A rule applied to a group: `choices` are its open decisions, named `<block>.<what>`.

    Each class says `numerics`: the class of NUMERICS of all its schedules.
    """

    if TYPE_CHECKING:  # fields of the classes, or properties

        @property
        def name(self) -> str: ...

        @property
        def group(self) -> Group: ...

        @property
        def choices(self) -> tuple[Choice, ...]: ...

        @property
        def numerics(self) -> str: ...

    always = True
    """Whether it suits whatever operands are constants, so that no other plan has to be made."""

    @property
    def stages(self) -> tuple[str, ...]:
        """The blocks that it schedules, where they are of several groups."""
        return ()

    @abstractmethod
    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """Values that are good without tuning."""

    def feasible(self, values: Values) -> bool:
        """A cheap test before any program is built."""
        return True

    @abstractmethod
    def apply(self, sch: Schedule, values: Values) -> None:
        """Schedule the group with every choice made."""

    def suits(self, constants: Collection[str]) -> bool:
        """Whether it is the better way if these operands are constants."""
        return True

    def within(self, numerics: str) -> Plan | None:
        """The plan, kept to a class of numerics; None if it has no schedules of that class."""
        if getattr(self, "numerics", None) not in NUMERICS:
            raise TypeError(
                f"plan {self.name!r} ({type(self).__name__}) does not say what its schedules do to "
                f"results: give it `numerics`, one of {', '.join(NUMERICS)}"
            )
        return self if allows(numerics, self.numerics) else None


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
