"""Chains: stages that share rows, computed for a few rows at a time so that they stay in cache.

Softmax, norms and attention: statistics of a row are reductions, whose results go back to every
element of the row. All stages move into one loop over rows; reductions along contiguous memory run
in vector lanes, and products (a row times a matrix) in register tiles of several rows.

Source: the fusion of FlashAttention (Dao et al., NeurIPS 2022) without its online softmax: a row
block of scores fits the second-level cache of a CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from autotune.choices import Categorical, Choice
from autotune.rules.group import Group, body_loads, instances, output_store, size, stride_in
from autotune.rules.lanes import into_lanes, lanes_inside, reduces_by_one
from autotune.rules.nest import finish_nest
from autotune.rules.packing import pack_in_panels, panel_index
from autotune.rules.plan import Machine, Values, at_most
from schedule import LoopRef, Schedule, ScheduleError
from tensorir import Block, IterKind, dtype, int_value, variables

SMALL_CHAIN = 16_384
"""Instances of all stages below which a chain stays on one thread by default."""

ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 12)
"""Rows of a register tile, where a chain has products."""


@dataclass(frozen=True)
class Chain:
    """The stages of a chain in program order. All share the first `depth` loops of the last.

    statistics  reductions along contiguous memory
    products    reductions with columns of their own: by register tiles
    epilogues   of a product, the stage that alone reads it, element by element
    packed      (product, operand) whose neighbouring columns are far apart in memory
    """

    stages: tuple[str, ...]
    depth: int
    statistics: tuple[str, ...]
    products: tuple[str, ...]
    epilogues: Mapping[str, str]
    packed: tuple[tuple[str, str], ...]

    @property
    def last(self) -> str:
        return self.stages[-1]


@dataclass(frozen=True)
class ChainPlan:
    """Threads share the rows of the last stage; what a few rows need is computed with them."""

    group: Group
    machine: Machine
    chain: Chain
    choices: tuple[Choice, ...]
    large: bool
    name: str = "chain"

    def key(self, what: str) -> str:
        return f"{self.chain.last}.{what}"

    def default(self) -> dict[str, Any]:
        wanted: dict[str, Any] = {
            self.key("width"): 4 * self.machine.lanes,
            self.key("rows"): 6,
            self.key("vector"): 4 * self.machine.lanes,
            self.key("threads"): "parallel" if self.large else "serial",
        }
        return {c.name: at_most(c, wanted[c.name]) for c in self.choices}

    def feasible(self, values: Values) -> bool:
        tile = values.get(self.key("rows"), 1) * values.get(self.key("vector"), 0)
        return bool(tile / self.machine.lanes <= 1.25 * self.machine.registers)

    def apply(self, sch: Schedule, values: Values) -> None:
        stages = list(self.chain.stages)
        parallel = values[self.key("threads")] == "parallel"
        for product, operand in self.chain.packed:
            pack_in_panels(sch, product, operand, values[self.key("vector")], parallel)
        writers = self._writers(sch, stages)
        partial: set[str] = set()
        for block in self.chain.statistics:
            loop, width = sch.get_loops(block)[-1], values[self.key("width")]
            parts = into_lanes(sch, block, loop, width, self.machine.lanes)
            partial.update(parts)
            at = stages.index(block)
            stages[at:at] = parts
        task = self._rows(sch, stages[-1], values)
        for block in reversed(stages):
            if block in writers:
                self._tile(sch, block, writers[block], values)
            elif block != stages[-1]:
                sch.compute_at(block, task)
        for block in stages:
            if block in partial:
                lanes_inside(sch, block, outside=1)
            elif block not in writers:
                rows = 16 if block in writers.values() else 0
                finish_nest(sch, block, self.machine, unroll_rows=rows)
        if parallel:
            sch.parallel(task)

    def _writers(self, sch: Schedule, stages: list[str]) -> dict[str, str]:
        """For each product the stage that takes its tiles: its epilogue, or a copy."""
        writers: dict[str, str] = {}
        for product in self.chain.products:
            epilogue = self.chain.epilogues.get(product)
            if epilogue is None:
                epilogue = str(sch.cache_write(product, 0, "local"))
                stages.insert(stages.index(product) + 1, epilogue)
            writers[product] = epilogue
        return writers

    def _rows(self, sch: Schedule, last: str, values: Values) -> LoopRef:
        """The loop over blocks of rows around the last stage."""
        rows = sch.get_loops(last)[: self.chain.depth]
        if self.key("rows") in values:
            outer, _ = sch.split(rows[-1], [None, values[self.key("rows")]])
            rows = [*rows[:-1], outer]
        return sch.fuse(*rows) if len(rows) > 1 else rows[0]

    def _tile(self, sch: Schedule, product: str, writer: str, values: Values) -> None:
        """A product in register tiles of all rows of the task and `vector` columns."""
        *rows, column = sch.get_loops(writer)[1:]
        outer, inner = sch.split(column, [None, values[self.key("vector")]])
        sch.reorder(outer, *rows, inner)
        sch.compute_at(product, outer)
        lanes_inside(sch, product, outside=2)


def chain_plans(sch: Schedule, groups: Sequence[Group], machine: Machine) -> list[ChainPlan]:
    """A plan for the stages that end in the last one of the schedule, if they make a chain."""
    last = str(sch.get_blocks()[-1])
    chain = find_chain(sch, last, groups, machine)
    if chain is None:
        return []
    lanes, extents = machine.lanes, _spatial_sizes(sch.state.block(last))
    choices: list[Choice] = []
    if chain.statistics:
        shortest = min(_last_reduce(sch.state.block(b)) for b in chain.statistics)
        widths = tuple(w for w in (lanes, 2 * lanes, 4 * lanes, 8 * lanes) if w < shortest)
        choices.append(Categorical(f"{last}.width", widths))
    if chain.products:
        columns = min(_spatial_sizes(sch.state.block(b))[-1] for b in chain.products)
        rows = tuple(r for r in ROWS if r <= extents[chain.depth - 1])
        vectors = tuple(n * lanes for n in (1, 2, 3, 4, 6) if n * lanes < columns + lanes)
        choices.append(Categorical(f"{last}.rows", rows))
        choices.append(Categorical(f"{last}.vector", vectors))
    choices.append(Categorical(f"{last}.threads", ("parallel", "serial")))
    work = sum(instances(sch.state.block(b)) for b in chain.stages)
    return [ChainPlan(Group(last), machine, chain, tuple(choices), work >= SMALL_CHAIN)]


def find_chain(sch: Schedule, last: str, groups: Sequence[Group], machine: Machine) -> Chain | None:
    """The largest chain that ends in `last`; None where there is none that pays."""
    node = sch.state.block(last)
    store = output_store(node)
    if store is None or any(it.kind is IterKind.OPAQUE for it in node.iters):
        return None
    best: tuple[str, ...] = ()
    depth = 0
    for deep in range(len(_spatial_sizes(node)), 0, -1):
        found = _movable(sch, last, deep)
        if len(found) > len(best):
            best, depth = found, deep
    chain = _classified(sch, best, depth, groups, machine)
    return chain if chain is not None and _pays(sch, chain, machine) else None


def _movable(sch: Schedule, last: str, depth: int) -> tuple[str, ...]:
    """The producers, direct and indirect, that move to loop `depth` of `last` without any
    recomputation; and `last`."""
    trial = sch.copy()
    loop = trial.get_loops(last)[depth - 1]
    order = [str(b) for b in trial.get_blocks()]
    found = [last]
    for block in reversed(order[: order.index(last)]):
        if not set(map(str, trial.get_consumers(block))) & set(found):
            continue
        try:
            trial.compute_at(block, loop)
        except ScheduleError:
            continue
        runs = prod(size(f.extent) for f in trial.state.loops_around(block))
        if runs > instances(sch.state.block(block)):
            trial.undo()
        else:
            found.append(block)
    return tuple(reversed(found))


def _classified(
    sch: Schedule,
    stages: tuple[str, ...],
    depth: int,
    groups: Sequence[Group],
    machine: Machine,
) -> Chain | None:
    """The chain of `stages`, cut after the last reduction that does not go row by row."""
    statistics: list[str] = []
    products: list[str] = []
    packed: list[tuple[str, str]] = []
    first = 0
    for at, name in enumerate(stages):
        block = sch.state.block(name)
        if not block.is_reduction:
            continue
        operands = _gathered(block, depth, machine) if _has_columns(block, depth) else None
        if operands is not None:
            products.append(name)
            packed.extend((name, operand) for operand in operands)
        elif not _has_columns(block, depth) and _along_memory(block, machine):
            statistics.append(name)
        else:
            first, statistics, products, packed = at + 1, [], [], []
    kept = stages[first:]
    epilogues = {g.block: g.epilogue for g in groups if g.block in products and g.epilogue in kept}
    return (
        Chain(kept, depth, tuple(statistics), tuple(products), epilogues, tuple(packed))
        if kept
        else None
    )


def _pays(sch: Schedule, chain: Chain, machine: Machine) -> bool:
    """Whether a statistic goes back to the elements of its row, and rows and caches suffice."""
    order = list(chain.stages)
    back = any(
        instances(sch.state.block(stage)) > instances(sch.state.block(s), IterKind.SPATIAL)
        for s in chain.statistics
        for stage in order[order.index(s) + 1 :]
    )
    rows = prod(_spatial_sizes(sch.state.block(chain.last))[: chain.depth])
    kept = sum(instances(sch.state.block(stage), IterKind.SPATIAL) // rows for stage in order[:-1])
    fits = 4 * kept * (6 if chain.products else 1) <= machine.l2_bytes
    return back and rows >= machine.threads and fits


def _spatial_sizes(block: Block) -> list[int]:
    return [size(it.extent) for it in block.iters if it.kind is IterKind.SPATIAL]


def _last_reduce(block: Block) -> int:
    return [size(it.extent) for it in block.iters if it.kind is IterKind.REDUCE][-1]


def _has_columns(block: Block, depth: int) -> bool:
    return prod(_spatial_sizes(block)[depth:]) > 1


def _along_memory(block: Block, machine: Machine) -> bool:
    """Whether rfactor can put the last reduction loop, of contiguous elements, into lanes."""
    last = [it for it in block.iters if it.kind is IterKind.REDUCE][-1]
    steps = [stride_in(load, last.var, block) for load in body_loads(block)]
    contiguous = 1 in steps and all(step in (0, 1) for step in steps)
    terms = int_value(last.extent)
    enough = terms is not None and terms >= 2 * machine.lanes
    return reduces_by_one(block) and contiguous and enough


def _gathered(block: Block, depth: int, machine: Machine) -> list[str] | None:
    """The operands of a product whose neighbouring columns are apart in memory.

    None where the block is no product for a chain: its columns are no axis of what it stores, or
    the part of an operand that all rows share does not fit the second-level cache.
    """
    store = output_store(block)
    spatial = [it.var for it in block.iters if it.kind is IterKind.SPATIAL]
    if store is None or len(spatial) != depth + 1 or store.indices[-1] is not spatial[-1]:
        return None
    rows, found = set(spatial[:depth]), []
    for load in body_loads(block):
        shared = [
            size(extent)
            for index, extent in zip(load.indices, load.buffer.shape)
            if not variables(index) & rows
        ]
        if prod(shared) * dtype.itemsize(load.buffer.dtype) > machine.l2_bytes // 2:
            return None
        step = stride_in(load, spatial[-1], block)
        if step not in (0, 1):
            if panel_index(block, load.buffer.name) is None:
                return None
            found.append(load.buffer.name)
    return found
