"""Stages that read along another axis than they write: through tiles or boxes in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, prod
from typing import Any

from autotune.rules.gpu.draft import Draft, moved, quickest
from autotune.rules.gpu.elementwise import elementwise_plans
from autotune.rules.gpu.move import CLOSE, Move, MovePlan, Options, by_time
from autotune.rules.group import Group, instances, size
from autotune.rules.plan import Plan
from schedule import Schedule, library
from tensorir import Block, Gpu, Var, accesses, dtype, variables

WARPS = (4, 8, 16)
RUNS = (32, 64)
"""Elements side by side that a box is to have, in what is read and in what is written."""
DEEP = 4
"""Pieces of a box that is worth more than a wait for what single elements are multiplied by."""
SECTORS = (20, 10)
"""Sectors that rows of a tile have where rows of memory begin within one, if there is room: a tile
has a part of one at each end of a row."""
MANY_EACH = 4
"""Elements for each thread that runs at once from which on rows of boxes begin with sectors: with
fewer memory is not what takes time."""
SECTOR_ROUNDS = 4
"""Times that a thread waits for what it reads where rows of boxes begin with sectors."""
MANY = (16, 32)
"""Warps of a block with such a tile: of two blocks at once, and of one."""


def turned_plans(sch: Schedule, group: Group, gpu: Gpu) -> list[Plan]:
    """The plans for a stage that reads one array, or several alike, along another axis: tiles, and
    where axes are short boxes of several; the one of the least estimated time first."""
    block = sch.state.block(group.block)
    if block.is_reduction:
        return []
    warps = tuple(n for n in WARPS if n * gpu.warp <= gpu.threads_per_block)
    base = sch.copy()

    def plan(name: str, move: Move, options: Options, *likely: Mapping[str, Any]) -> MovePlan:
        return MovePlan(name, group, gpu, base, move, options, likely, close=CLOSE)

    found = [_tiles(base, plan, block, gpu, warps)] if _turned(block) else []
    if found and _has_short(block, gpu):
        found.insert(0, _in_boxes(base, plan, block, gpu, warps))
    if any(each.works for each in found) or not _reads_turned(block):
        return [*by_time(found)]
    made = plan("turned", partial(_turn, results=True), {"warps": warps}, {"warps": 8})
    return [*by_time([made, *elementwise_plans(sch, group, gpu)])] if made.works else []


def _tiles(
    sch: Schedule,
    plan: Callable[..., MovePlan],
    block: Block,
    gpu: Gpu,
    warps: tuple[int, ...],
) -> MovePlan:
    """Tiles of a warp's width, or of many sectors where rows begin within one."""
    large = _of_sectors(block, gpu)
    if large is None:
        return plan("turned", _turn, {"warps": warps}, {"warps": 8})
    many = tuple(dict.fromkeys((*warps, large["warps"])))
    options: Options = {"warps": many, "tile": (gpu.warp, large["tile"])}
    points = [large, {"warps": 8, "tile": gpu.warp}]
    if any(dtype.itemsize(a.buffer.dtype) < gpu.bank_bytes for a in accesses(block)):
        return plan("turned", _turn, options, *points)  # lanes may meet in the words of banks
    drafts = [_draft_of_tiles(sch, block, gpu, **point) for point in points]
    likely, left, bounds = quickest(points, drafts, gpu)
    return replace(plan("turned", _turn, options, *likely), otherwise=left, bounds=bounds)


def _in_boxes(
    sch: Schedule,
    plan: Callable[..., MovePlan],
    block: Block,
    gpu: Gpu,
    warps: tuple[int, ...],
) -> MovePlan:
    """Boxes of several axes; longer ones where rows of the result begin within a sector."""
    stored = next(a for a in accesses(block) if a.is_write)
    runs = {run: False for run in RUNS[::-1]}
    if instances(block) >= MANY_EACH * gpu.full:
        sector = library.gpu.before_rows(stored)
        runs = {count * sector: True for count in SECTORS if sector} | runs
    boxes = {_box(block, run): begun for run, begun in runs.items()}
    boxes |= {_deeper(block, sizes): begun for sizes, begun in boxes.items()}
    options: Options = {"sizes": tuple(boxes), "sectors": (False, True), "warps": warps}
    points = [{"sizes": sizes, "sectors": begun, "warps": 8} for sizes, begun in boxes.items()]
    drafts = [_draft(sch, block, gpu, sizes, begun, warps=8) for sizes, begun in boxes.items()]
    likely, left, bounds = quickest(points, drafts, gpu)
    return replace(plan("boxes", _boxes, options, *likely), otherwise=left, bounds=bounds)


def _draft(
    sch: Schedule, block: Block, gpu: Gpu, sizes: Sequence[int], sectors: bool, warps: int
) -> Draft:
    """What boxes ask for: each is read, then written, in so many steps one after the other."""
    from autotune.gpu.work import Work

    extents = _extents(block)
    boxes = prod(ceil(extents[var] / size) for var, size in zip(_axes(block), sizes))
    threads = min(warps, ceil(prod(sizes) / gpu.warp)) * gpu.warp
    rounds = SECTOR_ROUNDS if sectors else 1
    return [Work(boxes, threads, bytes=moved(sch, [block.name]), rounds=rounds, waits=rounds)]


