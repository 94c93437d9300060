"""The schedules of schedule.library as plans, for the programs that they are made for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from autotune.choices import Categorical, Choice
from autotune.rules.group import SYMBOLIC_SIZE, Group
from autotune.rules.plan import Plan, Values
from schedule import Schedule
from tensorir import (
    Block,
    Cpu,
    IterKind,
    Store,
    Target,
    TensorIRError,
    loads,
    stmt_exprs,
    variables,
    walk,
)

if TYPE_CHECKING:
    from schedule import library

FEW_PIXELS = 8
"""With fewer outputs of each filter, a convolution is a product with a vector or a few of them."""

MANY_PIXELS = 192
"""Outputs of a filter from which on it pays to pack weights that are no constants."""


@dataclass(frozen=True)
class LibraryPlan(Plan):
    """The schedule of the library, `made` of the program `base`, with nothing left open."""

    group: Group
    base: Schedule
    made: Schedule
    target: Target
    name: str = "library"

    @property
    def numerics(self) -> str:
        return self.made.numerics

    @property
    def choices(self) -> tuple[Choice, ...]:
        return ()

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        return {}

    def build(self, values: Values) -> Schedule:
        """A schedule of its own, with every choice made."""
        return self.made.copy()

    def apply(self, sch: Schedule, values: Values) -> None:
        """Schedule a program that nothing was done to."""
        sch.apply(self.build(values).trace)


@dataclass(frozen=True)
class PackingPlan(LibraryPlan):
    """Whether weights with channels last, `operand`, are packed or stay in place."""

    operand: str = ""
    pixels: int = 0
    """How many outputs a filter has."""

    @property
    def choices(self) -> tuple[Choice, ...]:
        return (Categorical(f"{self.group.block}.pack_{self.operand}", ("root", "none")),)

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """Weights are packed where many pixels use them; constants are in any case."""
        return {self.choices[0].name: "root" if self.pixels >= MANY_PIXELS else "none"}

    def build(self, values: Values) -> Schedule:
        if values[self.choices[0].name] == "root":
            return self.made.copy()
        from schedule import library

        in_place = self.base.copy()
        library.conv2d(in_place, self.target, packed=False)
        return in_place


def library_plan(base: Schedule, cpu: Cpu) -> LibraryPlan | None:
    """The schedule that the library has for a program; None where it has none."""
    sch, target = base.copy(), cpu.target
    if not _may_be_convolution(sch):
        return None
    if not _in_float32(sch):
        return None  # its vectors are as long as those of float32
    from schedule import library

    try:
        chosen = library.conv2d(sch, target)
    except TensorIRError:  # another kind of program, or sizes that the schedule is not for
        return None
    if isinstance(chosen, library.NhwcPlan):
        return _channels_last_plan(base, sch, target, chosen)
    return LibraryPlan(Group(""), base, sch, target)


def _channels_last_plan(
    base: Schedule, made: Schedule, target: Target, chosen: library.NhwcPlan
) -> LibraryPlan | None:
    from schedule import library

    (sums,) = (str(n) for n in base.get_blocks() if base.state.block(n).is_reduction)
    conv = library.find_channels_last(base, sums)
    pixels = SYMBOLIC_SIZE if conv.samples is None else conv.samples * prod(conv.sizes)
    if pixels < FEW_PIXELS:
        return None
    if conv.filters <= conv.panel(chosen.vectors * chosen.lanes):
        return LibraryPlan(Group(sums), base, made, target)
    operand = conv.weight.buffer.name
    return PackingPlan(Group(sums), base, made, target, operand=operand, pixels=pixels)


def _may_be_convolution(sch: Schedule) -> bool:
    """Whether a reduction runs over windows, as those of convolutions do."""
    blocks = [sch.state.block(name) for name in sch.get_blocks()]
    return any(block.is_reduction and _has_window(block) for block in blocks)


def _in_float32(sch: Schedule) -> bool:
    """Whether all sums are of float32."""
    blocks = [sch.state.block(name) for name in sch.get_blocks()]
    stores = [s for b in blocks if b.is_reduction for s in walk(b.body) if isinstance(s, Store)]
    return all(store.buffer.dtype == "float32" for store in stores)


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
