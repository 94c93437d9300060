"""The schedules of schedule.library as sketches, for the programs that they are made for."""

from __future__ import annotations

from autotune.rules.plan import Machine
from schedule import Schedule
from tensorir import IterKind, TensorIRError

LEAST_AXES = 6
"""Axes of the smallest convolution: channels in and out, two of the picture, two of the filter."""


def library_schedule(base: Schedule, machine: Machine) -> Schedule | None:
    """The schedule that the library has for a program; None where it has none."""
    sch = base.copy()
    if machine.target is None or not (_may_be_convolution(sch) or _may_be_winograd(sch)):
        return None
    from schedule import library

    try:
        library.conv2d(sch, machine.target)
    except TensorIRError:  # another kind of program, or sizes that the schedule is not for
        return None
    return sch


def _may_be_convolution(sch: Schedule) -> bool:
    """Whether a reduction has as many axes as that of a convolution, or a depthwise one."""
    blocks = [sch.state.block(name) for name in sch.get_blocks()]
    return any(
        block.is_reduction
        and len(block.iters) >= LEAST_AXES
        and sum(it.kind is IterKind.REDUCE for it in block.iters) >= 2
        for block in blocks
    )


def _may_be_winograd(sch: Schedule) -> bool:
    """Whether a stage is called as ops.conv2d_winograd calls its products."""
    return any(name.endswith("_products") for name in sch.get_blocks())
