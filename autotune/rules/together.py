"""Nests that go over the same elements run together: what one leaves in cache the next one uses.

Stages whose results are all wanted, as those of a step of an optimizer, cannot be inlined, and
several sums of the same rows are no chain: each has a nest of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from autotune.rules.group import attempt
from schedule import Schedule
from tensorir import (
    Cpu,
    Expr,
    For,
    Seq,
    Var,
    accesses,
    blocks_below,
    const,
    dtype,
    int_value,
    substitute,
    variables,
)

TASK = Var("task")
"""Stands for the loop over tasks of any nest."""


def run_together(sch: Schedule, device: Cpu) -> dict[str, str]:
    """Merge neighbouring nests that touch the same parts of arrays, as far as primitives allow it:
    of arrays that the first cache does not hold, and parts that the second one does. Returns what
    is refused, as where a task needs what others make, and why."""
    refused = dict[str, str]()
    for first, second in neighbours(sch):
        if _share(first, second, device):
            what = f"{first.name} together with {second.name}"
            attempt(refused, what, sch.merge, first.name, second.name)
    return refused


def neighbours(sch: Schedule) -> Iterator[tuple[For, For]]:
    """Nests that follow each other; who asks may make them one, which is a neighbour then."""
    at = 0
    while isinstance(body := sch.func.body, Seq) and at + 1 < len(body.stmts):
        first, second = body.stmts[at : at + 2]
        if isinstance(first, For) and isinstance(second, For):
            yield first, second
        at += sch.func.body is body


def _share(first: For, second: For, cpu: Cpu) -> bool:
    """Whether the tasks of two nests, as many of each, have parts of arrays in common."""
    tasks = first.const_extent
    if first.kind is not second.kind or tasks != second.const_extent or not tasks or tasks < 2:
        return False
    sizes = _parts(first)
    common = [sizes[part] for part in _parts(second) if part in sizes]
    return any(cpu.l1_bytes < size <= cpu.l2_bytes * tasks for size in common)


def _parts(nest: For) -> dict[tuple[object, ...], int]:
    """The buffers that a task of a nest touches, with where it begins in each, and their bytes."""
    found: dict[tuple[object, ...], int] = {}
    for block in blocks_below(nest):
        for access in accesses(block):
            size = prod(int_value(extent) or 0 for extent in access.buffer.shape)
            indices = tuple(_at_task(index, nest) for index in access.in_loops())
            if any(TASK in index.variables for index in indices):
                found[access.buffer.name, indices] = size * dtype.itemsize(access.buffer.dtype)
    return found


def _at_task(index: Expr, nest: For) -> Expr:
    """An index where the loops inside of a task begin."""
    return substitute(index, {v: TASK if v is nest.var else const(0) for v in variables(index)})