def _draft_of_tiles(
    sch: Schedule, block: Block, gpu: Gpu, warps: int, tile: int
) -> Draft:
    """What tiles ask for where rows of memory begin within a sector: one more for each run of
    elements, which is a row of a tile of many sectors, and else a warp's."""
    from autotune.gpu.work import Work

    turned = _turned(block)
    assert turned is not None
    extents, ends = _extents(block), {order[-1] for order in turned}
    tiles = prod(ceil(n / tile) if var in ends else n for var, n in extents.items())
    items = [dtype.itemsize(a.buffer.dtype) for a in accesses(block)]
    accessed = tiles * tile * tile / gpu.warp
    rounds = SECTOR_ROUNDS if tile > gpu.warp else 1
    return [Work(
        tiles, gpu.warp * warps, shared=tile * tile * max(items), rounds=rounds, waits=rounds,
        bytes=moved(sch, [block.name]), requests=accessed * len(items), touches=2 * accessed,
        sectors=tiles * tile * sum(tile * item / gpu.sector_bytes + 1 for item in items),
        wavefronts=2 * accessed * max(items) / gpu.bank_bytes,
    )]  # fmt: skip


def _of_sectors(block: Block, gpu: Gpu) -> dict[str, int] | None:
    """The largest tile of many sectors that has room and that no axis is shorter than."""
    turned = _turned(block)
    assert turned is not None
    if not library.gpu.begins_within(block):
        return None
    lengths = [_extents(block)[order[-1]] for order in turned]
    reads = [a for a in accesses(block) if not a.is_write]
    sector = max(library.gpu.in_sector(a.buffer.dtype) for a in accesses(block))
    for count in SECTORS:
        tile = -(-count * sector // gpu.warp) * gpu.warp
        each = sum(dtype.itemsize(a.buffer.dtype) for a in reads)
        room = gpu.shared_most // (tile * (tile + sector) * each)
        if tile <= min(lengths) and room:
            most = gpu.threads_per_block // gpu.warp
            return {"warps": min(most, MANY[room < 2]), "tile": tile}
    return None


def _reads_turned(block: Block) -> bool:
    """Whether neighbours in what is stored are no neighbours in what is read, by the dimensions in
    which their variable is, whatever its indices are. What it alone moves is little."""
    stored, _ = library.gpu.turned_reads(block)
    if not stored:
        return False
    own, last = {it.var for it in block.iters if size(it.extent) > 1}, stored[-1]
    reads = [[own & variables(i) for i in a.indices] for a in accesses(block) if not a.is_write]
    moved = [[dim for dim in dims if dim] for dims in reads]
    along = [dims for dims in moved if {last} < set().union(*dims)]
    return bool(along) and all(last not in dims[-1] for dims in along)


def _extents(block: Block) -> dict[Var, int]:
    return {it.var: size(it.extent) for it in block.iters}


def _turned(block: Block) -> tuple[list[Var], list[Var]] | None:
    """The variables that move what a stage stores, and those of a load that has the last one of
    them elsewhere; neighbours in memory along the last one of each."""
    stored, turned = library.gpu.turned_reads(block)
    return next(((stored, read) for read in turned.values()), None)


def _axes(block: Block) -> list[Var]:
    """The variables at which a stage stores, with those that move nothing."""
    return next((library.gpu.in_memory(a) for a in accesses(block) if a.is_write), [])


def _has_short(block: Block, gpu: Gpu) -> bool:
    """Whether the last axis of what is read or of what is written fills no warp."""
    turned = _turned(block)
    assert turned is not None
    stored, read = turned
    extents = _extents(block)
    return min(extents[stored[-1]], extents[read[-1]]) < gpu.warp


def _box(block: Block, run: int) -> tuple[int, ...]:
    """The sizes of a box, along the axes of what is stored, that has about `run` elements side by
    side in what is read and in what is written."""
    turned = _turned(block)
    assert turned is not None
    stored, read = turned
    extents = _extents(block)
    box = dict.fromkeys(extents, 1)
    for order in (read, stored):
        length = 1
        for var in reversed(order):
            box[var] = max(box[var], min(extents[var], -(-run // length)))
            length *= box[var]
            if length >= run or box[var] < extents[var]:
                break
    return tuple(box[var] for var in _axes(block))


def _deeper(block: Block, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """A box of several pieces along an axis of which it had one element: threads have as many, to
    ask for together."""
    extents = _extents(block)
    for n, var in reversed(list(enumerate(_axes(block)))):
        if sizes[n] == 1 < extents[var]:
            return (*sizes[:n], min(DEEP, extents[var]), *sizes[n + 1 :])
    return sizes


def _turn(
    sch: Schedule, group: Group, warps: int, tile: int = Gpu.warp, results: bool = False
) -> None:
    sectors = tile > Gpu.warp
    library.gpu.transpose(
        sch, group.block, warps=warps, tile=tile, results=results, sectors=sectors
    )


def _boxes(
    sch: Schedule, group: Group, sizes: tuple[int, ...], sectors: bool, warps: int
) -> None:
    library.gpu.boxes(sch, group.block, sizes, warps=warps, sectors=sectors)
