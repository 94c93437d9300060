"""What is chosen for the nest of a contraction."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pack:
    """An operand that is read through a copy in panels of `width` values of `axis`, made ahead."""

    operand: int
    axis: int
    width: int


@dataclass(frozen=True)
class NestPlan:
    """A nest for a contraction; sizes stand for its spatial axes, in order.

    lane     the axis whose neighbours are in vectors
    tile     the register tile: how many values of each axis have their sums in registers
    task     how many values of each axis belong to what one thread takes at a time
    steps    the axes that are summed over, outermost first
    order    the axes in the order of the loops inside of a task, outermost first
    packs    operands that are copied ahead of the nest
    pad      where padding goes: "root", "task", or "inline" into the sums
    flat     whether the terms of a sum are written out: elements that several rows of a tile read
             are then loaded once. "rows": the sums of a tile side by side, "single": one after the
             other; "" for loops
    threads  whether threads share the tasks
    """

    lane: int
    lanes: int
    tile: tuple[int, ...]
    task: tuple[int, ...]
    steps: tuple[int, ...]
    order: tuple[int, ...]
    packs: tuple[Pack, ...] = ()
    pad: str = "task"
    flat: str = ""
    threads: bool = True
