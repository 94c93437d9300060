"""Plan: one way to schedule one group, with its choices open; and which plans go together."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from autotune.choices import Categorical, Choice
from autotune.rules.group import Group, attempt
from autotune.space import DRAWS, Infeasible
from autotune.streams import Column
from schedule import Schedule
from tensorir import NUMERICS, Block, Cpu, IterKind, allows, variables

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

    passed: Mapping[str, str] = MappingProxyType({})
    """What rules that come first refused for these blocks, and why."""

    meanings: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """What the choices decide, by the last parts of their names."""

    failed = False
    accepted: tuple[Values, Schedule] | None = None
    """The values that were tried last, and what was made of the program with them."""
    told: Mapping[str, str] = MappingProxyType({})
    """What `tried` found."""

    @property
    def works(self) -> bool:
        """Whether primitives accept it. One that they do not is no plan; `refused` says why."""
        return not self.failed

    @property
    def refused(self) -> Mapping[str, str]:
        """What is not among the choices because primitives refuse it, and why."""
        return self.told

    @property
    def stages(self) -> tuple[str, ...]:
        """The blocks that it schedules, where they are of several groups."""
        return ()

    @property
    def subject(self) -> Any:
        """What it schedules: plans of two programs with equal ones take the same time."""
        return (self.name, self.group, *self.stages)

    def key(self, what: str) -> str:
        """The name of one of its choices."""
        return f"{self.group.block}.{what}"

    @abstractmethod
    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """Values that are good without tuning."""

    def estimate(self, constants: Collection[str] = ()) -> float | None:
        """Cycles of one call with these values, about; None for plans that cannot tell, which no
        other algorithm is compared with."""
        return None

    def columns(self, rows: Sequence[Values], constants: Collection[str] = ()) -> Column | None:
        """Cycles of one call with each of these values, by formula: nothing is scheduled; None
        for plans that have no formula."""
        return None

    def feasible(self, values: Values) -> bool:
        """A cheap test before any program is built."""
        return True

    @abstractmethod
    def apply(self, sch: Schedule, values: Values) -> None:
        """Schedule the group with every choice made."""

    def carry_out(self, sch: Schedule, values: Values) -> None:
        """`apply`, by the steps that were taken before where these values were tried there."""
        own, made = self.accepted or ({}, sch)
        if not (own and own.items() <= values.items() and sch.follow(made)):
            self.apply(sch, values)

    def draw(self, rng: random.Random) -> list[object]:
        """Random values of the choices, feasible if some of many draws are."""
        for _ in range(DRAWS):
            values = {choice.name: choice.sample(rng) for choice in self.choices}
            with suppress(Infeasible):
                if self.feasible(values):
                    break
        return list(values.values())

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


@dataclass(frozen=True, eq=False)
class NoPlan(Plan):
    """What a rule looked for and primitives refuse, and why."""

    group: Group
    told: Mapping[str, str] = field(default_factory=dict)
    name, numerics, choices, failed = "none", "bitwise", (), True

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        return {}

    def apply(self, sch: Schedule, values: Values) -> None:
        """It is never asked for: it does not work."""


Options = Mapping[str, tuple[tuple[Any, ...], Any]]
"""What is open, by what it decides: its values, and the one that needs no tuning."""


def threads(
    cpu: Cpu, cycles: float, sch: Schedule | None = None, *blocks: Block
) -> tuple[tuple[Any, ...], Any]:
    """The option whether threads share work of so many cycles, which they should where it is
    large, or sizes of its `blocks` are known at calls alone: kernels ask then how much it is. Not
    so beside steps that wait for each other."""
    shared = any(variables(it.extent) for block in blocks for it in block.iters)
    every = map(sch.state.block, sch.get_blocks()) if sch and shared else ()
    shared = shared and all(it.kind is not IterKind.OPAQUE for b in every for it in b.iters)
    return ("parallel", "serial"), "parallel" if shared or cpu.worth_threads(cycles) else "serial"


@dataclass(frozen=True, eq=False)
class OpenPlan(Plan):
    """A plan of which each choice has a value that is known to be good. Its time is told by the
    `cycles` of one thread, about, and by whether threads share them; whatever else is chosen is all
    the same to it."""

    group: Group
    cpu: Cpu
    options: Options
    cycles: float

    def parallel(self, values: Values) -> bool:
        """Whether threads share the work."""
        return bool(values[self.key("threads")] == "parallel")

    @property
    def shared(self) -> float:
        """Cycles where threads share them."""
        return self.cpu.costs.start + self.cycles / self.cpu.threads

    def estimate(self, constants: Collection[str] = ()) -> float:
        return min(self.cycles, self.shared)

    def columns(self, rows: Sequence[Values], constants: Collection[str] = ()) -> Column:
        return np.where(list(map(self.parallel, rows)), self.shared, self.cycles)

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        return tuple(Categorical(self.key(name), o) for name, (o, _) in self.options.items())

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """The values that need no tuning, or the largest ones below them."""
        found = self.options.items()
        return {self.key(name): at_most(options, wanted) for name, (options, wanted) in found}

    def chosen(self, values: Values) -> dict[str, Any]:
        """Values of the choices, by what they decide."""
        return {name: values[self.key(name)] for name in self.options}


def at_most(options: Sequence[Any], wanted: Any) -> Any:
    """The wanted option, else the largest below it, else the first."""
    if wanted in options:
        return wanted
    return max((o for o in options if o < wanted), default=options[0])


P = TypeVar("P", bound=Plan)


def tried(sch: Schedule, plan: P, before: Mapping[str, str] = MappingProxyType({})) -> P:
    """The plan, which knows whether its default values give a schedule, as its rule does not
    foresee, and says why they do not, and what was refused `before`."""
    refused, made, values = dict(before), sch.copy(), plan.default()
    works = attempt(refused, plan.name, plan.apply, made, values)
    plan.__dict__.update(failed=not works, told=refused, accepted=(values, made))
    return plan


Part = Sequence[Sequence[Plan]]
"""The ways to schedule some groups of a program, whatever is done to the others; best first."""

MOST_SKETCHES = 16
"""Sketches of a program, as long as there are not more plans: each plan is in one at least."""


def combined(
    parts: Iterable[Part], rng: random.Random, constants: Collection[str] = ()
) -> list[list[Plan]]:
    """A plan for each part: the first of all, then every other one of each part with the first of
    the rest, those that suit with these `constants`, and whatever is constant, and others that are
    drawn, as many as there is room for."""
    options = list(parts)
    first = [0] * len(options)
    found = {tuple(first): None}
    for at, part in enumerate(options):
        found.update((tuple(first[:at] + [n] + first[at + 1 :]), None) for n in range(len(part)))
    for fits in (lambda plan: plan.suits(constants), lambda plan: plan.always):
        safe = ((n for n, some in enumerate(part) if all(map(fits, some))) for part in options)
        found[tuple(next(places, 0) for places in safe)] = None
    while len(found) < min(MOST_SKETCHES, ways(options)):
        found[tuple(rng.randrange(len(part)) for part in options)] = None
    return [[p for part, n in zip(options, one) for p in part[n]] for one in found]


def ways(parts: Sequence[Part]) -> int:
    """In how many ways the plans of the parts go together."""
    return prod(map(len, parts))
