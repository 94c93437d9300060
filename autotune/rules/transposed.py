"""Stages that read along one axis and write along another: transposes, layout changes, stencils
whose result is turned, and all that is computed of several such arrays.

The work goes by square tiles, which are read in vectors, transposed in registers, and written in
vectors. Tiles follow each other along what is read, within bands, so that whole lines are used
while they are in the cache, and so are the entries of the page tables; but along what is written
where that is parts of lines from memory and stores wait for what is left of lines (`Costs.piece`).
Where more is read along the other axis than is written, tiles are computed in its order, with what
their rows share in registers, and the results alone are turned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from autotune.rules.effort import ROWS_EACH, one_thread
from autotune.rules.group import Group, lane_of, moved_bytes, output_store, size, stride_in
from autotune.rules.lanes import moved_last
from autotune.rules.nest import finish_nest, loops_by_variable
from autotune.rules.plan import OpenPlan, Plan, Values, threads, tried
from autotune.rules.spatial import spatial_plans
from autotune.rules.stores import stores
from autotune.streams import PAGE
from schedule import LoopRef, Schedule, library, operations_written_out
from tensorir import Block, Cpu, IterKind, Load, Store, Var, body_loads, dtype, written

BANDS = (1, 4, 16, 64)
"""Tiles that follow each other along what is read."""

MOST_WRITTEN, TURNED = 256, 4
"""Loads in all rows of a tile that is computed ahead, and written out; operations that turn a
vector of elements of short rows."""


@dataclass(frozen=True, eq=False)
class TransposedPlan(OpenPlan):
    """Square tiles of `read`, the axis along which it reads, and of `written`, that of the results:
    as many of them as fill a line follow each other there.

    rows   of a tile that are written out where it is computed ahead of turning it, else 0
    fills  elements of short rows of the result, of which vectors are interleaved, else 0
    """

    read: str
    written: str
    item_bytes: int
    rows: int
    fills: int
    name: str
    numerics: str = "bitwise"

    def apply(self, sch: Schedule, values: Values) -> None:
        block, own = self.group.block, self.chosen(values)
        writer = self._writer(sch) if self.rows else block
        names = loops_by_variable(sch, writer)
        loops = [LoopRef(names[it.var.name]) for it in sch.state.block(writer).iters]
        read, written = LoopRef(names[self.read]), LoopRef(names[self.written])
        others = [loop for loop in loops if loop not in (read, written)]
        side = own["tile"]
        tiles = min(own["band"], -(-size(sch.state.loop(read).extent) // side))
        band, tile, row = sch.split(read, [None, tiles, side])
        beside = Cpu.line_bytes // self.item_bytes // side
        sides = [self.fills] if self.fills else [beside, side] if beside > 1 else [side]
        column_tile, *next_tile, column = sch.split(written, [None, *sides])
        inner = (column, row) if self.fills else (row, column)
        sch.reorder(*others, band, column_tile, tile, *next_tile, *inner)
        if self.rows:
            sch.compute_at(block, tile)
            finish_nest(sch, block, self.cpu, unroll_rows=self.rows)
        sch.unroll(inner[0])
        sch.vectorize(inner[1])
        if own.get("stores") == "stream":
            sch.stream(writer)
        if self.parallel(values):
            tasks = [*others, band]
            sch.parallel(sch.fuse(*tasks, *([] if self._are_rows(sch, tasks) else [column_tile])))

    def _are_rows(self, sch: Schedule, loops: Sequence[LoopRef]) -> bool:
        """Whether threads share rows of tiles, and not tiles: these are no squares, too short for
        what it takes to find each, and there are many rows."""
        block = sch.state.block(self.group.block)
        short = next(size(it.extent) for it in block.iters if it.var.name == self.read)
        rows = prod(size(sch.state.loop(loop).extent) for loop in loops)
        return short < self.cpu.lanes() and rows >= ROWS_EACH * self.cpu.threads

    def _writer(self, sch: Schedule) -> str:
        """The stage that turns the results, which have the order of what is read."""
        block = self.group.block
        writer = str(sch.reindex(block, written(sch.state.block(block))[0].name, "local"))
        made = written(sch.state.block(block))[0]
        own = [it.var.name for it in sch.state.block(block).iters]
        sch.transform_layout(block, made.name, moved_last(len(own), own.index(self.read)))
        return writer


def transposed_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[TransposedPlan]:
    """A plan for an elementwise stage with loads along another axis than the stores."""
    block = sch.state.block(group.block)
    lane, store = lane_of(block), output_store(block)
    kinds = {it.kind if isinstance(it.binding, Var) else None for it in block.iters}
    if lane is None or store is None or kinds != {IterKind.SPATIAL}:
        return []
    steps = [stride_in(load, lane, block) for load in body_loads(block)] or [0]
    turned = [load for load, step in zip(body_loads(block), steps) if step not in (0, 1)]
    ahead = len(turned) > 1 + steps.count(1)
    read = _read_along(block, turned, lane, library.NEAR if ahead else 1)
    bytes_each, lanes = dtype.itemsize(store.buffer.dtype), cpu.lanes()
    extents = {it.var: size(it.extent) for it in block.iters}
    if read is None and (count := extents[lane]) <= cpu.registers // 4:
        # Elements of short rows, made in ways of their own, as parts of a product of quaternions.
        once, each = operations_written_out(store.value, lane, count)
        rows = [v for v in extents if stride_in(store, v, block) == count]
        ahead, read = True, rows[0] if rows and each + TURNED * count < once * count else None
    if read is None:
        return []
    side = lanes * (2 if bytes_each == 2 else 1)  # of many single bytes registers hold no more rows
    apart, fills = stride_in(store, read, block), extents[lane]
    square = bytes_each >= 4 <= fills and not fills & (fills - 1)  # which tiles turn as fast
    whole = apart == fills <= cpu.registers // 4 and cpu.vector_bytes >= cpu.line_bytes
    fills = fills if whole and not square else 0
    side = cpu.elements(store.buffer.dtype) if fills or extents[read] <= cpu.registers else side
    line, cycles = cpu.line_bytes // bytes_each, one_thread([block], cpu)
    parts = side >= line and _in_parts(block, store, read, cpu)
    half = max(4, min(side, line) // 2)  # every other one of a row is in one line
    sizes = {lanes, max(4, lanes // 2), half, side}
    waits = parts and cpu.costs.piece > 0
    options = {
        "tile": (tuple(sorted(sizes)), half if waits and not ahead else side),
        "band": (BANDS, 1 if waits else 64 if bytes_each > 1 else 16),
        "threads": threads(cpu, cycles, sch, block),
        **stores(sch, group.block, cpu, whole=not parts),
    }
    plan = TransposedPlan(
        group, cpu, options, cycles, read.name, lane.name, bytes_each,
        MOST_WRITTEN // len(steps) if ahead else 0, fills, "across" if ahead else "transposed",
    )  # fmt: skip
    return [tried(sch, plan)]


def placing_plan(sch: Schedule, stage: str, cpu: Cpu) -> Plan:
    """The plan of a stage that takes results to their place."""
    turned = [plan for plan in transposed_plans(sch, Group(stage), cpu) if plan.works]
    return [*turned, *spatial_plans(sch, Group(stage), cpu)][0]


def _in_parts(block: Block, store: Store, read: Var, cpu: Cpu) -> bool:
    """Whether tiles store parts of lines that no cache keeps: rows of the result begin within
    lines, each in a page of its own."""
    item = dtype.itemsize(store.buffer.dtype)
    steps = {it.var: item * abs(stride_in(store, it.var, block) or 0) for it in block.iters}
    within = any(step > item and step % cpu.line_bytes for step in steps.values())
    return within and steps[read] >= PAGE and moved_bytes(block) > cpu.kept_bytes(3)


def _read_along(block: Block, turned: Sequence[Load], written: Var, most: int) -> Var | None:
    """The one variable along which all loads go through elements at `most` so many apart."""
    found = set()
    for load in turned:
        steps = {it.var: stride_in(load, it.var, block) for it in block.iters}
        near = (v for v in steps if v is not written and 0 < (steps[v] or 0) <= most)
        found.add(next(near, None))
    return found.pop() if len(found) == 1 else None
