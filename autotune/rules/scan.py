"""Running sums and the like: a te.scan of one step, of which all but the time is independent.

All steps of a few rows follow each other, so that the state stays in the first-level cache, and
threads share the rows. Where the time is the last axis of what is read, a few rows advance
together: each step waits for the one before it. Elsewhere the steps run in vectors along the last
axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.rules.effort import one_thread
from autotune.rules.group import Group, instances, output_store
from autotune.rules.nest import finish_nest, loops_by_variable
from autotune.rules.plan import OpenPlan, Values, threads, works_out
from schedule import LoopRef, Schedule
from tensorir import Block, Cpu, IterKind, Store, Var, body_loads, int_value

ROWS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Scan:
    """The blocks of a scan, in program order: its first rows, its step, and what reads the states.

    at  how many axes are before the time in the layout of the reader; the state takes that layout
    """

    stages: tuple[str, ...]
    at: int

    @property
    def step(self) -> str:
        return self.stages[1]


@dataclass(frozen=True, eq=False)
class ScanPlan(OpenPlan):
    """`size` rows side by side, or elements of a row in vectors, through all of the time."""

    scan: Scan
    name: str = "scan"
    numerics: str = "bitwise"

    @property
    def stages(self) -> tuple[str, ...]:
        return self.scan.stages

    def apply(self, sch: Schedule, values: Values) -> None:
        scan, own = self.scan, self.chosen(values)
        step = sch.state.block(scan.step)
        rank = len(step.iters)
        if len(scan.stages) == 3 and scan.at:
            names = [f"d{n}" for n in range(rank)]
            moved = [*names[1 : scan.at + 1], "d0", *names[scan.at + 1 :]]
            store = output_store(step)
            assert store is not None
            index_map = f"{', '.join(names)}: {', '.join(moved)}"
            sch.transform_layout(scan.step, store.buffer.name, index_map)
        tasks = [self._nest(sch, stage, own["size"]) for stage in scan.stages]
        if len(tasks) == 3:
            tasks = [sch.merge(*tasks)]
        if len(scan.stages) == 3 and scan.at == rank - 1:
            finish_nest(sch, scan.stages[2], self.cpu, unroll_rows=0)
        if own["threads"] == "parallel":
            sch.parallel(tasks[-1])

    def _nest(self, sch: Schedule, stage: str, factor: int) -> LoopRef:
        """Bring the loops of a stage in order; returns the loop over independent pieces."""
        scan = self.scan
        names = loops_by_variable(sch, stage)
        loops = [LoopRef(names[it.var.name]) for it in sch.state.block(stage).iters]
        reads = len(scan.stages) == 3 and stage == scan.stages[2]
        time = loops.pop(scan.at if reads else 0)
        outer, inner = loops[: scan.at], loops[scan.at :]
        if not inner:
            piece, row = sch.split(outer[-1], [None, factor])
            outer[-1] = piece
            sch.reorder(*outer, *((row, time) if reads else (time, row)))
            if not reads:
                sch.unroll(row)
        else:
            piece, vector = sch.split(inner[-1], [None, factor])
            outer += [*inner[:-1], piece]
            sch.reorder(*outer, time, vector)
            sch.vectorize(vector)
        return sch.fuse(*outer) if len(outer) > 1 else outer[0]


def scan_plans(sch: Schedule, groups: Sequence[Group], cpu: Cpu) -> list[ScanPlan]:
    """A plan for each scan of one elementwise step and at most one reader of its states."""
    plans = []
    for group in groups:
        block = sch.state.block(group.block)
        scan = _find(sch, block)
        if scan is None:
            continue
        rows = scan.at == len(block.iters) - 1
        sizes = ROWS if rows else tuple(n * cpu.lanes() for n in (1, 2, 4, 8, 16))
        wanted = 4 if rows else 4 * cpu.lanes()
        waiting = instances(block) * cpu.costs.latency / wanted  # each step for the one before it
        large = cpu.worth_threads(waiting if rows else one_thread([block], cpu))
        plan = ScanPlan(group, cpu, {"size": (sizes, wanted), "threads": threads(large)}, scan)
        if works_out(sch, plan):  # not for dependences of its own
            plans.append(plan)
    return plans


def _find(sch: Schedule, block: Block) -> Scan | None:
    """The scan that `block` is the step of; None where it has other blocks as well."""
    store = output_store(block)
    kinds = [it.kind for it in block.iters]
    if store is None or kinds[:1] != [IterKind.OPAQUE] or len(kinds) < 2:
        return None
    if any(kind is not IterKind.SPATIAL for kind in kinds[1:]):
        return None
    if any(int_value(it.extent) is None for it in block.iters):
        return None
    order = [str(name) for name in sch.get_blocks()]
    place = order.index(str(block.name))
    first = sch.state.block(order[place - 1]) if place else None
    made = None if first is None else output_store(first)
    if first is None or made is None or made.buffer is not store.buffer:
        return None
    if [it.kind for it in first.iters] != [IterKind.SPATIAL] * len(kinds):
        return None
    stages = (str(first.name), str(block.name))
    if store.buffer in sch.func.params:
        return Scan(stages, 0)
    readers = [str(name) for name in order[place + 1 :] if _reads(sch, name, store)]
    if readers != order[place + 1 : place + 2]:
        return None
    at = _time_axis(sch.state.block(readers[0]), store)
    return None if at is None else Scan((*stages, readers[0]), at)


def _reads(sch: Schedule, name: str, store: Store) -> bool:
    return any(load.buffer is store.buffer for load in body_loads(sch.state.block(name)))


def _time_axis(reader: Block, state: Store) -> int | None:
    """Where in what `reader` stores the time is; None where other axes are not in their order."""
    store = output_store(reader)
    loads = [load for load in body_loads(reader) if load.buffer is state.buffer]
    spatial = [it.var for it in reader.iters if it.kind is IterKind.SPATIAL]
    if store is None or len(spatial) != len(reader.iters) or list(store.indices) != spatial:
        return None
    rest = {load.indices[1:] for load in loads}
    if len(rest) != 1 or len(state.buffer.shape) != len(spatial):
        return None
    (axes,) = rest
    left = [var for var in spatial if var not in axes]
    plain = all(isinstance(i, Var) for i in axes) and len(left) == 1
    ordered = [var for var in spatial if var in axes] == list(axes)
    return spatial.index(left[0]) if plain and ordered else None
