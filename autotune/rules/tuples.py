"""Reductions of several values at once: places of maxima, means with variances, complex products.

All values of a few results stay in registers while the terms are gone over. The lanes of vectors
are neighbouring results, whose order of terms stays, or the terms of a row, whose parts are then
merged as the reduction itself merges them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from autotune.rules.effort import one_thread
from autotune.rules.group import Group, size, stores_of, stride_in
from autotune.rules.lanes import into_lanes, lanes_inside, unroll_short
from autotune.rules.nest import fuse_outer, loops_by_kind, loops_by_variable
from autotune.rules.plan import Options, Values, threads, tried
from autotune.rules.runs import contiguous_run, fuse_run, run_length
from autotune.rules.window import MOST_STRIDE, ResultsPlan
from schedule import LoopRef, Schedule
from tensorir import Block, Cpu, IterKind, IterVar, body_loads

ROWS = (1, 2, 4)
VECTORS = (1, 2, 4)

WANTED = 2
"""Vectors: one waits for the comparisons of its terms while the other goes on."""


@dataclass(frozen=True, eq=False)
class AlongTerms(ResultsPlan):
    """Terms of a row in `vectors` of lanes, which are merged in the end, of `rows` rows at a
    time."""

    name: str = "tuples_lanes"
    numerics: str = "reassociated"

    def apply(self, sch: Schedule, values: Values) -> None:
        block = self.group.block
        run = [it.var.name for it in contiguous_run(sch.state.block(block))]
        width = values[self.key("vectors")] * self.lanes
        parts = into_lanes(sch, block, fuse_run(sch, block, run), width, self.lanes)
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


def tuples_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[ResultsPlan]:
    """The plans for a reduction of several values that fit how its terms lie in memory."""
    block = sch.state.block(group.block)
    stores = stores_of(block)
    spatial = [it for it in block.iters if it.kind is IterKind.SPATIAL]
    own = tuple(it.var for it in spatial)
    several = len(stores) > 1 and all(store.indices == own for store in stores)
    loops = set(loops_by_variable(sch, group.block).values())
    alone = block.is_reduction and not group.padding and len(loops) == len(block.iters)
    if not several or not alone:
        return []
    kinds = [store.buffer.dtype for store in stores]
    lanes = cpu.elements(*kinds, *(load.buffer.dtype for load in body_loads(block)))
    cycles = one_thread([block], cpu)
    shared = threads(cpu, cycles)
    made: list[ResultsPlan] = []
    along = partial(ResultsPlan, name="tuples", down=False)
    for kind, options in ((along, _results(block, lanes)), (AlongTerms, _terms(block, lanes))):
        if options:
            plan = kind(group, cpu, {**options, "threads": shared}, cycles, lanes, len(stores))
            made.append(tried(sch, plan))
    filled = bool(spatial) and size(spatial[-1].extent) >= lanes
    return made if filled else made[::-1]


def _results(block: Block, lanes: int) -> Options:
    """What may be chosen for lanes along results, neighbours of which read what is near."""
    spatial = [it for it in block.iters if it.kind is IterKind.SPATIAL]
    steps = [stride_in(load, spatial[-1].var, block) for load in body_loads(block) if spatial]
    if not any(steps) or any(step is None or not 0 <= step <= MOST_STRIDE for step in steps):
        return {}
    vectors = tuple(v for v in VECTORS if v == 1 or (v - 1) * lanes < size(spatial[-1].extent))
    return {**_rows(spatial[:-1]), "vectors": (vectors, WANTED)}


def _terms(block: Block, lanes: int) -> Options:
    """What may be chosen for lanes along terms that follow each other in memory."""
    spatial = [it for it in block.iters if it.kind is IterKind.SPATIAL]
    length = run_length(contiguous_run(block)) or 0
    vectors = tuple(v for v in VECTORS if 2 * v * lanes <= length)
    return {"vectors": (vectors, WANTED), **_rows(spatial)} if vectors else {}


def _rows(axes: Sequence[IterVar]) -> Options:
    """Results along the last of some axes, if there is one."""
    rows = tuple(r for r in ROWS if r <= size(axes[-1].extent)) if axes else ()
    return {"rows": (rows, 1)} if axes else {}
