"""The plans for the nest of a contraction that are worth considering, best estimate first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from autotune.cuts import Cuts, exact_axes
from autotune.device import Cpu
from autotune.estimate.estimate import Estimate
from autotune.estimate.traffic import with_requests
from autotune.estimate.varied import varied
from autotune.kept import kept_nests
from autotune.streams import Column
from schedule import library
from tensorir import Processor, dtype

WIDEST = 4
"""Most vectors in a row of a register tile of several rows."""

LONGEST_ROW = 16
"""Most vectors in a register tile of one row."""

KEPT = 4
"""Register tiles that are looked at further."""

MOST_TERMS = 49
"""Terms of a sum over windows that are written out."""

MOST_SUMS = 16
"""Vectors of sums in a register tile whose terms are written out."""

MOST_WRITTEN = MOST_TERMS * MOST_SUMS
"""Operations on vectors that all terms of a tile are written out as."""

BORDERS = 3
"""How often lowering writes a tile out whose padding is computed in place: for both ends of an
axis, and for all between them, where nothing is padding."""

USES = 8
"""Uses of each element of an operand from which on a turned copy of it pays."""


def plans(
    c: library.Contraction,
    cpu: Cpu,
    constants: Collection[str] = (),
    numerics: str = "reassociated",
) -> list[tuple[float, library.NestPlan]]:
    """Estimates in cycles and plans, best first; none for contractions that no nest here is for."""
    return list(_plans(c, cpu, cpu.target.processor, frozenset(constants), numerics))


@lru_cache(maxsize=64)
def _plans(
    c: library.Contraction,
    cpu: Cpu,
    processor: Processor,
    constants: frozenset[str],
    numerics: str,
) -> tuple[tuple[float, library.NestPlan], ...]:
    """Remembered: algorithms of a program have contractions in common, and a search asks again for
    what the default schedule was chosen from. Equal targets may differ in their `processor`."""
    estimate = Estimate(c, cpu, constants)
    search = _Search(c, cpu, estimate, numerics == "bitwise")
    shapes = list(search.tiles())
    tiles = _varied(_ranked(shapes, estimate.arithmetic(shapes)))
    streamed = not all(map(c.is_used_again, range(len(c.operands))))
    if streamed or c.products or search.windows:
        # Memory decides: in order, row by row, or where rows that share factors are few.
        by_rows = [varied(plan, order=(*plan.order[1:], plan.lane)) for plan in shapes]
        tiles += _ranked(by_rows, estimate.cycles(by_rows))[:KEPT]
    packed = [p for _, plan in tiles for p in search.panels(plan)]
    cuts, asked = Cuts(c, cpu, estimate), with_requests(c, cpu, (*(p for _, p in tiles), *packed))
    cut = dict.fromkeys([plan for each in asked for plan in cuts.of(each)])
    tasks = _ranked([*cut], estimate.cycles([*cut]))
    leaders = _leaders(tasks)
    more = [p for plan in leaders for p in search.details(plan)]
    more += grouped(c, kept_nests(c, cpu, constants, search.bitwise), search.bitwise)
    quiet = [varied(plan, ahead=()) for plan in (*leaders, *more) if plan.ahead]
    more = [p for p in dict.fromkeys((*with_requests(c, cpu, more), *quiet)) if p not in cut]
    found = [*tasks, *_ranked(more, estimate.cycles(more))]
    return tuple(sorted(found, key=lambda item: item[0]))


def has_plans(c: library.Contraction, cpu: Cpu) -> bool:
    """Whether there are plans for a contraction."""
    return next(_Search(c, cpu, Estimate(c, cpu), False).plain_tiles(), None) is not None


def _ranked(
    found: Sequence[library.NestPlan], cycles: Column
) -> list[tuple[float, library.NestPlan]]:
    """Best first; of equal ones that which was found first."""
    times, order = cycles.tolist(), np.argsort(cycles, kind="stable").tolist()
    return [(times[n], found[n]) for n in order]


def _varied(
    tiles: Sequence[tuple[float, library.NestPlan]],
) -> list[tuple[float, library.NestPlan]]:
    """The best ones, also of those that pad in place, and the best of each axis in the lanes, with
    its terms in loops too: what is written out may be too much for a compiler."""
    found: list[tuple[float, library.NestPlan]] = []
    for inline in (False, True):
        found += [each for each in tiles if (each[1].pad == "inline") == inline][:KEPT]
    known = {(plan.lane, bool(plan.flat)) for _, plan in found}
    for cost, plan in tiles:
        kind = plan.lane, bool(plan.flat)
        if kind not in known and (not plan.flat or (plan.lane, False) not in known):
            known.add(kind)
            found.append((cost, plan))
    return found


def _leaders(tasks: Sequence[tuple[float, library.NestPlan]]) -> list[library.NestPlan]:
    """The best plans of each register tile."""
    found: defaultdict[object, list[library.NestPlan]] = defaultdict(list)
    for _, plan in tasks:
        found[plan.lane, plan.tile, plan.flat, plan.pad, plan.written].append(plan)
    return [plan for best in found.values() for plan in best[:3]]


def grouped(
    c: library.Contraction, nests: Iterable[library.NestPlan], bitwise: bool = False
) -> list[library.NestPlan]:
    """The nests with the factors of products in each of their groupings, and the parts of terms
    added in each order that may pay and, if `bitwise`, rounds alike."""
    exact = not (bitwise and dtype.is_float(c.sums.dtype))
    chains = (False, True) if c.chain[1] and exact else (False,)
    ways = list(product(library.groupings(c, bitwise), chains))
    if ways == [(None, False)]:
        return list(nests)
    return [varied(nest, apart=way[0], chained=way[1]) for nest in nests for way in ways]


class _Search:
    def __init__(self, c: library.Contraction, cpu: Cpu, estimate: Estimate, bitwise: bool) -> None:
        self.c, self.cpu, self.estimate, self.bitwise = c, cpu, estimate, bitwise
        self.extents = estimate.extents
        self.whole = tuple(self.extents[n] for n in c.spatial)
        self.free = tuple(sorted(c.reduced, key=lambda n: not c.is_window(n)))
        self.windows = all(map(c.is_window, c.reduced))
        rows = [row for o in c.operands for row in o.dims]
        beside = [row for row in rows if any(row[n] != 0 for n in c.spatial)]
        self.slides: dict[tuple[int, int], list[int]] = {}
        """The steps along which values of an axis read vectors of a lane that others of it read, of
        the pairs that were asked for."""
        self.taps = all(any(row[n] != 0 for row in beside) for n in c.reduced)
        """Whether the terms of a sum are elements around a place, which others need or not."""
        self.exact = exact_axes(c)

    def tiles(self) -> Iterator[library.NestPlan]:
        """Register tiles, in one task."""
        for plan in grouped(self.c, self.plain_tiles(), self.bitwise):
            yield from self.flat(plan)

    def plain_tiles(self) -> Iterator[library.NestPlan]:
        """The same with loops for the terms of the sums, and these as they are written."""
        c = self.c
        for lane in c.spatial:
            lanes = self.cpu.lanes(c.sums.dtype)
            if self.extents[lane] < 2 or not self.may_be_lane(lane):
                continue
            packed = self.packed(lane)
            if packed is None:
                continue
            order = (lane, *(n for n in c.spatial if n != lane))
            plain = library.NestPlan(
                lane, lanes, self.whole, self.whole, self.steps(), order, threads=False
            )
            packs: dict[int, tuple[library.Pack, ...]] = {}
            for vectors, rows in self.shapes(lane, lanes):
                tile = [1] * len(c.spatial)
                tile[lane] = min(vectors * lanes, -(-self.extents[lane] // lanes) * lanes)
                if self.exact[lane] and self.extents[lane] % tile[lane]:
                    continue
                for n, size in rows:
                    tile[n] = size
                width = tile[lane]
                if width not in packs:
                    packs[width] = tuple([library.Pack(n, lane, width) for n in packed])
                yield varied(plain, tile=tuple(tile), packs=packs[width])

    def sizes(self, axis: int, most: int) -> list[int]:
        """Sizes up to `most` that cut an axis into parts as even as can be."""
        extent = self.extents[axis]
        if self.exact[axis]:
            return [n for n in range(1, most + 1) if extent % n == 0]
        most = min(most, extent)
        found = {n for n in range(1, most + 1) if -(-extent // -(-extent // n)) == n}
        return sorted(found | {most})

    def flat(self, plan: library.NestPlan) -> Iterator[library.NestPlan]:
        """With the terms of the sums in loops, or written out where there are few: then padding may
        be computed in place."""
        sums, terms = prod(plan.tile) // plan.lanes, self.estimate.terms
        written = sums * terms * self.estimate.work
        few = terms <= MOST_TERMS and sums <= MOST_SUMS and written <= MOST_WRITTEN
        if self.taps and few:
            ways = ["rows"]
            if prod(plan.tile) > plan.tile[plan.lane]:  # of equal ones, the first has less to hold
                strides = enumerate(o.strides[plan.lane] for o in self.c.operands)
                far = {n for n, stride in strides if stride not in (0, 1)}
                near, apart = not far, far - {pack.operand for pack in plan.packs}
                ways = ["shifts", "single", "rows"] if near else ["single", "shifts", "rows"]
                ways = ways if self.windows and not apart else ["single", "rows"]
            for way in ways:
                found = varied(plan, flat=way)
                if self.bitwise and sum(found.around_rows(self.c), ()) != self.c.written:
                    continue
                yield found
                if any(o.pad for o in self.c.operands) and BORDERS * written <= MOST_WRITTEN:
                    yield varied(found, pad="inline")
        yield plan
        most = int(MOST_WRITTEN / (sums * self.estimate.work))
        rows = (n for n in self.c.spatial if plan.tile[n] > 1 and n != plan.lane)
        shared = {step: None for n in rows for step in self.slid(n, plan.lane)}
        for step in shared if most > 1 else ():
            steps = (*(n for n in plan.steps if n != step), step)
            if steps == self.c.written or not self.bitwise:
                yield varied(plan, steps=steps, written=self.sizes(step, most)[-1])

    def slid(self, row: int, lane: int) -> list[int]:
        """Single elements are none of it: each load fills a vector, which would take a register."""
        if (row, lane) not in self.slides:
            moved = [n for n, o in enumerate(self.c.operands) if o.strides[lane] != 0]
            overlap = self.c.overlap
            found = [n for n in self.free if any(overlap(row, n, o) for o in moved)]
            self.slides[row, lane] = found
        return self.slides[row, lane]

    def may_be_lane(self, lane: int) -> bool:
        c = self.c
        if (c.axes[lane].extent is None or c.repeated) and c.result.strides[lane] != 1:
            return False
        return all(o.strides[lane] is not None for o in (*c.operands, c.result))

    def shapes(self, lane: int, lanes: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Vectors and rows of register tiles; rows of one axis, or of two where one is short."""
        most = -(-self.extents[lane] // lanes)
        registers = self.cpu.registers
        others = self.rows(lane)
        for vectors in range(1, min(WIDEST, most) + 1):
            tall = max(1, (registers - 1 - vectors) // vectors)
            if self.estimate.terms <= MOST_TERMS:
                tall = max(tall, 8)
            for n in others:
                for size in self.sizes(n, tall):
                    if size > 1:
                        yield vectors, [(n, size)]
                for m in others:
                    if m != n:
                        for two in self.two_rows(lane, n, m, vectors == most, tall):
                            yield vectors, two
        for vectors in dict.fromkeys([*range(1, WIDEST + 1), 6, 8, 12, LONGEST_ROW]):
            if vectors <= most:
                yield vectors, []

    def two_rows(
        self, lane: int, n: int, m: int, whole: bool, most: int
    ) -> Iterator[list[tuple[int, int]]]:
        """Values of two axes in the rows of a register tile: all of the first where it is short.
        Where more vectors of the lane share nothing, or there are none, each of the axes shares
        what moves with the other one, so that parts of both may do."""
        first = [self.extents[n]] if self.extents[n] <= most // 2 else []
        steps = [o.strides for o in self.c.operands]
        across = any(s[n] == 0 != s[m] for s in steps) and any(s[m] == 0 != s[n] for s in steps)
        if n < m and across and (whole or all(s[lane] != 0 for s in steps)):
            first = [size for size in self.sizes(n, most // 2) if size > 1]
        for rows in first:
            for size in self.sizes(m, most // rows):
                if size > 1:
                    yield [(n, rows), (m, size)]

    def rows(self, lane: int) -> list[int]:
        """Axes for the rows of a tile: of known extent, unless only rows along a symbolic one read
        the same lanes of an operand. These are guarded one by one at its end."""
        others = [n for n in self.c.spatial if n != lane]
        known = [n for n in others if self.c.axes[n].extent is not None]
        lanes = [o.strides for o in self.c.operands if o.strides[lane] != 0]
        shared = {n for n in others if any(strides[n] == 0 for strides in lanes)}
        return others if not known or shared and shared.isdisjoint(known) else known

    def packed(self, lane: int) -> list[int] | None:
        """The operands that have to be packed for these lanes; None if one cannot be."""
        found = []
        for n, operand in enumerate(self.c.operands):
            step = operand.strides[lane]
            if step in (0, 1):
                continue
            if self.c.can_pack(n, lane) and self.pays(n):
                found.append(n)
            elif not self.c.is_read_in_vectors(n, lane):
                return None
        return found

    def panels(self, plan: library.NestPlan) -> Iterator[library.NestPlan]:
        """With operands in panels of their own that would be crowded where they are; those of one
        buffer that move alike together."""
        width, operands = plan.tile[plan.lane], self.c.operands
        alike: dict[tuple[object, ...], list[int]] = {}
        for n, o in enumerate(operands):
            if o.strides[plan.lane] == 1 and self.c.can_pack(n, plan.lane) and self.pays(n):
                alike.setdefault((o.buffer, o.dims), []).append(n)
        for group in alike.values() if not plan.packs else ():
            if self.estimate.crowds(group[0], plan.lane, width):
                packs = tuple(library.Pack(n, plan.lane, width) for n in group)
                yield varied(plan, packs=packs)

    def pays(self, operand: int) -> bool:
        """Whether elements are used so often that a copy, which is turned, costs less than it
        saves."""
        if self.c.operands[operand].buffer in self.estimate.constants:
            return True
        idle = [n for n in self.c.spatial if self.c.operands[operand].strides[n] == 0]
        return prod(self.extents[n] for n in idle) * max(1, self.c.repeated) >= USES

    def steps(self) -> tuple[int, ...]:
        """The axes that are summed over: windows first, if their order is free."""
        return self.c.written if self.bitwise else self.free

    def details(self, plan: library.NestPlan) -> Iterator[library.NestPlan]:
        """Other ways to read the operands, and other orders of the sums."""
        c = self.c
        for n, operand in enumerate(c.operands):
            if any(pack.operand == n for pack in plan.packs):
                continue
            for axis in (plan.lane, *(m for m in c.spatial if m != plan.lane and plan.tile[m] > 1)):
                if operand.strides[axis] not in (0, None) and self.c.can_pack(n, axis):
                    yield varied(plan, packs=(*plan.packs, library.Pack(n, axis, plan.tile[axis])))
        if any(o.pad for o in c.operands) and plan.pad != "inline":
            yield varied(plan, pad="root")
            apart = not any(c.in_padding(plan.lane, n) for n in range(len(c.operands)))
            if not plan.flat and apart:  # else each lane looks for itself
                yield varied(plan, pad="inline")
        if not self.bitwise and plan.steps != c.reduced and plan.written == 1:
            yield varied(plan, steps=c.reduced)
