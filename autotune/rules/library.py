"""The schedules of schedule.library as sketches, for the programs that they are made for."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from autotune.choices import Categorical, Choice
from autotune.rules.group import SYMBOLIC_SIZE, Group
from autotune.rules.plan import Machine, Values
from schedule import Schedule
from tensorir import Block, IterKind, Target, TensorIRError, loads, stmt_exprs, variables, walk

FEW_PIXELS = 8
"""With fewer outputs of each filter, a convolution is a product with a vector or a few of them."""

MANY_PIXELS = 256
"""Outputs of a filter from which on it pays to pack weights that are no constants."""


@dataclass(frozen=True)
class LibraryPlan:
    """The schedule of the library; a choice whether weights are packed that may stay in place.

    `base` is the program before it was `made`, `operand` the weights if there is that choice, and
    `pixels` how many outputs a filter has.
    """

    group: Group
    base: Schedule
    made: Schedule
    target: Target
    operand: str = ""
    pixels: int = 0
    name: str = "library"

    @property
    def choices(self) -> tuple[Choice, ...]:
        if not self.operand:
            return ()
        return (Categorical(f"{self.group.block}.pack_{self.operand}", ("root", "none")),)

    def default(self) -> dict[str, Any]:
        """Weights are packed where many pixels use them; constants are in any case."""
        many = self.pixels >= MANY_PIXELS
        return {choice.name: "root" if many else "none" for choice in self.choices}

    def feasible(self, values: Values) -> bool:
        return True

    def build(self, values: Values) -> Schedule:
        """A schedule of its own."""
        from schedule import library

        if all(values[choice.name] == "root" for choice in self.choices):
            return self.made.copy()
        in_place = self.base.copy()
        library.conv2d(in_place, self.target, packed=False)
        return in_place

    def apply(self, sch: Schedule, values: Values) -> None:
        """Schedule a program that nothing was done to."""
        sch.apply(self.build(values).trace)


def library_plan(base: Schedule, machine: Machine) -> LibraryPlan | None:
    """The schedule that the library has for a program; None where it has none."""
    sch = base.copy()
    if machine.target is None or not (_may_be_convolution(sch) or _may_be_winograd(sch)):
        return None
    from schedule import library

    try:
        plan = library.conv2d(sch, machine.target)
    except TensorIRError:  # another kind of program, or sizes that the schedule is not for
        return None
    if not isinstance(plan, library.NhwcPlan):
        return LibraryPlan(Group(""), base, sch, machine.target)
    (sums,) = (str(n) for n in base.get_blocks() if base.state.block(n).is_reduction)
    conv = library.find_channels_last(base, sums)
    pixels = SYMBOLIC_SIZE if conv.samples is None else conv.samples * prod(conv.sizes)
    if pixels < FEW_PIXELS:
        return None
    packs = conv.filters > conv.panel(plan.vectors * plan.lanes)
    operand = conv.weight.buffer.name if packs else ""
    return LibraryPlan(Group(sums), base, sch, machine.target, operand, pixels)


def _may_be_convolution(sch: Schedule) -> bool:
    """Whether a reduction runs over windows, as those of convolutions do."""
    blocks = [sch.state.block(name) for name in sch.get_blocks()]
    return any(block.is_reduction and _has_window(block) for block in blocks)


def _has_window(block: Block) -> bool:
    """Whether an index moves with a variable of the result and with one that is summed over."""
    kinds = {it.var: it.kind for it in block.iters}
    return any(
        {kinds.get(v) for v in variables(index)} >= {IterKind.SPATIAL, IterKind.REDUCE}
        for stmt in walk(block.body)
        for e in stmt_exprs(stmt)
        for load in loads(e)
        for index in load.indices
    )


def _may_be_winograd(sch: Schedule) -> bool:
    """Whether a stage is called as ops.conv2d_winograd calls its products."""
    return any(name.endswith("_products") for name in sch.get_blocks())
