"""Which blocks are tiled, and what is left open: axes, operands and the values of each choice."""

from __future__ import annotations

from collections import Counter
from math import prod

from autotune.choices import TILE_STEPS, Categorical, Choice, ImperfectTile
from autotune.rules.effort import one_thread
from autotune.rules.group import Group, body_loads, instances, output_store, size, stride_in
from autotune.rules.packing import panel_index
from autotune.rules.register_tile import register_tile
from autotune.rules.tile_model import splits
from autotune.rules.tiled import Axis, TiledPlan
from schedule import Schedule
from tensorir import Block, Cpu, IterKind, IterVar, Load, Var, dtype, int_value

FAR_PANELS = 12
"""Rows of an operand that are as far apart as so many rows of a panel side by side. With vectors of
512 bits that is 3072 bytes: such rows share few sets of the caches, and no page. With shorter ones
it is less, since each row brings less at a time."""

REUSED = 4
"""Uses of each element of an operand from which on a copy of it in a task pays. One at the root is
always possible: of a constant it is made ahead of all calls."""

IN_TASKS = ("none", "task", "row", "reduce")
"""Where an operand is copied that is used often enough."""

TRANSPOSED_USES = 8
"""Uses of each element of an operand from which on a transposed copy of it pays."""

ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
"""Register tile sizes of the axes that are not vectorized."""


VECTORS = (1, 2, 3, 4, 6)
"""Register tile sizes of the axis that is vectorized, in vectors."""

LONG_ROW = (8, 12, 16)
"""The same for the only row of a product, which reads each element of a matrix once: the more of a
row is read at a time, the longer are the pieces that memory gives in order."""

OVERHANG = 0.5
"""How far tiles may reach beyond an axis, as a share of it: the last ones are made smaller."""


def tiled_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[TiledPlan]:
    """The plan for a reduction that reads some operand more than once; none for other blocks."""
    block = sch.state.block(group.block)
    store = output_store(block)
    if not block.is_reduction or store is None or not store.indices:
        return []
    order = {index: place for place, index in enumerate(store.indices) if isinstance(index, Var)}
    spatial_iters = [it for it in block.iters if it.kind is IterKind.SPATIAL]
    spatial_iters.sort(key=lambda it: order.get(it.var, -1))
    spatial = tuple(_axis(it) for it in spatial_iters)
    reduce = tuple(_axis(it) for it in block.iters if it.kind is IterKind.REDUCE)
    if spatial_iters[-1].var is not store.indices[-1] or spatial[-1].extent < 2:
        return []
    vector = spatial_iters[-1].var
    lanes = cpu.lanes(store.buffer.dtype)
    _, widest = register_tile(FAR_PANELS, FAR_PANELS, cpu.registers)
    far_bytes = 4 * FAR_PANELS * widest * cpu.lanes()
    operands, far, seldom, gathered = [], set(), set(), []
    for load in body_loads(block):
        strided = stride_in(load, vector, block)
        uses = instances(block) / max(1, prod(size(s) for s in load.buffer.shape))
        if strided is None or strided not in (0, 1):
            if uses < TRANSPOSED_USES or panel_index(block, load.buffer.name) is None:
                return []  # neighbouring outputs would gather: the row plan is for those
            gathered.append(load.buffer.name)
            continue
        if strided == 1 and load.buffer.name not in operands:
            operands.append(load.buffer.name)
            if uses < REUSED:
                seldom.add(load.buffer.name)
            elif _far_steps(load, block, far_bytes):
                far.add(load.buffer.name)
    padded = _padded(sch, group)
    panels = {o for o in operands if o not in padded and panel_index(block, o) is not None}
    reads = Counter(load.buffer.name for load in body_loads(block))
    alone = [o for o in operands if o not in padded and reads[o] == 1]  # a copy is of one part
    packable = tuple(o for o in alone if o in panels or o not in seldom)
    spots: dict[str, tuple[str, ...]] = {o: IN_TASKS for o in packable}
    spots.update((o, IN_TASKS[:1]) for o in packable if o in seldom)
    spots.update((o, (*spots[o], "root")) for o in panels)
    batched = _batched(block, spatial_iters)
    cycles = one_thread([block], cpu)
    choices = _choices(group, cpu, spatial, reduce, spots, lanes, batched, cycles)
    transposed = tuple(dict.fromkeys(gathered))
    if set(transposed) & {*packable, *_padded(sch, group)}:
        return []  # read in two ways, or made by a stage of the group
    return [
        TiledPlan(
            group, cpu, spatial, reduce, packable, frozenset(far), transposed, choices, lanes,
            _row_bytes(block, spatial_iters), batched, cpu.worth_threads(cycles),
        )
    ]  # fmt: skip


