"""Reductions of many rows that are shorter than a vector or about as long: one row in each lane.

A square of rows and terms is transposed in registers, so that neighbouring rows lie in the lanes
and every term of theirs is one operation. The order within a row stays: results have the same bits.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod
from typing import Any

from autotune.choices import Categorical, Choice
from autotune.rules.effort import one_thread
from autotune.rules.group import (
    Group,
    body_loads,
    instances,
    output_store,
    result_stores,
    size,
)
from autotune.rules.plan import Plan, Values
from schedule import LoopRef, Schedule
from tensorir import Block, Cpu, IterKind, Load, Store, dtype, int_value, variables

LONGER = 2
"""Terms of a row for each lane, from which on partial sums in lanes take less time."""


@dataclass(frozen=True)
class ShortRowsPlan(Plan):
    """Tasks of as many rows as there are lanes; `turned` are read through transposed squares."""

    group: Group
    cpu: Cpu
    turned: tuple[str, ...]
    lanes: int
    choices: tuple[Choice, ...]
    large: bool
    name: str = "short_rows"
    numerics: str = "bitwise"

    def key(self, what: str) -> str:
        return f"{self.group.block}.{what}"

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        return {self.key("threads"): "parallel" if self.large else "serial"}

    def apply(self, sch: Schedule, values: Values) -> None:
        block = self.group.block
        copies = [self._turned(sch, name) for name in self.turned]
        tasks = [self._task(sch, writer) for writer in self._writers(sch)]
        task = sch.merge(*tasks) if len(tasks) > 1 else tasks[0]
        for each in (block, *copies):
            sch.compute_at(each, task)
        for copy in copies:
            *_, rows, terms = sch.get_loops(copy)
            sch.unroll(rows)
            sch.vectorize(terms)
        *_, rows, terms = sch.get_loops(block)
        sch.reorder(terms, rows)
        sch.unroll(terms)
        sch.vectorize(rows)
        if values[self.key("threads")] == "parallel":
            sch.parallel(task)

    def _writers(self, sch: Schedule) -> list[str]:
        """The blocks that take the results from registers, in the order of the program."""
        block = self.group.block
        if self.group.epilogue is not None:
            return [self.group.epilogue]
        count = len(result_stores(sch.state.block(block)))
        return [str(sch.cache_write(block, n, "local")) for n in range(count)][::-1]

    def _task(self, sch: Schedule, writer: str) -> LoopRef:
        """The loops of a writer: tasks, and in one a row in each lane."""
        *outer, row = sch.get_loops(writer)
        first, lanes = sch.split(row, [None, self.lanes])
        sch.vectorize(lanes)
        return sch.fuse(*outer, first) if outer else first

    def _turned(self, sch: Schedule, buffer: str) -> str:
        """The block that copies `buffer` with rows and terms exchanged."""
        copy = str(sch.cache_read(self.group.block, buffer, "local"))
        store = output_store(sch.state.block(copy))
        assert store is not None
        *outer, row, term = [f"i{n}" for n in range(store.buffer.ndim)]
        text = f"{', '.join([*outer, row, term])}: {', '.join([*outer, term, row])}"
        sch.transform_layout(copy, store.buffer.name, text)
        return copy


def short_rows_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[ShortRowsPlan]:
    """A plan for a reduction along the last axis of what it reads, of many short rows."""
    block = sch.state.block(group.block)
    stores = result_stores(block)
    reduce = [it for it in block.iters if it.kind is IterKind.REDUCE]
    spatial = [it.var for it in block.iters if it.kind is IterKind.SPATIAL]
    if not stores or len(reduce) != 1 or not spatial or not _follows(sch, group, stores[0]):
        return []
    reads, kinds = body_loads(block), [store.buffer.dtype for store in stores]
    lanes = cpu.elements(*kinds)
    terms, rows = int_value(reduce[0].extent), size(block.iters[len(spatial) - 1].extent)
    if terms is None or not 2 <= terms < LONGER * lanes or rows < lanes:
        return []
    turned = [r for r in reads if {spatial[-1], reduce[0].var} <= set(_used(r))]
    wide = {dtype.itemsize(kind) for kind in (*kinds, *(r.buffer.dtype for r in reads))}
    once = all(prod(map(size, r.buffer.shape)) == instances(block) for r in turned)
    whole = all(r.indices[-2:] == (spatial[-1], reduce[0].var) for r in turned)
    if not turned or not whole or not once or wide not in ({4}, {8}):
        return []
    choices = (Categorical(f"{group.block}.threads", ("parallel", "serial")),)
    squares = len(turned) * instances(block) / lanes * cpu.costs.transpose
    large = cpu.worth_threads(one_thread([block], cpu) + squares)
    names = tuple(dict.fromkeys(r.buffer.name for r in turned))
    return [ShortRowsPlan(group, cpu, names, lanes, choices, large)]


def _used(load: Load) -> set[Any]:
    return {v for index in load.indices for v in variables(index)}


def _follows(sch: Schedule, group: Group, store: Store) -> bool:
    """Whether the epilogue, if there is one, goes through its result as it is stored."""
    if group.epilogue is None:
        return True
    user: Block = sch.state.block(group.epilogue)
    written = output_store(user)
    made = [r for r in body_loads(user) if r.buffer is store.buffer]
    own = tuple(it.var for it in user.iters)
    return written is not None and all(e == own for e in (written.indices, made[0].indices))
