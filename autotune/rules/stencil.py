"""Stages that read neighbours: rows of vectors side by side, which share what they read.

Written out for several rows along an axis, a stage loads each element once that several rows read,
and computes once what is made of it alone. How much that saves is counted in its expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from autotune.rules.effort import one_thread, operations_of
from autotune.rules.forms import moved_on_axes
from autotune.rules.group import Group, in_scan, instances, operations, output_store, stride_in
from autotune.rules.plan import Plan
from autotune.rules.stores import stream_by_default
from schedule import Schedule
from tensorir import (
    Analyzer,
    Block,
    Buffer,
    Cast,
    Cpu,
    Expr,
    Load,
    Store,
    Var,
    body_loads,
    const,
    dtype,
    int_value,
    substitute,
    transform,
    variables,
)

ROWS = (2, 4)
"""Rows that are written out together; of more, gcc keeps less in registers."""

GAIN = 0.9
"""Share of the cycles of single rows that rows together may take at most; else they are not."""

UNALIGNED = 1.6
"""Loads of a vector that begins anywhere: some cross lines of the cache."""

MOST_READ, MOST_INLINED = 64, 512
"""Places that a stage reads whose rows are looked at, and operations of all rows that one is
inlined as, however many of them are shared."""

RUN = 2048
"""Bytes of a piece of memory in order, of which the processor asks for the next ones ahead."""

KEPT = 4
"""Of what the last cache has room for, one part in so many is there, and needs no such pieces."""

TASKS = 4
"""Tasks for each thread."""


class Rows(NamedTuple):
    """So many rows along an axis of a stage, in vectors of so many elements.

    at  the place of the axis among the axes of the result
    """

    at: int
    axis: Var
    rows: int
    lane: Var
    width: int

    def values(self) -> dict[str, object]:
        """What is decided of the choices of a general nest."""
        return {
            f"tile[{self.axis.name}]": self.rows,
            f"tile[{self.lane.name}]": self.width,
            "threads": self.at + 1,
        }


def stencil_plans(sch: Schedule, group: Group, cpu: Cpu) -> Sequence[Plan]:
    """The general nest with rows of registers, for a stage of which neighbours read the same."""
    block = sch.state.block(group.block)
    found = rows_of_registers(sch, block, cpu)
    if found is None:
        return []
    from autotune.rules.nests import nests_plan  # few programs need it

    streamed = {"stores": "stream"} if stream_by_default(sch, group.block, cpu) else {}
    plan = nests_plan(sch, [group.block], cpu, name="stencil", wanted=found.values() | streamed)
    return [plan] if plan.is_possible() else []


def rows_of_registers(sch: Schedule, block: Block, cpu: Cpu, grows: bool = False) -> Rows | None:
    """The rows of a stage that pay by an estimate of its cycles; None where they share nothing, or
    other things take the time. What storing them in turns costs is little where the stage `grows`
    by what is inlined into it."""
    store, spatial = output_store(block), block.spatial
    known = [n for it in spatial if (n := int_value(it.extent))]
    if block.is_reduction or store is None or min(len(spatial), len(known)) < 2:
        return None
    places = [prod(known[n:]) for n in range(1, len(known) + 1)]
    in_order = [stride_in(store, it.var, block) for it in spatial] == places
    if len(known) < len(spatial) or not in_order:  # or it stores in another order than memory's
        return None
    reads, lane = body_loads(block), spatial[-1].var
    if len(reads) > MOST_READ or not _neighbours(block, reads):
        return None
    kinds = [store.buffer.dtype, *(load.buffer.dtype for load in reads)]
    short = 2 * known[-1] <= cpu.elements(*kinds)  # and so would be vectors
    if short or any(stride_in(n, lane, block) not in (0, 1) for n in reads):
        return None
    item = max(map(dtype.itemsize, kinds))
    if not cpu.worth_threads(one_thread([block], cpu)):
        return None  # ends of rows take the time
    arrays = 1 + len({load.buffer for load in reads})
    fits = prod(known) * item * arrays <= max(cpu.l2_bytes, cpu.l3_bytes // KEPT)
    alone = _cycles(store, lane, lane, 1, cpu)
    vectors = 2 if 2 * len(reads) + 4 <= cpu.registers else 1
    width = min(cpu.elements(*kinds) * vectors, known[-1])
    loose = store.buffer in sch.func.params and not grows
    run = width * dtype.itemsize(store.buffer.dtype)
    pieces = cpu.piece * cpu.vector_bytes / run if loose else 0.0
    best, least = None, GAIN * alone
    for at, it in enumerate(spatial[:-1]):
        if not fits and prod(known[at + 1 :]) * item < RUN:
            continue
        for rows in ROWS:
            tasks = prod(known[:at]) * (known[at] // rows)
            if rows <= known[at] and tasks >= TASKS * cpu.threads:
                cycles = _cycles(store, lane, it.var, rows, cpu) + pieces
                if cycles < least:
                    best = Rows(at, it.var, rows, lane, width)
                    least = 0.95 * cycles
    return best


def copies(cpu: Cpu, sch: Schedule, user: Block, block: Block) -> float:
    """How often an element of a stage is computed where it is inlined into one that reads it:
    rows of registers compute once what several of them read. All places count where the stage, and
    what it is made of, stay in the caches."""
    store, trial = output_store(block), sch.copy()
    user = trial.state.block(user.name) if moved_on_axes(trial, user.name, {}) else user
    reads = [load for load in body_loads(user) if store and load.buffer is store.buffer]
    found = None if in_scan(sch, user) else rows_of_registers(sch, user, cpu, grows=True)
    if found is None or len(reads) * operations(block) * found.rows > MOST_INLINED:
        return len(reads)
    if 3 * instances(block) * dtype.itemsize(reads[0].dtype) < cpu.l3_bytes:
        return len(reads)  # it is read from a cache, which takes less time than computing it
    known: dict[Expr, Expr] = {}
    moved = {_moved(n, found.axis, row, known) for n in reads for row in range(found.rows)}
    return len(moved) / found.rows


def _neighbours(block: Block, reads: Sequence[Load]) -> bool:
    """Whether some buffer is read in several places that lie rows of the stage apart."""
    firsts: dict[Buffer, Load] = {}
    for load in reads:
        first = firsts.setdefault(load.buffer, load)
        apart: Expr = const(0)
        for here, there, extent in zip(load.indices, first.indices, load.buffer.shape):
            apart = Analyzer().simplify(apart * extent + (here - there))
        steps = [stride_in(load, it.var, block) for it in block.spatial[:-1]]
        row, known = min([abs(s or 1) for s in steps if s != 0], default=0), int_value(apart)
        if row and (known is None or 2 * abs(known) >= row):
            return True
    return False


def _cycles(store: Store, lane: Var, axis: Var, rows: int, cpu: Cpu) -> float:
    """Of a vector of results, of so many rows along an axis at a time; what all lanes have in
    common is computed ahead of them."""
    known: dict[Expr, Expr] = {}
    found = [_moved(store.value, axis, row, known) for row in range(rows)]
    nodes: dict[Expr, None] = {}
    for value in found:
        _collect(value, lane, nodes)
    work = sum(operations_of(n) + isinstance(n, Cast) for n in nodes) / rows / cpu.costs.units
    loads = sum(isinstance(n, Load) for n in nodes) / rows * UNALIGNED / cpu.costs.ports
    return max(work, loads) + cpu.costs.both * min(work, loads)


def _collect(e: Expr, lane: Var, nodes: dict[Expr, None]) -> None:
    """Note the parts of a value that move with the lanes, each once; no indices of loads."""
    if e in nodes or lane not in variables(e):
        return
    nodes[e] = None
    if not isinstance(e, Load):
        for part in e.operands:
            _collect(part, lane, nodes)


def _moved(e: Expr, axis: Var, row: int, known: dict[Expr, Expr]) -> Expr:
    """A value of a later row along an axis. Equal values are one object; `known` are indices that
    were simplified."""

    def rule(part: Expr) -> Expr | None:
        if part.dtype != dtype.INDEX or part.has_loads or not part.operands:
            return None
        if part not in known:
            known[part] = Analyzer().simplify(part)
        return known[part]

    return transform(substitute(e, {axis: axis + row}), rule)
