"""Multi-level tiling of a reduction with data reuse: S0 [S1] R0 [S2] R1 S3, as in Ansor.

S are the levels of the spatial loops, R those of the reduction. S0 is spread over threads, S3 is
the register tile: its last axis becomes vectors, the others are unrolled. The results of S2 x S3
stay in a local buffer; the epilogue (or a copy) consumes them inside S1. Factors need not divide.
Operands can be packed: copied, densely, at a loop where they are reused.

Source: Zheng et al., "Ansor", OSDI 2020, section 4; imperfect register tiles as in BLIS.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import log2, prod
from typing import Any

from autotune.choices import Choice, ImperfectTile
from autotune.rules.group import (
    Group,
)
from autotune.rules.nest import finish_nest, loops_by_variable, own_loop_names, task_loops
from autotune.rules.packing import pack_in_panels
from autotune.rules.plan import Plan, Values
from autotune.rules.register_tile import register_tile
from autotune.rules.tile_model import TileModel, best_tile
from schedule import LoopRef, Schedule
from tensorir import Cpu

FEW_ROWS = 6
"""Rows of the last axis but one, below which a register tile has rows of other axes too."""

FEW_STEPS = 8
"""Register tiles below each other in a task that takes all columns, at most."""

MANY_STEPS = 8
"""Register tiles that use a packed operand, from which on packing it pays."""


@dataclass(frozen=True)
class Axis:
    """A spatial axis of the block: its variable's name and its extent, a guess unless `known`."""

    name: str
    extent: int
    known: bool = True


