"""From a function to sketches: groups, the plans that fit each, and their combinations."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.choices import Choice, freeze
from autotune.rules.alternatives import Start, first_start, starts
from autotune.rules.forms import bring_on_axes
from autotune.rules.group import Group, Refused, find_groups, in_scan, instances
from autotune.rules.inlined import bring_forward, inline_stages
from autotune.rules.plan import Part, Plan, Values, combined, ways
from autotune.rules.registry import Rules, rules_for
from autotune.space import Sketch
from autotune.streams import Column
from schedule import Schedule, ScheduleError
from tensorir import Device, PrimFunc, TensorIRError, weakest

if TYPE_CHECKING:
    from autotune.rules.told import Told

MOST_MIXED = 4
"""Groups that get a general nest while the others have the first plans of their rules."""

NESTS = "nests"
"""The sketch of the general nests of all blocks."""

UNTOUCHED = "untouched"
"""The sketch of the program as it was written."""


_Asked = tuple[str, Callable[[Schedule], Part]]
"""A part of a program: the block that it is told by, and its plans for a schedule."""


def sketches(
    func: PrimFunc,
    device: Device,
    numerics: str,
    many: bool = False,
    seed: int = 0,
    first: Start | None = None,
    chosen: Start | None = None,
) -> Iterator[PlannedSketch]:
    """Those of each algorithm, that which was `chosen` first; each is made when it is asked for.

    `first` is the `first_start` that `chosen` was made of. With `many` they are prepared to build
    many candidates, which share the steps that begin alike, and there are general ones, and the
    program as it was written.
    """
    rng = random.Random(seed)
    first = first or first_start(func, numerics)
    for start in starts(func, numerics, device, first, chosen or first):
        yield from sketches_of(start, device, numerics, many, rng)
    if many:
        written = Schedule(func)
        yield PlannedSketch(UNTOUCHED, (), lambda values: written.copy())


def sketches_of(
    start: Start,
    device: Device,
    numerics: str,
    many: bool = False,
    rng: random.Random | None = None,
    most: float = inf,
    told: bool = False,
) -> Iterator[PlannedSketch]:
    """What the rules make of a program; nothing where that surely takes more than `most` cycles.

    `told` is for what is only asked for its estimates: nothing is scheduled to plan what is left.
    """
    rng, used = rng or random.Random(0), start.name
    for sketch in _sketches(start.schedule, device, numerics, not used, many, rng, most, told):
        yield replace(sketch, name=f"{used}:{sketch.name}" if used else sketch.name, algorithm=used)


def _sketches(
    start: Schedule,
    device: Device,
    numerics: str,
    written: bool,
    many: bool,
    rng: random.Random,
    most: float,
    told: bool,
) -> Iterator[PlannedSketch]:
    """What the rules make of a program; with `many`, what searches want besides: general nests too,
    if it is the one that was `written`, and no other algorithm for it."""
    rules = rules_for(device)
    base = start.copy()
    own = _within([p for rule in rules.stages for p in rule(base, device)], numerics)
    kept = [name for plan in own for name in plan.stages]
    copies = partial(rules.copies, device) if rules.copies else None
    before: list[Mapping[str, dict[str, str]]] = []
    before += inline_stages(base, kept, copies), bring_forward(base)
    if not all(instances(base.state.block(name)) for name in base.get_blocks()):
        yield _sketch(base, (), many)  # a stage has no elements: nothing to gain
        return
    before += [rules.prepare(base, device)] if rules.prepare is not None else []
    groups = find_groups(base, kept)
    if rules.least is not None and most < inf:
        known = sum(plan.estimate() or 0.0 for plan in own)  # others take some time as well
        if known + rules.least(base, groups, device) > most:
            return
    asked = [_known([(plan,)]) for plan in own]
    asked += _parts(base, groups, rules, device, numerics, rng if many else None, before, kept)
    order = [str(name) for name in base.get_blocks()]  # what copies wants its producer as written
    asked.sort(key=lambda part: -order.index(part[0]))
    parts = [of(base) for _, of in asked] if told else list(_one_by_one(base, asked))
    for plans in combined(parts, rng):
        yield replace(_sketch(base, plans, many), ways=ways(parts))
    if many and written and rules.general is not None:
        first = [plan for part in parts for plan in part[0]]
        yield from _mixed(base, first, partial(rules.general, base, device=device), numerics, rng)
        inlined = set(map(str, start.get_blocks())) - set(map(str, base.get_blocks()))
        nests = rules.general(start, start.get_blocks(), device, inlined).within(numerics)
        if nests is not None and nests.choices:
            yield replace(_sketch(start, (nests,), many), name=NESTS)


def _known(part: Part) -> _Asked:
    return part[0][0].group.block, lambda _: part


def _one_by_one(sch: Schedule, asked: Sequence[_Asked]) -> Iterator[Part]:
    """The plans of each part of the program with the first plans of those before in it: what plans
    try are then the steps that a sketch of them makes, which its schedule remembers."""
    for n, (_, of) in enumerate(asked):
        plans = of(sch)
        yield plans
        if n + 1 < len(asked):
            with suppress(TensorIRError):  # which the sketch says when it is built
                made = sch.copy()
                for plan in plans[0]:
                    plan.apply(made, plan.default())
                sch = made


def _parts(
    sch: Schedule,
    groups: Sequence[Group],
    rules: Rules,
    device: Device,
    numerics: str,
    rng: random.Random | None,
    before: Sequence[Mapping[str, dict[str, str]]],
    kept: Collection[str] = (),
) -> Iterator[_Asked]:
    """The parts of a program but `kept` blocks: its `groups` by themselves, then those that a plan
    is for together, which may be scheduled one by one as well. With `rng` all ways, of too many
    some that are drawn. Plans tell what was refused for their blocks, and `before` groups were
    found too."""
    found = _within([p for rule in rules.chains for p in rule(sch, groups, device)], numerics)
    chains, taken = list[Plan](), set(kept)
    refused: Refused = {}

    def tell(*more: Mapping[str, Mapping[str, str]]) -> None:
        for name, why in ((name, each[name]) for each in more for name in each):
            refused.setdefault(name, {}).update(why)

    tell(*before)
    for plan in found:  # some may want the same
        if not plan.works:
            tell({plan.group.block: plan.refused})
        elif not taken & set(plan.stages):
            chains.append(plan)
            taken.update(plan.stages)

    def alone(group: Group, sch: Schedule) -> Part:
        before = {what: why for name in group.blocks for what, why in refused.get(name, {}).items()}
        plans = _plans(sch, group, rules, device, numerics, rng is not None, before)
        return [(plan,) for plan in plans]

    def taken_by_rules(trial: Schedule, group: Group) -> bool:
        found = (plan for rule in rules.groups for plan in rule(trial, group, device))
        return any(plan.works for plan in found)

    rest = [group for group in groups if group.block not in taken]
    tell(bring_on_axes(sch, rest, taken_by_rules, rules.anywhere))
    for group in rest:
        own = group.without(taken)
        yield group.block, partial(alone, own)
    for plan in chains:
        inside = [group for group in groups if group.block in plan.stages]
        others = combined([alone(g, sch) for g in inside], rng) if rng else ()
        yield _known([(plan,), *others])


def _mixed(
    base: Schedule,
    plans: Sequence[Plan],
    general: Callable[..., Plan],
    numerics: str,
    rng: random.Random,
) -> Iterator[PlannedSketch]:
    """A general nest of one group, while others have their first plans."""
    alone = [at for at, plan in enumerate(plans) if not plan.stages] if len(plans) > 1 else []
    for at in sorted(rng.sample(alone, min(MOST_MIXED, len(alone)))):
        nest = general(plans[at].group.blocks).within(numerics)
        if nest is not None and nest.choices:
            yield _sketch(base, (*plans[:at], nest, *plans[at + 1 :]), many=True)


def _plans(
    sch: Schedule, group: Group, rules: Rules, device: Device, numerics: str, many: bool,
    before: Mapping[str, str],
) -> Sequence[Plan]:  # fmt: skip
    """The plans that fit one group; without `many` no more than the default may be one of. They
    tell what is refused, and what was `before` it."""
    found: list[Plan] = []
    refused = {**before}
    in_step = in_scan(sch, sch.state.block(group.block))
    asked = rules.steps if in_step else rules.groups
    for plan in (p for rule in asked for p in _within(rule(sch, group, device), numerics)):
        if not plan.works:
            refused |= plan.refused
        elif all(plan.name != other.name for other in found):
            found.append(plan)
        if not many and any(plan.always for plan in found):
            break
    if not any(plan.always for plan in found):
        found += _within(rules.rest(sch, group, device), numerics)
    for plan in found if refused else ():
        plan.__dict__["passed"] = refused
    return found


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
    ways: int = 1
    """In how many ways the plans of the groups go together; some of them are sketches."""
    constants: tuple[str, ...] = ()
    """Parameters that are taken to be known when a kernel is built."""

    @cached_property
    def _told(self) -> list[Told]:
        from autotune.rules.told import Told

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
        """A value for each choice that needs no tuning.

        Packing one of `constants` costs nothing in a call where it is done at the root.
        """
        values: dict[str, Any] = {}
        for plan in self.plans:
            own = {name: freeze(value) for name, value in plan.default(constants).items()}
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
        return tuple(freeze(value) for plan in self.plans for value in plan.draw(rng))

    def notes(self) -> tuple[str, ...]:
        found = [f"one of {self.ways:,} ways to combine plans"] * (self.ways > 1)
        try:
            made = [self.build(self.values()).numerics, *(plan.numerics for plan in self.plans)]
        except ScheduleError as error:
            made = []
            found.append(f"impossible: values that need no tuning: {error.headline}")
        if made and weakest(made) != "bitwise":
            found.append(f"sums are {weakest(made)}, for some of the values at least")
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
