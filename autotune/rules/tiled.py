"""Multi-level tiling of a reduction with data reuse: S0 [S1] R0 [S2] R1 S3, as in Ansor.

S are the levels of the spatial loops, R those of the reduction. S0 is spread over threads, S3 is
the register tile: its last axis becomes vectors, the others are unrolled. The results of S2 x S3
stay in a local buffer; the epilogue (or a copy) consumes them inside S1. Factors need not divide.
Operands can be packed: copied, densely, at a loop where they are reused.

Source: Zheng et al., "Ansor", OSDI 2020, section 4; imperfect register tiles as in BLIS.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2, prod
from typing import Any

from autotune.choices import TILE_STEPS, Categorical, Choice, ImperfectTile
from autotune.rules.group import (
    Group,
    body_loads,
    instances,
    output_store,
    size,
    stride_in,
)
from autotune.rules.nest import finish_nest, loops_by_variable, own_loop_names
from autotune.rules.packing import pack_in_panels, panel_index
from autotune.rules.plan import Machine, Values
from schedule import LoopRef, Schedule
from tensorir import Block, IterKind, Load, Var, dtype

SMALL_WORK = 200_000
"""Operations below which starting threads may cost more than it saves."""

PAGE_BYTES = 4096

MANY_STEPS = 8
"""Register tiles that use a packed operand, from which on packing it pays."""

TRANSPOSED_USES = 8
"""Uses of each element of an operand from which on a transposed copy of it pays."""

ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
"""Register tile sizes of the axes that are not vectorized."""


@dataclass(frozen=True)
class Axis:
    """A spatial axis of the block: its variable's name and its extent."""

    name: str
    extent: int


