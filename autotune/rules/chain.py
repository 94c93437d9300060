"""Chains: stages that share rows, computed for a few rows at a time so that they stay in cache.

Softmax, norms and attention: statistics of a row are reductions, whose results go back to every
element of the row. All stages move into one loop over rows; reductions along contiguous memory run
in vector lanes, and products (a row times a matrix) in register tiles of several rows.

Source: the fusion of FlashAttention (Dao et al., NeurIPS 2022) without its online softmax: a row
block of scores fits the second-level cache of a CPU.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

from autotune.choices import Categorical, Choice
from autotune.rules.ahead import ask_ahead
from autotune.rules.chain_rows import put_in_rows
from autotune.rules.find_chain import Chain, find_chains, last_reduce
from autotune.rules.group import Group, instances, output_store, size
from autotune.rules.lanes import into_lanes, lanes_inside, unroll_short
from autotune.rules.nest import finish_nest, own_loops, task_loops
from autotune.rules.packing import pack_in_panels
from autotune.rules.plan import Plan, Values, at_most, works_out
from autotune.rules.runs import contiguous_run, fuse_run
from autotune.rules.tile_model import TileModel, best_shared_tile
from schedule import LoopRef, Schedule, ScheduleError
from tensorir import Block, Cpu, IterKind, int_value

SMALL_CHAIN = 16_384
"""Instances of all stages below which a chain stays on one thread by default."""

ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 12)
"""Rows of a register tile, where a chain has products."""

TOGETHER = (1, 2, 4, 8)
"""Rows computed together where a chain has none: the last steps of a row's reductions wait for each
other, and those of another row fill the gaps."""


@dataclass(frozen=True)
class ChainPlan(Plan):
    """Threads share the rows of the last stage; what a few rows need is computed with them.

    `rows` are those that are good without tuning. With `rows_fit` the second-level cache has room
    for the next ones too.
    """

    group: Group
    cpu: Cpu
    chain: Chain
    choices: tuple[Choice, ...]
    rows: int
    rows_fit: bool
    large: bool
    products: tuple[TileModel, ...] = ()
    name: str = "chain"
    numerics: str = "reassociated"

    @property
    def stages(self) -> tuple[str, ...]:
        return self.chain.stages

    def key(self, what: str) -> str:
        return f"{self.chain.last}.{what}"

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        sums = max(1, min(4, 3 * self.cpu.registers // (4 * self.rows)))
        wanted: dict[str, Any] = {
            self.key("width"): sums * self.cpu.lanes(),
            self.key("rows"): self.rows,
            self.key("vector"): 4 * self.cpu.lanes(),
            self.key("ahead"): "rows" if self.rows_fit else "results",
            self.key("threads"): "parallel" if self.large else "serial",
        }
        if self.products:
            by_name = {c.name: c for c in self.choices if isinstance(c, Categorical)}
            rows, vector = self.key("rows"), self.key("vector")
            wanted[rows], wanted[vector] = best_shared_tile(
                self.products, by_name[rows].options, by_name[vector].options
            )
        return {c.name: at_most(c, wanted[c.name]) for c in self.choices}

    def feasible(self, values: Values) -> bool:
        rows, lanes = values.get(self.key("rows"), 1), self.cpu.lanes()
        tile = rows * values.get(self.key("vector"), 0) / lanes
        sums = rows * values.get(self.key("width"), 0) / lanes if not self.chain.products else 0
        return bool(max(tile, sums) <= 1.25 * self.cpu.registers)

    def apply(self, sch: Schedule, values: Values) -> None:
        put_in_rows(sch, self.chain.order)
        stages = list(self.chain.stages)
        parallel = values[self.key("threads")] == "parallel"
        for product, operand in self.chain.packed:
            pack_in_panels(sch, product, operand, values[self.key("vector")], parallel)
        writers = self._writers(sch, stages)
        partial: set[str] = set()
        for block in self.chain.statistics:
            run = [it.var.name for it in contiguous_run(sch.state.block(block))]
            loop, width = fuse_run(sch, block, run), values[self.key("width")]
            parts = into_lanes(sch, block, loop, width, self.cpu.lanes())
            partial.update(parts)
            at = stages.index(block)
            stages[at:at] = parts
        shared, task = self._tasks(sch, stages[-1], values)
        for block in reversed(stages):
            if block in writers:
                self._tile(sch, block, writers[block], task, values)
            elif block != stages[-1]:
                sch.compute_at(block, task)
        for block in stages:
            if block in partial:
                lanes_inside(sch, block, _inside(sch, block, task))
            elif block not in writers:
                self._finish(sch, block, task, values, copies=block in writers.values())
        if writers:
            _align_rows(sch, stages, self.cpu.lanes())
        self._merge_passes(sch, [b for b in stages if self._is_long(sch, b, task, values)])
        ahead = values.get(self.key("ahead"), "none")
        if ahead != "none":
            ask_ahead(sch, stages, task, rows=ahead == "rows")
        if parallel:
            sch.parallel(shared)

    def _finish(
        self, sch: Schedule, block: str, task: LoopRef, values: Values, copies: bool
    ) -> None:
        """The loops of a stage that is neither a product nor a partial result."""
        if block in self.chain.statistics:
            unroll_short(sch, sch.get_loops(block)[_inside(sch, block, task) :])
            return
        if self.chain.order.turned and block == self.chain.stages[-1]:
            self._turn(sch, block, task)
            return
        long = self._is_long(sch, block, task, values)
        step = values[self.key("width")] if long else None
        finish_nest(sch, block, self.cpu, unroll_rows=16 if copies else 0, step=step)

    def _turn(self, sch: Schedule, block: str, task: LoopRef) -> None:
        """Write squares of rows and columns, which are turned in registers."""
        row, *outer, column = sch.get_loops(block)[_inside(sch, block, task) :]
        squares, inner = sch.split(column, [None, self.cpu.lanes()])
        sch.reorder(*outer, squares, inner, row)
        sch.unroll(inner)
        sch.vectorize(row)

    def _is_long(self, sch: Schedule, block: str, task: LoopRef, values: Values) -> bool:
        """Whether a stage has rows that hardly stay in the first-level cache."""
        alone = values.get(self.key("rows"), 1) == 1
        loops = sch.state.loops_around(block)[_inside(sch, block, task) :]
        return alone and 16 * prod(size(f.extent) for f in loops) >= self.cpu.l1_bytes

    def _merge_passes(self, sch: Schedule, stages: list[str]) -> None:
        """Sum a stage up in the loop that makes it, where its row is too long for the first-level
        cache. The loops have to take steps of one size."""
        for maker, user in zip(stages, stages[1:]):
            first, second = own_loops(sch, maker), own_loops(sch, user)
            if maker in sch.get_producers(user) and first and second:
                with suppress(ScheduleError):
                    sch.merge(first[0].name, second[0].name)

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

    def _tasks(self, sch: Schedule, last: str, values: Values) -> tuple[LoopRef, LoopRef]:
        """The loop over blocks of rows around the last stage that threads share, and the innermost
        one: rows of symbolic sizes may be two."""
        rows = sch.get_loops(last)[: len(self.chain.sizes)]
        if values.get(self.key("rows"), 1) > 1 or self.chain.products:
            outer, _ = sch.split(rows[-1], [None, values[self.key("rows")]])
            rows = [*rows[:-1], outer]
        shared, alone = task_loops(sch, rows)
        if alone:
            sch.reorder(*shared, *alone)
        task = sch.fuse(*shared) if len(shared) > 1 else shared[0]
        return task, alone[-1] if alone else task

    def _tile(
        self, sch: Schedule, product: str, writer: str, task: LoopRef, values: Values
    ) -> None:
        """A product in register tiles of all rows of the task and `vector` columns."""
        *rows, column = sch.get_loops(writer)[_inside(sch, writer, task) :]
        outer, inner = sch.split(column, [None, values[self.key("vector")]])
        sch.reorder(outer, *rows, inner)
        sch.compute_at(product, outer)
        lanes_inside(sch, product, _inside(sch, product, task) + 1)


def _inside(sch: Schedule, block: str, task: LoopRef) -> int:
    """How many of the loops around a block are tasks."""
    return sch.get_loops(block).index(task) + 1


def chain_plans(sch: Schedule, groups: Sequence[Group], cpu: Cpu) -> list[ChainPlan]:
    """A plan for each chain of the program."""
    found = [_plan(rows, chain, cpu) for chain, rows in find_chains(sch, groups, cpu)]
    return [plan for plan in found if works_out(sch, plan)]


def _plan(sch: Schedule, chain: Chain, cpu: Cpu) -> ChainPlan:
    """The plan of a chain; `sch` is the program in its rows."""
    lanes, last, blocks = cpu.lanes(), chain.last, sch.state.block
    choices: list[Choice] = []
    shortest = min(last_reduce(blocks(name)) for name in chain.statistics)
    widths = tuple(w for w in (lanes, 2 * lanes, 4 * lanes, 8 * lanes) if w < shortest)
    choices.append(Categorical(f"{last}.width", widths))
    if chain.products:
        columns = min(spatial_sizes(blocks(name))[-1] for name in chain.products)
        vectors = tuple(n * lanes for n in (1, 2, 3, 4, 6) if n * lanes < columns + lanes)
        choices.append(Categorical(f"{last}.vector", vectors))
    options = (lanes,) if chain.order.turned else ROWS if chain.products else TOGETHER
    rows = tuple(r for r in options if r <= chain.sizes[-1])
    choices.append(Categorical(f"{last}.rows", rows))
    if not chain.products:
        choices.append(Categorical(f"{last}.ahead", ("rows", "results", "none")))
    choices.append(Categorical(f"{last}.threads", ("parallel", "serial")))
    work = sum(instances(blocks(name)) for name in chain.stages)
    usual = lanes if chain.order.turned else 6 if chain.products else _together(sch, chain, cpu)
    rows_fit = 4 * usual * (chain.kept + 3 * chain.written) <= cpu.l2_bytes // 2
    large = work >= SMALL_CHAIN
    models = tuple(_model(chain, blocks(name), cpu) for name in chain.products)
    return ChainPlan(Group(last), cpu, chain, tuple(choices), usual, rows_fit, large, models)


def spatial_sizes(block: Block) -> list[int]:
    return [size(it.extent) for it in block.iters if it.kind is IterKind.SPATIAL]


def _model(chain: Chain, product: Block, cpu: Cpu) -> TileModel:
    """What a product of a chain takes; its columns are read again for every few rows."""
    return TileModel(
        rows=chain.sizes[-1],
        columns=spatial_sizes(product)[-1],
        terms=instances(product, IterKind.REDUCE),
        repeats=prod(chain.sizes[:-1]),
        lanes=cpu.lanes(),
        registers=cpu.registers,
        threads=cpu.threads,
        l2_bytes=cpu.l2_bytes,
        near=True,
    )


def _align_rows(sch: Schedule, stages: Sequence[str], lanes: int) -> None:
    """Let rows of stages begin at whole vectors: tails then are vectors with masks."""
    for stage in stages:
        store = output_store(sch.state.block(stage))
        if store is None or store.buffer not in sch.func.buffers or store.buffer.ndim < 2:
            continue
        columns = int_value(store.buffer.shape[-1])
        if columns is not None and columns > lanes and columns % lanes:
            sch.storage_align(stage, store.buffer.name, -2, lanes, 0)


def _together(sch: Schedule, chain: Chain, cpu: Cpu) -> int:
    """How many rows are computed together: as long as they leave room in the first-level cache,
    each thread has several tasks, and the code does not become long."""
    longest = max(last_reduce(sch.state.block(block)) for block in chain.statistics)
    most = TOGETHER[-1] if longest <= 4 * cpu.lanes() else TOGETHER[-1] // 2
    fitting = min(most, chain.rows // (4 * cpu.threads), cpu.l1_bytes // (16 * longest))
    return max((rows for rows in TOGETHER if rows <= fitting), default=1)
