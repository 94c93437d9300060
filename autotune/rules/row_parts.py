"""Long rows of which there are too few for the threads: each row in parts, side by side.

A row is cut in as many parts as give all threads the same work; the partial results (rfactor) are
rows like any others, and a few more terms add them up. Sums are reassociated.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from autotune.choices import Choice
from autotune.rules.effort import one_thread
from autotune.rules.group import Group, output_store, size
from autotune.rules.lanes import single_reducer
from autotune.rules.plan import Plan, Values
from autotune.rules.rows import RowsPlan, lanes_of, rows_plans
from autotune.rules.runs import contiguous_run, fuse_run, run_length
from schedule import Schedule
from tensorir import Block, Cpu, IterKind

IDLE = 1.1
"""How much longer whole rows may take than rows that are shared evenly."""


@dataclass(frozen=True)
class RowPartsPlan(Plan):
    """Parts of `length` terms of a run through memory; `inner` reduces each."""

    group: Group
    cpu: Cpu
    run: tuple[str, ...]
    length: int
    inner: RowsPlan
    name: str = "row_parts"
    numerics: str = "reassociated"

    @property
    def choices(self) -> tuple[Choice, ...]:
        return self.inner.choices

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        return self.inner.default(constants)

    def feasible(self, values: Values) -> bool:
        return self.inner.feasible(values)

    def apply(self, sch: Schedule, values: Values) -> None:
        _partial_results(sch, self.group.block, self.run, self.length)
        self.inner.apply(sch, values)


def _partial_results(sch: Schedule, block: str, run: tuple[str, ...], length: int) -> str:
    """The block that reduces parts of `length` terms; `block` reduces what it makes."""
    part, _ = sch.split(fuse_run(sch, block, run), [None, length])
    return str(sch.rfactor(block, part))


def row_parts_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[RowPartsPlan]:
    """A plan where whole rows leave threads without work, and rows are long."""
    block = sch.state.block(group.block)
    store = output_store(block)
    if store is None or not block.is_reduction or not single_reducer(store):
        return []
    run = contiguous_run(block)
    terms = run_length(run)
    if terms is None or not cpu.worth_threads(one_thread([block], cpu)):
        return []
    length = _part(block, terms, cpu)
    if length is None:
        return []
    names = tuple(it.var.name for it in run)
    trial = sch.copy()
    partial = _partial_results(trial, group.block, names, length)
    inner = rows_plans(trial, Group(partial), cpu)
    return [RowPartsPlan(group, cpu, names, length, plan) for plan in inner]


def _part(block: Block, terms: int, cpu: Cpu) -> int | None:
    """Terms of a part, in whole steps of the lanes; None where rows are better left whole."""
    rows = prod(size(it.extent) for it in block.iters if it.kind is IterKind.SPATIAL)
    rounds = -(-rows // cpu.threads)
    if rounds * cpu.threads < IDLE * rows:
        return None
    step = 4 * lanes_of(block, cpu)
    parts = cpu.threads // gcd(rows, cpu.threads)
    length = -(-terms // (parts * step)) * step
    return length if terms >= 8 * parts * step else None
