"""A sketch made of plans: what it is called, how it is built, and its values without tuning."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.choices import Choice, freeze
from autotune.rules.plan import Plan, Values
from autotune.space import Sketch
from autotune.streams import Column
from schedule import Refusal, Schedule
from tensorir import weakest

if TYPE_CHECKING:
    from autotune.estimate.told import Told


def sketch_of(
    base: Schedule,
    plans: Sequence[Plan],
    many: bool,
    algorithm: str = "",
    finish: Callable[[Schedule], Mapping[str, str]] | None = None,
) -> PlannedSketch:
    """The plans together, and what is done after them, which returns what was refused; their
    choices are looked for where there are to be many candidates."""
    choices: list[Choice] = [choice for plan in plans for choice in plan.choices] if many else []

    refused: dict[str, str] = {}

    def build(values: Values) -> Schedule:
        sch = base.copy()
        for plan in plans:
            plan.carry_out(sch, values)
        if finish is not None and len(plans) > 1:
            refused.update(finish(sch))
        return sch

    def feasible(values: Values) -> bool:
        return all(plan.feasible(values) for plan in plans)

    name = "+".join(f"{plan.group.block}:{plan.name}" for plan in plans) or "unscheduled"
    name = f"{algorithm}:{name}" if algorithm else name
    return PlannedSketch(
        name, tuple(choices), build, feasible, tuple(plans), algorithm, refused=refused
    )


@dataclass(frozen=True, eq=False)
class PlannedSketch(Sketch):
    """A sketch made of plans, which know good values of their choices."""

    plans: tuple[Plan, ...] = ()
    algorithm: str = ""
    """What computes the operator in place of its definition; "" for the definition."""
    ways: int = 1
    """In how many ways the plans of the groups go together; some of them are sketches."""
    constants: tuple[str, ...] = ()
    """Parameters that are taken to be known when a kernel is built."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """What was refused after the plans of what was built so far, and why."""

    @cached_property
    def _told(self) -> list[Told]:
        from autotune.estimate.told import Told

        return [Told(plan, self.constants) for plan in self.plans]

    def cycles(self, rows: Sequence[Sequence[Any]]) -> Column | None:
        """None where a plan with choices has no formula: what it takes may be most of the time."""
        decided = [self.decisions(values) for values in rows]
        found = []
        for plan, told in zip(self.plans, self._told):
            column = told.columns(decided)
            if column is not None:
                found.append(column)
            elif plan.choices:
                return None
        return np.sum(found, axis=0) if found else None

    def values(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """A value for each choice that needs no tuning."""
        values = (plan.default(constants) for plan in self.plans)
        return {name: freeze(value) for own in values for name, value in own.items()}

    def default(self, constants: Collection[str] = ()) -> tuple[object, ...]:
        """The same, as the values of a candidate."""
        values = self.values(constants)
        choices = self.choices or [choice for plan in self.plans for choice in plan.choices]
        return tuple(values[choice.name] for choice in choices)

    def draw(self, rng: random.Random) -> tuple[object, ...]:
        """Random values, feasible for each plan: of many plans hardly any are so all at once."""
        return tuple(freeze(value) for plan in self.plans for value in plan.draw(rng))

    def notes(self) -> tuple[str, ...]:
        found = [f"one of {self.ways:,} ways to combine plans"] * (self.ways > 1)
        try:
            made = [self.build(self.values()).numerics, *(plan.numerics for plan in self.plans)]
        except Refusal as error:
            made = []
            found.append(f"impossible: values that need no tuning: {error.headline}")
        if made and weakest(made) != "bitwise":
            found.append(f"sums are {weakest(made)}, for some of the values at least")
        found += [f"impossible: {what}: {why}" for what, why in self.refused.items()]
        for plan in self.plans:
            refused = (*plan.passed.items(), *plan.refused.items())
            found += [f"impossible: {what}: {why}" for what, why in refused]
        return tuple(found)

    def meanings(self) -> Mapping[str, str]:
        chosen = {choice.name.rpartition(".")[2].partition("[")[0] for choice in self.choices}
        return {
            what: text
            for plan in self.plans
            for what, text in plan.meanings.items()
            if chosen & set(what.partition("[")[0].split(", "))
        }

    def suits(self, constants: Collection[str]) -> bool:
        """Whether no plan wants operands to be constants that are none."""
        return all(plan.suits(constants) for plan in self.plans)
