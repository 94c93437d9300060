"""The nest of a contraction, made from a plan."""

from __future__ import annotations

from schedule.library.contraction.axes import FAR, Contraction
from schedule.library.contraction.copies import copy_ahead, copy_rows, pack, turn
from schedule.library.contraction.factors import regroup
from schedule.library.contraction.partial import add_lanes
from schedule.library.contraction.places import (
    axis_loops,
    followers,
    lay_out,
    layout,
    long_dimensions,
    loops_by_dimension,
    loops_by_place,
    own_loops,
    reduce_loops,
    store_of,
)
from schedule.library.contraction.plan import NestPlan
from schedule.library.tile import one_loop
from schedule.schedule import Schedule
from schedule.state import LoopRef
from tensorir import Call, ForKind, IterKind, body_loads, dtype, walk_exprs

MOST_READ = 3
"""Buffers that the stage after the sums of a tile reads, up to which its rows are written out."""


def make_nest(sch: Schedule, c: Contraction, plan: NestPlan) -> None:
    """Schedule a contraction, its elementwise user and its padding. ScheduleError if refused."""
    Nest(sch, c, plan).run()


def prepare(sch: Schedule, c: Contraction, plan: NestPlan) -> dict[int, str]:
    """Take terms apart, put padding into the sums, and copy operands, as a plan says; returns the
    stages that copy operands. ScheduleError if refused."""
    regroup(sch, c, plan.apart)
    if plan.chained:
        sch.reassociate(c.block)
    for pad in _pads(c) if plan.pad == "inline" else ():
        sch.compute_inline(pad)
    return {what.operand: pack(sch, c, what, plan.steps, plan.threads) for what in plan.packs}


def _pads(c: Contraction) -> list[str]:
    return list(dict.fromkeys(o.pad for o in c.operands if o.pad is not None))


