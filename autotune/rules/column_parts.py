"""Sums of columns: each thread reads rows of its own, one after the other, and adds them to partial
sums that stay in its first-level cache.

A few rows go together, so that a partial sum is loaded and stored once for all of them. Register
tiles of columns instead would go down the array in narrow strips, against the order of memory. Sums
are reassociated.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod
from typing import Any

from autotune.choices import Categorical, Choice
from autotune.rules.effort import one_thread
from autotune.rules.group import Group, body_loads, instances, output_store, size, stride_in
from autotune.rules.lanes import single_reducer
from autotune.rules.nest import finish_nest
from autotune.rules.plan import Plan, Values, at_most
from autotune.rules.rows import lanes_of
from schedule import Schedule
from tensorir import Block, Cpu, IterKind, dtype, int_value, variables

TOGETHER = (4, 8, 16)
"""Rows that are added to the partial sums at once."""

USUAL = 8


@dataclass(frozen=True)
class ColumnPartsPlan(Plan):
    """As many parts of the rows as there are threads, each with a partial sum of every column."""

    group: Group
    cpu: Cpu
    lanes: int
    choices: tuple[Choice, ...]
    name: str = "column_parts"
    numerics: str = "reassociated"

    def key(self, what: str) -> str:
        return f"{self.group.block}.{what}"

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        return {c.name: at_most(c, USUAL) for c in self.choices}

    def apply(self, sch: Schedule, values: Values) -> None:
        block, width = self.group.block, 4 * self.lanes
        row = sch.get_loops(block)[-1]
        part, _ = sch.split(row, [self.cpu.threads, None])
        partial = str(sch.rfactor(block, part, 0))
        *columns, part, row = sch.get_loops(partial)
        outer, rows = sch.split(row, [None, values[self.key("rows")]])
        chunk, lanes = sch.split(columns[-1], [None, width])
        sch.reorder(*columns[:-1], part, outer, chunk, rows, lanes)
        sch.unroll(rows)
        sch.vectorize(lanes)
        sch.parallel(part)
        *columns, part = sch.get_loops(block)
        chunk, lanes = sch.split(columns[-1], [None, width])
        sch.reorder(chunk, part, lanes)
        sch.vectorize(lanes)
        if self.group.epilogue:
            finish_nest(sch, self.group.epilogue, self.cpu, unroll_rows=0)


def column_parts_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[ColumnPartsPlan]:
    """A plan for a reduction along the rows of one array that is read once, whose partial results
    fit half of the first-level cache."""
    block = sch.state.block(group.block)
    store = output_store(block)
    if store is None or not block.is_reduction or not single_reducer(store) or group.padding:
        return []
    reduce = [it for it in block.iters if it.kind is IterKind.REDUCE]
    spatial = [it for it in block.iters if it.kind is IterKind.SPATIAL]
    if len(reduce) != 1 or len(spatial) != 1 or store.indices != (spatial[0].var,):
        return []
    rows, columns = int_value(reduce[0].extent), int_value(spatial[0].extent)
    if rows is None or columns is None or cpu.threads < 2:
        return []
    if not cpu.worth_threads(one_thread([block], cpu)):
        return []
    lanes = lanes_of(block, cpu)
    kept = columns * dtype.itemsize(store.buffer.dtype)
    if columns < 4 * lanes or kept > cpu.kept_bytes(1) or not _read_once(block):
        return []
    if rows < cpu.threads * TOGETHER[-1]:
        return []
    return [ColumnPartsPlan(group, cpu, lanes, (Categorical(f"{group.block}.rows", TOGETHER),))]


def _read_once(block: Block) -> bool:
    """Whether one load follows the rows, of another element in each instance, and all loads go
    along the columns."""
    row, column = block.iters[-1].var, block.iters[0].var
    reads = body_loads(block)
    follow = [r for r in reads if any(row in variables(i) for i in r.indices)]
    along = all(stride_in(r, column, block) in (0, 1) for r in reads)
    once = [r for r in follow if prod(map(size, r.buffer.shape)) == instances(block)]
    return along and len(follow) == len(once) == 1 and stride_in(once[0], column, block) == 1
