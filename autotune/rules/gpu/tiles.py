"""Plans for the tiles of a contraction on a GPU that are worth considering, best estimate first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from math import ceil, prod

import numpy as np

from autotune.rules.gpu.reuse import is_shared
from autotune.rules.gpu.thin import thin_plans
from autotune.rules.gpu.tile_cycles import TileColumns, TileCounts
from autotune.rules.gpu.tile_memory import TileMemory
from autotune.rules.gpu.tile_plans import AlikePlans, Cuts, TilePlans
from autotune.rules.gpu.tile_requests import is_made
from autotune.rules.gpu.tile_steps import TileSteps
from autotune.rules.group import SYMBOLIC_SIZE
from schedule import library
from tensorir import Gpu, dtype

OWN = (
    (8, 8), (8, 4), (4, 8), (4, 4), (2, 4), (2, 2), (1, 4), (4, 1), (8, 1), (1, 1), (16, 1),
    (1, 16), (2, 16),
)  # fmt: skip
"""Values that a thread has of each side: that of neighbours in the result, and the other one."""

LARGE = 4 * 64 * 64
"""Results for each multiprocessor from which on threads are to have at least `LEAST_OWN` each:
there are several tiles of 64 by 64 for all."""

LEAST_OWN = 16

FAR = 1 << 62
"""The stride of what an axis does not move."""

LANES = ((8, 4), (16, 2), (32, 1), (4, 8))
"""Lanes of a warp along both sides."""

WARPS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 2), (2, 4), (4, 1), (1, 4), (8, 1))
"""Warps of a block along both sides."""

FEW_PARTS = 4
"""Values of an axis that moves no operand up to which it is no side of a tile."""

FEW = 8 * Gpu.warp
"""Results of a batch up to which a block of threads has several."""

ALIKE = 1.05
"""Times the least time of a call up to which tiles take about as long."""

NEAR = 2.0
"""Times as long as memory moves all once from which on tiles of few rows are no sure default."""

KEPT = 6
"""Tiles that are looked at with all depths."""

SPLITS = (2, 4, 8, 16, 32, 64, 128, 512)
"""Parts of a sum that get blocks of threads of their own."""


@lru_cache(maxsize=64)
def tile_plans(c: library.Contraction, gpu: Gpu, bitwise: bool = False) -> tuple[TileCounts, ...]:
    """Plans with what they take, best first; none where no operand is used again. Remembered: a
    space asks again for what its default was chosen from.

    bitwise  sums are to be in the order of the definition
    """
    return tuple(_Search(c, gpu, bitwise).run())


def in_order(found: Sequence[TileCounts]) -> list[TileCounts]:
    """Best first: of those that take about the least time that which moves least, all terms in
    one step if they can be: then nothing is copied ahead, nor waited for again."""
    least = min((counts.call for counts in found), default=0.0)

    def order(counts: TileCounts) -> tuple[bool, float, float, bool]:
        far = counts.call > ALIKE * least
        most = counts.cycles if far else counts.transactions
        return far, most, counts.cycles, counts.steps > 1

    return sorted(found, key=order)


@dataclass
class _Search:
    c: library.Contraction
    gpu: Gpu
    bitwise: bool
    known: dict[tuple[object, ...], library.gpu.StagedTile] = field(default_factory=dict)

    def extent(self, n: int) -> int:
        known = self.c.axes[n].extent
        return SYMBOLIC_SIZE if known is None else known

    @cached_property
    def results(self) -> int:
        """Elements of the result."""
        return prod(self.extent(n) for n in self.c.spatial)

    @cached_property
    def batch(self) -> list[int]:
        """Axes that move all of several operands, and none beside another axis, as in `x[i + j]`:
        of that neighbours share what they read."""
        c, several = self.c, len(self.c.operands) > 1
        found = [n for n in c.spatial if several and all(o.strides[n] != 0 for o in c.operands)]
        return [n for n in found if not any(c.overlap(n, m) for m in range(len(c.axes)) if m != n)]

    @cached_property
    def moved(self) -> dict[int, list[bool]]:
        """Which operands each axis of the result moves."""
        return {n: [n in axes for axes in self.c.moving] for n in self.c.spatial}

    @cached_property
    def still(self) -> tuple[int, ...]:
        """Short axes that move no operand, as the parts of complex numbers do, beside others for
        both sides of a tile: a thread has all of them, so that conditions on them are numbers."""
        moved = self.moved
        found = [n for n in moved if not any(moved[n]) and self.extent(n) <= FEW_PARTS]
        left = {tuple(moved[n]) for n in moved if n not in found and n not in self.batch}
        return tuple(found) if len(left) > 1 else ()

    @property
    def near(self) -> int:
        """The axis of neighbours in the result that lanes have."""
        return [n for n in self.c.spatial if n not in self.still][-1]

    @cached_property
    def sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Axes that have tiles, innermost first: those that move the same operands as that of
        neighbours in the result, and the others. What moves all of several operands is a batch."""
        moved, near = self.moved, self.near
        every = [n for n in reversed(self.c.spatial) if n not in self.still]
        free = [n for n in every if n not in self.batch or n == near]
        mine = tuple(n for n in free if moved[n] == moved[near])
        return mine, tuple(n for n in free if n not in mine)

    @cached_property
    def in_operands(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The same axes in the order of what is read, where that is another one than that of the
        result; neighbours in the result first all the same."""
        near, steps = self.near, {n: FAR for n in self.c.spatial}
        for o in self.c.operands:
            steps |= {n: min(steps[n], abs(o.strides[n] or FAR)) for n in steps}

        def read(n: int) -> tuple[bool, int]:
            return n != near, steps[n]

        mine, others = self.sides
        return tuple(sorted(mine, key=read)), tuple(sorted(others, key=read))

    @cached_property
    def memory(self) -> TileMemory:
        """What goes through shared memory: results where they are no small part of what memory has
        under way at once."""
        from autotune.gpu.work import under_way

        free = {n for side in self.sides for n in side} - set(self.batch)
        return TileMemory(self.c, free, under_way(self.gpu) / 4)

    @cached_property
    def steps(self) -> TileSteps:
        """How terms are shared among steps."""
        return TileSteps(self.c, self.bitwise)

    @property
    def shared(self) -> tuple[int, ...]:
        """The operands that blocks fetch to shared memory."""
        return self.memory.shared

    @property
    def gathered(self) -> tuple[int, ...]:
        """Those of them of which single elements are fetched."""
        return self.memory.gathered

    def laid(self, counts: TileCounts, made: bool) -> library.gpu.TilePlan:
        """The same with the operands laid out ahead for which that saves transactions, those which
        are `made` too, which can run ahead then, in steps of whole sectors of their rows, unless
        that is another order of sums."""
        plan, cuts, laid = counts.plan, list(counts.plan.cuts), []
        for n in self.can_be_laid:
            o, now = self.c.operands[n], self.known_tile(n, plan)
            after = library.gpu.StagedTile(self.alone_laid[n], plan, n)
            saved = counts.blocks * counts.steps * (now.sectors - after.sectors)
            if (made and is_made(o)) or saved > self.can_be_laid[n] / Gpu.sector_bytes:
                laid.append(n)
                for axis in () if self.bitwise else self.c.reduced:
                    if o.dims[o.row][axis] == 1:
                        unit = library.gpu.in_sector(o.dtype)
                        parts = -(-cuts[axis].parts // unit) * unit
                        cuts[axis] = cuts[axis]._replace(parts=parts)
        return replace(plan, cuts=tuple(cuts), laid=tuple(laid))

    def from_sectors(self, plan: library.gpu.TilePlan) -> library.gpu.TilePlan:
        """The same with rows fetched from where their sectors begin, if there are such."""
        found = replace(plan, sectors=True)
        every = (self.known_tile(n, found) for n in plan.shared)
        return found if any(tile.from_sectors for tile in every) else plan

    @cached_property
    def can_be_laid(self) -> dict[int, int]:
        """Operands of known shape whose rows begin anywhere within a sector, or which are made, and
        that no axis reads across rows, with the bytes that laying each of them out moves."""
        found = dict[int, int]()
        for n in self.shared:
            o = self.c.operands[n]
            row = o.shape[o.row] if o.row > 0 and None not in o.shape else 0
            odd = (row or 0) % library.gpu.in_sector(o.dtype) > 0 or (row and is_made(o))
            if odd and n not in self.gathered:
                if None not in self.alone_laid[n].operands[n].strides:
                    found[n] = library.gpu.copied_bytes(self.c, n)
        return found

    @cached_property
    def alone_laid(self) -> dict[int, library.Contraction]:
        """The contraction with one of the shared operands laid out ahead, each by itself."""
        return {n: library.gpu.laid_out(self.c, (n,)) for n in self.shared}

    def run(self) -> list[TileCounts]:
        thin = [] if self.bitwise else list(thin_plans(self.c, self.sides, self.extent))
        found = self.ranked(thin)
        if not is_shared(self.c) or (found and found[0].cycles <= NEAR * found[0].of.moving):
            return found
        return in_order([*found, *self.of_both_sides()])

    @property
    def usual_tiles(self) -> TilePlans:
        """Plans with the cuts of `tiles`, and the same with results written from one sector to the
        next where they can be."""
        cuts = self.tiles()
        none, ahead = (library.gpu.Cut(),) * len(self.c.axes), int(bool(self.shared))
        plan = library.gpu.TilePlan(none, self.shared, tuple(self.c.written), ahead, self.gathered)
        boxes = cuts[self.memory.are_boxes(cuts)]
        results = np.arange(len(cuts) + len(boxes)) >= len(cuts)
        return AlikePlans(plan, np.concatenate([cuts, boxes]), results)

    def of_both_sides(self) -> list[TileCounts]:
        """Tiles for which what both sides move goes through shared memory, or is held."""
        every = self.columns(self.usual_tiles)
        odd = every.first(len(every.plans), every.cycles, where=every.plans.results)
        plain = ~every.plans.results  # few blocks wait as long, whatever they do meanwhile
        rough = every.first(KEPT, every.cycles, every.busy, where=plain)
        rough += every.first(KEPT // 3, every.busy, where=plain)  # other steps may run ahead
        first = [counts.plan for counts in rough]
        first += [replace(x.plan, results=False) for x in in_order(odd)[: KEPT // 2]]
        if not self.bitwise:
            by = every.transactions, every.cycles
            rough += every.first(KEPT // 2, *by, where=plain)
            first += [plan for counts in rough for plan in self.split(counts)]
        more = [self.steps.of(plan, depth) for plan in first for depth in self.steps.depths]
        found = self.columns(TilePlans([*dict.fromkeys([*first, *more])], len(self.c.axes)))
        ranked = found.first(2 * KEPT, found.cycles)
        kept = [counts.plan for counts in ranked]
        computed = any(is_made(self.c.operands[n]) for n in self.can_be_laid)
        ways = (False, True) if computed else (False,)
        kept += [self.laid(counts, made) for made in ways for counts in ranked]
        kept = [p for plan in kept for p in dict.fromkeys((plan, self.from_sectors(plan)))]
        kept += self.memory.without_conflicts(map(self.memory.to_sectors, kept))
        every_way = self.counts(
            replace(plan, ahead=ahead)
            for plan in dict.fromkeys(kept)
            for ahead in ((1, 0) if self.shared else (0,))
        )
        return list({counts.plan: counts for counts in every_way}.values())

    def ranked(self, plans: Sequence[library.gpu.TilePlan]) -> list[TileCounts]:
        """Plans, and the same with sums in parts, best first."""
        found = self.counts(plans)
        found += self.counts(plan for counts in found for plan in self.split(counts))
        return in_order(found)

    def counts(self, plans: Iterable[library.gpu.TilePlan]) -> list[TileCounts]:
        """What plans take, of those that can be launched."""
        return self.columns(TilePlans(list(plans), len(self.c.axes)), rough=False).rows()

    def columns(self, plans: TilePlans, rough: bool = True) -> TileColumns:
        """The same as columns; `rough` before banks are looked at."""
        fetched = [n for n in range(len(self.c.operands)) if plans.fetches(n).any()]
        tiles = {n: self.different_tiles(n, plans, rough) for n in fetched}
        if not rough:
            library.gpu.tile_pitches([tile.layout for found, _ in tiles.values() for tile in found])
        return TileColumns(self.c, self.gpu, plans, tiles, self.can_be_laid, rough)

    def different_tiles(
        self, n: int, plans: TilePlans, rough: bool = True
    ) -> tuple[list[library.gpu.StagedTile], list[int]]:
        """What plans fetch of an operand, of several alike the first, and which each has; if
        `rough` by sizes alone. Of axes that do not move it nothing matters but the lanes that read
        the same."""
        own, lanes = plans.cuts[:, sorted(self.c.moving[n])], plans.cuts[:, :, 2]
        told = own.prod(2) if rough else np.hstack([own.reshape(len(plans), -1), lanes])
        how = zip(plans.lays_out(n), plans.sectors, told.tolist())
        keys = [(n, laid, sectors, *numbers) for laid, sectors, numbers in how]
        places: dict[tuple[object, ...], int] = {}
        for row, key in enumerate(keys):
            if key not in places:
                places[key] = len(places)
                if key not in self.known:
                    self.known[key] = self.tile(n, plans[row])
        return [self.known[key] for key in places], [places[key] for key in keys]

    def known_tile(self, n: int, plan: library.gpu.TilePlan) -> library.gpu.StagedTile:
        """What a plan fetches of an operand, or another one that does by sizes alone: as in
        `different_tiles`, `rough`."""
        numbers = [plan.totals[axis] for axis in sorted(self.c.moving[n])]
        key = (n, n in plan.laid, plan.sectors, *numbers)
        found = self.known.get(key)
        return found or self.known.setdefault(key, self.tile(n, plan))

    def tile(self, n: int, plan: library.gpu.TilePlan) -> library.gpu.StagedTile:
        """What a plan fetches of an operand."""
        return library.gpu.StagedTile(self.alone_laid[n] if n in plan.laid else self.c, plan, n)

    @cached_property
    def first_cuts(self) -> dict[int, library.gpu.Cut]:
        """Cuts that tiles begin with: of terms, in steps of a usual length, and of what is still,
        side by side in a thread where it is in the result."""
        c, cut = self.c, library.gpu.Cut
        found = {n: cut(parts=self.extent(n)) for n in self.still}
        last = c.spatial[-1]
        if last in found and c.result.strides[last] == 1 and self.extent(last) in (2, 4):
            found[last] = cut(elements=self.extent(last))
        return self.steps.cuts(8) | found

    def tiles(self) -> Cuts:
        """The cuts of tiles, with steps of a usual length, each once."""
        found = [self.tiles_of(*order) for order in dict.fromkeys([self.sides, self.in_operands])]
        found += [self.tiles_of_batches(), self.tiles_of_small_batches()]
        every = np.concatenate(found)
        last = {cuts.tobytes(): n for n, cuts in reversed(list(enumerate(every)))}
        return every[sorted(last.values())]

    def rows(self, found: Iterable[Mapping[int, library.gpu.Cut]]) -> Cuts:
        """Cuts of some axes as numbers, those of the others being whole in one thread."""
        none, axes = library.gpu.Cut(), range(len(self.c.axes))
        rows = [[cuts.get(n, none) for n in axes] for cuts in found]
        return np.array(rows, np.int64).reshape(len(rows), len(axes), len(none))

    def tiles_of_batches(self) -> Cuts:
        """Where neighbours in the result are of different batches, which share nothing: lanes have
        a sector of them, and each thread a tile of one batch."""
        c, near = self.c, self.near
        kinds: dict[tuple[bool, ...], list[int]] = {}
        for n in reversed(c.spatial):
            if n not in self.batch and n not in self.still:
                kinds.setdefault(tuple(self.moved[n]), []).append(n)
        if near not in self.batch or len(kinds) != 2:
            return self.rows(())
        beside = min(library.gpu.in_sector(c.result.dtype), Gpu.warp)
        both = Gpu.warp // beside
        lanes = [(n, both // n) for n in (1, 2, 4, 8) if both % n == 0]
        ways = list(product(OWN[:4], lanes, WARPS))
        every = self.rows([{**self.first_cuts, near: library.gpu.Cut(lanes=beside)}])
        for n, axes in enumerate(kinds.values()):
            every = every * self.side(axes, [[part[n] for part in way] for way in ways])
        return every

    def tiles_of_small_batches(self) -> Cuts:
        """Where batches have fewer results than blocks have threads: lanes and warps that all of
        one leave have others."""
        batch = [n for n in self.c.spatial if n in self.batch]
        sizes = [prod(map(self.extent, side)) for side in self.sides]
        if not batch or self.near in batch or prod(sizes) >= FEW:
            return self.rows(())
        first, ways = [], []
        for own, warps in product(OWN, (1, 2, 4, 8)):
            lanes = [1 << (ceil(size / n) - 1).bit_length() for size, n in zip(sizes, own)]
            if prod(lanes) <= Gpu.warp:
                beside = library.gpu.Cut(warps, 1, Gpu.warp // prod(lanes))
                first.append({**self.first_cuts, batch[-1]: beside})
                ways.append([(n, count, 1) for n, count in zip(own, lanes)])
        every = self.rows(first)
        for n, axes in enumerate(self.sides):
            every = every * self.side(axes, [way[n] for way in ways])
        return every

    def tiles_of(self, mine: tuple[int, ...], others: tuple[int, ...]) -> Cuts:
        """Those that share the axes of both sides in this order."""
        large = others and self.results >= LARGE * self.gpu.multiprocessors
        owns = [own for own in OWN if not large or prod(own) >= LEAST_OWN]
        spreads = (False, True) if max(len(mine), len(others)) > 1 and others else (False,)
        ways = list(product(owns, LANES, WARPS))
        if not others:
            alone = len(mine) < 2
            kept = [x for x in ways if not alone or x[0][1] * x[1][1] * x[2][1] == 1]
            return self.rows(self.first_cuts | self.pair(mine, *way) for way in kept)
        found = [self.rows([self.first_cuts])] * len(spreads)
        for n, axes in enumerate((mine, others)):  # no axis is in several
            own = [[part[n] for part in way] for way in ways]
            found = [x * self.side(axes, own, spread) for x, spread in zip(found, spreads)]
        return np.stack(found, 1).reshape(-1, *found[0].shape[1:])

    def side(
        self, axes: Sequence[int], ways: Sequence[Sequence[int]], spread: bool = False
    ) -> Cuts:
        """The cuts of the axes of a side, for each way what a thread, lanes and warps have of it:
        lanes go to the innermost one, what a thread has to it or to the next one, warps to the last
        one that has room. A side may have no axes; all others are whole."""
        cuts = np.ones((len(ways), len(self.c.axes), len(library.gpu.Cut())), np.int64)
        own, lanes, warps = np.array(ways, np.int64).reshape(-1, 3).T
        turned = [*axes[1:], *axes[:1]] if spread else axes
        for kind, count, order in ((2, lanes, axes), (1, own, turned), (0, warps, turned)):
            for n in order:
                room = -(-self.extent(n) // cuts[:, n].prod(1))
                take = 1 << np.ceil(np.log2(np.minimum(count, room))).astype(np.int64)
                cuts[:, n, kind] *= take
                count = -(-count // take)
            if kind == 2 and axes:
                cuts[:, axes[0], kind] *= count
        for n in axes:
            room = -(-self.extent(n) // (cuts[:, n, 0] * cuts[:, n, 2]))
            mine = np.minimum(cuts[:, n, 1], np.maximum(1, room))
            wide = np.where((mine % 4 == 0) & (n in self.aligned), 4, 1)
            cuts[:, n, 1], cuts[:, n, 3] = mine // wide, wide
        return cuts

    def pair(
        self,
        axes: Sequence[int],
        own: tuple[int, int],
        lanes: tuple[int, int],
        warps: tuple[int, int],
    ) -> dict[int, library.gpu.Cut]:
        """The cuts of axes of one kind, the innermost two in tiles."""
        found = {axes[0]: self.cut(axes[0], warps[0], own[0], lanes[0])}
        if len(axes) > 1:
            found[axes[1]] = self.cut(axes[1], warps[1], own[1], lanes[1])
        return found

    def cut(self, n: int, warps: int, own: int, lanes: int) -> library.gpu.Cut:
        """A cut of an axis, neighbours in one thread where they can be read and stored at once; not
        longer than the axis is."""
        own = min(own, max(1, ceil(self.extent(n) / (lanes * warps))))
        wide = 4 if own % 4 == 0 and n in self.aligned else 1
        return library.gpu.Cut(warps, own // wide, lanes, wide)

    @cached_property
    def aligned(self) -> frozenset[int]:
        """The axes of the result along which neighbours can be moved at once."""
        return frozenset(n for n in self.c.spatial if self._is_aligned(n))

    def _is_aligned(self, n: int) -> bool:
        """Whether four neighbours along an axis can be moved at once, in the result and in what is
        read: none of it is a window."""
        c = self.c
        if c.is_window(n) or any(c.overlap(n, other) for other in c.spatial if other != n):
            return False
        if c.result.strides[n] != 1:
            return True
        size = dtype.itemsize(c.result.dtype)
        last = c.result.shape[c.result.row] if c.result.shape else None
        return last is not None and last % 4 == 0 and size <= 4

    def split(self, counts: TileCounts) -> Iterator[library.gpu.TilePlan]:
        """Parts of the longest sum for blocks of threads of their own, of whole steps; the last one
        may be shorter."""
        if counts.blocks >= self.gpu.multiprocessors:
            return
        most = 2 * self.gpu.multiprocessors * max(1, counts.at_once) / counts.blocks
        c, plan = self.c, counts.plan
        axis = max(c.reduced, key=self.extent)
        many = self.extent(axis) // plan.cuts[axis].total
        for count in SPLITS:
            if count <= min(many - 1, most):
                yield replace(plan, split=count, along=axis, results=False)