@dataclass(frozen=True)
class TiledPlan:
    """Schedules one reduction. The vector axis is the last axis of the output.

    `operands` can be packed; those in `far` move by a page or more with each reduction step.
    `gathered` are those whose neighbouring columns are apart in memory: they are read through a
    transposed copy.
    """

    group: Group
    machine: Machine
    spatial: tuple[Axis, ...]
    reduce: tuple[Axis, ...]
    operands: tuple[str, ...]
    far: frozenset[str]
    gathered: tuple[str, ...]
    choices: tuple[Choice, ...]
    name: str = "tiled"

    def key(self, what: str) -> str:
        return f"{self.group.block}.{what}"

    @property
    def vector_axis(self) -> Axis:
        return self.spatial[-1]

    def tile(self, values: Values, axis: Axis) -> tuple[int, int, int]:
        """The factors (S1, S2, S3) of a spatial axis."""
        s1, s2, s3 = values[self.key(axis.name)]
        return s1, s2, s3

    def default(self) -> dict[str, Any]:
        """Values that need no tuning.

        The register tile takes about three quarters of the registers. A task is one panel of the
        vector axis with as many rows as leave eight tasks for every thread. Operands whose rows lie
        on different pages are packed if enough rows use the copy.
        """
        lanes, vector_axis = self.machine.lanes, self.vector_axis
        columns = min(4 if len(self.spatial) > 1 else 8, -(-vector_axis.extent // lanes))
        vector = self._register_size(vector_axis, max(lanes, columns * lanes))
        budget = max(1, 3 * self.machine.registers // 4 * lanes // max(lanes, vector))
        values: dict[str, Any] = {self.key(vector_axis.name): (1, 1, vector)}
        for axis in reversed(self.spatial[:-1]):
            rows = self._register_size(axis, budget)
            budget = max(1, budget // rows)
            values[self.key(axis.name)] = (1, 1, rows)
        steps = 1
        if len(self.spatial) > 1:
            axis = self.spatial[-2]
            steps = self._task_steps(axis, values)
            values[self.key(axis.name)] = (steps, 1, values[self.key(axis.name)][2])
        for axis in self.reduce:
            values[self.key(axis.name)] = (max(1, axis.extent),)
        values[self.key("order")] = "vector_outer"
        for operand in self.operands:
            packed = operand in self.far and steps >= MANY_STEPS
            values[self.key(f"pack_{operand}")] = "task" if packed else "none"
        for pad in self.group.padding:
            values[self.key(f"pad_{pad}")] = "root"
        values[self.key("threads")] = "parallel" if self._large() else "serial"
        return {choice.name: values[choice.name] for choice in self.choices}

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
        wanted = min(tiles, -(-8 * self.machine.threads // max(1, tasks)))
        choice = self._tile_choice(axis)
        known = [s for s in choice.steps if choice.contains((s, 1, rows))]
        return min(known, key=lambda s: (abs(log2(s * wanted / tiles)), s))

    def _tile_choice(self, axis: Axis) -> ImperfectTile:
        choice = next(c for c in self.choices if c.name == self.key(axis.name))
        assert isinstance(choice, ImperfectTile)
        return choice

    def _large(self) -> bool:
        work = prod(a.extent for a in (*self.spatial, *self.reduce))
        return work >= SMALL_WORK

    def feasible(self, values: Values) -> bool:
        """Accumulators in registers or at least in the first-level cache, bounded unrolling."""
        tiles = [self.tile(values, axis) for axis in self.spatial]
        register_tile = prod(t[2] for t in tiles)
        vectors = register_tile / self.machine.lanes
        kept = prod(t[1] * t[2] for t in tiles) * 4
        return vectors <= 1.25 * self.machine.registers and kept <= self.machine.l1_bytes // 2

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
        sch.reorder(*s0, *s1, *r0, *s2, *r1, *s3)
        task = sch.fuse(*s0) if len(s0) > 1 else s0[0]
        spots = {"task": task, "tile": (s1 or [task])[-1], "row": (s1 or [task])[0]}
        sch.reverse_compute_at(writer, spots["tile"])
        inside = r0[-1] if r0 else spots["tile"]
        for copier, where in packs:
            sch.compute_at(copier, {**spots, "reduce": inside}[where])
            finish_nest(sch, copier, self.machine, unroll_rows=0)
        self._pad(sch, values, inline=False, task=task)
        sch.vectorize(s3[-1])
        for loop in s3[:-1]:
            sch.unroll(loop)
        finish_nest(sch, writer, self.machine, unroll_rows=16)
        if parallel:
            sch.parallel(task)

    def _split(self, sch: Schedule, values: Values) -> tuple[list[LoopRef], ...]:
        """Split every loop of the block; the levels that have no loop are left out."""
        names = loops_by_variable(sch, self.group.block)
        levels: list[list[tuple[int, LoopRef]]] = [[], [], [], [], [], []]
        for place, axis in enumerate(self.spatial):
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
                finish_nest(sch, pad, self.machine, unroll_rows=0)
            elif how == "root" and not inline:
                loops = own_loop_names(sch, pad)
                finish_nest(sch, pad, self.machine, unroll_rows=0)
                if len(loops) > 1 and self._large():
                    sch.parallel(loops[0])


def tiled_plans(sch: Schedule, group: Group, machine: Machine) -> list[TiledPlan]:
    """The plan for a reduction that reads some operand more than once; none for other blocks."""
    block = sch.state.block(group.block)
    store = output_store(block)
    if not block.is_reduction or store is None or not store.indices:
        return []
    order = {index: place for place, index in enumerate(store.indices) if isinstance(index, Var)}
    spatial_iters = [it for it in block.iters if it.kind is IterKind.SPATIAL]
    spatial_iters.sort(key=lambda it: order.get(it.var, -1))
    spatial = tuple(Axis(it.var.name, size(it.extent)) for it in spatial_iters)
    reduce = tuple(
        Axis(it.var.name, size(it.extent)) for it in block.iters if it.kind is IterKind.REDUCE
    )
    if spatial_iters[-1].var is not store.indices[-1] or spatial[-1].extent < 2:
        return []
    vector = spatial_iters[-1].var
    operands, far, gathered = [], set(), []
    for load in body_loads(block):
        strided = stride_in(load, vector, block)
        uses = instances(block) / prod(size(s) for s in load.buffer.shape)
        if strided is None or strided not in (0, 1):
            if uses < TRANSPOSED_USES or panel_index(block, load.buffer.name) is None:
                return []  # neighbouring outputs would gather: the row plan is for those
            gathered.append(load.buffer.name)
            continue
        reused = uses >= 4
        if reused and strided == 1 and load.buffer.name not in operands:
            operands.append(load.buffer.name)
            if _page_steps(load, block):
                far.add(load.buffer.name)
    packable = tuple(o for o in operands if o not in _padded(sch, group))
    panels = {o for o in packable if panel_index(block, o) is not None}
    choices = _choices(group, machine, spatial, reduce, packable, panels, store.buffer.dtype)
    transposed = tuple(dict.fromkeys(gathered))
    if set(transposed) & {*packable, *_padded(sch, group)}:
        return []  # read in two ways, or made by a stage of the group
    return [
        TiledPlan(group, machine, spatial, reduce, packable, frozenset(far), transposed, choices)
    ]


def _page_steps(load: Load, block: Block) -> bool:
    """Whether some reduction step moves the load by a page or more."""
    width = dtype.itemsize(load.buffer.dtype)
    steps = [stride_in(load, it.var, block) for it in block.iters if it.kind is IterKind.REDUCE]
    return any(step is None or step * width >= PAGE_BYTES for step in steps)


def _padded(sch: Schedule, group: Group) -> set[str]:
    """The buffers that padding blocks of the group make; they are placed by the pad choice."""
    stores = (output_store(sch.state.block(p)) for p in group.padding)
    return {s.buffer.name for s in stores if s is not None}


def _choices(
    group: Group,
    machine: Machine,
    spatial: tuple[Axis, ...],
    reduce: tuple[Axis, ...],
    operands: tuple[str, ...],
    panels: set[str],
    kind: str,
) -> tuple[Choice, ...]:
    lanes = machine.lanes * 32 // max(32, dtype.bits(kind))
    found: list[Choice] = []
    for axis in spatial:
        name = f"{group.block}.{axis.name}"
        if axis is spatial[-1]:
            widths = tuple(lanes * n for n in (1, 2, 3, 4, 6) if lanes * n < axis.extent + lanes)
            inner = widths if axis.extent > lanes else (axis.extent,)
        else:
            inner = tuple(r for r in ROWS if r <= axis.extent)
        whole = {-(-axis.extent // size) for size in inner}  # one task takes the whole axis
        steps = tuple(sorted({*TILE_STEPS, *whole}))
        found.append(ImperfectTile(name, axis.extent, 4, inner, steps))
    for axis in reduce:
        sizes = [axis.extent, *(s for s in (1024, 512, 256, 128, 64, 32, 16) if s < axis.extent)]
        options = tuple((s,) for s in sizes)
        found.append(Categorical(f"{group.block}.{axis.name}", options))
    if len(spatial) > 1:
        found.append(Categorical(f"{group.block}.order", ("vector_outer", "vector_inner")))
    for operand in operands:
        spots = ("none", "task", "row", "reduce", *(("root",) if operand in panels else ()))
        found.append(Categorical(f"{group.block}.pack_{operand}", spots))
    for pad in group.padding:
        found.append(Categorical(f"{group.block}.pad_{pad}", ("root", "task", "inline")))
    work = prod(a.extent for a in (*spatial, *reduce))
    if work < 20 * SMALL_WORK:
        found.append(Categorical(f"{group.block}.threads", ("parallel", "serial")))
    return tuple(found)
