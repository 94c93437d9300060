"""The rules by the kind of device that they make schedules for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from autotune.rules.chain import chain_plans
from autotune.rules.contraction import contraction_plans, least_cycles
from autotune.rules.inlined import share_parts
from autotune.rules.moved import moved_plans
from autotune.rules.plan import Plan
from autotune.rules.scan import lay_out_states, scan_plans
from autotune.rules.scattered import scatter_plans
from autotune.rules.short_rows import short_rows_plans
from autotune.rules.side_by_side import side_by_side_plans
from autotune.rules.spatial import spatial_plans
from autotune.rules.stencil import copies, stencil_plans
from autotune.rules.tensorized import tensorized_plans
from autotune.rules.tiled import tiled_plans
from autotune.rules.transposed import transposed_plans
from autotune.rules.tuples import tuples_plans
from autotune.rules.winograd import winograd_stages
from tensorir import Device, TensorIRError

Rule = Callable[..., Sequence[Plan]]
"""From a schedule, a group of it (or all, for what fuses several) and the device to plans."""


@dataclass(frozen=True)
class Rules:
    """What schedules for one kind of device are made by.

    groups    for the groups of a program, preferred first
    steps     likewise for parts of steps of scans, which stay in their order
    rest      for groups that none of them takes
    chains    for several groups at once; asked with all of them
    stages    for stages that belong together as they were written, from a schedule and the device;
              asked before any are inlined, and all other rules are for the rest
    copies    from the device, a schedule and two blocks: how often the first one computes elements
              of the second one that is inlined into it
    anywhere  whether `rest` takes stages that store elsewhere than at their variables
    prepare   from a schedule, the device and what `stages` take: each is done before groups are
              found; they return the blocks for which primitives refuse that, with what, and why
    finish    from a schedule and the device: what is done to it after all plans; returns what
              primitives refuse of that, and why
    least     from a schedule, groups of it, the device and cycles that are enough: cycles that
              plans take together, so that what cannot be the fastest program need not be planned
    again     from what plans programs, and one with algorithms that may read arrays again, to this
              one or the definition, whichever takes less time, and the sketch of it
    general   for searches: from a schedule, some blocks, the device and those of the blocks that
              are to be inlined without tuning, to a plan of nests with all choices open
    """

    rest: Rule
    groups: list[Rule]
    steps: list[Rule] = field(default_factory=list)
    chains: list[Rule] = field(default_factory=list)
    stages: list[Rule] = field(default_factory=list)
    copies: Callable[..., float] | None = None
    anywhere: bool = False
    prepare: list[Callable[..., Mapping[str, dict[str, str]]]] = field(default_factory=list)
    finish: Callable[..., Mapping[str, str]] | None = None
    least: Callable[..., float] | None = None
    again: Callable[..., Any] | None = None
    general: Callable[..., Plan] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "_own", tuple(self.groups))

    @property
    def bound(self) -> Callable[..., float] | None:
        """`least`, unless rules were registered: what these make may take less."""
        return self.least if (*self.groups,) == self.__dict__["_own"] else None


def _later(place: str) -> Callable[..., Any]:
    """A function of these rules that is imported when it is first called: schedules for processors
    need none of those for GPUs, and default schedules no general nests."""
    module, _, name = place.partition(":")

    def call(*args: Any, **options: Any) -> Any:
        return getattr(import_module(f"autotune.rules.{module}"), name)(*args, **options)

    call.__name__ = name
    return call


RULES: dict[str, Rules] = {
    "cpu": Rules(
        stages=[winograd_stages],
        chains=[scan_plans, chain_plans, side_by_side_plans],
        groups=[
            scatter_plans,
            tiled_plans,
            tensorized_plans,
            short_rows_plans,
            moved_plans,
            tuples_plans,
            contraction_plans,
            transposed_plans,
            stencil_plans,
        ],
        steps=[contraction_plans],
        rest=spatial_plans,
        copies=copies,
        anywhere=True,
        prepare=[share_parts, lay_out_states],
        finish=_later("together:run_together"),
        least=least_cycles,
        general=_later("nests:nests_plan"),
    ),
    "gpu": Rules(
        stages=[_later("gpu.online:online_stages")],
        chains=[_later("gpu.scan:scan_plans"), _later("gpu.chain:chain_plans")],
        groups=[
            _later("gpu.sums.scattered:scattered_plans"),
            _later("gpu.windows.plans:windows_plans"),
            _later("gpu.product:product_plans"),
            _later("gpu.sums.reductions:reduction_plans"),
            _later("gpu.turned:turned_plans"),
        ],
        rest=_later("gpu.elementwise:elementwise_plans"),
        prepare=[_later("gpu.placed:in_place")],
        finish=_later("gpu.together:run_together"),
        least=_later("gpu.product:least_cycles"),
        again=_later("gpu.together:in_fewer_kernels"),
    ),
}
"""By the kind of a device."""


def rules_for(device: Device) -> Rules:
    """The rules for a device; TensorIRError for a kind that has none."""
    if device.kind not in RULES:
        raise TensorIRError(
            f"there are no scheduling rules for {device.kind!r}, so none for "
            f"{str(device.target)!r}; there are for {', '.join(RULES)}"
        )
    return RULES[device.kind]


def register_rule(rule: Rule, kind: str = "cpu", first: bool = True) -> Rule:
    """Offer the plans of `rule` for each group of a program from now on; returns the rule.

        register_rule(my_plans)

    rule   a function `(schedule, group, device)` that returns plans (classes derived from
           `autotune.rules.Plan`), or none for groups that it is not for
    kind   of the devices that it is for: "cpu" or "gpu"
    first  whether the default schedule is the first plan of this rule where there is one; else it
           is tried by searches, after all others

    Raises TensorIRError for a kind that has no rules, and for a rule that is there already.
    """
    if kind not in RULES:
        raise TensorIRError(f"there are no rules for {kind!r}; there are for {', '.join(RULES)}")
    groups = RULES[kind].groups
    if not callable(rule):
        raise TensorIRError(f"{rule!r} is no rule: give a function of schedule, group and device")
    if rule in groups:
        raise TensorIRError(f"rule {getattr(rule, '__name__', rule)!r} is registered already")
    groups.insert(0 if first else len(groups), rule)
    return rule


def forget_rule(rule: Rule, kind: str = "cpu") -> None:
    """Undo `register_rule`; TensorIRError for a rule that is not there."""
    if rule not in RULES.get(kind, RULES["cpu"]).groups:
        raise TensorIRError(f"rule {getattr(rule, '__name__', rule)!r} is not registered")
    RULES[kind].groups.remove(rule)
