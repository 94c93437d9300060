"""The schedules of schedule.library as sketches, for the programs that they are made for."""

from __future__ import annotations

from autotune.rules.plan import Machine
from schedule import Schedule
from tensorir import Block, IterKind, TensorIRError, loads, stmt_exprs, variables, walk


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
