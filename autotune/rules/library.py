"""The schedules of schedule.library as sketches, for the programs that they are made for."""

from __future__ import annotations

from collections.abc import Callable

from autotune.rules.plan import Machine
from schedule import Schedule
from tensorir import IterKind, PrimFunc, TensorIRError

LEAST_AXES = 6
"""Axes of the smallest convolution: channels in and out, two of the picture, two of the filter."""


def library_schedule(func: PrimFunc, machine: Machine) -> Callable[[], Schedule] | None:
    """Makes the schedule that the library has for a program; None where it has none."""
    if machine.target is None or not _may_be_convolution(func):
        return None
    from schedule import library

    target = machine.target

    def make() -> Schedule:
        sch = Schedule(func)
        library.conv2d(sch, target)
        return sch

    try:
        make()
    except TensorIRError:  # another kind of program, or sizes that the schedule is not for
        return None
    return make


def _may_be_convolution(func: PrimFunc) -> bool:
    """Whether a reduction has as many axes as that of a convolution, or a depthwise one."""
    sch = Schedule(func)
    blocks = [sch.state.block(name) for name in sch.get_blocks()]
    return any(
        block.is_reduction
        and len(block.iters) >= LEAST_AXES
        and sum(it.kind is IterKind.REDUCE for it in block.iters) >= 2
        for block in blocks
    )
