"""From a function to sketches: groups, the plans that fit each, and their combinations."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf

from autotune.rules.alternatives import Start, first_start, starts
from autotune.rules.forms import bring_on_axes
from autotune.rules.group import Group, Refused, find_groups, in_scan, instances
from autotune.rules.inlined import bring_forward, inline_stages
from autotune.rules.plan import Part, Plan, combined, ways
from autotune.rules.planned import PlannedSketch, sketch_of
from autotune.rules.registry import Rules, rules_for
from schedule import Schedule
from tensorir import Device, PrimFunc, TensorIRError

MOST_MIXED = 4
"""Groups that get a general nest while the others have the first plans of their rules."""

NESTS = "nests"
"""The sketch of the general nests of all blocks."""

UNTOUCHED = "untouched"
"""The sketch of the program as it was written."""


_Asked = tuple[str, Callable[[Schedule], Part]]
"""A part of a program: the block that it is told by, and its plans for a schedule."""


def sketches(
    func: PrimFunc, device: Device, numerics: str, many: bool = False, seed: int = 0,
    first: Start | None = None, chosen: Start | None = None, constants: Collection[str] = (),
) -> Iterator[PlannedSketch]:  # fmt: skip
    """Those of each algorithm, that which was `chosen` first; each is made when it is asked for.

    `first` is the `first_start` that `chosen` was made of. With `many` they are prepared to build
    many candidates, which share the steps that begin alike, and there are general ones, and the
    program as it was written. `constants` are the parameters that are known when a kernel is built.
    """
    rng = random.Random(seed)
    first = first or first_start(func, numerics, device)
    for start in starts(func, numerics, device, first, chosen or first):
        yield from sketches_of(start, device, numerics, many, rng, constants=constants)
    if many:
        written = Schedule(func)
        yield PlannedSketch(UNTOUCHED, (), lambda values: written.copy())


def sketches_of(
    start: Start, device: Device, numerics: str, many: bool = False,
    rng: random.Random | None = None, most: float = inf, told: bool = False,
    constants: Collection[str] = (),
) -> Iterator[PlannedSketch]:  # fmt: skip
    """What the rules make of a program; nothing where that surely takes more than `most` cycles.

    With `many` there is what searches want besides: general nests too, if no algorithm is used.
    Without, no plans are made after one that suits where these are the `constants`.
    `told` is for what is only asked for its estimates: nothing is scheduled to plan what is left.
    """
    rules, rng, written = rules_for(device), rng or random.Random(0), start.schedule
    base = written.copy()
    own = _within([p for rule in rules.stages for p in rule(base, device)], numerics)
    kept = [name for plan in own for name in plan.stages]
    copies = partial(rules.copies, device) if rules.copies else None
    before: list[Mapping[str, dict[str, str]]] = [start.refused]
    before += inline_stages(base, kept, copies), bring_forward(base)
    if not all(instances(base.state.block(name)) for name in base.get_blocks()):
        yield sketch_of(base, (), many, start.name)  # a stage has no elements: nothing to gain
        return
    before += [prepare(base, device, kept) for prepare in rules.prepare]
    groups = find_groups(base, kept)
    if rules.bound is not None and most < inf:
        known = sum(plan.estimate() or 0.0 for plan in own)  # others take some time as well
        if known + rules.bound(base, groups, device, most - known) > most:
            return
    asked = [_known([(plan,)]) for plan in own]
    asked += _parts(
        base, groups, rules, device, numerics, rng if many else None, before, constants, kept
    )
    order = [str(name) for name in base.get_blocks()]  # what copies wants its producer as written
    asked.sort(key=lambda part: -order.index(part[0]))
    parts = [of(base) for _, of in asked] if told else list(_one_by_one(base, asked))
    finish = partial(rules.finish, device=device) if rules.finish else None
    for plans in combined(parts, rng, constants):
        yield replace(sketch_of(base, plans, many, start.name, finish), ways=ways(parts))
    if many and not start.name and rules.general is not None:
        first = [plan for part in parts for plan in part[0]]
        yield from _mixed(base, first, partial(rules.general, base, device=device), numerics, rng)
        inlined = set(map(str, written.get_blocks())) - set(map(str, base.get_blocks()))
        nests = rules.general(written, written.get_blocks(), device, inlined).within(numerics)
        if nests is not None and nests.choices:
            yield replace(sketch_of(written, (nests,), many), name=NESTS)


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
                    plan.carry_out(made, plan.default())
                sch = made


def _parts(
    sch: Schedule, groups: Sequence[Group], rules: Rules, device: Device, numerics: str,
    rng: random.Random | None, before: Sequence[Mapping[str, dict[str, str]]],
    constants: Collection[str], kept: Collection[str],
) -> Iterator[_Asked]:  # fmt: skip
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
        plans = _plans(sch, group, rules, device, numerics, rng is not None, before, constants)
        return [(plan,) for plan in plans]

    def taken_by_rules(trial: Schedule, group: Group) -> bool:
        found = (plan for rule in rules.groups for plan in rule(trial, group, device))
        return any(plan.works for plan in found)

    rest = [group for group in groups if group.block not in taken]
    tell(bring_on_axes(sch, rest, taken_by_rules, rules.anywhere))
    for group in rest:
        yield group.block, partial(alone, group.without(taken))
    for plan in chains:
        inside = [g.without(taken - {*plan.stages}) for g in groups if g.block in plan.stages]
        others = combined([alone(g, sch) for g in inside], rng, constants) if rng else ()
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
            yield sketch_of(base, (*plans[:at], nest, *plans[at + 1 :]), many=True)


def _plans(
    sch: Schedule, group: Group, rules: Rules, device: Device, numerics: str, many: bool,
    before: Mapping[str, str], constants: Collection[str],
) -> Sequence[Plan]:  # fmt: skip
    """The plans that fit one group; without `many` none after that which is the default. They
    tell what is refused, and what was `before` it."""
    is_last = (lambda plan: plan.always) if many else (lambda plan: plan.suits(constants))
    found: list[Plan] = []
    refused = {**before}
    in_step = in_scan(sch, sch.state.block(group.block))
    asked = rules.steps if in_step else rules.groups
    for plan in (p for rule in asked for p in _within(rule(sch, group, device), numerics)):
        if not plan.works:
            refused |= plan.refused
        elif all(plan.name != other.name for other in found):
            found.append(plan)
        if not many and any(map(is_last, found)):
            break
    if not any(map(is_last, found)):
        found += _within(rules.rest(sch, group, device), numerics)
    for plan in found if refused else ():
        plan.__dict__["passed"] = refused
    return found


def _within(plans: Iterable[Plan], numerics: str) -> list[Plan]:
    """The plans, kept to a class of numerics, as far as they can be."""
    kept = (plan.within(numerics) for plan in plans)
    return [plan for plan in kept if plan is not None]