class Nest:
    """The steps, in order. Of a contraction inside of a loop of another nest, which its plan takes
    for one task, these are `lay_out` and, once it is there, `sums_in_tiles`."""

    def __init__(self, sch: Schedule, c: Contraction, plan: NestPlan) -> None:
        self.sch, self.c, self.plan = sch, c, plan
        self.read = [o.buffer for o in c.operands]
        self.pads = [] if plan.pad == "inline" else _pads(c)

    def run(self) -> None:
        sch, c, plan = self.sch, self.c, self.plan
        for operand, copier in prepare(sch, c, plan).items():
            self.read[operand] = store_of(sch, copier).buffer.name
        step = c.result.strides[plan.lane]
        ways = {0: self.run_added, 1: self.run_in_place if c.repeated else self.run_direct}
        task = (self.run_turned if step is None else ways.get(step, self.run_turned))()
        for source in self.pads:
            self.copy(source, task)
        if task is not None and plan.threads:
            sch.parallel(task)

    def run_in_place(self) -> LoopRef | None:
        """In a step of a scan, where others read them in the same loop, sums are where they are."""
        c, plan = self.c, self.plan
        task, _, inner = self.split(c.block, self.loops_of(c.block), plan.tile)
        self.finish_sums(*inner.values())
        return task

    def run_direct(self) -> LoopRef | None:
        """The lanes are neighbours in the result: each tile is written where it belongs."""
        sch, c, plan = self.sch, self.c, self.plan
        tile = c.last if c.last != c.block else self.through_copy(c.block)
        loops = self.loops_of(tile)
        self.lay_out(c.block)
        task, around, inner = self.split(tile, loops, plan.tile)
        *rows, lane = inner.values()
        if plan.depth:
            self.sums_kept(task or sch.add_unit_loop((*around, *rows, lane)[0]))
        else:
            self.sums_at(around[-1])
            if plan.asks:
                steps = [f for f in sch.state.loops_around(c.block) if f.kind is ForKind.SERIAL]
                sch.spread_prefetch(tile, c.result.buffer, around[-1], steps[-1].name, 0)
        if rows and not _holds_much(sch, tile):
            sch.unroll(rows)
        sch.vectorize(lane)
        return task

    def run_added(self) -> LoopRef | None:
        """They are sums of one element of the result, and are added up with each tile."""
        sch, c, plan = self.sch, self.c, self.plan
        (sums,) = map(str, sch.get_consumers(c.block))
        stages = add_lanes(sch, sums, plan.tile[plan.lane], plan.lanes)
        out = c.last if c.last != sums else self.through_copy(sums)
        loops = self.loops_of(*stages, out)
        self.lay_out(c.block)
        task, around, inner = self.split(out, loops, plan.tile)
        where = around[-1]
        for stage in reversed(stages):
            sch.compute_at(stage, where)
        self.sums_at(where)
        for stage in stages:
            self.add_at(stage, last=stage == sums)
        for n, loop in inner.items():
            if c.result.strides[n] == 1 and plan.tile[n] > 1:
                sch.vectorize(loop)
            else:
                sch.unroll(loop)
        return task

    def add_at(self, stage: str, last: bool) -> None:
        """Lanes are added up in a tile, those that are left side by side; `last` leaves none."""
        sch = self.sch
        loops = loops_by_place(sch, stage)
        iters = sch.state.block(stage).iters
        terms = [loops[n] for n in loops if iters[n].kind is IterKind.REDUCE]
        rows = [loops[n] for n in loops if iters[n].kind is not IterKind.REDUCE]
        sch.reorder(*terms, *rows)
        if not last:
            sch.vectorize(rows.pop())
        if terms or rows:
            sch.unroll([*terms, *rows])

    def run_turned(self) -> LoopRef | None:
        """They are not: panels of what a task makes stay in cache, and are turned in the end."""
        sch, c, plan = self.sch, self.c, self.plan
        out = self.through_copy(c.last)
        after = [c.last] if c.last != c.block else []
        loops = self.loops_of(*after, out)
        width = plan.tile[plan.lane]
        whole = (c.axes[plan.lane].extent or 0) % width == 0
        for stage in (*after, c.block):
            self.lay_out(stage, width if whole else None)
        tile = c.last if after else self.through_copy(c.block)  # has the same dimensions
        sizes = tuple(width if n == plan.lane else plan.task[n] for n in c.spatial)
        task, around, inner = self.split(tile, loops, sizes)
        sch.compute_at(tile, around[-1])
        self.sums_in_tiles(tile, around[-1])
        lane = inner.pop(plan.lane)
        turn(sch, self.fuse_run(inner, lane), lane, plan.lanes)
        return task

    def fuse_run(self, rows: dict[int, LoopRef], lane: LoopRef) -> LoopRef:
        """The last of some loops, with those around it that are one run of the result with it, if
        vectors fill that: else one would reach into several places, or what the next task writes.
        """
        size, run = 1, list[LoopRef]()
        for n, row in reversed(rows.items()):
            if run and self.c.result.strides[n] != size:
                break
            run.insert(0, row)
            size *= self.sch.state.loop(row).const_extent or 0
        whole = run[1:] and size % self.plan.lanes == 0
        return self.sch.fuse(*run) if whole else (run or [self.sch.add_unit_loop(lane)])[-1]

    def through_copy(self, stage: str) -> str:
        """Let a copy of what a stage makes write the result; both have the variables of the stage.
        Returns the copier."""
        store = store_of(self.sch, stage)
        if {it.var for it in self.sch.state.block(stage).iters}.issuperset(store.indices):
            return str(self.sch.cache_write(stage, 0, "local"))
        return str(self.sch.reindex(stage, store.buffer.name, "local"))

    def loops_of(self, *stages: str) -> dict[int, LoopRef]:
        """One loop for each spatial axis, of the last of some stages."""
        sch, c = self.sch, self.c
        vars_of = followers(sch, c, *stages)
        places = {it.var: n for n, it in enumerate(sch.state.block(stages[-1]).iters)}
        loops = loops_by_place(sch, stages[-1])
        own = {p: loops[places[v]] for p, v in vars_of.items() if places.get(v) in loops}
        axes = [n for n in c.spatial if c.result.strides[n] != 0]
        around = own_loops(sch, stages[-1])
        moving = {own[d.place] for n in axes for d in c.axes[n].digits}
        units = [loop for loop in around if loop not in moving]
        if around[: len(units)] != units and any(len(c.axes[n].digits) > 1 for n in axes):
            sch.reorder(*units, *(loop for loop in around if loop not in units))  # not between them
        return dict(zip(axes, axis_loops(sch, [c.axes[n] for n in axes], own)))

    def lay_out(self, stage: str, panel: int | None = None, units: bool = True) -> None:
        """A dimension for each axis, the lanes last; `units` may stay, which have one element."""
        order = [*(n for n in self.c.spatial if n != self.plan.lane), self.plan.lane]
        text = layout(self.sch, self.c, [stage], order, panel)
        kept = ", ".join(f"d{n}" for n in long_dimensions(self.sch, stage))
        if not units or text.partition(": ")[2] != kept:
            lay_out(self.sch, stage, text)

    def split(
        self, stage: str, loops: dict[int, LoopRef], tile: tuple[int, ...]
    ) -> tuple[LoopRef | None, list[LoopRef], dict[int, LoopRef]]:
        """The loop over tasks, those around a tile in a task, and those inside of it by axis, the
        lane last: of a stage with one of `loops` for each axis."""
        sch, plan = self.sch, self.plan
        tasks, around, inner = dict[int, LoopRef](), dict[int, LoopRef](), dict[int, LoopRef]()
        for n, loop in sorted(loops.items(), key=lambda item: item[0] == plan.lane):
            extent = self.c.axes[n].extent
            held, size = (min(most, extent or most) for most in (plan.task[n], tile[n]))
            levels = [(tasks, 0)] if held != extent else []
            levels += [(around, -(-held // size))] if held > size else []
            if size > 1 or n == plan.lane or not levels:  # else a tile is one iteration
                levels.append((inner, size))
            counts = [count for _, count in levels[1:]]
            parts = sch.split(loop, [None, *counts]) if counts else [loop]
            for (level, _), part in zip(levels, parts):
                level[n] = part
        outer = [around[n] for n in plan.order if n in around]
        below = [*outer, *inner.values()]
        if not tasks:
            sch.reorder(*below)  # one tile may be all there is
            return None, outer or [sch.add_unit_loop(below[0] if below else stage)], inner
        shared = [tasks[n] for n in plan.order if n in tasks]
        task, last = one_loop(sch, shared, below)
        return task, outer or [last], inner

    def sums_at(self, where: LoopRef | None) -> None:
        """The sums of a register tile, in a loop if they are not in it; rows begin with vectors."""
        sch, c, plan = self.sch, self.c, self.plan
        if where is not None:
            sch.compute_at(c.block, where)
        store = store_of(sch, c.block)
        if len(store.indices) > 1:
            sch.storage_align(c.block, store.buffer.name, -2, plan.lanes)
        rows, lane = self.rows_of(c.block)
        self.finish_sums(*rows.values(), lane or sch.add_unit_loop(c.block))

    def sums_in_tiles(self, tile: str, where: LoopRef | None = None) -> None:
        """Cut a stage that copies the sums into register tiles, and compute the sums of each there;
        where it is one tile, in a loop if they are not in it."""
        sch, (whole, lane) = self.sch, self.rows_of(tile)
        blocks, rows = self.in_blocks(whole)
        if blocks:
            sch.reorder(*blocks, *rows, *filter(None, [lane]))
        self.sums_at(blocks[-1] if blocks else where)
        *outer, last = own_loops(sch, tile) or [sch.add_unit_loop(tile)]
        if outer and not _holds_much(sch, tile):
            sch.unroll(outer)
        sch.vectorize(last)

    def rows_of(self, stage: str) -> tuple[dict[int, LoopRef], LoopRef | None]:
        """The loops of a stage that is laid out as the sums are: of rows by axis, and of the lane;
        not that over panels, of which a task has one at a time."""
        c, lane = self.c, self.plan.lane
        loops = loops_by_dimension(self.sch, stage)
        found = [loops[n] for n in long_dimensions(self.sch, stage)]
        dims = [n for n in c.spatial if n != lane or len(found) > len(c.spatial)]
        return {n: f for n, f in zip(dims, found) if f is not None and n != lane}, found[-1]

    def in_blocks(self, loops: dict[int, LoopRef]) -> tuple[list[LoopRef], list[LoopRef]]:
        """Loops over several tiles, in order, and those inside of a tile."""
        sch, tile = self.sch, self.plan.tile
        blocks, rows = dict[int, LoopRef](), list[LoopRef]()
        for n, loop in loops.items():
            several = (sch.state.loop(loop).const_extent or FAR) > tile[n]
            cut = several and tile[n] > 1
            parts = list(sch.split(loop, [None, tile[n]])) if cut else [loop]
            if several:
                blocks[n] = parts.pop(0)
            rows += parts
        return [blocks[n] for n in self.plan.order if n in blocks], rows

    def finish_sums(self, *tile: LoopRef) -> None:
        """The loops of the sums of a register tile, rows and the lane: in order, around them and
        inside of them the steps."""
        sch, c, plan = self.sch, self.c, self.plan
        (*rows, lane), steps = tile, reduce_loops(sch, c, plan.steps)
        loops, (outside, inside) = dict(zip(plan.steps, steps)), plan.around_rows(c)
        sch.reorder(*(loops[n] for n in outside), *rows, *(loops[n] for n in inside), lane)
        for n, ahead in plan.ahead:
            moved = (plan.stride_of_terms(c, n) or 1) * dtype.itemsize(c.operands[n].dtype)
            sch.prefetch(c.block, self.read[n], steps[-1], max(1, ahead // abs(moved)))
        few = [sch.split(steps[-1], [None, plan.written])[1]] if plan.written > 1 else []
        if written := [*rows, *(steps if plan.flat else few)]:
            sch.unroll(written)
        sch.vectorize(lane)

    def sums_kept(self, where: LoopRef) -> None:
        """The sums of a task, which is gone over for each few terms."""
        sch, c, plan = self.sch, self.c, self.plan
        sch.compute_at(c.block, where)
        sch.set_scope(c.block)  # whether or not a stage after them reads them
        whole, lane = self.rows_of(c.block)
        *steps, last = reduce_loops(sch, c, plan.steps)
        last, few = sch.split(last, [None, plan.depth])
        blocks, rows = self.in_blocks(whole | ({} if lane is None else {plan.lane: lane}))
        sch.reorder(*steps, last, *blocks, few, *rows)
        if written := [*([few] if plan.depth <= 16 else []), *rows[:-1]]:
            sch.unroll(written)
        sch.vectorize(rows[-1])

    def copy(self, source: str, task: LoopRef | None) -> None:
        """A padded operand, or what a task reads of it: row by row."""
        if task is not None and self.plan.pad == "task":
            self.sch.compute_at(source, task)
            copy_rows(self.sch, source)
        else:
            copy_ahead(self.sch, [source], self.plan.threads)


def _holds_much(sch: Schedule, stage: str) -> bool:
    """Whether a stage has more to keep at hand than a bias: functions that are no instructions, or
    several operands, which compilers load ahead of the sums. Written out, they take registers."""
    value = store_of(sch, stage).value
    read = {load.buffer for load in body_loads(sch.state.block(stage))}
    return len(read) > MOST_READ or any(isinstance(e, Call) for e in walk_exprs(value))
