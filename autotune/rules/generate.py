"""From a function to its search space: groups, the plans that fit each, and their combinations."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from typing import Any

from autotune.choices import Choice
from autotune.device import Cpu
from autotune.rules.alternatives import starts
from autotune.rules.chain import ChainPlan, chain_plans
from autotune.rules.column_parts import column_parts_plans
from autotune.rules.contraction import other_contraction, preferred_contraction
from autotune.rules.dots import DotsPlan, dots_plans
from autotune.rules.group import Group, find_groups, in_scan, inline_stages, instances
from autotune.rules.library import library_plan
from autotune.rules.plan import Machine, Plan, Values
from autotune.rules.row_parts import row_parts_plans
from autotune.rules.rows import rows_plans
from autotune.rules.scan import ScanPlan, scan_plans
from autotune.rules.short_rows import short_rows_plans
from autotune.rules.spatial import spatial_plans
from autotune.rules.split_k import needed_split_k, possible_split_k
from autotune.rules.tensorized import TensorizedPlan, tensorized_plans
from autotune.rules.tiled_choices import tiled_plans
from autotune.rules.transposed import transposed_plans
from autotune.rules.window import window_plans
from autotune.space import DRAWS, Candidate, Sketch, Space
from schedule import Schedule
from tensorir import DEFAULT_NUMERICS, PrimFunc, Target, TensorIRError, allows

Rule = Callable[..., Sequence[Plan]]
"""From a schedule, a group and the machine to plans."""

RULES: tuple[Rule, ...] = (
    tensorized_plans,
    short_rows_plans,
    column_parts_plans,
    needed_split_k,
    window_plans,
    dots_plans,
    preferred_contraction,
    tiled_plans,
    other_contraction,
    row_parts_plans,
    rows_plans,
    transposed_plans,
    possible_split_k,
)
"""Rules for kinds of blocks, preferred first; blocks that none of them takes get spatial_plans."""

REASSOCIATING: tuple[Rule, ...] = (
    column_parts_plans,
    needed_split_k,
    dots_plans,
    row_parts_plans,
    rows_plans,
    possible_split_k,
)
"""Those that change the order of a sum whatever their choices."""

ORDERED: tuple[Rule, ...] = (preferred_contraction, other_contraction)
"""Those that keep the order of sums if they are told to."""

PARTICULAR = (TensorizedPlan, DotsPlan)
"""Plans that may want operands to be constants, so that others have to be looked at."""

MAX_SKETCHES = 16


def machine_of(target: Target) -> Machine:
    """What the rules need to know; `target` must be resolved (backends.resolve)."""
    if target.on_gpu:
        raise TensorIRError(
            f"there are no scheduling rules for GPUs yet, so none for {str(target)!r}: write a "
            "schedule with bind, or build the program as it is, which binds what nobody bound"
        )
    return Machine(
        lanes=target.lanes(),
        registers=Cpu(target).registers,
        threads=target.thread_count,
        l1_bytes=target.l1d_bytes,
        l2_bytes=target.l2_bytes,
        target=target,
    )


def make_space(func: PrimFunc, machine: Machine, numerics: str = DEFAULT_NUMERICS) -> Space:
    """The sketches of a function; the first is the one that the default schedule comes from.

    `numerics` is the last class of NUMERICS that schedules may have: "bitwise" leaves out the rules
    that cannot keep the order of sums, "algebraic" brings in other algorithms.
    """
    return Space(list(sketches(func, machine, numerics, many=True)))


def sketches(
    func: PrimFunc, machine: Machine, numerics: str, many: bool = False
) -> Iterator[PlannedSketch]:
    """Those of each algorithm, preferred first; each is made when it is asked for.

    With `many` they are prepared to build many candidates, which share the steps that begin alike.
    """
    for start in starts(func, numerics):
        if many:
            start.schedule.remember_steps()
        made = _sketches(start.schedule, machine, numerics, bool(start.name), many)
        for sketch in made:
            name = f"{start.name}:{sketch.name}" if start.name else sketch.name
            yield replace(sketch, name=name, algorithm=start.name)


def _sketches(
    start: Schedule, machine: Machine, numerics: str, library_only: bool, many: bool
) -> Iterator[PlannedSketch]:
    """What the library and the rules make of a program.

    With `library_only` rules are for programs that the library has no schedule for.
    """
    found = library_plan(start, machine)
    if found is not None and allows(numerics, found.made.numerics):
        yield PlannedSketch("library", found.choices, found.build, plans=(found,))
        if library_only:
            return
    bitwise = numerics == "bitwise"
    rules = [rule for rule in RULES if not (bitwise and rule in REASSOCIATING)]
    rules = [partial(r, numerics=numerics) if r in ORDERED else r for r in rules]
    base = start.copy()
    base.remember_steps()  # rules try what they propose
    inline_stages(base)
    if not all(instances(base.state.block(name)) for name in base.get_blocks()):
        yield _sketch(base, (), many)  # a stage has no elements: nothing to gain
        return
    groups = find_groups(base)
    chains: list[ChainPlan | ScanPlan] = [*scan_plans(base, groups, machine)]
    chains += [] if bitwise else chain_plans(base, groups, machine)
    for plans in _combined(base, groups, chains, rules, machine, numerics, many):
        yield _sketch(base, plans, many)


def _combined(
    sch: Schedule,
    groups: Sequence[Group],
    chains: Sequence[ChainPlan | ScanPlan],
    rules: Sequence[Rule],
    machine: Machine,
    numerics: str,
    many: bool,
) -> list[Sequence[Plan]]:
    """Which plans go together: each chain with plans for the other groups, then one by one."""
    found: list[Sequence[Plan]] = []
    for chain in (*chains, None):
        within = chain.chain.stages if chain else ()
        rest = [g.without(within) for g in groups if g.block not in within]
        options = [_plans(sch, group, rules, machine, numerics, many) for group in rest]
        for plans in islice(product(*options), MAX_SKETCHES):
            found.append((*plans, chain) if chain else plans)
    return found[:MAX_SKETCHES]


def _plans(
    sch: Schedule, group: Group, rules: Sequence[Rule], machine: Machine, numerics: str, many: bool
) -> Sequence[Plan]:
    """The plans that fit one group; without `many` no more than the default may be one of."""
    found: list[Plan] = []
    if not in_scan(sch, sch.state.block(group.block)):  # steps stay in their order
        for rule in rules:
            plans = rule(sch, group, machine)
            found += [p for p in plans if allows(numerics, getattr(p, "numerics", "bitwise"))]
            if not many and any(not isinstance(plan, PARTICULAR) for plan in found):
                break
    return found or spatial_plans(sch, group, machine)


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
        return all(plan.suits(constants) for plan in self.plans if isinstance(plan, PARTICULAR))


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
