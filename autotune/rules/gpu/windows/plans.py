"""Stages and sums whose elements read what their neighbours read: boxes with their surroundings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil, prod

from autotune.rules.gpu.draft import moved, quickest
from autotune.rules.gpu.move import MovePlan
from autotune.rules.gpu.windows.surroundings import Surroundings, Tile, surroundings
from autotune.rules.group import Group, instances
from autotune.rules.plan import Plan
from schedule import Refusal, Schedule, library
from tensorir import Access, Gpu, IterKind, accesses, int_value

ROOM = ((512, 72 << 10), (256, 24 << 10))
"""Threads of a block, and the bytes of shared memory that their box may take: so many blocks fit
that half of the warps there can be run at once."""

MOST_TERMS = 128
"""Terms of a sum up to which memory decides, and not what threads keep of it in registers."""

CLOSE = 1.05
"""Times the least estimated time that the larger box may take, which moves less."""

LEAST = 4
"""Elements of a thread, where memory gains nothing by more."""


def windows_plans(sch: Schedule, group: Group, gpu: Gpu) -> list[Plan]:
    """The plan for what reads windows of arrays that move with all axes of the result: stencils,
    pooling, depthwise convolutions. Products, which use elements for other results too, have
    tiles."""
    block = sch.state.block(group.block)
    if instances(block, IterKind.REDUCE) > MOST_TERMS:
        return []
    units = any(int_value(it.extent) == 1 for it in block.iters) and block.is_reduction
    for move in (_on_axes,) if units or group.epilogue else (_as_written, _on_axes):
        base = sch.copy()
        try:
            move(base, group)
        except Refusal:  # its loops were changed before, or it stores several values
            continue
        odd = _begin_within(sch, group)
        around = surroundings(base.state.block(group.block), odd)
        if around is None:
            continue
        rooms = [(t, min(room, gpu.shared_most // 2)) for t, room in ROOM]
        large = tuple(dict.fromkeys(tile_of(around, *room) for room in rooms))
        enough = gpu.multiprocessors
        small = [tile_of(around, *room, enough=enough) for room in rooms]
        (*_, beside), _ = small[-1]
        if beside < gpu.warp <= around.sides[-1].extent:
            small.append(tile_of(around, *rooms[-1], gpu.warp, enough))
        tiles = tuple(dict.fromkeys((*large, *small)))
        if not around.pays(tiles[0]):
            return []
        whole = [tile for tile in large if around.within[1] and around.has_rows(tile)]
        able = [tile for tile in tiles if around.fits(tile, gpu)] or list(tiles)
        ways = [*((tile, True) for tile in whole), *((tile, False) for tile in able)]
        bytes_moved = moved(sch, group.blocks)
        drafts = [around.draft(tile, bytes_moved, through) for tile, through in ways]
        first, left, bounds = quickest(ways, drafts, gpu)
        left += [(tile, False) for tile in tiles if tile not in able]
        options = {"tile": tiles, "sectors": (False, True), "results": (False, True)}
        for way in (True, False) if odd else (False,):
            likely, others = (
                [{"tile": tile, "sectors": way, "results": through} for tile, through in points]
                for points in (first, left)
            )
            plan = MovePlan(
                "windows", group, gpu, sch.copy(), partial(_windows, move), options, likely,
                close=CLOSE, otherwise=others, bounds=bounds,
            )  # fmt: skip
            if plan.works:  # not all loops can be shifted
                return [plan]
    return []


def _begin_within(sch: Schedule, group: Group) -> set[str]:
    """Arrays whose rows begin within a sector; of a padded one those that it is made of."""
    found = {a.buffer.name for a in accesses(sch.state.block(group.block)) if _is_within(a)}
    for name in group.padding:
        node = sch.state.block(name)
        made = {a.buffer.name for a in accesses(node) if a.is_write}
        odd = any(_is_within(a) for a in accesses(node) if not a.is_write)
        found = found | made if odd else found - made
    return found


def _is_within(access: Access) -> bool:
    return library.gpu.before_rows(access) > 0


def tile_of(around: Surroundings, threads: int, room: int, run: int = 1, enough: int = 1) -> Tile:
    """The box that reads least beside what is its own, of those that there is room for and that
    have a `run` of neighbours, `enough` of them if threads have elements all the same, and how
    threads share it: lanes in several rows may meet in banks where those of one do not."""
    sides = around.sides
    most = max(threads, prod(side.extent for side in sides) // enough)
    box = [1] * len(sides)
    for n in {around.near, len(sides) - 1}:
        box[n] = min(around.sector, sides[n].extent)
    box[-1] = min(max(box[-1], run), sides[-1].extent)
    while True:
        least, best = around.cost(box), None
        for n in reversed(range(len(sides))):
            larger = [*box[:n], _larger(box[n], sides[n].extent), *box[n + 1 :]]
            if larger == box or around.held(larger) > room or prod(larger) > most:
                continue
            cost = around.cost(larger)
            if cost < 0.999 * least or (best is None and prod(box) < LEAST * threads):
                least, best = min(cost, least), larger
        if best is None:
            return min(_shares(around, box, threads), key=around.reads)
        box = best


def _larger(count: int, extent: int) -> int:
    """About twice as many, so that all boxes are alike."""
    return ceil(extent / ceil(extent / min(2 * count, extent)))


def _shares(around: Surroundings, box: Sequence[int], threads: int) -> list[Tile]:
    """How threads may share a box: those of outer axes get what inner ones leave, or those along
    which results read their surroundings get what the others do."""
    inner = sorted(range(len(box) - 1), reverse=True)
    apart = sorted(inner, key=lambda n: around.sides[n].reach > 0)
    return [_shared_out(box, threads, [len(box) - 1, *order]) for order in (inner, apart)]


def _shared_out(box: Sequence[int], threads: int, order: Sequence[int]) -> Tile:
    """The threads along each axis, a power of two of them, and what each has."""
    sides, left = [1] * len(box), threads
    for n in order:
        sides[n] = min(left, 1 << (box[n] - 1).bit_length())
        left //= sides[n]
    sides[-1] *= max(1, Gpu.warp // prod(sides))
    return tuple(sides), tuple(ceil(count / side) for count, side in zip(box, sides))


def _as_written(sch: Schedule, group: Group) -> str | None:
    """The stage that stores what sums are made into, if there is one."""
    return group.epilogue


def _on_axes(sch: Schedule, group: Group) -> str | None:
    """The same after the sums got a variable for each index of what they read."""
    c = library.find_contraction(
        sch, group.block, group.epilogue, group.padding, windows=False, merged=False
    )
    return library.on_axes(sch, c, terms=False) or group.epilogue


def _windows(move: Callable[[Schedule, Group], str | None], sch: Schedule, group: Group,
             tile: Tile, sectors: bool, results: bool) -> None:  # fmt: skip
    last = move(sch, group)
    library.gpu.windows(
        sch, group.block, *tile, sectors=sectors, results=results, epilogue=last,
        padding=group.padding,
    )  # fmt: skip
