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
    """Merge neighbouring nests that touch the same parts of arrays, as far inside as primitives
    allow it: of arrays that the first cache does not hold, and parts that the second one does.
    Returns what is refused, as where a task needs what others make, and why."""
    refused, at = dict[str, str](), 0
    while isinstance(body := sch.func.body, Seq) and at + 1 < len(body.stmts):
        first, second = body.stmts[at : at + 2]
        at += not _merged(sch, first, second, device, refused)
    return refused


def _merged(sch: Schedule, a: Stmt, b: Stmt, cpu: Cpu, refused: dict[str, str]) -> bool:
    """Whether two nests are one now. Loops inside of them are merged, but for those of sums, whose
    lanes are in other loops: what several results are made of is then loaded and computed once."""
    sums = any(block.is_reduction for nest in (a, b) for block in blocks_below(nest))
    depth = 0
    while isinstance(a, For) and isinstance(b, For) and a.kind is b.kind and a.extent is b.extent:
        what = f"{a.name} together with {b.name}"
        wanted = not sums if depth else _share(a, b, cpu)
        if not wanted or not attempt(refused, what, sch.merge, a.name, b.name):
            break
        depth, a, b = depth + 1, a.body, b.body
    return depth > 0


def _share(first: For, second: For, cpu: Cpu) -> bool:
    """Whether the tasks of two nests, as many of each, have parts of arrays in common."""
    tasks, sizes = size(first.extent), _parts(first)
    common = [sizes[part] for part in _parts(second) if part in sizes]
    return tasks > 1 and any(cpu.l1_bytes < used <= cpu.l2_bytes * tasks for used in common)


def _parts(nest: For) -> dict[Part, int]:
    """The parts of buffers that a task of a nest touches, where the loops inside of it begin, and
    how many bytes each buffer has."""
    found: dict[Part, int] = {}
    for access in (access for block in blocks_below(nest) for access in accesses(block)):
        used = {v for index in access.in_loops() for v in variables(index)}
        begin = {v: TASK if v is nest.var else const(0) for v in used}
        indices = tuple(substitute(index, begin) for index in access.in_loops())
        if nest.var in used:
            found[access.buffer.name, indices] = bytes_of(access.buffer)
    return found
