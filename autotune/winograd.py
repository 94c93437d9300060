"""The plans for Winograd's algorithm that are worth considering, and their time in cycles.

It is that of the products, which are a contraction and estimated as any other, and of what flows
through the transforms around them; so it can be compared with the time of the definition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil, inf, prod

import numpy as np

from autotune.estimate.estimate import IN_ORDER, Estimate
from autotune.streams import CROWDED, FILL, LINE, Column
from schedule import library
from tensorir import Cpu, Processor, dtype

SAMPLES = 8
"""What a symbolic batch is taken for."""

OPERATIONS = {4: 1.5, 6: 2.5}
"""Of a transform, on each of the values that come out, by the points of a tile."""

VECTORS = (1, 2)
"""In a row of a register tile; with more, compilers keep operands of each in registers, and have
too few for the sums."""

APART = 4
"""Times a line that comes in order: one of values that lie far apart."""

CHANGED = 4
"""Times a line from memory: one that another core has changed."""

STEPS = (4, 5)
"""The axes that are summed over, of those of the products: points, panels, tiles, filters of a
panel, vectors of channels, lanes."""

TRIED = 16
"""Plans that are there at least, for primitives to refuse the first ones."""

Cut = tuple[int, int, int]
"""The filters of a panel, the rows of tiles of a task, none for all, and how many share these."""


def winograd_plans(
    found: library.Winograd, cpu: Cpu, constants: Collection[str] = ()
) -> list[tuple[float, library.WinogradPlan]]:
    """Estimates in cycles and plans, best first.

    `constants` are buffers that are known when a kernel is built: what is made of them is, too.
    """
    return list(_plans(found, cpu, cpu.target.processor, frozenset(constants), False))


def winograd_leaders(
    found: library.Winograd, cpu: Cpu, constants: Collection[str] = ()
) -> list[tuple[float, library.WinogradPlan]]:
    """The first of these, and some more: ways to cut the work of which a formula says that they
    take longer than the best are not estimated."""
    return list(_plans(found, cpu, cpu.target.processor, frozenset(constants), True))


def winograd_cycles(
    found: library.Winograd,
    cpu: Cpu,
    plans: Sequence[library.WinogradPlan],
    constants: Collection[str] = (),
) -> Column:
    """The time of each of these plans, whether it is worth considering or not."""
    search, total = _Search(found, cpu, constants), np.zeros(len(plans))
    alike: dict[tuple[int, int, int], list[int]] = {}
    for at, plan in enumerate(plans):
        alike.setdefault((plan.panel, plan.rows, plan.shares), []).append(at)
    for (panel, rows, shares), places in alike.items():
        heights = [plans[at].tiles for at in places]
        total[places] = search.cycles(panel, rows, shares, heights)
    return total


@lru_cache(maxsize=64)
def _plans(
    found: library.Winograd, cpu: Cpu, processor: Processor, constants: frozenset[str], few: bool
) -> tuple[tuple[float, library.WinogradPlan], ...]:
    """Remembered, as those of contractions are."""
    search = _Search(found, cpu, constants)
    cuts, made = list(search.cuts()), dict[Cut, list[tuple[float, library.WinogradPlan]]]()
    least = {cut: search.least(*cut) if few else 0.0 for cut in cuts}
    best = inf
    for cut in sorted(cuts, key=lambda cut: least[cut]):
        if least[cut] > best and sum(map(len, made.values())) >= TRIED:
            break
        made[cut] = search.tiles(*cut)
        best = min([best, *(cycles for cycles, _ in made[cut])])
    estimated = [each for cut in cuts for each in made.get(cut, ())]
    return tuple(sorted(estimated, key=lambda item: item[0]))


class _Search:
    def __init__(self, found: library.Winograd, cpu: Cpu, constants: Collection[str]) -> None:
        self.found, self.cpu = found, cpu
        self.known = found.operand in constants or found.weight in constants
        self.item = dtype.itemsize(found.dtype)
        self.samples = SAMPLES if found.samples is None else found.samples
        self.points = prod(found.points)
        self.lanes = cpu.lanes(found.dtype)

    def cuts(self) -> Iterator[Cut]:
        """How wide a panel is, and how the work is cut."""
        found = self.found
        rows = [0, *(n for n in range(1, found.tiles[0] + 1) if found.tiles[0] % n == 0)]
        for panel in self.panels():
            for cut in rows:
                yield panel, cut, 1
                if cut and found.filters % (2 * panel) == 0:
                    yield panel, cut, 2

    def panels(self) -> list[int]:
        """Widths of register tiles: filters of the same channels, in whole vectors if there are
        so many."""
        found, lanes = self.found, self.lanes
        if found.period == found.filters:
            whole = ceil(found.filters / lanes)
            sizes = [min(v, whole) * lanes for v in VECTORS]
            return list(dict.fromkeys(min(size, found.filters) for size in sizes))
        sizes = [v * lanes for v in VECTORS if found.period % (v * lanes) == 0]
        fitting = [n for n in range(1, min(lanes, found.period) + 1) if found.period % n == 0]
        return sizes or fitting[-1:]

    def tiles(self, panel: int, rows: int, shares: int) -> list[tuple[float, library.WinogradPlan]]:
        """Plans that differ in the height of the register tile only."""
        count = self.count(rows)
        most = max(1, (self.cpu.registers - 1) // max(1, ceil(panel / self.lanes)))
        heights = sorted({h for k in range(1, count + 1) if (h := -(-count // k)) <= most})
        return [
            (float(cycles), library.WinogradPlan(self.lanes, h, panel, rows, shares))
            for h, cycles in zip(heights, self.cycles(panel, rows, shares, heights))
        ]

    def count(self, rows: int) -> int:
        """The tiles of a task."""
        return (rows or self.samples * self.found.tiles[0]) * prod(self.found.tiles[1:])

    def cycles(self, panel: int, rows: int, shares: int, heights: Sequence[int]) -> Column:
        """The time of such plans with register tiles of these heights."""
        c = self.product(panel, self.count(rows), self.own(panel, rows, shares))
        nests = [self.nest(c, panel, height) for height in heights]
        turns = self.turns(panel, rows, shares)
        products = turns * Estimate(c, self.streaming(shares)).cycles(nests)
        if not rows:
            moved = self.from_memory()
            products = products + moved - IN_ORDER * np.minimum(products, moved)
        total: Column = products + self.rest(panel, rows, shares)
        return total

    def least(self, panel: int, rows: int, shares: int) -> float:
        """What no height takes less than: the multiplications alone, and what is beside them."""
        found, own = self.found, self.own(panel, rows, shares)
        width = min(panel, own)
        vectors = max(1, ceil(own / panel)) * ceil(width / self.lanes)
        sums = self.points * self.count(rows) * vectors * found.terms
        each = self.cpu.vector / self.cpu.costs.units
        return self.turns(panel, rows, shares) * sums * each + self.rest(panel, rows, shares)

    def own(self, panel: int, rows: int, shares: int) -> int:
        """The filters of a task."""
        return self.found.filters // shares if rows else min(panel, self.found.filters)

    def turns(self, panel: int, rows: int, shares: int) -> int:
        """The tasks of the busiest thread."""
        return ceil(self.tasks(panel, rows, shares) / self.cpu.threads)

    def rest(self, panel: int, rows: int, shares: int) -> float:
        """What the products have around them."""
        found, count = self.found, self.count(rows)
        start = self.cpu.costs.start if self.cpu.threads > 1 else 0.0
        if rows:
            filters = self.own(panel, rows, shares)
            again = self.transform(count, found.channels, filters)
            again += self.beyond(count * (found.channels + filters))
            rest = again * self.turns(panel, rows, shares) + start
        else:
            share = self.transform(count, found.channels, found.filters)
            share += self.beyond(count * found.channels)
            rest = share / self.cpu.threads + 2 * start + self.exchanged(count)
        return rest if self.known else rest + self.weights()

    def streaming(self, shares: int) -> Cpu:
        """The processor as products see it: panels of weights are read from first to last, and
        asked for ahead; and tasks of the same rows fill the last cache with other weights each."""
        costs = replace(self.cpu.costs, hidden=IN_ORDER)
        target = replace(self.cpu.target, l3=self.cpu.l3_bytes // min(shares, self.cpu.threads))
        return replace(self.cpu, costs=costs, target=target)

    def tasks(self, panel: int, rows: int, shares: int) -> int:
        found = self.found
        if rows:
            return self.samples * (found.tiles[0] // rows) * shares
        return ceil(found.filters / panel)

    def product(self, panel: int, count: int, filters: int) -> library.Contraction:
        """The products of one task: of `count` tiles for so many filters."""
        found, lanes = self.found, self.lanes
        blocks = max(1, ceil(filters / panel))
        inner = min(lanes, found.terms)
        sizes = [self.points, blocks, count, min(panel, filters), ceil(found.terms / inner), inner]
        axes = tuple(
            library.Axis((library.Digit(n, 1, size),), n in STEPS) for n, size in enumerate(sizes)
        )
        shapes = {  # by the axes, outermost first
            "image": (0, 4, 2, 5), "weight": (0, 1, 4, 5, 3), "sums": (0, 1, 2, 3),
        }  # fmt: skip
        image, weight, sums = (self.access(name, dims, sizes) for name, dims in shapes.items())
        operands = (library.Operand(**vars(image)), library.Operand(**vars(weight)))
        return library.Contraction("", "", axes, STEPS, operands, sums, sums, operations=1)

    def access(self, name: str, dims: tuple[int, ...], sizes: list[int]) -> library.Access:
        shape = tuple(sizes[n] for n in dims)
        rows = tuple(tuple(int(n == dim) for n in range(len(sizes))) for dim in dims)
        strides = [0] * len(sizes)
        for place, dim in enumerate(dims):
            strides[dim] = prod(shape[place + 1 :])
        return library.Access(name, self.found.dtype, shape, rows, tuple(strides))

    def nest(self, c: library.Contraction, panel: int, height: int) -> library.NestPlan:
        whole = tuple(c.axes[n].extent or 1 for n in c.spatial)
        tile = (1, 1, height, min(panel, whole[3]))
        return library.NestPlan(3, self.lanes, tile, whole, STEPS, c.spatial, threads=False)

    def transform(self, count: int, channels: int, filters: int) -> float:
        """Both sides of so many tiles: what is computed; ends that are turned; and all values
        between the sides and the products, of which those of a tile lie far apart, once on their
        way out of a transform and once on their way in."""
        found, costs = self.found, self.cpu.costs
        before, after = count * channels, count * filters
        work = 0.0
        for axis, (points, outputs) in enumerate(zip(found.points, found.outputs)):
            left = prod(found.points[: axis + 1]) * prod(found.outputs[axis + 1 :])
            right = prod(found.outputs[: axis + 1]) * prod(found.points[axis + 1 :])
            work += OPERATIONS[points] * (before * left + after * right * points / outputs)
        turned = before * (not found.channels_last) + after * (found.result[-1] != "f")
        ends = turned * prod(found.outputs) * costs.transpose
        values = self.points * (before + after)
        return (work / costs.units + ends) / self.lanes + 2 * costs.copy * values

    def beyond(self, held: int) -> float:
        """Lines of so many transformed values of each position, as far as they do not stay in the
        second-level cache until they are read; weights only stream through it."""
        size, cost = self.cpu.caches[1]
        reach = self.item * self.points * held
        out = max(0.0, 1 - FILL * size / reach)
        return 2 * APART * cost * reach / LINE * out

    def exchanged(self, count: int) -> float:
        """Transformed images that one thread reads and another one wrote."""
        size = min(self.item * self.points * count * self.found.channels, self.cpu.l2_bytes)
        foreign = 1 - 1 / self.cpu.threads
        return size / LINE * foreign * CHANGED * self.cpu.costs.memory

    def from_memory(self) -> float:
        """Transformed weights, each of which one thread reads once in a call, as far as they do not
        stay in the last cache until the next call."""
        size, cost = self.cpu.caches[-1]
        made = self.item * self.points * self.found.terms * self.found.filters
        stays = min(1.0, max(0.0, (CROWDED - made / size) / (CROWDED - FILL)))
        return (1 - stays) * cost * made / LINE / self.cpu.threads

    def weights(self) -> float:
        """The transforms of weights that are no constants, and their panels."""
        made = self.points * self.found.terms * self.found.filters
        return made * self.cpu.costs.alone / self.cpu.threads
