"""Chains: stages that share rows, computed for a few rows at a time so that they stay in cache.

Softmax, norms and attention: statistics of a row are reductions, whose results go back to every
element of the row. All stages move into one loop over rows; reductions along contiguous memory run
in vector lanes, and products (a row times a matrix) in register tiles of several rows.

Source: the fusion of FlashAttention (Dao et al., NeurIPS 2022) without its online softmax: a row
block of scores fits the second-level cache of a CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import ceil, prod
from typing import Any

from autotune.rules.ahead import asking_pays
from autotune.rules.chain_nest import SIDE_BY_SIDE, ChainNest, tile_of
from autotune.rules.effort import one_thread
from autotune.rules.find_chain import Chain, find_chains, last_reduce
from autotune.rules.group import Group, Refused, bytes_of, moved_bytes, size
from autotune.rules.lanes import read_in_common
from autotune.rules.plan import NoPlan, OpenPlan, Plan, Values, threads, tried
from autotune.rules.stores import stores
from schedule import Schedule, library, writers
from tensorir import Cpu, body_loads, written

ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 12)
"""Rows of a register tile, where a chain has products."""

TOGETHER = (1, 2, 4, 8)
"""Rows computed together where a chain has none: the last steps of a row's reductions wait for each
other, and those of another row fill the gaps."""

SQUARES = (1, 2, 4)
"""Squares of rows that are written side by side where the result has neighbours of different rows:
the more there are, the fewer lines of the cache are written in two parts."""


@dataclass(frozen=True, eq=False)
class ChainPlan(OpenPlan):
    """Threads share the rows of the last stage; what a few rows need is computed with them, and
    `together` statistics are summed up in one loop."""

    chain: Chain
    base: Schedule = field(repr=False)
    together: int
    name: str = "chain"
    numerics: str = "reassociated"

    @property
    def stages(self) -> tuple[str, ...]:
        return self.chain.stages

    def feasible(self, values: Values) -> bool:
        rows, lanes = values.get(self.key("rows"), 1), self.chain.lanes
        tile = rows * values.get(self.key("vector"), 0) / lanes
        beside = self.together * _side_by_side(rows)
        sums = 0 if self.chain.products else beside * values[self.key("width")] / lanes
        return bool(max(tile, sums) <= 1.25 * self.cpu.registers)

    @cached_property
    def refused(self) -> Mapping[str, str]:
        """What its rows do not allow, such as to be asked for ahead where their size is unknown."""
        return self.told if self.failed else self._nest(self.base.copy(), self.default())

    def _nest(self, sch: Schedule, values: Values) -> Mapping[str, str]:
        """Make the nest; returns what it goes without."""
        nest = ChainNest(sch, self.chain, self.cpu, self.chosen(values))
        nest.run()
        return nest.refused

    def apply(self, sch: Schedule, values: Values) -> None:
        self._nest(sch, values)


def chain_plans(sch: Schedule, groups: Sequence[Group], cpu: Cpu) -> list[Plan]:
    """A plan for each chain of the program, and what is refused of others."""
    refused: Refused = {}
    given = any(map(sch.get_consumers, {w for b in sch.func.params for w in writers(sch.state, b)}))
    for results in (True, False)[not given :]:
        chains = find_chains(sch, groups, cpu, refused, results)
        found = [tried(sch, _plan(sch.copy(), rows, chain, cpu)) for chain, rows in chains]
        if all(plan.works for plan in found):
            break
    return [*found, *(NoPlan(Group(name), why) for name, why in refused.items() if why)]


def _plan(base: Schedule, sch: Schedule, chain: Chain, cpu: Cpu) -> ChainPlan:
    """The plan of a chain of a program; `sch` is the program in its rows."""
    lanes, blocks = chain.lanes, sch.state.block
    cycles = one_thread((blocks(name) for name in chain.stages), cpu)
    together = max(map(len, read_in_common(sch, chain.statistics)))
    usual = 6 if chain.products else _together(sch, chain, cpu, together)
    beside = together * _side_by_side(usual)
    hidden = ceil(cpu.costs.latency * cpu.costs.units / cpu.vector / beside)  # more is added up
    shortest = min(last_reduce(blocks(name)) for name in chain.statistics)
    most = min(4, 3 * cpu.registers // (4 * beside), shortest // (8 * lanes))
    sums = max(1, min(hidden, most))
    widths = tuple(w for w in (lanes, 2 * lanes, 4 * lanes, 8 * lanes) if w < shortest)
    counts: tuple[int, ...] = ROWS if chain.products else TOGETHER
    if chain.order.turned:
        counts = tuple(n * lanes for n in SQUARES[: 1 if chain.products else None])
    rows = tuple(r for r in counts if r <= chain.sizes[-1])
    options: dict[str, tuple[tuple[Any, ...], Any]] = {"width": (widths, sums * lanes)}
    if chain.products:
        columns = min(size(blocks(name).spatial[-1].extent) for name in chain.products)
        vectors = tuple(n * lanes for n in (1, 2, 3, 4, 6) if n * lanes < columns + lanes)
        (row, vector), apart = _shared_tile(sch, chain, cpu, list(product(rows, vectors)))
        chain = replace(chain, apart=apart)
        options |= {"vector": (vectors, vector), "rows": (rows, row)}
    else:
        fits = chain.item * usual * (chain.kept + 3 * chain.written) <= cpu.kept_bytes(2)
        pays = asking_pays([blocks(name) for name in chain.stages], cpu, chain.item)
        far = moved_bytes(blocks(chain.last)) > cpu.kept_bytes(3)  # a row is stored in a burst
        asked = "rows" if pays and fits else "results" if pays or far else "none"
        options |= {"rows": (rows, usual), "ahead": (("rows", "results", "none"), asked)}
        options |= stores(sch, chain.last, cpu, not _waits_in_result(sch, chain, cpu))
    options["threads"] = threads(cpu, cycles, sch, *map(blocks, chain.stages))
    return ChainPlan(Group(chain.last), cpu, options, cycles, chain, base, together)


def _waits_in_result(sch: Schedule, chain: Chain, cpu: Cpu) -> bool:
    """Whether what becomes the result waits in its memory (`reuse_outputs`), as rows do that the
    first-level cache does not hold: to write these past the caches takes longer."""
    block = sch.state.block(chain.last)
    alike = [(bytes_of(b), b.dtype) for b in written(block)]
    made = {b for name in chain.stages for b in written(sch.state.block(name))}
    reads = made & {load.buffer for load in body_loads(block)}
    becomes = any((bytes_of(b), b.dtype) in alike for b in reads)
    return becomes and 2 * chain.item * chain.written > cpu.l1_bytes and not chain.order.turned


def _side_by_side(rows: int) -> int:
    """Of some rows those whose sums are written out side by side."""
    return rows if rows <= SIDE_BY_SIDE else SIDE_BY_SIDE // 2


def _shared_tile(
    sch: Schedule, chain: Chain, cpu: Cpu, tiles: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int], dict[str, tuple[int | None, bool]]]:
    """The rows and columns of the register tile of all products that take the least time, and how
    the terms of each are taken apart then."""
    from autotune.estimate.estimate import Estimate
    from autotune.plans import grouped

    ways = {}
    for c in (library.find_contraction(sch, name) for name in chain.products):
        plans = grouped(c, (tile_of(c, chain, rows, columns) for rows, columns in tiles))
        cycles = Estimate(c, cpu).arithmetic(plans).reshape(len(tiles), -1)
        ways[c.block] = cycles, [(plan.apart, plan.chained) for plan in plans]
    *outer, last = chain.sizes
    tasks = [prod(outer) * -(-last // rows) for rows, _ in tiles]
    busiest = [-(-n // cpu.threads) * cpu.threads / n for n in tasks]
    total: Any = sum(cycles.min(axis=1) for cycles, _ in ways.values())
    best = min(zip(total * busiest, tiles, range(len(tiles))))
    apart = {block: among[int(cycles[best[2]].argmin())] for block, (cycles, among) in ways.items()}
    return best[1], apart


def _together(sch: Schedule, chain: Chain, cpu: Cpu, statistics: int) -> int:
    """How many rows are computed together: as long as they leave room in the first-level cache,
    each thread has several tasks, and the code does not become long. Of squares that are written
    side by side as many as the second-level cache has room for. The last steps of so many
    `statistics` fill the gaps as those of other rows do."""
    if chain.order.turned:
        room = cpu.l2_bytes // (2 * chain.item * max(1, chain.kept))
        most = min(room, prod(chain.sizes) // (2 * cpu.threads))
        return max((n * chain.lanes for n in SQUARES if n * chain.lanes <= most), default=1)
    longest = max(last_reduce(sch.state.block(block)) for block in chain.statistics)
    most = TOGETHER[-1] if longest <= 4 * chain.lanes else TOGETHER[-1] // 2
    most = min(max(1, most // statistics), prod(chain.sizes) // (4 * cpu.threads))
    fitting = min(most, cpu.l1_bytes // (8 * chain.item * longest))
    return max((rows for rows in TOGETHER if rows <= fitting), default=1)
