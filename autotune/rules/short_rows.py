"""Reductions of many rows that are shorter than a vector or about as long: one row in each lane.

A square of rows and terms is transposed in registers, so that neighbouring rows lie in the lanes
and every term of theirs is one operation. The order within a row stays: results have the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from autotune.rules.effort import one_thread
from autotune.rules.group import Group, attempt, instances, lane_of, size, stores_of, stride_in
from autotune.rules.lanes import rows_in_lanes, run_length, turned_rows
from autotune.rules.plan import OpenPlan, Values, threads, tried
from schedule import LoopRef, Schedule, library
from tensorir import Block, Cpu, IterVar, body_loads, int_value

LONGER = 2
"""Terms of a row for each lane, from which on partial sums in lanes take less time."""


@dataclass(frozen=True, eq=False)
class ShortRowsPlan(OpenPlan):
    """Tasks of as many rows as there are lanes; `turned` are read through transposed squares."""

    turned: tuple[str, ...]
    lanes: int
    name: str = "short_rows"
    numerics: str = "bitwise"

    def apply(self, sch: Schedule, values: Values) -> None:
        block = self.group.block
        if self.group.epilogue is None:
            library.in_axes(sch, block, parts=False)  # rows side by side in memory are one axis
        node = sch.state.block(block)
        row = lane_of(node)
        assert row is not None  # as it was when the plan was made
        reads = {x.buffer.name: x for x in body_loads(node) if x.buffer.name in self.turned}
        copies = [c for x in reads.values() for c in turned_rows(sch, {block: (x, row)})]
        tasks = [self._task(sch, writer) for writer in self._writers(sch)]
        task = sch.merge(*tasks) if len(tasks) > 1 else tasks[0]
        stages = [*reversed(copies), block]
        rows_in_lanes(sch, stages, task, stages)
        if self.parallel(values):
            sch.parallel(task)

    def _writers(self, sch: Schedule) -> list[str]:
        """The blocks that take the results from registers, in the order of the program."""
        block = self.group.block
        if self.group.epilogue is not None:
            return [self.group.epilogue]
        made = [store.buffer.name for store in stores_of(sch.state.block(block))]
        return [str(sch.reindex(block, name, "local")) for name in made][::-1]

    def _task(self, sch: Schedule, writer: str) -> LoopRef:
        """The loops of a writer: tasks, and in one a row in each lane."""
        loops = sch.get_loops(writer)
        row = next(n for n in reversed(loops) if sch.state.loop(n).const_extent != 1)
        outer = [loop for loop in loops if loop != row]
        if row != loops[-1]:  # units follow
            sch.reorder(*outer, row)
        first, lanes = sch.split(row, [None, self.lanes])
        sch.vectorize(lanes)
        return sch.fuse(*outer, first) if outer else first


def short_rows_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[ShortRowsPlan]:
    """A plan for a reduction along what it reads, of many short rows."""
    block = sch.state.block(group.block)
    reads, count = library.placed_loads(block), instances(block)
    once = {r.buffer for r in reads if prod(map(size, r.buffer.shape)) == count}
    if not block.is_reduction or not once:
        return []
    lanes = cpu.elements(*(store.buffer.dtype for store in stores_of(block)))
    if not _short_run(block, lanes):  # as it is whatever the axes of the results are
        return []
    if group.epilogue is None:
        sch = sch.copy()
        own = partial(library.in_axes, parts=False)
        attempt({}, "rows", own, sch, group.block)  # else the plan will be refused, and says so
    block = sch.state.block(group.block)
    run, row = _short_run(block, lanes), lane_of(block)
    many = [it.var for it in block.spatial if it.var is row and size(it.extent) >= lanes]
    if row is None or not many or not run or not _follows(sch, group, block):
        return []
    reads = library.placed_loads(block)
    steps = [(stride_in(r, row, block), stride_in(r, run[-1].var, block)) for r in reads]
    turned = [r for r, (across, along) in zip(reads, steps) if across != 0 and along != 0]
    whole = all(step == (run_length(run), 1) for step in steps if 0 not in step)
    if not turned or not whole or not once.issuperset(r.buffer for r in turned):
        return []
    squares = len(turned) * instances(block) / lanes * cpu.costs.transpose
    cycles = one_thread([block], cpu, turned=True) + squares
    names = tuple(dict.fromkeys(r.buffer.name for r in turned))
    options = {"threads": threads(cpu, cycles, sch, block)}
    return [tried(sch, ShortRowsPlan(group, cpu, options, cycles, names, lanes))]


def _short_run(block: Block, lanes: int) -> list[IterVar]:
    """The variables of a reduction along what it reads, if its terms are about as many as lanes."""
    long = [it for it in block.reduced if int_value(it.extent) != 1]
    short = 2 <= (run_length(long) or 0) < LONGER * lanes
    run = library.contiguous_run(block) if short else []
    return run if len(run) == len(long) else []


def _follows(sch: Schedule, group: Group, block: Block) -> bool:
    """Whether the epilogue, if there is one, goes through results as they are stored."""
    if group.epilogue is None:
        return True
    user: Block = sch.state.block(group.epilogue)
    read = [r for r in body_loads(user) if r.buffer is stores_of(block)[0].buffer]
    own = tuple(it.var for it in user.iters)  # if nothing is read, that is another result
    places = [store.indices for store in stores_of(user)]
    return bool(read) and all(at == own for at in (*places, read[0].indices))
