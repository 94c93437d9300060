"""Statistics of a chain that read the same rows: they go over them together, in one loop."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.rules.lanes import run_length
from schedule import Schedule, library, needed
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
    pair = sch.state.block(name), sch.state.block(group[0])
    one, other = ({read.buffer for read in body_loads(block)} for block in pair)
    if one.isdisjoint(other) or not needed(sch.state, name).isdisjoint(group):
        return False
    return len({run_length(library.contiguous_run(block)) for block in pair}) == 1


def run_together(sch: Schedule, blocks: Sequence[str]) -> list[str]:
    """Move the statements of `blocks`, which are in one loop, to the first of them; returns them in
    the order of the program."""
    found = sorted(blocks, key=sch.state.place)
    for before, block in zip(found, found[1:]):
        order = list(map(str, sch.get_blocks()))
        after = order[order.index(before) + 1]
        if after != block:
            sch.run_before(block, after)
    return found
