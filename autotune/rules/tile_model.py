"""The time of a tiled product, estimated: which register tile, and how many of them make a task.

A register tile of r rows and c vectors takes, in each step of the sum, r * c multiply-adds and
r + c loads, two of each in a cycle; and no less than the latency of one. Tiles at the edges are
smaller, and what counts is the thread that has the most to do. Beyond the arithmetic, rows that do
not stay in the second-level cache are fetched once more for each panel of columns. Rows that are a
multiple of a page apart share the sets of the caches: more of them than a set has ways throw each
other out.

Source: Low et al., "Analytical modeling is enough for high-performance BLIS", TOMS 2016, with the
balance of the threads added. The constants were measured on Zen 5; only their ratios matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd

from tensorir import Costs, Cpu

LINE_CYCLES = 1.0
"""What a line from beyond the second-level cache costs, as far as arithmetic does not hide it."""

COPY_CYCLES = 2.0
"""Cycles for each vector that a task copies before it reads it."""

CONFLICT_CYCLES = 0.4
"""What reading an element takes besides, where its line is thrown out before the next one of it."""

STORE_CYCLES = 3.0
"""A line of the result that follows the last one in memory."""

APART_CYCLES = 25.0
"""One that lies whole pages after it: it shares a set with the last ones."""

MOST_VECTORS = 4
"""Vectors of a row of a tile: with more of them, gcc 12 loads each again for every row. In a tile
of one row each is used once."""

NEAR = 1.01
"""Estimates closer than this are equal."""


@dataclass(frozen=True)
class TileModel:
    """A product of `rows` x `columns` sums of `terms` terms, `repeats` times.

    lanes     elements of a vector
    packed    whether a task copies its columns before it reads them
    kept_bytes  what stays in the second-level cache
    near      whether columns stay in the second-level cache from one task to the next
    row_bytes    from a row of the first operand to the next; 0 where rows are no lines of their own
    ways      of a set of the first-level cache
    """

    rows: int
    columns: int
    terms: int
    repeats: int
    lanes: int
    registers: int
    threads: int
    kept_bytes: int
    item_bytes: int = 4
    packed: bool = False
    near: bool = False
    row_bytes: int = 0
    ways: int = 8
    costs: Costs = field(default_factory=Costs)

    def fits(self, r: int, c: int) -> bool:
        """Whether the sums, the vectors of one step and a broadcast element stay in registers."""
        if r == 1:
            return c + 2 <= self.registers
        return c <= MOST_VECTORS and r * c + c + 1 <= self.registers

    def tile_cycles(self, r: int, c: int, resident: bool, alone: bool = False) -> float:
        """One register tile; `resident` says that its rows are in the second-level cache, `alone`
        that the next tile is the one beside it, and not below."""
        costs = self.costs
        step = max(r * c / costs.units, (r + c) / costs.ports, costs.latency)
        if self._share_a_set(r):
            step += CONFLICT_CYCLES * r
        lines = 0 if resident else r * self.terms * self.item_bytes / Cpu.line_bytes
        sums = max(self.terms * step, self._store_cycles(r, c, alone))
        return sums + costs.tile + costs.sum_ * r * c + LINE_CYCLES * lines

    def _share_a_set(self, r: int) -> bool:
        """Whether so many rows at a time do not fit the set of the cache that they share."""
        sets = Cpu.page_bytes // max(Cpu.line_bytes, gcd(self.row_bytes, Cpu.page_bytes))
        return self.row_bytes > 0 and r > self.ways * sets

    def _store_cycles(self, r: int, c: int, alone: bool) -> float:
        """Writing the sums of a tile, which goes on while the next one is computed."""
        bytes_of_row = self.columns * self.item_bytes
        if self.rows * bytes_of_row <= self.kept_bytes:
            return 0
        apart = not alone and bytes_of_row % Cpu.page_bytes == 0
        lines = r * c * self.lanes * self.item_bytes / Cpu.line_bytes
        return lines * (APART_CYCLES if apart else STORE_CYCLES)

    def cycles(self, steps: int, r: int, width: int) -> float:
        """The time of the busiest thread, for tasks of `steps` tiles of r x `width` elements.

        Tasks lie in memory order, rows outermost, and threads take equal numbers of them.
        """
        tiles, panels = -(-self.rows // r), -(-self.columns // width)
        blocks = -(-tiles // steps)
        # A grid of tasks has four kinds: whole or last, in both directions.
        last_rows, last_columns = self.rows - (tiles - 1) * r, self.columns - (panels - 1) * width
        last_steps = tiles - (blocks - 1) * steps
        vectors, last_vectors = -(-width // self.lanes), -(-last_columns // self.lanes)
        whole = self._task(steps, r, r, vectors), self._task(steps, r, r, last_vectors)
        last = (
            self._task(last_steps, r, last_rows, vectors),
            self._task(last_steps, r, last_rows, last_vectors),
        )

        def until(task: int) -> float:
            """The time of all tasks before this one."""
            copies, rest = divmod(task, blocks * panels)
            block, panel = divmod(rest, panels)
            row = (panels - 1) * whole[0] + whole[1]
            every = (blocks - 1) * row + (panels - 1) * last[0] + last[1]
            kind = last if block == blocks - 1 else whole
            return copies * every + block * row + panel * kind[0]

        count, threads = self.repeats * blocks * panels, self.threads
        share, more = divmod(count, threads)
        marks = [n * share + min(n, more) for n in range(threads + 1)]
        return max(until(b) - until(a) for a, b in zip(marks, marks[1:]))

    def _task(self, steps: int, r: int, last_rows: int, c: int) -> float:
        """`steps` tiles below each other, of which the last has `last_rows` rows."""
        resident = steps * r * self.terms * self.item_bytes <= self.kept_bytes
        tiles = (steps - 1) * self.tile_cycles(r, c, resident)
        tiles += self.tile_cycles(last_rows, c, resident, alone=steps == 1)
        panel = c * self.lanes * self.terms * self.item_bytes
        lines = 0 if self._near() else panel / Cpu.line_bytes
        return tiles + LINE_CYCLES * lines + (COPY_CYCLES * c * self.terms if self.packed else 0)

    def _near(self) -> bool:
        return self.near or self.columns * self.terms * self.item_bytes <= self.kept_bytes


def splits(tiles: int, threads: int) -> Iterator[int]:
    """How many tiles make a task, so that one, all or a few times all threads share them evenly."""
    for parts in (1, threads, 2 * threads, 4 * threads):
        yield -(-tiles // parts)


@lru_cache(maxsize=1024)
def best_tile(
    model: TileModel, rows: tuple[int, ...], widths: tuple[int, ...]
) -> tuple[int, int, int]:
    """(steps, r, width) of the least time; of those that come close, the one with fewest loads."""
    found: list[tuple[float, tuple[int, int, int]]] = []
    for width in widths:
        vectors = -(-width // model.lanes)
        for r in rows:
            if not model.fits(r, vectors) and (r, width) != (min(rows), min(widths)):
                continue
            tiles = -(-model.rows // r)
            for steps in sorted({1, *splits(tiles, model.threads)}):
                found.append((model.cycles(steps, r, width), (steps, r, width)))
    return _best(found, model.lanes)


@lru_cache(maxsize=1024)
def best_shared_tile(
    models: tuple[TileModel, ...], rows: tuple[int, ...], widths: tuple[int, ...]
) -> tuple[int, int]:
    """(r, width) of the least time for several products whose tasks are one row of tiles each."""
    lanes = models[0].lanes
    found: list[tuple[float, tuple[int, int, int]]] = []
    for width in widths:
        vectors = -(-width // lanes)
        for r in rows:
            if models[0].fits(r, vectors):
                found.append((sum(m.cycles(1, r, width) for m in models), (1, r, width)))
    if not found:
        return min(rows), min(widths)
    return _best(found, lanes)[1:]


def _best(found: list[tuple[float, tuple[int, int, int]]], lanes: int) -> tuple[int, int, int]:
    least = min(cycles for cycles, _ in found)
    near = [value for cycles, value in found if cycles <= NEAR * least]
    return min(near, key=lambda value: _loads(value, lanes))


def _loads(tile: tuple[int, int, int], lanes: int) -> tuple[float, int, int]:
    """Loads for each multiply-add; of equal ones, tiles with more rows and then larger tasks."""
    steps, r, width = tile
    vectors = -(-width // lanes)
    return (r + vectors) / (r * vectors), -r, -steps
