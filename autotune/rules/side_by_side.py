"""Chains whose rows lie side by side: neighbours in memory are of different rows.

Softmax over channels of images, norms of columns: a statistic of a row goes over elements that are
far apart, and lanes of vectors are rows. All stages compute some vectors of neighbouring rows
before the next ones, so that what is read once stays in cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from autotune.rules.effort import one_thread
from autotune.rules.find_rows import may_have_rows, shared_loops, step_of
from autotune.rules.followers import Follower, followers
from autotune.rules.group import Group, attempt, instances, output_store, size, stores_of
from autotune.rules.lanes import is_reduce_loop
from autotune.rules.plan import NoPlan, OpenPlan, Plan, Values, threads, tried
from schedule import LoopRef, Schedule, library
from tensorir import Cpu, IterKind, body_loads, dtype

Places = tuple[list[int], list[int], int]
"""The loops of the last stage of a chain, by their positions: those of rows, those of a row's
elements, and that of the rows that are neighbours in memory."""


@dataclass(frozen=True, eq=False)
class SideBySidePlan(OpenPlan):
    """Threads share pieces of so many neighbouring rows as are chosen."""

    stages: tuple[str, ...] = ()
    name: str = "side by side"
    numerics: str = "reassociated"

    def apply(self, sch: Schedule, values: Values) -> None:
        *before, last = self.stages
        for stage in self.stages:
            library.with_result_on_axes(sch, stage)
        places = _places(sch, followers(sch, last, self.stages), last)
        assert places is not None  # as it was when the plan was made
        shared, task = _tasks(sch, last, places, values[self.key("rows")])
        for stage in reversed(before):
            sch.compute_at(stage, task)
        outside = sch.get_loops(last).index(task) + 1
        for stage in before:
            own, node = sch.get_loops(stage)[outside:], sch.state.block(stage)
            terms = [loop for loop in own if is_reduce_loop(node, loop)]
            *others, vector = [loop for loop in own if loop not in terms]
            sch.reorder(*others, *terms, vector)
            sch.vectorize(vector)
        if self.parallel(values):
            sch.parallel(shared)


def _tasks(sch: Schedule, last: str, places: Places, rows: int) -> tuple[LoopRef, LoopRef]:
    """Cut the loops of the last stage into tasks of so many `rows`, as `one_loop` does."""
    loops, (far, columns, near) = sch.get_loops(last), places
    piece, inner = sch.split(loops[near], [None, rows])
    outer = [*(loops[at] for at in far), piece]
    sch.reorder(*outer, *(loops[at] for at in columns), inner)
    sch.vectorize(inner)
    return library.one_loop(sch, outer)


def side_by_side_plans(sch: Schedule, groups: Sequence[Group], cpu: Cpu) -> list[Plan]:
    """A plan for each such chain of the program, none of whose stages are in two, and what is
    refused of others."""
    taken: set[str] = set()
    plans: list[Plan] = []
    for name in map(str, reversed(sch.get_blocks())):
        if name not in taken and may_have_rows(sch, name):
            found = _plan(sch, name, cpu)
            plans += [] if found is None else [found]
            taken.update(() if found is None else found.stages)
    return plans[::-1]


def _plan(sch: Schedule, last: str, cpu: Cpu) -> Plan | None:
    """The plan of the longest chain that ends in `last`; None where there is none that pays."""
    stages = _stages(sch, last)
    if not stages:
        return None
    made, refused = sch.copy(), dict[str, str]()
    for stage in stages:
        if not attempt(refused, stage, library.with_result_on_axes, made, stage):
            return NoPlan(Group(last), {f"rows of {last!r} side by side": refused[stage]})
    found = followers(made, last, stages)
    places = _places(made, found, last)
    if places is None or len(found) != len(stages):
        return None
    loops = made.state.loops_around(last)
    near, far = size(loops[places[2]].extent), prod(size(loops[at].extent) for at in places[0])
    blocks = [made.state.block(stage) for stage in stages]
    stores = [output_store(block) for block in blocks]
    kinds = ["float32", *(store.buffer.dtype for store in stores if store is not None)]
    kept = sum(instances(block, IterKind.SPATIAL) for block in blocks[:-1]) // max(1, near * far)
    lanes = cpu.elements(*kinds)
    room = cpu.kept_bytes(2) // max(1, kept * max(map(dtype.itemsize, kinds)))
    most = min(room, cpu.registers // 2 * lanes, near * far // (4 * cpu.threads))
    options = tuple(n for n in range(lanes, most + 1, lanes) if n < near + lanes)
    if not options:
        return None
    usual = min(options, key=lambda n: -(-near // n) * n / near + lanes / n)
    cycles = one_thread(blocks, cpu)
    chosen = {"rows": (options, usual), "threads": threads(cpu, cycles)}
    return tried(sch, SideBySidePlan(Group(last), cpu, chosen, cycles, stages))


def _stages(sch: Schedule, last: str) -> tuple[str, ...]:
    """The stages of the longest chain that ends in `last`, in program order: each a statistic of
    rows or elementwise, with one that goes back to the elements of its row; none where there is
    none."""
    among: Sequence[str] | None = None
    while True:
        found = followers(sch, last, among)
        rows = shared_loops(sch, found)
        stages = [name for name in reversed(found) if rows <= found[name].loops]
        count = prod(size(f.extent) for f in sch.state.loops_around(last) if f.var in rows)
        blocks = [sch.state.block(name) for name in stages]
        sizes = [instances(block, IterKind.SPATIAL) // max(1, count) for block in blocks]
        wide = [at for at, block in enumerate(blocks) if block.is_reduction and sizes[at] > 1]
        if wide and wide[-1] + 1 < len(stages):
            among = stages[wide[-1] + 1 :]
            continue
        reducing = [at for at, block in enumerate(blocks) if block.is_reduction]
        back = not wide and bool(reducing) and max(sizes[reducing[0] :]) > 1
        return tuple(stages) if back else ()


def _places(sch: Schedule, found: dict[str, Follower], last: str) -> Places | None:
    """Where the rows are in the loops of the last stage, if these are one for each of its axes;
    None where rows do not lie side by side in all that stages access."""
    loops = sch.state.loops_around(last)
    shared, analyzer = shared_loops(sch, found), sch.state.analyzer(loops)
    node, own = sch.state.block(last), found[last].places
    written = [step_of(store.buffer, store.indices, own, analyzer) for store in stores_of(node)]
    near = [loop.var for loop in loops if all(step(loop.var) == 1 for step in written)]
    bound = {it.binding for it in node.iters}
    if len(near) != 1 or near[0] not in shared or not bound.issuperset(f.var for f in loops):
        return None
    for name, stage in found.items():
        for load in body_loads(sch.state.block(name)):
            step = step_of(load.buffer, load.indices, stage.places, analyzer)
            if step(near[0]) not in (0, 1):
                return None
    at = {loop.var: n for n, loop in enumerate(loops)}
    rows = [at[var] for var in at if var in shared and var is not near[0]]
    return rows, [n for var, n in at.items() if var not in shared], at[near[0]]
