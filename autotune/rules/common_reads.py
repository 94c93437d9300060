"""Statistics of a chain that read the same rows: they go over them together, in one loop."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.rules.group import needed
from autotune.rules.lanes import is_reduce_loop, unroll_short
from autotune.rules.runs import contiguous_run, run_length
from schedule import Schedule
from tensorir import body_loads


def read_in_common(sch: Schedule, statistics: Sequence[str]) -> list[tuple[str, ...]]:
    """The statistics in groups, in program order: those of a group have runs of one length, and
    share what they read with the first of it, and none needs another one."""
    groups: list[list[str]] = []
    for name in statistics:
        fitting = (g for g in groups if _goes_with(sch, name, g))
        group = next(fitting, None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return [tuple(group) for group in groups]


def _goes_with(sch: Schedule, name: str, group: Sequence[str]) -> bool:
    block, first = sch.state.block(name), sch.state.block(group[0])
    lengths = {run_length(contiguous_run(b)) for b in (block, first)}
    shared = {r.buffer for r in body_loads(block)} & {r.buffer for r in body_loads(first)}
    return len(lengths) == 1 and bool(shared) and needed(sch, name).isdisjoint(group)


def run_together(sch: Schedule, blocks: Sequence[str]) -> list[str]:
    """Move the statements of `blocks`, which are in one loop, to the first of them; returns them in
    the order of the program."""
    order = list(map(str, sch.get_blocks()))
    found = sorted(blocks, key=order.index)
    for before, block in zip(found, found[1:]):
        after = order[order.index(before) + 1]
        if after != block:
            sch.run_before(block, after)
            order = list(map(str, sch.get_blocks()))
    return found


def sum_together(sch: Schedule, blocks: Sequence[str], outside: int) -> None:
    """Partial sums of some rows, in the lanes of their last loops, as one nest in the loop that is
    `outside` loops deep: what they read in common is read once."""
    few = 0
    for block in blocks:
        own = sch.get_loops(block)[outside:]
        reducing = [loop for loop in own if is_reduce_loop(sch.state.block(block), loop)]
        sch.reorder(*reducing, *[loop for loop in own if loop not in reducing])
        few = len(reducing)
    depth = len(sch.get_loops(blocks[0])) - 1
    for level in range(outside, depth):
        merge_level(sch, blocks, level)
    for block in blocks:
        sch.vectorize(sch.get_loops(block)[-1])
    shared = sch.get_loops(blocks[0])[outside:depth]
    unroll_short(sch, shared[:few])
    for loop in shared[few:]:
        sch.unroll(loop)


def merge_level(sch: Schedule, blocks: Sequence[str], level: int) -> None:
    """One loop for those of `blocks` that are `level` loops deep, next to each other."""
    sch.merge(*[sch.get_loops(block)[level] for block in blocks])
