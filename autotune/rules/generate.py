"""From a function to its search space: groups, the plans that fit each, and their combinations."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

from autotune.choices import Choice
from autotune.rules.alternatives import starts
from autotune.rules.group import Group, find_groups, in_scan, inline_stages, instances
from autotune.rules.plan import Plan, Values
from autotune.rules.registry import Rules, rules_for
from autotune.space import DRAWS, Candidate, Sketch, Space
from schedule import Schedule
from tensorir import DEFAULT_NUMERICS, Device, PrimFunc, allows

MAX_SKETCHES = 16


def make_space(func: PrimFunc, device: Device, numerics: str = DEFAULT_NUMERICS) -> Space:
    """The sketches of a function; the first is the one that the default schedule comes from.

    `numerics` is the last class of NUMERICS that schedules may have: "bitwise" leaves out the rules
    that cannot keep the order of sums, "algebraic" brings in other algorithms.
    """
    return Space(list(sketches(func, device, numerics, many=True)))


def sketches(
    func: PrimFunc, device: Device, numerics: str, many: bool = False
) -> Iterator[PlannedSketch]:
    """Those of each algorithm, preferred first; each is made when it is asked for.

    With `many` they are prepared to build many candidates, which share the steps that begin alike.
    """
    for start in starts(func, numerics):
        if many:
            start.schedule.remember_steps()
        made = _sketches(start.schedule, device, numerics, bool(start.name), many)
        for sketch in made:
            name = f"{start.name}:{sketch.name}" if start.name else sketch.name
            yield replace(sketch, name=name, algorithm=start.name)


def _sketches(
    start: Schedule, device: Device, numerics: str, library_only: bool, many: bool
) -> Iterator[PlannedSketch]:
    """What the library and the rules make of a program.

    With `library_only` rules are for programs that the library has no schedule for.
    """
    rules = rules_for(device)
    for program in rules.programs:
        found = program(start, device)
        if found is not None and allows(numerics, found.numerics):
            yield PlannedSketch(found.name, found.choices, found.build, plans=(found,))
            if library_only:
                return
    base = start.copy()
    base.remember_steps()  # rules try what they propose
    inline_stages(base)
    if not all(instances(base.state.block(name)) for name in base.get_blocks()):
        yield _sketch(base, (), many)  # a stage has no elements: nothing to gain
        return
    groups = find_groups(base)
    chains = _within([p for rule in rules.chains for p in rule(base, groups, device)], numerics)
    for plans in _combined(base, groups, chains, rules, device, numerics, many):
        yield _sketch(base, plans, many)


def _combined(
    sch: Schedule,
    groups: Sequence[Group],
    chains: Sequence[Plan],
    rules: Rules,
    device: Device,
    numerics: str,
    many: bool,
) -> list[Sequence[Plan]]:
    """Which plans go together: each chain with plans for the other groups, then one by one."""
    found: list[Sequence[Plan]] = []
    for chain in (*chains, None):
        within = chain.stages if chain else ()
        rest = [g.without(within) for g in groups if g.block not in within]
        options = [_plans(sch, group, rules, device, numerics, many) for group in rest]
        for plans in islice(product(*options), MAX_SKETCHES):
            found.append((*plans, chain) if chain else plans)
    return found[:MAX_SKETCHES]


def _plans(
    sch: Schedule, group: Group, rules: Rules, device: Device, numerics: str, many: bool
) -> Sequence[Plan]:
    """The plans that fit one group; without `many` no more than the default may be one of."""
    found: list[Plan] = []
    if not in_scan(sch, sch.state.block(group.block)):  # steps stay in their order
        for rule in rules.groups:
            found += _within(rule(sch, group, device), numerics)
            if not many and any(plan.always for plan in found):
                break
    return found or rules.rest(sch, group, device)


def _within(plans: Iterable[Plan], numerics: str) -> list[Plan]:
    """The plans, kept to a class of numerics, as far as they can be."""
    kept = (plan.within(numerics) for plan in plans)
    return [plan for plan in kept if plan is not None]


def _sketch(base: Schedule, plans: Sequence[Plan], many: bool) -> PlannedSketch:
    """The plans together; their choices are looked for where there are to be many candidates."""
    choices: list[Choice] = [choice for plan in plans for choice in plan.choices] if many else []

    def build(values: Values) -> Schedule:
        sch = base.copy()
        for plan in plans:
            plan.apply(sch, values)
        return sch

    def feasible(values: Values) -> bool:
        return all(plan.feasible(values) for plan in plans)

    name = "+".join(f"{plan.group.block}:{plan.name}" for plan in plans) or "unscheduled"
    return PlannedSketch(name, tuple(choices), build, feasible, tuple(plans))


@dataclass(frozen=True, eq=False)
class PlannedSketch(Sketch):
    """A sketch made of plans, which know good values of their choices."""

    plans: tuple[Plan, ...] = ()
    algorithm: str = ""
    """What computes the operator in place of its definition; "" for the definition."""

    def values(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """A value for each choice that needs no tuning.

        Packing one of `constants` costs nothing in a call where it is done at the root.
        """
        values: dict[str, Any] = {}
        for plan in self.plans:
            own = plan.default(constants)
            ahead = [name for name in own if name.partition(".pack_")[2] in constants]
            options = {choice.name: choice for choice in plan.choices} if ahead else {}
            for name in ahead:
                if "root" in getattr(options[name], "options", ()):
                    own[name] = "root"
            values.update(own)
        return values

    def default(self, constants: Collection[str] = ()) -> tuple[object, ...]:
        """The same, as the values of a candidate."""
        values = self.values(constants)
        choices = self.choices or [choice for plan in self.plans for choice in plan.choices]
        return tuple(values[choice.name] for choice in choices)

    def draw(self, rng: random.Random) -> tuple[object, ...]:
        """Random values, feasible for each plan: of many plans hardly any are so all at once."""
        return tuple(value for plan in self.plans for value in _drawn(plan, rng))

    def suits(self, constants: Collection[str]) -> bool:
        """Whether no plan wants operands to be constants that are none."""
        return all(plan.suits(constants) for plan in self.plans)


def _drawn(plan: Plan, rng: random.Random) -> list[object]:
    """Values of a plan's choices, feasible if some of many draws are."""
    for _ in range(DRAWS):
        values = {choice.name: choice.sample(rng) for choice in plan.choices}
        if plan.feasible(values):
            break
    return list(values.values())


def default_sketch(found: Iterable[PlannedSketch], constants: Collection[str]) -> PlannedSketch:
    """The first sketch that suits, or else the first; later ones are not asked for.

    `constants` are the parameters that are known when a kernel is built.
    """
    first = None
    for sketch in found:
        if sketch.suits(constants):
            return sketch
        first = first or sketch
    assert first is not None
    return first


def default_candidates(space: Space, constants: Collection[str] = ()) -> list[Candidate]:
    """Of each algorithm the candidate that needs no tuning, the one of default schedules first."""
    groups: dict[str, list[PlannedSketch]] = {}
    for sketch in space.sketches.values():
        assert isinstance(sketch, PlannedSketch)
        groups.setdefault(sketch.algorithm, []).append(sketch)
    defaults = [default_sketch(group, constants) for group in groups.values()]
    return [Candidate(sketch.name, sketch.default(constants)) for sketch in defaults]


def default_candidate(space: Space, constants: Collection[str] = ()) -> Candidate:
    """The candidate that needs no tuning: the default values of the default sketch."""
    return default_candidates(space, constants)[0]
