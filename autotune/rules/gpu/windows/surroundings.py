"""What a block reads around each element of its result, and what boxes of the result ask for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from autotune.rules.gpu.draft import Draft
from autotune.rules.group import instances, size
from schedule import library
from tensorir import (
    ADDRESSES,
    Analyzer,
    Block,
    Expr,
    Gpu,
    IterKind,
    Var,
    accesses,
    const,
    dtype,
    slope,
    substitute,
    variables,
)

SAVED = 0.75
"""Share of the elements that single results read which a box may read at most."""

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
    of its elements; how many such places there are, and arrays that are read so, `deep` how many
    elements of each that no axis of the result moves, such as channels, `others` the places where a
    result reads arrays without windows, such as weights. `reduces` if the places are terms of a
    sum; `within` if rows of the array, and of the result, begin within a sector."""

    sides: tuple[Side, ...]
    near: int
    kind: str
    places: int
    arrays: int
    deep: int
    others: int
    reduces: bool
    within: tuple[bool, bool]

    def elements(self, box: Sequence[int]) -> int:
        """Of the array, that a box of the result reads."""
        return self.deep * prod(side.read(count) for side, count in zip(self.sides, box))

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
        return self.elements(box) / row * begun / (prod(box) * self.skipped)

    def cost(self, box: Sequence[int]) -> float:
        """The same, with what it stores, as bytes of an element of the result."""
        run, within = box[-1], self.within[1]
        whole = run == self.sides[-1].extent and not within
        stored = 1.0 if whole else self.in_sectors(run, within) / run
        return self.over(box) * self.skipped + stored

    @property
    def skipped(self) -> int:
        """Elements that are an element's own: those that its neighbours skip."""
        return self.deep * prod(max(1, side.step) for side in self.sides)

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
        """Elements that a thread reads of shared memory for one of its own, of arrays with windows:
        each once, if there are registers for all of them."""
        own = [*tile[1][:-1], 1]  # pieces of a row are far apart
        while (once := self.elements(own)) > Gpu.most_held:
            outer = next((n for n, count in enumerate(own) if count > 1), None)
            if outer is None:
                return self.arrays * self.places
            own[outer] = ceil(own[outer] / 2)
        return self.arrays * once / prod(own)

    def reads_beside(self, tile: Tile) -> float:
        """The same of other arrays: each element once for all rows of a thread, likewise."""
        return self.others / (prod(tile[1][:-1]) if self.others <= Gpu.most_held else 1)

    def fits(self, tile: Tile, gpu: Gpu) -> bool:
        """Whether threads have registers for their sums and for what these read: of loops that are
        written out all iterations hold theirs."""
        from autotune.gpu.work import Room

        threads, own = tile
        once = self.reads(tile) < self.arrays * self.places
        held = self.elements([*own[:-1], 1]) if once else 0
        registers = (prod(own) * self.reduces + held) * library.gpu.words(self.kind)
        return Room(prod(threads), registers + ADDRESSES, 0).at_once(gpu) > 0

    def has_rows(self, tile: Tile) -> bool:
        """Whether a box has whole rows of the result, which lie side by side in memory."""
        threads, own = tile
        return threads[-1] * own[-1] >= self.sides[-1].extent

    def draft(self, tile: Tile, bytes_moved: float, through: bool = False) -> Draft:
        """What boxes ask for that move so many bytes in all: each sector of theirs, and of shared
        memory what is copied and what threads read again, with results that go `through` it what
        is written and read of these."""
        from autotune.gpu.work import Work

        box = [threads * own for threads, own in zip(*tile)]
        results = prod(side.extent for side in self.sides)
        copied = results * self.over(box) * self.skipped
        read = self.reads(tile) + self.reads_beside(tile) + 2 * through
        turns = self.arrays * copied + results * read
        sectors = results * (self.over(box) * self.skipped + 1 if through else self.cost(box))
        return [Work(
            prod(ceil(side.extent / count) for side, count in zip(self.sides, box)), prod(tile[0]),
            shared=self.held(box) + prod(box) * self.item * through, bytes=bytes_moved,
            sectors=sectors * self.item / Gpu.sector_bytes, touches=turns / Gpu.warp,
            wavefronts=turns / Gpu.warp * max(1, self.item // Gpu.bank_bytes),
            float32=results * self.places / Gpu.warp, waits=1 + through,
        )]  # fmt: skip

    def pays(self, tile: Tile) -> bool:
        """Whether a box reads much less than its results do one by one; sums always have terms
        beside each other that lanes read together in this way."""
        box = [threads * own for threads, own in zip(*tile)]
        apart = self.places / self.skipped
        return self.reduces or self.over(box) <= SAVED * apart


def surroundings(block: Block, odd: Collection[str] = ()) -> Surroundings | None:
    """How a block reads its surroundings; None where it does not, or as no array with windows moves
    along all axes of the result. Rows of `odd` arrays begin within a sector."""
    found = accesses(block)
    stored = [library.gpu.in_memory(a) for a in found if a.is_write]
    spatial = [it.var for it in block.spatial]
    if not stored or set(stored[0]) != set(spatial) or any(o != stored[0] for o in stored):
        return None
    order, terms = stored[0], instances(block, IterKind.REDUCE)
    read, others = list[Surroundings](), 0
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
            deep = _deep(block, list(places), order)
            read.append(
                Surroundings(sides, near, kind, many, 1, deep, 0, block.is_reduction, within)
            )
        else:
            others += len(places) * terms
    best = max(read, key=lambda each: each.places, default=None)
    if best is None or not all(side.extent for side in best.sides):
        return None
    return replace(best, arrays=len(read), others=others)


def _deep(block: Block, places: Sequence[tuple[Expr, ...]], order: Sequence[Var]) -> int:
    """Elements of an array along the dimensions that no axis of the result moves."""
    analyzer, count = Analyzer({it.var: it.extent for it in block.iters}), 1
    for along in zip(*places):
        if not any({*order} & variables(index) for index in along):
            ends = [analyzer.bounds(index) for index in along]
            lows, highs = ([end for end in side if end is not None] for side in zip(*ends))
            count *= max(highs, default=0) - min(lows, default=0) + 1
    return count


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
