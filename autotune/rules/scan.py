"""Running sums and the like: a te.scan of one step, of which all but the time is independent.

All steps of a few rows follow each other, so that the state stays in the first-level cache, and
threads share the rows. Where the time is the last axis of what is read, a few rows advance
together: each step waits for the one before it. Elsewhere the steps run in vectors along the last
axis.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from autotune.rules.effort import one_thread
from autotune.rules.group import Group, Refused, attempt, instances, output_store, size, stride_in
from autotune.rules.nest import finish_nest, loops_by_variable
from autotune.rules.plan import OpenPlan, Values, threads, tried
from schedule import LoopRef, Schedule
from tensorir import Block, Buffer, Cpu, IterKind, Load, body_loads, dtype, int_value

ROWS, VECTORS = (1, 2, 4, 8), (1, 2, 4, 8, 16, 32, 64, 128)
"""Rows, or vectors of each row, that advance together."""


@dataclass(frozen=True, eq=False)
class ScanPlan(OpenPlan):
    """`size` rows side by side, or elements of a row in vectors, through all of the time.

    stages  in program order: the first rows, the step, and what copies the states in their order,
            if it is all that reads them
    at      how many axes of the states are before the time
    """

    stages: tuple[str, ...] = ()
    at: int = 0
    name: str = "scan"
    numerics: str = "bitwise"

    def apply(self, sch: Schedule, values: Values) -> None:
        own, rank = self.chosen(values), len(sch.state.block(self.stages[1]).iters)
        tasks = [self._nest(sch, stage, own["size"]) for stage in self.stages]
        if len(tasks) == 3:
            tasks = [sch.merge(*tasks)]
            if self.at == rank - 1:
                finish_nest(sch, self.stages[2], self.cpu, unroll_rows=0)
        if self.parallel(values):
            sch.parallel(tasks[-1])

    def _nest(self, sch: Schedule, stage: str, factor: int) -> LoopRef:
        """Bring the loops of a stage in order; returns the loop over independent pieces."""
        names = loops_by_variable(sch, stage)
        loops = [LoopRef(names[it.var.name]) for it in sch.state.block(stage).iters]
        reads = stage in self.stages[2:]
        time = loops.pop(self.at if reads else 0)
        outer, inner = loops[: self.at], loops[self.at :]
        inner.sort(key=lambda loop: sch.state.loop(loop).const_extent != 1)  # units are no lanes
        rows = not inner
        piece, part = sch.split((inner or outer).pop(), [None, factor])
        outer += [*inner, piece]
        sch.reorder(*outer, *((part, time) if rows and reads else (time, part)))
        if not rows:
            sch.vectorize(part)
        elif not reads:
            sch.unroll(part)
        return sch.fuse(*outer) if len(outer) > 1 else outer[0]


def scan_plans(sch: Schedule, groups: Sequence[Group], cpu: Cpu) -> list[ScanPlan]:
    """A plan for each scan of one elementwise step."""
    plans = []
    for group in groups:
        block = sch.state.block(group.block)
        stages, at = _find(sch, block)
        if not stages:
            continue
        rows = at == len(block.iters) - 1
        sizes = ROWS if rows else tuple(n * cpu.lanes() for n in VECTORS)
        wanted = 4 if rows else _columns(block, sizes, cpu)  # a step waits for the one before it
        cycles = instances(block) * cpu.costs.latency / wanted if rows else one_thread([block], cpu)
        options = {"size": (sizes, wanted), "threads": threads(cpu, cycles)}
        plans.append(tried(sch, ScanPlan(group, cpu, options, cycles, stages, at)))
    return plans


def _columns(block: Block, sizes: Sequence[int], cpu: Cpu) -> int:
    """Elements of a row that go through all of the time together: four vectors, in registers; where
    each step is in another page as many as a thread has, as far as two states have room in half of
    the first-level cache."""
    store = output_store(block)
    assert store is not None
    item = dtype.itemsize(store.buffer.dtype)
    step = stride_in(store, block.iters[0].var, block) or 0
    row = [n for n in (size(it.extent) for it in block.iters) if n != 1][-1:] or [1]
    most = min(row[0] // cpu.threads, cpu.kept_bytes(1) // (2 * item))
    apart = abs(step) * item >= cpu.page_bytes
    return max(n for n in sizes if n == sizes[2] or apart and n <= most)


def lay_out_states(sch: Schedule, cpu: Cpu, taken: Collection[str] = ()) -> Refused:
    """Put the time among the axes of states where what reads them most has it, so that neither side
    goes across memory, those `taken` aside. The last scans first, since these may read what others
    make. Sums take states in any order: those of steps in vectors stay. Returns the steps whose
    states do against that, and why."""
    refused: Refused = {}
    for name in map(str, reversed(sch.get_blocks())):
        block = sch.state.block(name)
        store = output_store(block)
        if store is None or _first_rows(sch, block) is None:
            continue
        buffer = store.buffer
        readers = [sch.state.block(user) for user in sch.get_consumers(name)]
        readers = [user for user in readers if user is not block and body_loads(user, buffer)]
        if not readers or buffer in sch.func.params or name in taken:
            continue
        reader = max(readers, key=lambda user: (not user.is_reduction, instances(user)))
        at = max(_before_time(reader, load) for load in body_loads(reader, buffer))
        time = block.iters[0].var
        rows = [n for n in body_loads(block) if n.variables > {time}]
        beside = all(stride_in(n, time, block) != 1 for n in rows)
        if at and not (reader.is_reduction and beside):
            axes = [f"d{n}" for n in range(len(buffer.shape))]
            moved = [*axes[1 : at + 1], "d0", *axes[at + 1 :]]
            own, text = refused.setdefault(name, {}), f"{', '.join(axes)}: {', '.join(moved)}"
            what = f"states of {name!r} in the order of {reader.name!r}"
            attempt(own, what, sch.transform_layout, name, buffer.name, text)
    return refused


def _before_time(reader: Block, load: Load) -> int:
    """How many axes of states, whose first one is the time, `reader` has before that."""
    store = output_store(reader)
    order = () if store is None else tuple(v for i in store.indices for v in i.variables)
    order += tuple(it.var for it in reader.iters if it.var not in order)
    places = [max((order.index(v) for v in i.variables), default=-1) for i in load.indices]
    return sum(0 <= place < places[0] for place in places[1:])


def _find(sch: Schedule, block: Block) -> tuple[tuple[str, ...], int]:
    """The stages of the scan that `block` is the step of, and how many axes are before the time; no
    stages where it has other blocks as well."""
    first, store = _first_rows(sch, block), output_store(block)
    time = block.iters[0].var if block.iters else None
    places = [n for n, i in enumerate(store.indices if store else ()) if time in i.variables]
    if first is None or store is None or not places:  # or a single step
        return (), 0
    stages = (first, str(block.name))
    if store.buffer in sch.func.params:
        return stages, places[0]
    order = [str(name) for name in sch.get_blocks()]
    after = order[order.index(str(block.name)) + 1 :]
    readers = [name for name in after if body_loads(sch.state.block(name), store.buffer)]
    alone = readers == after[:1] and _copies(sch.state.block(readers[0]), store.buffer)
    return ((*stages, *readers) if alone else stages), places[0]


def _first_rows(sch: Schedule, block: Block) -> str | None:
    """The block that makes the first rows of the scan that `block` is the elementwise step of."""
    store = output_store(block)
    kinds = [it.kind for it in block.iters]
    steps = kinds[:1] == [IterKind.OPAQUE] and {*kinds[1:]} == {IterKind.SPATIAL}
    if store is None or not steps or any(int_value(it.extent) is None for it in block.iters):
        return None
    order = [str(name) for name in sch.get_blocks()]
    place = order.index(str(block.name))
    first = sch.state.block(order[place - 1]) if place else None
    made = None if first is None else output_store(first)
    same = made is not None and made.buffer is store.buffer
    alike = first is not None and [it.kind for it in first.iters] == [IterKind.SPATIAL] * len(kinds)
    return str(first.name) if first is not None and same and alike else None


def _copies(reader: Block, states: Buffer) -> bool:
    """Whether a stage reads states where it stores, at its own variables in their order."""
    store, own = output_store(reader), tuple(it.var for it in reader.spatial)
    mine = store is not None and len(own) == len(reader.iters) and store.indices == own
    return mine and all(load.indices == own for load in body_loads(reader, states))