@dataclass(frozen=True)
class TiledPlan(Plan):
    """Schedules one reduction. The vector axis is the last axis of the output.

    `operands` can be packed; those in `far` move far with each reduction step.
    `gathered` are those whose neighbouring columns are apart in memory: they are read through a
    transposed copy. A vector has `lanes` outputs. Neighbouring rows of what vectors multiply lie
    `row_bytes` apart. In a `batched` product the axes before the last two share no operand.
    """

    group: Group
    cpu: Cpu
    spatial: tuple[Axis, ...]
    reduce: tuple[Axis, ...]
    operands: tuple[str, ...]
    far: frozenset[str]
    gathered: tuple[str, ...]
    choices: tuple[Choice, ...]
    lanes: int
    row_bytes: int = 0
    batched: bool = False
    large: bool = True
    name: str = "tiled"
    numerics: str = "bitwise"

    def key(self, what: str) -> str:
        return f"{self.group.block}.{what}"

    @property
    def vector_axis(self) -> Axis:
        return self.spatial[-1]

    def tile(self, values: Values, axis: Axis) -> tuple[int, int, int]:
        """The factors (S1, S2, S3) of a spatial axis."""
        s1, s2, s3 = values[self.key(axis.name)]
        return s1, s2, s3

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """Values that need no tuning.

        Register tiles and tasks are those of the least estimated time (tile_model); else sums, and
        what they are made of, stay in registers (register_tile), and there are eight tasks for
        every thread. Operands whose rows lie far apart are packed if enough rows use the copy.
        """
        values = self._default_tiles()
        steps = 1 if len(self.spatial) < 2 else values[self.key(self.spatial[-2].name)][0]
        for axis in self.reduce:
            values[self.key(axis.name)] = (max(1, axis.extent),)
        values[self.key("order")] = "vector_outer"
        for operand in self.operands:
            packed = operand in self.far and steps >= MANY_STEPS
            values[self.key(f"pack_{operand}")] = "task" if packed else "none"
        for pad in self.group.padding:
            values[self.key(f"pad_{pad}")] = "root"
        values[self.key("threads")] = "parallel" if self.large else "serial"
        return {choice.name: values[choice.name] for choice in self.choices}

    def _default_tiles(self) -> dict[str, Any]:
        lanes, vector_axis = self.lanes, self.vector_axis
        vectors = max(1, -(-vector_axis.extent // lanes))
        above = prod(axis.extent for axis in self.spatial[:-1])
        budget, columns = register_tile(above, vectors, self.cpu.registers)
        if len(self.spatial) == 1:
            budget, columns = 1, min(8, vectors)
        vector = self._register_size(vector_axis, columns * lanes)
        modelled = self._modelled()
        if modelled is not None:
            steps, rows, vector = modelled
            budget = max(1, 3 * self.cpu.registers // 4 * lanes // max(lanes, vector))
        values: dict[str, Any] = {self.key(vector_axis.name): (1, 1, vector)}
        for axis in reversed(self.spatial[:-1]):
            known = modelled is not None and axis is self.spatial[-2]
            size = rows if known else self._register_size(axis, budget)
            budget = max(1, budget // size)
            values[self.key(axis.name)] = (steps if known else 1, 1, size)
        if modelled is None and len(self.spatial) > 1:
            axis = self.spatial[-2]
            steps = self._task_steps(axis, values)
            values[self.key(axis.name)] = (steps, 1, values[self.key(axis.name)][2])
        return values

    def _modelled(self) -> tuple[int, int, int] | None:
        """(steps, rows, columns) of the last two axes by the model of the time.

        None where there are no two, or where a tile is to have rows of other axes as well.
        """
        if len(self.spatial) < 2:
            return None
        if len(self.spatial) > 2 and self.spatial[-2].extent < FEW_ROWS and not self.batched:
            return None
        row_axis, vector_axis = self.spatial[-2:]
        cpu = self.cpu
        model = TileModel(
            rows=row_axis.extent,
            columns=vector_axis.extent,
            terms=prod(a.extent for a in self.reduce),
            repeats=prod(a.extent for a in self.spatial[:-2]),
            lanes=self.lanes,
            registers=cpu.registers,
            threads=cpu.threads,
            kept_bytes=cpu.kept_bytes(2),
            item_bytes=4 * cpu.lanes() // self.lanes,
            packed=bool(self.far),
            row_bytes=self.row_bytes,
            ways=max(1, cpu.l1_bytes // cpu.page_bytes),
            costs=cpu.costs,
        )
        rows = self._tile_choice(row_axis).inner or (1,)
        widths = self._tile_choice(vector_axis).inner or (self.lanes,)
        steps, height, width = best_tile(model, rows, widths)
        # Where columns are unknown, threads share rows only, and of these there may be few.
        return (steps if vector_axis.known else min(steps, FEW_STEPS)), height, width

    def _register_size(self, axis: Axis, budget: int) -> int:
        """The largest register tile of an axis within the budget, else the smallest there is."""
        sizes = self._tile_choice(axis).inner or (1,)
        return max((size for size in sizes if size <= budget), default=min(sizes))

    def _task_steps(self, axis: Axis, values: Values) -> int:
        """How many register tiles along `axis` make a task, for eight tasks a thread."""
        sizes = {a.name: values[self.key(a.name)][2] for a in self.spatial}
        others = (a for a in self.spatial if a is not axis)
        tasks = prod(-(-a.extent // sizes[a.name]) for a in others)
        rows = sizes[axis.name]
        tiles = max(1, -(-axis.extent // rows))
        wanted = min(tiles, -(-8 * self.cpu.threads // max(1, tasks)))
        choice = self._tile_choice(axis)
        known = [s for s in choice.steps if choice.contains((s, 1, rows))]
        return min(known, key=lambda s: (abs(log2(s * wanted / tiles)), s))

    def _tile_choice(self, axis: Axis) -> ImperfectTile:
        choice = next(c for c in self.choices if c.name == self.key(axis.name))
        assert isinstance(choice, ImperfectTile)
        return choice

    def feasible(self, values: Values) -> bool:
        """Accumulators in registers or at least in the first-level cache, bounded unrolling."""
        tiles = [self.tile(values, axis) for axis in self.spatial]
        sums = prod(t[2] for t in tiles)
        vectors = sums / self.lanes
        kept = prod(t[1] * t[2] for t in tiles) * 4
        return vectors <= 1.25 * self.cpu.registers and kept <= self.cpu.kept_bytes(1)

    def apply(self, sch: Schedule, values: Values) -> None:
        block = self.group.block
        parallel = values.get(self.key("threads"), "parallel") == "parallel"
        self._pad(sch, values, inline=True)
        width = self.tile(values, self.vector_axis)[2]
        ahead = [o for o in self.operands if values.get(self.key(f"pack_{o}")) == "root"]
        for operand in (*self.gathered, *ahead):
            pack_in_panels(sch, block, operand, width, parallel)
        packs = self._cache_operands(sch, values)
        writer = self.group.epilogue or sch.cache_write(block, 0, "local")
        levels = self._split(sch, values)
        s0, s1, r0, s2, r1, s3 = levels
        shared, alone = task_loops(sch, s0)
        sch.reorder(*shared, *alone, *s1, *r0, *s2, *r1, *s3)
        outer = sch.fuse(*shared) if len(shared) > 1 else shared[0]
        task = alone[-1] if alone else outer
        spots = {"task": task, "tile": (s1 or [task])[-1], "row": (s1 or [task])[0]}
        sch.reverse_compute_at(writer, spots["tile"])
        inside = r0[-1] if r0 else spots["tile"]
        for copier, where in packs:
            sch.compute_at(copier, {**spots, "reduce": inside}[where])
            finish_nest(sch, copier, self.cpu, unroll_rows=0)
        self._pad(sch, values, inline=False, task=task)
        sch.vectorize(s3[-1])
        for loop in s3[:-1]:
            sch.unroll(loop)
        finish_nest(sch, writer, self.cpu, unroll_rows=16)
        if parallel:
            sch.parallel(outer)

    def _split(self, sch: Schedule, values: Values) -> tuple[list[LoopRef], ...]:
        """Split every loop of the block; the levels that have no loop are left out."""
        names = loops_by_variable(sch, self.group.block)
        levels: list[list[tuple[int, LoopRef]]] = [[], [], [], [], [], []]
        for place, axis in enumerate(self.spatial):
            if axis.name not in names:  # of one element, and no loop
                continue
            s1, s2, s3 = self.tile(values, axis)
            last = axis is self.vector_axis
            wanted = [(0, None), (1, s1), (3, s2), (5, s3)]
            kept = [(lv, f) for lv, f in wanted if f is None or f > 1 or (last and lv == 5)]
            parts = sch.split(names[axis.name], [f for _, f in kept])
            for (level, _), part in zip(kept, parts):
                levels[level].append((place, part))
        for place, axis in enumerate(self.reduce):
            (inner,) = values[self.key(axis.name)]
            if inner >= axis.extent or inner <= 1:
                levels[4 if inner > 1 or axis.extent == 1 else 2].append(
                    (place, LoopRef(names[axis.name]))
                )
                continue
            outer, rest = sch.split(names[axis.name], [None, inner])
            levels[2].append((place, outer))
            levels[4].append((place, rest))
        if values.get(self.key("order")) == "vector_outer":
            levels[1].sort(key=lambda item: -item[0])
        return tuple([loop for _, loop in level] for level in levels)

    def _cache_operands(self, sch: Schedule, values: Values) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for operand in self.operands:
            where = values.get(self.key(f"pack_{operand}"), "none")
            if where not in ("none", "root"):
                found.append((sch.cache_read(self.group.block, operand, "global"), where))
        return found

    def _pad(
        self, sch: Schedule, values: Values, inline: bool, task: LoopRef | None = None
    ) -> None:
        for pad in self.group.padding:
            how = values.get(self.key(f"pad_{pad}"), "root")
            if how == "inline" and inline:
                sch.compute_inline(pad)
            elif how == "task" and not inline and task is not None:
                sch.compute_at(pad, task)
                finish_nest(sch, pad, self.cpu, unroll_rows=0)
            elif how == "root" and not inline:
                loops = own_loop_names(sch, pad)
                finish_nest(sch, pad, self.cpu, unroll_rows=0)
                if len(loops) > 1 and self.large:
                    sch.parallel(loops[0])