def _axis(each: IterVar) -> Axis:
    return Axis(each.var.name, size(each.extent), int_value(each.extent) is not None)


def _row_bytes(block: Block, spatial: list[IterVar]) -> int:
    """How far apart the rows lie of an operand that does not depend on the vector axis; else 0."""
    if len(spatial) < 2:
        return 0
    row, column = spatial[-2].var, spatial[-1].var
    found = [0]
    for load in body_loads(block):
        if stride_in(load, column, block) == 0:
            found.append((stride_in(load, row, block) or 0) * dtype.itemsize(load.buffer.dtype))
    return max(found)


def _batched(block: Block, spatial: list[IterVar]) -> bool:
    """Whether each index of the axes before the last two has columns of its own."""
    column = spatial[-1].var
    columns = [load for load in body_loads(block) if stride_in(load, column, block) == 1]
    own = [any(stride_in(x, it.var, block) for x in columns) for it in spatial[:-2]]
    return bool(own) and all(own)


def _far_steps(load: Load, block: Block, far_bytes: int) -> bool:
    """Whether some reduction step moves the load by `far_bytes` or more."""
    width = dtype.itemsize(load.buffer.dtype)
    steps = [stride_in(load, it.var, block) for it in block.iters if it.kind is IterKind.REDUCE]
    return any(step is None or step * width >= far_bytes for step in steps)


def _padded(sch: Schedule, group: Group) -> set[str]:
    """The buffers that padding blocks of the group make; they are placed by the pad choice."""
    stores = (output_store(sch.state.block(p)) for p in group.padding)
    return {s.buffer.name for s in stores if s is not None}


def _choices(
    group: Group,
    cpu: Cpu,
    spatial: tuple[Axis, ...],
    reduce: tuple[Axis, ...],
    spots: dict[str, tuple[str, ...]],
    lanes: int,
    batched: bool,
    cycles: float,
) -> tuple[Choice, ...]:
    found: list[Choice] = []
    for axis in spatial:
        name = f"{group.block}.{axis.name}"
        if axis is spatial[-1]:
            rows = prod(a.extent for a in (spatial[-2:-1] if batched else spatial[:-1]))
            counts = VECTORS if rows > 1 else (*VECTORS, *LONG_ROW)
            widths = tuple(lanes * n for n in counts if lanes * n < axis.extent + lanes)
            inner = widths if axis.extent > lanes else (axis.extent,)
        else:
            inner = tuple(r for r in ROWS if r <= axis.extent)
        tiles = {-(-axis.extent // size) for size in inner}
        even = {n for count in tiles for n in splits(count, cpu.threads)}
        steps = tuple(sorted({*TILE_STEPS, *even}))
        found.append(ImperfectTile(name, axis.extent, 4, inner, steps, OVERHANG))
    for axis in reduce:
        sizes = [axis.extent, *(s for s in (1024, 512, 256, 128, 64, 32, 16) if s < axis.extent)]
        options = tuple((s,) for s in sizes)
        found.append(Categorical(f"{group.block}.{axis.name}", options))
    if len(spatial) > 1:
        found.append(Categorical(f"{group.block}.order", ("vector_outer", "vector_inner")))
    for operand, where in spots.items():
        found.append(Categorical(f"{group.block}.pack_{operand}", where))
    for pad in group.padding:
        found.append(Categorical(f"{group.block}.pad_{pad}", ("root", "task", "inline")))
    if not cpu.worth_threads(cycles / 20):
        found.append(Categorical(f"{group.block}.threads", ("parallel", "serial")))
    return tuple(found)
