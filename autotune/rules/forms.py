"""Elementwise stages on the axes of what they read, whatever variables they were written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotune.rules.group import Group, body_loads, in_scan, output_store
from autotune.rules.plan import Plan
from schedule import Schedule, ScheduleError
from tensorir import BinOp, Block, Device, IterKind, int_value, walk_exprs


def bring_on_axes(
    sch: Schedule, rules: Sequence[Callable[..., Sequence[Plan]]], device: Device
) -> None:
    """Give elementwise stages a variable for each digit that they read at, and none of extent 1,
    where one of some rules has a plan for them then, and none had before: `out[v] = a[v % 64,
    v // 64]` is a transpose, and is scheduled as one.

    Stages after sums stay as they are: they go with the axes of these. So do stages that others
    read: these go with them.
    """
    for name in map(str, sch.get_blocks()):
        block = sch.state.block(name)
        if not _may_be_bent(block) or not _stands_alone(sch, name) or in_scan(sch, block):
            continue
        if any(rule(sch, Group(name), device) for rule in rules):
            continue
        from schedule import library

        trial = sch.copy()
        try:
            library.in_digits(trial, name)
        except ScheduleError:  # its loops are not its own: it stays as it is written
            continue
        if any(rule(trial, Group(name), device) for rule in rules):
            library.in_digits(sch, name)


def _may_be_bent(block: Block) -> bool:
    """Whether a stage reads at parts of its variables, or has one value in the last of several."""
    if output_store(block) is None or any(it.kind is not IterKind.SPATIAL for it in block.iters):
        return False
    long = [it for it in block.iters if int_value(it.extent) != 1]
    if len(long) > 1 and long[-1] is not block.iters[-1]:
        return True
    own = {it.var for it in block.iters}
    return any(
        isinstance(e, BinOp) and e.op in ("//", "%") and e.a in own
        for load in body_loads(block)
        for index in load.indices
        for e in walk_exprs(index)
    )


def _stands_alone(sch: Schedule, name: str) -> bool:
    """Whether no other stage reads what it stores, and it reads no sums."""
    made = sch.get_producers(name)
    return not sch.get_consumers(name) and not any(sch.state.block(n).is_reduction for n in made)
