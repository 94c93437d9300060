"""Nests that go over the same elements run together: what one leaves in cache the next one uses.

Stages whose results are all wanted, as those of a step of an optimizer, cannot be inlined, and
several sums of the same rows are no chain: each has a nest of its own.
"""

from __future__ import annotations

from autotune.rules.group import attempt, bytes_of, size
from schedule import Schedule
from tensorir import (
    Cpu,
    Expr,
    For,
    Seq,
    Stmt,
    Var,
    accesses,
    blocks_below,
    const,
    substitute,
    variables,
)

TASK = Var("task")
"""Stands for the loop over tasks of any nest."""

Part = tuple[str, tuple[Expr, ...]]
"""A buffer, and where in it a task begins."""


def run_together(sch: Schedule, device: Cpu) -> dict[str, str]:
    """Merge neighbouring nests that touch the same parts of arrays, as far as primitives allow it:
    of arrays that the first cache does not hold, and parts that the second one does. Returns what
    is refused, as where a task needs what others make, and why."""
    refused, at = dict[str, str](), 0
    while at + 1 < len(nests := _nests(sch)):
        first, second = nests[at : at + 2]
        if isinstance(first, For) and isinstance(second, For) and _share(first, second, device):
            what = f"{first.name} together with {second.name}"
            if attempt(refused, what, sch.merge, first.name, second.name):
                continue
        at += 1
    return refused


def _nests(sch: Schedule) -> tuple[Stmt, ...]:
    body = sch.func.body
    return body.stmts if isinstance(body, Seq) else ()


def _share(first: For, second: For, cpu: Cpu) -> bool:
    """Whether the tasks of two nests, as many of each, have parts of arrays in common."""
    tasks = size(first.extent)
    if first.kind is not second.kind or first.extent is not second.extent or tasks < 2:
        return False
    sizes = _parts(first)
    common = [sizes[part] for part in _parts(second) if part in sizes]
    return any(cpu.l1_bytes < used <= cpu.l2_bytes * tasks for used in common)


def _parts(nest: For) -> dict[Part, int]:
    """The parts of buffers that a task of a nest touches, and how many bytes each buffer has."""
    found: dict[Part, int] = {}
    for block in blocks_below(nest):
        for access in accesses(block):
            indices = tuple(_at_task(index, nest) for index in access.in_loops())
            if any(TASK in index.variables for index in indices):
                found[access.buffer.name, indices] = bytes_of(access.buffer)
    return found


def _at_task(index: Expr, nest: For) -> Expr:
    """An index where the loops inside of a task begin."""
    return substitute(index, {v: TASK if v is nest.var else const(0) for v in variables(index)})
