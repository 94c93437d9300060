"""Stages and sums whose elements read what their neighbours read: boxes with their surroundings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, prod

from autotune.rules.gpu.draft import Draft, moved, quickest
from autotune.rules.gpu.move import MovePlan
from autotune.rules.group import Group, instances, size
from autotune.rules.plan import Plan
from schedule import Refusal, Schedule, library
from tensorir import (
    ADDRESSES,
    Access,
    Analyzer,
    Block,
    Expr,
    Gpu,
    IterKind,
    Var,
    accesses,
    const,
    dtype,
    int_value,
    slope,
    substitute,
    variables,
)

ROOM = ((512, 72 << 10), (256, 24 << 10))
"""Threads of a block, and the bytes of shared memory that their box may take: so many blocks fit
that half of the warps there can be run at once."""

MOST_TERMS = 128
"""Terms of a sum up to which memory decides, and not what threads keep of it in registers."""

CLOSE = 1.05
"""Times the least estimated time that the larger box may take, which moves less."""

SAVED = 0.75
"""Share of the elements that single results read which a box may read at most."""

LEAST = 4
"""Elements of a thread, where memory gains nothing by more."""

Tile = tuple[tuple[int, ...], tuple[int, ...]]
"""Threads along each axis of the result, and the elements of each of them."""


@dataclass(frozen=True)
class Side:
    """An axis of the result: how far neighbours are apart along an array that is read, and how many
    elements more a single result reads there."""

    extent: int
    step: int
    reach: int

    def read(self, count: int) -> int:
        """Elements that so many neighbours read."""
        return self.step * (count - 1) + 1 + self.reach if self.step else 1


@dataclass(frozen=True)
class Surroundings:
    """What reads its surroundings: the axes of the result, in the order of memory, by the array
    that a result reads in most places, `near` that along which it lies in memory, `kind` the type
    of its elements; how many such places there are, and arrays that are read so. `reduces` if the
    places are terms of a sum; `within` if rows of the array, and of the result, begin within a
    sector."""

    sides: tuple[Side, ...]
    near: int
    kind: str
    places: int
    arrays: int
    reduces: bool
    within: tuple[bool, bool]

    def elements(self, box: Sequence[int]) -> int:
        """Of the array, that a box of the result reads."""
        return prod(side.read(count) for side, count in zip(self.sides, box))

    def held(self, box: Sequence[int]) -> int:
        """Bytes of shared memory for the arrays that are read so, as `library.gpu.windows` lays
        them out: rows of what the last axis reads, one for each part that its neighbours skip."""
        side = self.sides[-1]
        read, parts = side.read(box[-1]), max(1, side.step)
        row = ceil(read / parts)
        return self.elements(box) // read * parts * row * self.item * self.arrays

    def over(self, box: Sequence[int]) -> float:
        """Times the elements that a box has to itself that it reads; a row begins and ends within
        a sector of memory."""
        near, within = self.sides[self.near], self.within[0]
        row, reach = near.read(box[self.near]), near.reach > 0
        whole = box[self.near] == near.extent and not reach
        if whole and self.near == len(box) - 1 > 0 and box[-2] == self.sides[-2].extent:
            row *= self.sides[-2].read(box[-2])  # rows lie side by side
        begun = row if whole and not within else self.in_sectors(row, within)
        begun += (self.sector - 1) * (reach and not within)
        own = prod(count * max(1, side.step) for side, count in zip(self.sides, box))
        return self.elements(box) / row * begun / own

    def cost(self, box: Sequence[int]) -> float:
        """The same, with what it stores, as bytes of an element of the result."""
        run, within = box[-1], self.within[1]
        whole = run == self.sides[-1].extent and not within
        stored = 1.0 if whole else self.in_sectors(run, within) / run
        return self.over(box) * prod(max(1, side.step) for side in self.sides) + stored

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return dtype.itemsize(self.kind)

    @property
    def sector(self) -> int:
        """Elements of a sector."""
        return library.gpu.in_sector(self.kind)

    def in_sectors(self, count: int, within: bool) -> int:
        """Elements of the sectors that so many neighbours are in, anywhere or from one on."""
        return count + self.sector - 1 if within else ceil(count / self.sector) * self.sector

    def reads(self, tile: Tile) -> float:
        """Elements that a thread reads of shared memory for one of its own: each once, if there are
        registers for all of them."""
        own = [*tile[1][:-1], 1]  # pieces of a row are far apart
        while (once := self.elements(own)) > Gpu.most_held:
            outer = next((n for n, count in enumerate(own) if count > 1), None)
            if outer is None:
                return self.places
            own[outer] = ceil(own[outer] / 2)
        return once / prod(own)

    def fits(self, tile: Tile, gpu: Gpu) -> bool:
        """Whether threads have registers for their sums and for what these read: of loops that are
        written out all iterations hold theirs."""
        from autotune.gpu.work import Room

        threads, own = tile
        held = self.elements([*own[:-1], 1]) if self.reads(tile) < self.places else 0
        registers = (prod(own) * self.reduces + held) * library.gpu.words(self.kind)
        return Room(prod(threads), registers + ADDRESSES, 0).at_once(gpu) > 0

    def has_rows(self, tile: Tile) -> bool:
        """Whether a box has whole rows of the result, which lie side by side in memory."""
        threads, own = tile
        return threads[-1] * own[-1] >= self.sides[-1].extent

    def draft(self, tile: Tile, bytes_moved: float) -> Draft:
        """What boxes ask for that move so many bytes in all: each sector of theirs, and of shared
        memory what is copied and what threads read again."""
        from autotune.gpu.work import Work

        box = [threads * own for threads, own in zip(*tile)]
        results = prod(side.extent for side in self.sides)
        copied = results * self.over(box) * prod(max(1, side.step) for side in self.sides)
        turns = (self.arrays * (copied + results * self.reads(tile))) / Gpu.warp
        sectors = results * self.cost(box) * self.item / Gpu.sector_bytes
        return [Work(
            prod(ceil(side.extent / count) for side, count in zip(self.sides, box)),
            prod(tile[0]), shared=self.held(box), bytes=bytes_moved, sectors=sectors,
            touches=turns, wavefronts=turns, float32=results * self.places / Gpu.warp, waits=1,
        )]  # fmt: skip

    def pays(self, tile: Tile) -> bool:
        """Whether a box reads much less than its results do one by one; sums always have terms
        beside each other that lanes read together in this way."""
        box = [threads * own for threads, own in zip(*tile)]
        apart = self.places / prod(side.step for side in self.sides)
        return self.reduces or self.over(box) <= SAVED * apart


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
        first, left = list(tiles), list[Tile]()
        if not whole:  # whose results formulas know as they are stored by threads
            bytes_moved = moved(sch, group.blocks)
            able = [tile for tile in tiles if around.fits(tile, gpu)] or first
            drafts = [around.draft(tile, bytes_moved) for tile in able]
            first, left = quickest(able, drafts, gpu)
            left += [tile for tile in tiles if tile not in able]
        through = [(tile, True) for tile in whole] + [(tile, False) for tile in first]
        options = {"tile": tiles, "sectors": (False, True), "results": (False, True)}
        for way in (True, False) if odd else (False,):
            likely = [{"tile": t, "sectors": way, "results": shared} for t, shared in through]
            others = [{"tile": tile, "sectors": way, "results": False} for tile in left]
            plan = MovePlan(
                "windows", group, gpu, sch.copy(), partial(_windows, move), options, likely,
                close=CLOSE, otherwise=others,
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


def surroundings(block: Block, odd: Collection[str] = ()) -> Surroundings | None:
    """How a block reads its surroundings; None where it does not, or as no array with windows moves
    along all axes of the result. Rows of `odd` arrays begin within a sector."""
    found = accesses(block)
    stored = [library.gpu.in_memory(a) for a in found if a.is_write]
    spatial = [it.var for it in block.spatial]
    if not stored or set(stored[0]) != set(spatial) or any(o != stored[0] for o in stored):
        return None
    order, terms = stored[0], instances(block, IterKind.REDUCE)
    read = list[Surroundings]()
    for name in library.gpu.shared_reads(block):
        mine = [a for a in found if a.buffer.name == name]
        places = {a.indices: None for a in mine}
        sides, near = _sides(block, order, list(places))
        if near is None:
            return None
        if all(side.step for side in sides) and any(side.reach for side in sides):
            kind = mine[0].buffer.dtype
            many = len(places) * terms
            row, rows = sides[-1].extent, prod(side.extent for side in sides[:-1])
            kind_stored = next(a.buffer.dtype for a in found if a.is_write)
            within = name in odd, rows > 1 and row % library.gpu.in_sector(kind_stored) > 0
            read.append(Surroundings(sides, near, kind, many, 1, block.is_reduction, within))
    best = max(read, key=lambda each: each.places, default=None)
    if best is None or not all(side.extent for side in best.sides):
        return None
    return replace(best, arrays=len(read))


def _sides(
    block: Block, order: Sequence[Var], places: Sequence[tuple[Expr, ...]]
) -> tuple[tuple[Side, ...], int | None]:
    """The axes as an array sees them, and that along which it lies in memory; None where one moves
    several indices, or not by steps, or several of them an index with a window."""
    extents = {it.var: it.extent for it in block.iters}
    steps, reach = dict.fromkeys(order, 0), dict.fromkeys(order, 0)
    analyzer, near = Analyzer(extents), len(order) - 1
    still: Mapping[Var, Expr] = {var: const(0) for var in order}
    for along in zip(*places):
        moved = [var for var in order if any(var in variables(index) for index in along)]
        if not moved:
            continue
        slopes = [{slope(index, var, analyzer) for index in along} for var in moved]
        ends = [analyzer.bounds(analyzer.simplify(substitute(i, still))) for i in along]
        lows, highs = ([end for end in side if end is not None] for side in zip(*ends))
        if any(len(found) > 1 or None in found for found in slopes):
            return (), None
        if len(lows) + len(highs) < 2 * len(along) or any(steps[var] for var in moved):
            return (), None
        far = max(highs) - min(lows)
        if len(moved) > 1 and far:
            return (), None
        for var, found in zip(moved, slopes):  # several are parts of one index
            steps[var] = abs(found.pop() or 0) if len(moved) == 1 else 1
            reach[var], near = far, order.index(var)
    return tuple(Side(size(extents[var]), steps[var], reach[var]) for var in order), near


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
