"""Chains whose rows lie side by side: neighbours in memory are of different rows.

Softmax over channels of images, norms of columns: a statistic of a row goes over elements that are
far apart, and lanes of vectors are rows. All stages compute some vectors of neighbouring rows
before the next ones, so that what is read once stays in cache. Rows that are shorter than a vector
or two, as softmax of few classes has, are put side by side: what is read is turned on its way in,
and results on their way out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from autotune.rules.effort import one_thread
from autotune.rules.find_rows import may_have_rows, shared_loops, step_of
from autotune.rules.followers import Follower, followers
from autotune.rules.group import Group, instances, size, stores_of
from autotune.rules.lanes import moved_last, rows_in_lanes, turned_rows
from autotune.rules.plan import NoPlan, OpenPlan, Plan, Values, threads, tried
from schedule import LoopRef, Refusal, Schedule, library
from tensorir import Analyzer, Block, Cpu, IterKind, Load, Store, Var, body_loads, dtype, written

Places = tuple[list[int], list[int], int]
"""The loops of the last stage of a chain, by their positions: those of rows, those of a row's
elements, and that of the rows that are neighbours in memory."""


@dataclass(frozen=True, eq=False)
class SideBySidePlan(OpenPlan):
    """Threads share pieces of so many neighbouring rows as are chosen; `turned`: these are put side
    by side first, in squares of so many lanes, 0 if they are."""

    stages: tuple[str, ...] = ()
    turned: int = 0
    name: str = "side by side"
    numerics: str = "reassociated"

    def apply(self, sch: Schedule, values: Values) -> None:
        copies, stages = _on_axes(sch, self.stages, self.turned > 0)
        places = _places(sch, copies, stages)
        assert places is not None  # as it was when the plan was made
        *before, last = (*copies, *stages)
        shared, task = _tasks(sch, last, places, values[self.key("rows")], self.turned)
        rows_in_lanes(sch, before, task, copies)  # which are turned in registers
        if self.parallel(values):
            sch.parallel(shared)


def _tasks(
    sch: Schedule, last: str, places: Places, rows: int, turned: int
) -> tuple[LoopRef, LoopRef]:
    """Cut the loops of the last stage into tasks of so many `rows`, as `one_loop` does."""
    loops, (far, columns, near) = sch.get_loops(last), places
    piece, inner = sch.split(loops[near], [None, rows])
    outer, others = [*(loops[at] for at in far), piece], [loops[at] for at in columns]
    if turned:
        few, column = sch.split(others[0], [None, turned])
        square, row = sch.split(inner, [None, turned])
        sch.reorder(*outer, few, square, row, column)
        sch.unroll(row)
        inner = column
    else:
        sch.reorder(*outer, *others, inner)
    sch.vectorize(inner)
    return library.one_loop(sch, outer)


def _on_axes(sch: Schedule, stages: Sequence[str], turned: bool) -> tuple[list[str], list[str]]:
    """Give stages of a chain a variable for each axis. If `turned`, that of rows is the last of
    data, and so it is in copies of what is read, which are returned, and the stages; one more
    takes results to their place.

    Raises Refusal where a stage has no such variables.
    """
    for stage in stages:
        library.with_result_on_axes(sch, stage)
    if not turned:
        return [], list(stages)
    made = {written(sch.state.block(stage))[0].name for stage in stages}
    count = len(sch.state.block(stages[-1]).iters)
    readers: dict[str, dict[str, tuple[Load, Var]]] = {}
    for stage in stages:
        node = sch.state.block(stage)
        inside = {it.var for it in node.reduced}
        if not inside and len(node.iters) == count:
            sch.transform_block_layout(stage, moved_last(count, -2))
            if stage != stages[-1]:
                sch.transform_layout(stage, written(node)[0].name, moved_last(count, -2))
            node = sch.state.block(stage)
            inside = {node.iters[-2].var}
        for load in body_loads(node):
            row = node.spatial[-1].var
            if load.buffer.name not in made and inside & load.variables and row in load.variables:
                readers.setdefault(load.buffer.name, {})[stage] = load, row
    copies = [copy for loads in readers.values() for copy in turned_rows(sch, loads)]
    result = written(sch.state.block(stages[-1]))[0].name
    return copies, [*stages, str(sch.reindex(stages[-1], result, "local"))]


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
    chain = _stages(sch, last, cpu)
    if not chain:
        return None
    for turned in (0, cpu.lanes()):
        made = sch.copy()
        try:
            copies, stages = _on_axes(made, chain, turned > 0)
        except Refusal as error:
            return NoPlan(Group(last), {f"rows of {last!r} side by side": error.reason})
        places = _places(made, copies, stages)
        if places is not None:
            return _open(sch, made, chain, (*copies, *stages), places, turned, cpu)
        if turned or not _worth_turning(made, chain, cpu):
            return None
    return None


def _worth_turning(sch: Schedule, chain: Sequence[str], cpu: Cpu) -> bool:
    """Whether rows are shorter than two vectors, and elements of them kept for later stages: with
    only numbers of rows to keep, reading rows again takes less."""
    *before, last = map(sch.state.block, chain)
    *_, rows, columns = [0, 0, *(size(it.extent) for it in last.iters)]
    kept = any(instances(b) == instances(last) for b in before if not b.is_reduction)
    return rows >= cpu.lanes() and columns < 2 * cpu.lanes() and kept


def _open(
    sch: Schedule, made: Schedule, chain: tuple[str, ...], stages: Sequence[str], places: Places,
    turned: int, cpu: Cpu,
) -> Plan | None:  # fmt: skip
    """The plan of a chain whose stages have been `made` ready for it; None if caches are too small
    for it."""
    loops = made.state.loops_around(stages[-1])
    near, far = size(loops[places[2]].extent), prod(size(loops[at].extent) for at in places[0])
    blocks = [made.state.block(stage) for stage in stages]
    kinds = ["float32", *(store.buffer.dtype for b in blocks for store in stores_of(b))]
    kept = sum(instances(block, IterKind.SPATIAL) for block in blocks[:-1]) // max(1, near * far)
    lanes = cpu.elements(*kinds)
    room = cpu.kept_bytes(1 if turned else 2) // max(1, kept * max(map(dtype.itemsize, kinds)))
    cycles, mine = one_thread(blocks, cpu), near * far // cpu.threads
    most = min(room, cpu.registers // 2 * lanes, mine)
    options = tuple(n for n in range(lanes, most + 1, lanes) if n < near + lanes)
    few = mine < cpu.costs.latency * cpu.costs.units * lanes  # a sum waits for the term before it
    if not options or few or _shares_lines(blocks[-1], near, far, cycles, cpu):
        return None
    usual = min(options, key=lambda n: -(-near // n) * n / near + lanes / n)
    chosen = {"rows": (options, usual), "threads": threads(cpu, cycles, sch, *blocks)}
    return tried(sch, SideBySidePlan(Group(chain[-1]), cpu, chosen, cycles, chain, turned))


def _shares_lines(last: Block, near: int, far: int, cycles: float, cpu: Cpu) -> bool:
    """Whether threads, which take turns to write the lines of the results that their pieces share,
    spend more time on that than on what they compute. Arrays begin anywhere in a line."""
    if far >= cpu.threads or not cpu.worth_threads(cycles):
        return False
    ends = instances(last) / max(1, near * far) * (cpu.threads - far)
    return ends * cpu.costs.shared > cycles


def _stages(sch: Schedule, last: str, cpu: Cpu) -> tuple[str, ...]:
    """The stages of the longest chain that ends in `last`, in program order: each a statistic of
    rows or elementwise, with one that goes back to the elements of its row; none where there is
    none, or where two vectors of a row follow each other: they are not side by side, and long."""
    among: Sequence[str] | None = None
    loops, least = sch.state.loops_around(last), 2 * cpu.lanes()
    while True:
        found = followers(sch, last, among)
        rows = shared_loops(sch, found)
        stages = [name for name in reversed(found) if rows <= found[name].loops]
        count = prod(size(f.extent) for f in loops if f.var in rows)
        blocks = [sch.state.block(name) for name in stages]
        sizes = [instances(block, IterKind.SPATIAL) // max(1, count) for block in blocks]
        wide = [at for at, block in enumerate(blocks) if block.is_reduction and sizes[at] > 1]
        if wide and wide[-1] + 1 < len(stages):
            among = stages[wide[-1] + 1 :]
            continue
        reducing = [at for at, block in enumerate(blocks) if block.is_reduction]
        back = not wide and bool(reducing) and max(sizes[reducing[0] :]) > 1
        stores, analyzer = stores_of(sch.state.block(last)), sch.state.analyzer(loops)
        columns = [f.var for f in loops if back and size(f.extent) >= least and f.var not in rows]
        long = any(_moves(found[last], stores, column, analyzer) == {1} for column in columns)
        return tuple(stages) if back and not long else ()


def _moves(
    stage: Follower, accesses: Iterable[Load | Store], loop: Var, analyzer: Analyzer
) -> set[int | None]:
    """How many elements accesses of a stage move with a loop of the last one."""
    return {step_of(x.buffer, x.indices, stage.places, analyzer)(loop) for x in accesses}


def _places(sch: Schedule, copies: Sequence[str], stages: Sequence[str]) -> Places | None:
    """Where the rows are in the loops of the last stage, if these are one for each of its axes;
    None where rows do not lie side by side in all that stages access, `copies` aside, which put
    them there."""
    last, end = stages[-1], stages[-2 if copies else -1]
    found, loops = followers(sch, last, [*copies, *stages]), sch.state.loops_around(last)
    shared, known = shared_loops(sch, found), sch.state.analyzer(loops)
    if len(found) != len(copies) + len(stages):
        return None
    stores = {stage: stores_of(sch.state.block(stage)) for stage in found}
    lanes = [f.var for f in loops if _moves(found[end], stores[end], f.var, known) == {1}]
    bound = {it.binding for it in sch.state.block(last).iters}
    if len(lanes) != 1 or lanes[0] not in shared or not bound.issuperset(f.var for f in loops):
        return None
    (lane,) = lanes
    for name, stage in found.items():
        reads = () if name in copies else body_loads(sch.state.block(name))
        made = () if copies and name == last else stores[name]
        if _moves(stage, reads, lane, known) - {0, 1} or _moves(stage, made, lane, known) - {1}:
            return None
    at = {loop.var: n for n, loop in enumerate(loops)}
    columns = [n for var, n in at.items() if var not in shared]
    rows = [n for var, n in at.items() if var in shared and var is not lane]
    return None if copies and len(columns) != 1 else (rows, columns, at[lane])
