"""Reductions along contiguous memory: partial sums in vector lanes (rfactor), short rows together.

For matrix-vector products, row sums, norms and products with a transposed operand. The reduction
is split into lanes by rfactor, so results are reassociated. A long row is one stream, asked for
ahead; short rows share the loads of what they all read, and fill each other's gaps. Rows of
symbolic size count as SYMBOLIC_SIZE long; lanes that get no term add nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

from autotune.choices import Categorical, Choice
from autotune.rules.ahead import arguments_read_once
from autotune.rules.effort import one_thread
from autotune.rules.group import Group, body_loads, instances, output_store, size
from autotune.rules.lanes import (
    into_lanes,
    is_reduce_loop,
    lanes_inside,
    single_reducer,
    unroll_short,
)
from autotune.rules.nest import finish_nest, task_loops
from autotune.rules.plan import Plan, Values, at_most
from autotune.rules.runs import contiguous_run, fuse_run, run_length
from schedule import Schedule, ScheduleError
from tensorir import BinOp, Block, Cpu, IterKind, dtype

ROWS = (1, 2, 3, 4, 5, 6, 8)

WIDE = 4
"""Vectors that a long row is summed in: the adders have that much independent work."""

MANY = 5
"""Steps of such a sum from which on a row is long."""

TOGETHER = 4
"""How many short rows go together."""


@dataclass(frozen=True)
class RowsPlan(Plan):
    """Rows are spread over threads; each task reduces `rows` of them with `width` lanes each."""

    group: Group
    cpu: Cpu
    run: tuple[str, ...]
    length: int
    lanes: int
    choices: tuple[Choice, ...]
    large: bool
    near: bool
    name: str = "rows"
    numerics: str = "reassociated"

    def key(self, what: str) -> str:
        return f"{self.group.block}.{what}"

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """One row at a time is one stream for the memory; but the last steps of a short row take
        longer than its sum, so that several go together, unless all rows are near and have more
        than a few vectors."""
        lanes = self.lanes
        long = self.length >= MANY * WIDE * lanes
        alone = long or self.near and self.length >= MANY * lanes
        wanted = {
            self.key("rows"): 1 if alone else TOGETHER,
            self.key("width"): WIDE * lanes if long else lanes,
            self.key("ahead"): Cpu.page_bytes,
            self.key("threads"): "parallel" if self.large else "serial",
        }
        return {c.name: at_most(c, wanted[c.name]) for c in self.choices}

    def feasible(self, values: Values) -> bool:
        rows = values.get(self.key("rows"), 1)
        vectors = rows * values[self.key("width")] / self.lanes
        return bool(vectors <= self.cpu.registers)

    def apply(self, sch: Schedule, values: Values) -> None:
        block = self.group.block
        loop, width = fuse_run(sch, block, self.run), values[self.key("width")]
        parts = into_lanes(sch, block, loop, width, self.lanes)
        if self.key("rows") not in values:
            for part in parts:
                sch.vectorize(sch.get_loops(part)[-1])
            self._prefetch(sch, parts[0], values)
            return
        writer = self.group.epilogue or sch.cache_write(block, 0, "local")
        *outer, row, lanes = sch.get_loops(block)
        first, inner = sch.split(row, [None, values[self.key("rows")]])
        shared, alone = task_loops(sch, [*outer, first])
        sch.reorder(*shared, *alone, lanes, inner)
        fused = sch.fuse(*shared) if len(shared) > 1 else shared[0]
        task = alone[-1] if alone else fused
        for part in reversed(parts):
            sch.compute_at(part, task)
        for part in parts:
            lanes_inside(sch, part, sch.get_loops(part).index(task) + 1)
        self._prefetch(sch, parts[0], values)
        unroll_short(sch, [lanes])
        sch.unroll(inner)
        sch.reverse_compute_at(writer, task)
        finish_nest(sch, writer, self.cpu, unroll_rows=16)
        if values[self.key("threads")] == "parallel":
            sch.parallel(fused)

    def _prefetch(self, sch: Schedule, partial: str, values: Values) -> None:
        """Ask for what is read once, so many bytes ahead as was chosen: also for the next rows."""
        node, ahead = sch.state.block(partial), values.get(self.key("ahead"))
        steps = [loop for loop in sch.get_loops(partial) if is_reduce_loop(node, loop)]
        if not ahead or not steps:
            return
        for load in arguments_read_once(sch, partial):
            step = values[self.key("width")] * dtype.itemsize(load.buffer.dtype)
            with suppress(ScheduleError):  # an unrolled loop, or an unknown size: a hint less
                sch.prefetch(partial, load.buffer.name, steps[-1], max(1, ahead // step))


def rows_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[RowsPlan]:
    """A plan for a reduction by one associative operation whose last axes are contiguous."""
    block = sch.state.block(group.block)
    store = output_store(block)
    if store is None or not block.is_reduction or not single_reducer(store):
        return []
    run, lanes = contiguous_run(block), lanes_of(block, cpu)
    extent = run_length(run) or size(run[-1].extent) if run else 0
    if extent < 2 * lanes:  # most lanes would have a term or none
        return []
    sizes = (max(1, lanes // 2), lanes, 2 * lanes, 4 * lanes, 8 * lanes)
    widths = tuple(w for w in sizes if w < extent)
    spatial = [size(it.extent) for it in block.iters if it.kind is IterKind.SPATIAL]
    choices: list[Choice] = [Categorical(f"{group.block}.width", widths)]
    if prod(spatial) > 1:
        options = tuple(r for r in ROWS if r <= spatial[-1])
        choices.append(Categorical(f"{group.block}.rows", options))
        choices.append(Categorical(f"{group.block}.threads", ("parallel", "serial")))
    choices.append(Categorical(f"{group.block}.ahead", (0, Cpu.page_bytes // 2, Cpu.page_bytes)))
    # The kernel sees at each call whether rows of symbolic size are worth threads.
    large = run_length(run) is None or cpu.worth_threads(one_thread([block], cpu))
    axes = tuple(it.var.name for it in run)
    near = _is_near(block, cpu)
    return [RowsPlan(group, cpu, axes, extent, lanes, tuple(choices), large, near)]


def _is_near(block: Block, cpu: Cpu) -> bool:
    """Whether a sum of one array has it in the second-level caches: rows one at a time then take
    less than several together. The last steps of a maximum, which keeps NaN, are longer."""
    reads, store = body_loads(block), output_store(block)
    assert store is not None and isinstance(store.value, BinOp)
    bytes_read = instances(block) * dtype.itemsize(reads[0].buffer.dtype)
    fits = bytes_read <= cpu.l2_bytes * cpu.threads
    return store.value.op == "+" and len(reads) == 1 and fits


def lanes_of(block: Block, cpu: Cpu) -> int:
    """How many elements a vector has of the widest type that a reduction reads or stores."""
    store = output_store(block)
    assert store is not None
    return cpu.elements(store.buffer.dtype, *(load.buffer.dtype for load in body_loads(block)))
