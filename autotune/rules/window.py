"""Reductions over few elements around each place: pooling, and windows in other layouts.

The results of a few rows stay in registers while the elements of their windows are gone over, which
neighbouring rows share. Padding is read where it is, as a load of some of the lanes, where the
target has masks; elsewhere a task pads its own rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from autotune.rules.effort import one_thread
from autotune.rules.group import Group, bent, output_store, size, stores_of, stride_in
from autotune.rules.lanes import reduces_by_one
from autotune.rules.nest import finish_nest, fuse_outer, loops_by_kind, loops_by_variable
from autotune.rules.plan import OpenPlan, Values, threads, tried
from schedule import LoopRef, Schedule
from tensorir import Block, Cpu, IterKind, Load, body_loads, int_value, masked_bits

MOST_TAPS = 64
"""Elements of a window that are written out."""

MOST_STRIDE = 4
"""Windows that begin further apart share nothing, and are not read in vectors."""

SHARED = 5 / 8
"""The share of the elements of windows from which on it pays to read those of some rows once."""

MOST_VECTORS = 16
"""Vectors of a row that is written out, where it is read at quotients of the last axis."""

TASKS = 4
"""Tasks for each thread, where the outer axes have so many."""


@dataclass(frozen=True, eq=False)
class ResultsPlan(OpenPlan):
    """`rows` results along the axis before the last, if there is one, and `vectors` along the last,
    at a time; of each so many `values`. Tasks go `down` the rows in the columns of some vectors, or
    have some rows."""

    lanes: int
    values: int = 1
    down: bool = True
    name: str = "window"
    numerics: str = "bitwise"

    def feasible(self, values: Values) -> bool:
        own = self.chosen(values)
        return bool(2 * own.get("rows", 1) * own["vectors"] * self.values <= self.cpu.registers)

    def apply(self, sch: Schedule, values: Values) -> None:
        block, own = self.group.block, self.chosen(values)
        inline = own.get("pad") == "inline"
        for pad in self.group.padding if inline else ():
            sch.compute_inline(pad)
        writers = [self.group.epilogue or ""]
        if self.group.epilogue is None:
            writers = [str(sch.cache_write(block, n, "local")) for n in range(self.values)]
        (*outer, last), taps = loops_by_kind(sch, block)
        rows, around = list[LoopRef](), list[LoopRef]()
        if "rows" in own:
            for store in stores_of(sch.state.block(block)):
                sch.storage_align(block, store.buffer.name, -2, self.lanes)
            tile, row = sch.split(outer.pop(), [None, own["rows"]])
            down = self.down and _count(sch, outer) >= TASKS * self.cpu.threads
            (around if down else outer).append(tile)
            rows = [row]
        panel, vector = sch.split(last, [None, own["vectors"] * self.lanes])
        around.insert(0, panel)
        sch.reorder(*outer, *around, *taps, *rows, vector)
        for writer in writers:
            sch.reverse_compute_at(writer, around[-1])
        padded = self.group.padding and not inline
        if _count(sch, outer) < self.cpu.threads and not padded:
            outer.append(panel)
        task = fuse_outer(sch, outer) if outer else None
        if padded and task is not None:
            for pad in self.group.padding:
                sch.compute_at(pad, task)
                finish_nest(sch, pad, self.cpu, unroll_rows=0)
        for loop in (*(taps if _taps(sch.state.block(block)) else ()), *rows):
            sch.unroll(loop)
        sch.vectorize(vector)
        for writer in writers:
            finish_nest(sch, writer, self.cpu, unroll_rows=16)
        if self.parallel(values) and task is not None:
            sch.parallel(task)


def _count(sch: Schedule, loops: Sequence[LoopRef]) -> int:
    return prod(size(sch.state.loop(loop).extent) for loop in loops)


def window_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[ResultsPlan]:
    """A plan for a reduction of a few elements by one operation, contiguous in its results."""
    block = sch.state.block(group.block)
    store = output_store(block)
    if store is None or not reduces_by_one(block):
        return []
    taps = _taps(block)
    spatial = [it for it in block.iters if it.kind is IterKind.SPATIAL]
    if taps < 2 or len(spatial) < 2 or store.indices[-1] is not spatial[-1].var:
        return []
    read = body_loads(block)
    if len(read) != 1:
        return []
    step = stride_in(read[0], spatial[-1].var, block)
    width = size(spatial[-1].extent)
    whole = step is None and bent(block) and width <= MOST_VECTORS * cpu.lanes()
    if not whole and (step is None or not 1 <= step <= MOST_STRIDE):
        return []
    if any(it.var.name not in loops_by_variable(sch, group.block) for it in spatial[-2:]):
        return []
    lanes = cpu.elements(store.buffer.dtype)
    rows = (1,) if whole else tuple(r for r in (1, 2, 4, 8) if r <= size(spatial[-2].extent))
    row, most = _shared_rows(block, read[0], rows), -(-width // lanes)
    cycles = one_thread([block], cpu)
    options: dict[str, Any] = {
        "rows": (rows, row),
        "vectors": ((most,) if whole else (1, 2, 4), min(most, 2 if row > 1 else 4)),
        "threads": threads(cpu, cycles),
    }
    if group.padding:
        masked = 32 in masked_bits(cpu.target)
        options["pad"] = ("inline", "task"), "inline" if masked else "task"
    plan = ResultsPlan(group, cpu, options, cycles, lanes)
    return [tried(sch, plan)]


def _taps(block: Block) -> int:
    """How many elements a window has; 0 where that is not known, or too many."""
    sizes = [int_value(it.extent) for it in block.iters if it.kind is IterKind.REDUCE]
    known = [n for n in sizes if n is not None]
    count = prod(known) if len(known) == len(sizes) else 0
    return count if count <= MOST_TAPS else 0


def _shared_rows(block: Block, load: Load, options: tuple[int, ...]) -> int:
    """The fewest rows whose windows have together at most SHARED of the elements that they have one
    by one; 1 where windows share too little, so that longer rows are worth more."""
    *_, row, _ = (it.var for it in block.iters if it.kind is IterKind.SPATIAL)
    step, places = stride_in(load, row, block), {0}
    for it in (it for it in block.iters if it.kind is IterKind.REDUCE):
        apart = stride_in(load, it.var, block)
        if step is None or apart is None:
            return 1
        places = {p + n * apart for p in places for n in range(size(it.extent))}
    for rows in options:
        together = {p + n * (step or 0) for p in places for n in range(rows)}
        if len(together) <= SHARED * rows * len(places):
            return rows
    return 1
