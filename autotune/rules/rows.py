"""Reductions along contiguous memory: partial sums in vector lanes (rfactor), several rows at once.

For matrix-vector products, row sums, norms and products with a transposed operand. The reduction
is split into lanes by rfactor, so results are reassociated; rows share the loads of what they all
read, and give the adders independent work.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from autotune.choices import Categorical, Choice
from autotune.rules.group import Group, body_loads, instances, output_store, size, stride_in
from autotune.rules.lanes import lanes_inside, single_reducer
from autotune.rules.nest import finish_nest, loops_by_variable
from autotune.rules.plan import Machine, Values, at_most
from schedule import Schedule
from tensorir import IterKind, int_value

SMALL_WORK = 100_000
ROWS = (1, 2, 3, 4, 5, 6, 8)

WIDE_LANES = 16
"""Lanes of float32 in vectors as wide as a cache line."""


@dataclass(frozen=True)
class RowsPlan:
    """Rows are spread over threads; each task reduces `rows` of them with `width` lanes each."""

    group: Group
    machine: Machine
    reduce: tuple[str, ...]
    choices: tuple[Choice, ...]
    large: bool
    name: str = "rows"

    def key(self, what: str) -> str:
        return f"{self.group.block}.{what}"

    def default(self) -> dict[str, Any]:
        # Half a 512-bit vector: arrays are seldom aligned to 64 bytes, and a full vector then
        # straddles two cache lines with every load.
        lanes = self.machine.lanes
        wanted = {
            self.key("rows"): 5,
            self.key("width"): lanes // 2 if lanes >= WIDE_LANES else 2 * lanes,
            self.key("threads"): "parallel" if self.large else "serial",
        }
        return {c.name: at_most(c, wanted[c.name]) for c in self.choices}

    def feasible(self, values: Values) -> bool:
        rows = values.get(self.key("rows"), 1)
        vectors = rows * values[self.key("width")] / self.machine.lanes
        return bool(vectors <= self.machine.registers)

    def apply(self, sch: Schedule, values: Values) -> None:
        block = self.group.block
        names = loops_by_variable(sch, block)
        _, lane = sch.split(names[self.reduce[-1]], [None, values[self.key("width")]])
        partial = sch.rfactor(block, lane)
        if self.key("rows") not in values:
            sch.vectorize(sch.get_loops(partial)[-1])
            return
        writer = self.group.epilogue or sch.cache_write(block, 0, "local")
        *outer, row, lanes = sch.get_loops(block)
        first, inner = sch.split(row, [None, values[self.key("rows")]])
        task = sch.fuse(*outer, first)
        sch.reorder(lanes, inner)
        sch.compute_at(partial, task)
        lanes_inside(sch, partial, sch.get_loops(partial).index(task) + 1)
        sch.unroll(inner)
        sch.reverse_compute_at(writer, task)
        finish_nest(sch, writer, self.machine, unroll_rows=16)
        if values[self.key("threads")] == "parallel":
            sch.parallel(task)


def rows_plans(sch: Schedule, group: Group, machine: Machine) -> list[RowsPlan]:
    """A plan for a reduction by one associative operation whose last axis is contiguous."""
    block = sch.state.block(group.block)
    store = output_store(block)
    if store is None or not block.is_reduction or not single_reducer(store):
        return []
    reduce = [it for it in block.iters if it.kind is IterKind.REDUCE]
    last = reduce[-1]
    steps = [stride_in(load, last.var, block) for load in body_loads(block)]
    if any(step is None or step not in (0, 1) for step in steps) or 1 not in steps:
        return []
    extent, lanes = int_value(last.extent), machine.lanes
    if extent is None or extent < 2 * lanes:  # rfactor needs a term for every lane
        return []
    sizes = (max(1, lanes // 2), lanes, 2 * lanes, 4 * lanes, 8 * lanes)
    widths = tuple(w for w in sizes if w < extent)
    spatial = [size(it.extent) for it in block.iters if it.kind is IterKind.SPATIAL]
    choices: list[Choice] = [Categorical(f"{group.block}.width", widths)]
    if prod(spatial) > 1:
        options = tuple(r for r in ROWS if r <= spatial[-1])
        choices.append(Categorical(f"{group.block}.rows", options))
        choices.append(Categorical(f"{group.block}.threads", ("parallel", "serial")))
    large = instances(block) >= SMALL_WORK
    axes = tuple(it.var.name for it in reduce)
    return [RowsPlan(group, machine, axes, tuple(choices), large)]
