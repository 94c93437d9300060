"""Reductions of several values at once: places of maxima, means with variances, complex products.

The lanes of vectors are the terms of a row, whose parts are merged in the end as the reduction
itself merges them. Where neighbouring results read what is near they are left to the general rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autotune.rules.effort import one_thread
from autotune.rules.group import Group, lane_of, size, stores_of, stride_in
from autotune.rules.lanes import into_lanes, lanes_inside, run_length, unroll_short
from autotune.rules.nest import fuse_outer, loops_by_kind, loops_by_variable
from autotune.rules.plan import OpenPlan, Values, threads, tried
from schedule import LoopRef, Schedule, library
from tensorir import Block, Cpu, body_loads

ROWS = (1, 2, 4)
VECTORS = (1, 2, 4)

WANTED = 2
"""Vectors: one waits for the comparisons of its terms while the other goes on."""


@dataclass(frozen=True, eq=False)
class AlongTerms(OpenPlan):
    """Terms of a row in `vectors` of `lanes`, which are merged in the end, of `rows` rows at a
    time; of each so many `values`."""

    lanes: int
    values: int
    name: str = "tuples_lanes"
    numerics: str = "reassociated"

    def feasible(self, values: Values) -> bool:
        own = self.chosen(values)
        return bool(2 * own.get("rows", 1) * own["vectors"] * self.values <= self.cpu.registers)

    def apply(self, sch: Schedule, values: Values) -> None:
        block = self.group.block
        parts = into_lanes(sch, block, values[self.key("vectors")] * self.lanes, self.lanes)
        rows, _ = loops_by_kind(sch, block)
        task: LoopRef | None = None
        if rows:
            outer, _ = sch.split(rows[-1], [None, values[self.key("rows")]])
            task = fuse_outer(sch, [*rows[:-1], outer])
            for part in reversed(parts):
                sch.compute_at(part, task)
        inside = 0 if task is None else sch.get_loops(block).index(task) + 1
        for part in parts:
            lanes_inside(sch, [part], inside)
        unroll_short(sch, sch.get_loops(block)[inside:])
        if self.parallel(values) and task is not None:
            sch.parallel(task)


def tuples_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[AlongTerms]:
    """The plan for a reduction of several values along terms that follow each other in memory."""
    block = sch.state.block(group.block)
    stores, own = stores_of(block), tuple(it.var for it in block.spatial)
    several = len(stores) > 1 and all(store.indices == own for store in stores)
    apart = len(set(loops_by_variable(sch, group.block).values())) == len(block.iters)
    if not several or not apart or not block.is_reduction or group.padding:
        return []
    buffers = [store.buffer for store in stores] + [load.buffer for load in body_loads(block)]
    lanes = cpu.elements(*(buffer.dtype for buffer in buffers))
    lane, options = lane_of(block), _terms(block, lanes)
    steps = [stride_in(load, lane, block) for load in body_loads(block) if lane is not None]
    near = any(steps) and all(step is not None and 0 <= step <= library.NEAR for step in steps)
    if not options or near and size(block.spatial[-1].extent) >= lanes:  # lanes along results
        return []
    cycles = one_thread([block], cpu)
    options |= {"threads": threads(cpu, cycles, sch, block)}
    return [tried(sch, AlongTerms(group, cpu, options, cycles, lanes, len(stores)))]


def _terms(block: Block, lanes: int) -> dict[str, Any]:
    """What may be chosen for lanes along terms that follow each other in memory."""
    length = run_length(library.contiguous_run(block)) or 0
    vectors = tuple(v for v in VECTORS if 2 * v * lanes <= length)
    found: dict[str, Any] = {"vectors": (vectors, WANTED)} if vectors else {}
    if vectors and block.spatial:
        found["rows"] = tuple(r for r in ROWS if r <= size(block.spatial[-1].extent)), 1
    return found
