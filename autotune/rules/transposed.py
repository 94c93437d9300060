"""Stages that read along one axis and write along another: transposes, layout changes.

The work goes by square tiles, which are read in vectors, transposed in registers, and written in
vectors. Tiles follow each other along what is read, within bands, so that whole lines are used
while they are in the cache, and so are the entries of the page tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from autotune.rules.effort import ROWS_EACH, one_thread
from autotune.rules.group import Group, output_store, size, stride_in
from autotune.rules.nest import loops_by_variable
from autotune.rules.plan import OpenPlan, Values, threads
from autotune.rules.stores import stores
from schedule import LoopRef, Schedule
from tensorir import Cpu, IterKind, Load, Var, body_loads, dtype

BANDS = (1, 4, 16, 64)
"""Tiles that follow each other along what is read."""


@dataclass(frozen=True, eq=False)
class TransposedPlan(OpenPlan):
    """Square tiles of `read`, the axis along which it reads, and the last axis, which it writes."""

    read: str
    item_bytes: int
    name: str = "transposed"
    numerics: str = "bitwise"

    def apply(self, sch: Schedule, values: Values) -> None:
        block, own = self.group.block, self.chosen(values)
        names = loops_by_variable(sch, block)
        node = sch.state.block(block)
        spatial = [LoopRef(names[it.var.name]) for it in node.iters if it.kind is IterKind.SPATIAL]
        read, written = LoopRef(names[self.read]), spatial[-1]
        others = [loop for loop in spatial[:-1] if loop != read]
        side = own["tile"]
        band, tile, row = sch.split(read, [None, own["band"], side])
        beside = max(1, Cpu.line_bytes // self.item_bytes // side)
        sides = [beside, side] if beside > 1 else [side]
        column_tile, *next_tile, column = sch.split(written, [None, *sides])
        sch.reorder(*others, band, column_tile, tile, *next_tile, row, column)
        sch.unroll(row)
        sch.vectorize(column)
        if own.get("stores") == "stream":
            sch.stream(block)
        if own["threads"] == "parallel":
            rows = [*others, band]
            sch.parallel(sch.fuse(*rows, *([] if self._are_rows(sch, rows) else [column_tile])))

    def _are_rows(self, sch: Schedule, loops: Sequence[LoopRef]) -> bool:
        """Whether threads share rows of tiles, and not tiles: these are no squares, too short for
        what it takes to find each, and there are many rows."""
        block = sch.state.block(self.group.block)
        short = next(size(it.extent) for it in block.iters if it.var.name == self.read)
        rows = prod(size(sch.state.loop(loop).extent) for loop in loops)
        return short < self.cpu.lanes() and rows >= ROWS_EACH * self.cpu.threads


def transposed_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[TransposedPlan]:
    """A plan for an elementwise stage with one load along another axis than the stores."""
    block = sch.state.block(group.block)
    store = output_store(block)
    if store is None or block.is_reduction or not store.indices:
        return []
    spatial = [it.var for it in block.iters if it.kind is IterKind.SPATIAL]
    if len(spatial) < 2 or len(spatial) < len(block.iters):
        return []
    if stride_in(Load(store.buffer, store.indices), spatial[-1], block) != 1:
        return []
    read: list[Var] = []
    for load in body_loads(block):
        if stride_in(load, spatial[-1], block) in (0, 1):
            continue
        along = [v for v in spatial[:-1] if stride_in(load, v, block) == 1]
        if not along:
            return []
        read.extend(along)
    if len(set(read)) != 1 or len(set(loops_by_variable(sch, group.block))) < len(spatial):
        return []
    bytes_each, lanes = dtype.itemsize(store.buffer.dtype), cpu.lanes()
    side = lanes * (2 if bytes_each == 2 else 1)  # of single bytes registers hold no more rows
    cycles = one_thread([block], cpu)
    options = {
        "tile": (tuple(sorted({lanes, max(4, lanes // 2), side})), side),
        "band": (BANDS, 64 if bytes_each > 1 else 16),
        "threads": threads(cpu, cycles),
        **stores(sch, group.block, cpu),
    }
    return [TransposedPlan(group, cpu, options, cycles, read[0].name, bytes_each)]
