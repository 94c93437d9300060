"""Blocks without reuse: elementwise stages, and reductions that no better rule takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import prod

import numpy as np

from autotune.rules.ahead import ask_for_picked, picked
from autotune.rules.effort import ROWS_EACH, one_thread
from autotune.rules.group import (
    Group,
    attempt,
    bent,
    in_scan,
    lane_of,
    output_store,
    size,
    stores_of,
    stride_in,
)
from autotune.rules.nest import finish_nest, fuse_outer, loops_by_kind, loops_by_variable
from autotune.rules.plan import OpenPlan, Values, threads
from autotune.rules.stores import stores
from autotune.streams import Column
from schedule import LoopRef, Schedule, library
from tensorir import Block, Cpu, IterKind, Var, body_loads, int_value, period, variables

MOST_WRITTEN = 1024
"""Iterations of a last axis that is written out where it is read at quotients and the like."""

MOST_READ = 4096
"""Elements read in all of them together; the text grows with these."""

MOST_STILL = 16
"""Results for the same elements that are made together."""


@dataclass(frozen=True, eq=False)
class SpatialPlan(OpenPlan):
    """Spread the outer axes over threads and vectorize the last one."""

    reads: frozenset[str]
    base: Schedule = field(repr=False)
    name: str = "spatial"
    numerics: str = "bitwise"

    def estimate(self, constants: Collection[str] = ()) -> float:
        """What is made of constants alone is made ahead of all calls."""
        return 0.0 if self._is_ahead(constants) else super().estimate()

    def columns(self, rows: Sequence[Values], constants: Collection[str] = ()) -> Column:
        return np.zeros(len(rows)) if self._is_ahead(constants) else super().columns(rows)

    def _is_ahead(self, constants: Collection[str]) -> bool:
        return bool(self.reads) and self.reads <= set(constants)

    @cached_property
    def refused(self) -> Mapping[str, str]:
        """What a program does not allow by itself, such as vectors along what depends on each
        other: it stays as it is written."""
        found: dict[str, str] = {}
        self._make(self.base.copy(), self.default(), found)
        return found

    def apply(self, sch: Schedule, values: Values) -> None:
        self._make(sch, values, {})

    def _make(self, sch: Schedule, values: Values, refused: dict[str, str]) -> None:
        """Schedule the block, padding ahead of it, and its epilogue in the same loop."""
        task = self._nest(sch, values, refused)
        parallel = self.parallel(values)
        library.copy_ahead(sch, self.group.padding, parallel)
        ask_for_picked(sch, self.group.block, self.cpu, refused)
        if task is None:
            return
        self._store(sch, [self.group.epilogue] if self.group.epilogue else [], task, refused)
        if parallel:
            attempt(refused, "threads", sch.parallel, task)

    def _nest(self, sch: Schedule, values: Values, refused: dict[str, str]) -> LoopRef | None:
        """The loops of the block itself; returns the one whose iterations threads may share."""
        block, names = sch.state.block(self.group.block), loops_by_variable(sch, self.group.block)
        spatial, terms = loops_by_kind(sch, self.group.block)
        if not spatial:
            return None
        outer, last = spatial[:-1], spatial[-1]
        lane = _lane(block)
        if lane is not None:
            writers = self._sums_apart(sch, refused)
            last = LoopRef(names[lane.name])
            outer = [loop for loop in spatial if loop != last]
            if last != spatial[-1]:
                sch.reorder(*outer, last)
            width = values[self.key("vector")]
            parts = _parts_of_pixels(block, lane, self.cpu.lanes())
            if parts:
                last, width = sch.fuse(outer.pop(), last), parts * self.cpu.lanes()
            whole = not parts and _is_written_out(block, sch.state.loop(last).const_extent)
            ends = {v.name for loop in terms for v in variables(sch.state.loop(loop).extent)}
            terms = [] if last in ends else terms
            pieces = sch.split(last, [None, 8 * self.cpu.lanes() if whole else width])
            vector = pieces[1]
            found = () if whole or parts or block.is_reduction else _still(block, lane)
            still = [LoopRef(names[var]) for var in found]
            outer = [loop for loop in outer if loop not in still]
            if terms or still:
                sch.reorder(*outer, pieces[0], *terms, *still, vector)
            self._store(sch, writers, pieces[0], refused)
            sizes = [size(sch.state.loop(loop).extent) for loop in outer]
            if not whole and prod(sizes) < ROWS_EACH * self.cpu.threads:
                outer = [*outer, pieces[0]]
            elif sch.state.loop(pieces[0]).const_extent == 1 and prod(sizes[:-1]) >= ROWS_EACH:
                outer = outer[:-1]  # a task of many short rows
            if attempt(refused, "vectors", sch.vectorize, vector):
                for loop in still or [pieces[0]] * whole:
                    sch.unroll(loop)
                if values.get(self.key("stores")) == "stream":
                    sch.stream(self.group.block)
        else:
            outer = spatial
        together = self.parallel(values) or self.group.epilogue is not None
        return fuse_outer(sch, outer) if outer and together else None

    def _sums_apart(self, sch: Schedule, refused: dict[str, str]) -> list[str]:
        """Let sums wait in registers, and not in memory, where ends of rows are written in masked
        vectors; returns the blocks that take them to their place, if no epilogue does."""
        block, made = sch.state.block(self.group.block), list[str]()
        alone = block.is_reduction and self.group.epilogue is None and not in_scan(sch, block)
        for n in range(len(stores_of(block)) if alone else 0):
            step = partial(sch.cache_write, block.name, n, "local")
            attempt(refused, "sums in registers", lambda step=step: made.append(str(step())))
        return made

    def _store(self, sch: Schedule, made: list[str], at: LoopRef, refused: dict[str, str]) -> None:
        for writer in made:
            if attempt(refused, f"{writer!r} beside its sums", sch.reverse_compute_at, writer, at):
                finish_nest(sch, writer, self.cpu, unroll_rows=0)


def _parts_of_pixels(block: Block, lane: Var, lanes: int) -> int:
    """The extent of a last axis that fills no half of a vector, such as the colours of pixels, if
    the elements of the axis before it follow each other in memory; else 0. Both together are
    vectors whose lanes are known to be of which part where a piece has whole vectors of each."""
    long = [it for it in block.iters if int_value(it.extent) != 1]
    store, count = output_store(block), int_value(long[-1].extent) if long else None
    if store is None or count is None or 2 * count > lanes or len(long) < 2 or block.is_reduction:
        return 0
    before = long[-2]
    beside = stride_in(store, before.var, block) == count
    own = isinstance(before.binding, Var) and before.kind is IterKind.SPATIAL
    steps = [[stride_in(x, v, block) for v in (lane, before.var)] for x in body_loads(block)]
    apart = any(near == 1 and (far is None or abs(far) > count) for near, far in steps)
    if count & (count - 1) == 0 and apart:
        return 0  # a short vector each, where lanes would have to be gathered
    return count if own and beside and library.placed_loads(block) == list(body_loads(block)) else 0


def _is_written_out(block: Block, count: int | None) -> bool:
    """Whether all vectors of the last axis, `count` long, are code of their own: that tells where
    in memory their lanes lie."""
    if count is None:
        return False
    return count <= MOST_WRITTEN and count * len(body_loads(block)) <= MOST_READ and bent(block)


def _still(block: Block, lane: Var) -> list[str]:
    """Short axes along which results are made of the same elements in other ways, such as the parts
    of a transform: they are written out for each vector, which loads these once."""
    moving = [load for load in body_loads(block) if lane in load.variables]
    found, copies = list[str](), 1
    for it in block.spatial:
        count = int_value(it.extent) or 1
        own = isinstance(it.binding, Var) and it.var is not lane
        if own and 1 < count <= MOST_STILL // copies:
            if moving and not any(it.var in load.variables for load in moving):
                found.append(it.var.name)
                copies *= count
    return found


def _lane(block: Block) -> Var | None:
    """The variable of the lanes: that along which results are contiguous, if it is a loop and all
    loops inside of it have one iteration."""
    lane = lane_of(block)
    long = [it for it in block.spatial if int_value(it.extent) != 1]
    last = bool(long) and long[-1].var is lane and isinstance(long[-1].binding, Var)
    return lane if last else None


def spatial_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[SpatialPlan]:
    """The plan that fits every block."""
    block = sch.state.block(group.block)
    store, cycles = output_store(block), one_thread([block], cpu)
    read = [load.buffer for load in body_loads(block)]
    written = "float32" if store is None else store.buffer.dtype
    lanes = max(cpu.lanes(), cpu.elements(written, *(buffer.dtype for buffer in read)))
    lane, places = _lane(block), [i for load in body_loads(block) for i in load.indices]
    again = 1 if lane is None else period(places, lane, cpu.registers // 2)
    widths = tuple(n * again * lanes for n in (1, 2, 4, 8))
    usual = 1 if picked(block, cpu) else 4  # vectors at a time, which ask for few lines each
    options = {
        "vector": (widths, max(widths[0], usual // again * widths[0])),
        "threads": threads(cpu, cycles, sch, block),
        **(stores(sch, group.block, cpu) if lane is not None else {}),
    }
    return [SpatialPlan(group, cpu, options, cycles, frozenset(b.name for b in read), sch.copy())]
