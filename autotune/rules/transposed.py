"""Stages that read along one axis and write along another: transposes, layout changes.

The work goes by square tiles, which are read in vectors, transposed in registers, and written in
vectors. Tiles follow each other along what is read, within bands, so that whole lines are used
while they are in the cache, and so are the entries of the page tables.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from autotune.choices import Categorical, Choice
from autotune.rules.effort import ROWS_EACH, one_thread
from autotune.rules.group import Group, body_loads, output_store, size, stride_in
from autotune.rules.nest import loops_by_variable
from autotune.rules.plan import Plan, Values, at_most
from autotune.rules.stores import stores_choice, stream_by_default
from schedule import LoopRef, Schedule
from tensorir import Cpu, IterKind, Load, Var, dtype

BANDS = (1, 4, 16, 64)
"""Tiles that follow each other along what is read."""


@dataclass(frozen=True)
class TransposedPlan(Plan):
    """Square tiles of `read`, the axis along which it reads, and the last axis, which it writes."""

    group: Group
    cpu: Cpu
    read: str
    choices: tuple[Choice, ...]
    large: bool
    streamed: bool
    item_bytes: int = 4
    name: str = "transposed"
    numerics: str = "bitwise"

    def key(self, what: str) -> str:
        return f"{self.group.block}.{what}"

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        wanted = {
            self.key("tile"): _side(self.cpu, self.item_bytes),
            self.key("band"): 64 if self.item_bytes > 1 else 16,
            self.key("threads"): "parallel" if self.large else "serial",
            self.key("stores"): "stream" if self.streamed else "plain",
        }
        return {c.name: at_most(c, wanted[c.name]) for c in self.choices}

    def apply(self, sch: Schedule, values: Values) -> None:
        block = self.group.block
        names = loops_by_variable(sch, block)
        node = sch.state.block(block)
        spatial = [LoopRef(names[it.var.name]) for it in node.iters if it.kind is IterKind.SPATIAL]
        read, written = LoopRef(names[self.read]), spatial[-1]
        others = [loop for loop in spatial[:-1] if loop != read]
        side = values[self.key("tile")]
        band, tile, row = sch.split(read, [None, values[self.key("band")], side])
        beside = max(1, Cpu.line_bytes // self.item_bytes // side)
        if beside > 1:
            column_tile, next_tile, column = sch.split(written, [None, beside, side])
            sch.reorder(*others, band, column_tile, tile, next_tile, row, column)
        else:
            column_tile, column = sch.split(written, [None, side])
            sch.reorder(*others, band, column_tile, tile, row, column)
        sch.unroll(row)
        sch.vectorize(column)
        if values.get(self.key("stores")) == "stream":
            sch.stream(block)
        if values[self.key("threads")] == "parallel":
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
    sides = {lanes, max(4, lanes // 2), _side(cpu, bytes_each)}
    choices: list[Choice] = [
        Categorical(f"{group.block}.tile", tuple(sorted(sides))),
        Categorical(f"{group.block}.band", BANDS),
        Categorical(f"{group.block}.threads", ("parallel", "serial")),
        *stores_choice(sch, group.block),
    ]
    large = cpu.worth_threads(one_thread([block], cpu))
    streamed = stream_by_default(sch, group.block, cpu)
    return [TransposedPlan(group, cpu, read[0].name, tuple(choices), large, streamed, bytes_each)]


def _side(cpu: Cpu, item_bytes: int) -> int:
    """The rows and columns of a square: a whole vector of elements of two bytes and more; of single
    bytes a quarter, since the registers hold no more rows."""
    return cpu.lanes() * (2 if item_bytes == 2 else 1)
