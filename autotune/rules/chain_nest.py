"""The nest of a chain: a loop over rows, and in it the stages, for a few rows at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any

from autotune.rules.ahead import ask_ahead
from autotune.rules.chain_rows import put_in_rows
from autotune.rules.find_chain import Chain
from autotune.rules.group import attempt, size
from autotune.rules.lanes import (
    into_lanes,
    lanes_inside,
    read_in_common,
    run_together,
    unroll_short,
)
from autotune.rules.nest import finish_nest
from schedule import Schedule, library
from tensorir import Cpu, int_value, written

SIDE_BY_SIDE = 8
"""Most rows whose sums are written out side by side."""


class ChainNest:
    """`values` are those of the choices of a chain's plan, by what they choose."""

    def __init__(self, sch: Schedule, chain: Chain, cpu: Cpu, values: Mapping[str, Any]) -> None:
        self.sch, self.chain, self.cpu = sch, chain, cpu
        self.rows = values.get("rows", 1)
        self.width, self.vector = values["width"], values.get("vector", 0)
        self.ahead, self.parallel = values.get("ahead", "none"), values["threads"] == "parallel"
        self.stream = values.get("stores") == "stream"
        self.stages = list(chain.stages)
        self.last = chain.stages[-1]
        self.refused: dict[str, str] = {}

    def run(self) -> None:
        sch, chain = self.sch, self.chain
        put_in_rows(sch, chain.order)
        for product in chain.products:
            c = library.find_contraction(sch, product)
            library.prepare(sch, c, tile_of(c, chain, self.rows, self.vector, self.parallel))
        writers = self.writers()
        together = read_in_common(sch, chain.statistics)
        parts = {block: self.in_lanes(block) for block in chain.statistics}
        partial = {part for found in parts.values() for part in found}
        results = self.results()
        self.tasks(results)
        for block in reversed(self.stages):
            if block in writers:
                self.tile(block, writers[block])
            elif block in results:
                self.take_in(block)
            elif block != self.last:
                sch.compute_at(block, self.task)
        common = [[parts[block][0] for block in group] for group in together if len(group) > 1]
        self.finish_stages(writers, partial, common)
        if writers:
            _align_rows(sch, self.stages, chain.lanes)
        self.merge_passes([block for block in self.stages if self.is_long(block)])
        past = self.stream and attempt(
            self.refused, "stores past the caches", sch.stream, self.last
        )
        if self.ahead != "none":
            rows = self.ahead == "rows"
            self.refused.update(ask_ahead(sch, self.stages, self.task, rows, not past))
        if self.parallel:
            sch.parallel(self.shared)

    def finish_stages(
        self, writers: Mapping[str, str], partial: Collection[str], common: Sequence[list[str]]
    ) -> None:
        """The loops of all stages in the task; those of `common` sums together."""
        for group in common:
            ordered = run_together(self.sch, group)
            lanes_inside(self.sch, ordered, self.few_rows(ordered))
        done = {block for group in common for block in group}
        for block in self.stages:
            if block in partial and block not in done:
                lanes_inside(self.sch, [block], self.few_rows([block]))
            elif block not in partial and block not in writers:
                self.finish(block, copies=block in writers.values())

    def inside(self, block: str) -> int:
        """How many of the loops around a block are tasks."""
        return self.sch.get_loops(block).index(self.task) + 1

    def writers(self) -> dict[str, str]:
        """For each product the stage that takes its tiles: its epilogue, or a copy."""
        found: dict[str, str] = {}
        for product in self.chain.products:
            epilogue = self.chain.epilogues.get(product)
            if epilogue is None:
                epilogue = str(self.sch.cache_write(product, 0, "local"))
                self.stages.insert(self.stages.index(product) + 1, epilogue)
            found[product] = epilogue
        return found

    def in_lanes(self, block: str) -> list[str]:
        """Reduce along a row in vectors; returns the blocks of partial results."""
        parts = into_lanes(self.sch, block, self.width, self.chain.lanes)
        at = self.stages.index(block)
        self.stages[at:at] = parts
        return parts

    def results(self) -> list[str]:
        """The stages before the last that store what callers see; what else runs between these
        goes ahead of them."""
        sch, given = self.sch, self.sch.func.params
        found = [n for n in self.stages[:-1] if {*written(sch.state.block(n))} & {*given}]
        order = list(map(str, sch.get_blocks()))
        for name in order[order.index(found[0]) : order.index(self.last)] if found else ():
            if name not in self.stages:
                sch.run_before(name, found[0])
        return found

    def tasks(self, results: Sequence[str]) -> None:
        """Make the loops over blocks of rows around the last stage and `results`; threads share
        the `shared` one of the last, `task` is the innermost one."""
        sch, count = self.sch, len(self.chain.sizes)
        for block in (*results, self.last):
            rows = sch.get_loops(block)[:count]
            if self.rows > 1 or self.chain.products:
                outer, _ = sch.split(rows[-1], [None, self.rows])
                rows = [*rows[:-1], outer]
            self.shared, self.task = library.one_loop(sch, rows)

    def take_in(self, block: str) -> None:
        """Let a stage with a result of the program, which no step moves into another loop, share
        the loops over blocks of rows with what is after it."""
        sch, last = self.sch, self.sch.get_loops(self.last)
        for at in range(last.index(self.shared), last.index(self.task) + 1):
            self.task = sch.merge(sch.get_loops(block)[at], sch.get_loops(self.last)[at])
        self.shared = sch.get_loops(self.last)[last.index(self.shared)]

    def tile(self, product: str, writer: str) -> None:
        """A product in register tiles of all rows of the task and `vector` columns."""
        sch = self.sch
        *rows, column = sch.get_loops(writer)[self.inside(writer) :]
        outer, inner = sch.split(column, [None, self.vector])
        sch.reorder(outer, *rows, inner)
        sch.compute_at(product, outer)
        lanes_inside(sch, [product], self.inside(product) + 1)

    def few_rows(self, blocks: Sequence[str]) -> int:
        """How many loops are around the rows of partial sums that are written out side by side: of
        many rows a few at a time."""
        sch, outside = self.sch, self.inside(blocks[0])
        if self.rows <= SIDE_BY_SIDE or self.chain.products:
            return outside
        for block in blocks:
            few, _ = sch.split(sch.get_loops(block)[outside], [None, SIDE_BY_SIDE // 2])
            sch.reorder(few, *sch.get_loops(block)[outside + 1 :])
        if len(blocks) > 1:
            sch.merge(*[sch.get_loops(block)[outside] for block in blocks])
        return outside + 1

    def finish(self, block: str, copies: bool) -> None:
        """The loops of a stage that is neither a product nor a partial result."""
        sch = self.sch
        if block in self.chain.statistics:
            unroll_short(sch, sch.get_loops(block)[self.inside(block) :])
            return
        if self.chain.order.turned and block == self.last:
            self.turn(block)
            return
        step = self.width if self.is_long(block) else None
        finish_nest(sch, block, self.cpu, unroll_rows=16 if copies else 0, step=step)

    def turn(self, block: str) -> None:
        """Write squares of rows and columns, which are turned in registers; those that are
        neighbours in the result one after the other."""
        sch, lanes = self.sch, self.chain.lanes
        row, *outer, column = sch.get_loops(block)[self.inside(block) :]
        squares, inner = sch.split(column, [None, lanes])
        side, row = sch.split(row, [None, lanes])
        sch.reorder(*outer, squares, side, inner, row)
        sch.unroll(inner)
        sch.vectorize(row)

    def is_long(self, block: str) -> bool:
        """Whether a stage has rows that hardly stay in the first-level cache."""
        loops = self.sch.state.loops_around(block)[self.inside(block) :]
        row = prod(size(loop.extent) for loop in loops)
        return self.rows == 1 and 4 * self.chain.item * row >= self.cpu.l1_bytes

    def merge_passes(self, stages: Sequence[str]) -> None:
        """Sum a stage up in the loop that makes it, where its row is too long for the first-level
        cache. The loops have to take steps of one size."""
        sch = self.sch
        for maker, user in zip(stages, stages[1:]):
            first, second = library.own_loops(sch, maker), library.own_loops(sch, user)
            if maker in sch.get_producers(user) and first and second:
                what = f"{user!r} in the loop of {maker!r}"
                attempt(self.refused, what, sch.merge, first[0], second[0])


def tile_of(
    c: library.Contraction, chain: Chain, rows: int, columns: int, threads: bool = False
) -> library.NestPlan:
    """A register tile of a product of a chain: of its last loop of rows, and of its columns."""
    lane = c.spatial[-1]
    row = next((n for n in reversed(c.spatial) if n != lane and c.result.strides[n]), lane)
    tile = tuple({row: rows, lane: columns}.get(n, 1) for n in c.spatial)
    far = [n for n, o in enumerate(c.operands) if o.strides[lane] not in (0, 1)]
    packs = tuple(library.Pack(n, lane, columns) for n in far)
    apart, chained = chain.apart.get(c.block, (None, False))
    return library.NestPlan(
        lane, chain.lanes, tile, tile, c.written, c.spatial, packs, threads=threads, apart=apart,
        chained=chained,
    )  # fmt: skip


def _align_rows(sch: Schedule, stages: Sequence[str], lanes: int) -> None:
    """Let rows of stages begin at whole vectors: tails then are vectors with masks."""
    for stage, buffer in ((s, b) for s in stages for b in written(sch.state.block(s))):
        inside = buffer.ndim > 1 and buffer in sch.func.buffers
        columns = int_value(buffer.shape[-1]) or 0 if inside else 0
        if columns > lanes and columns % lanes:
            sch.storage_align(stage, buffer.name, -2, lanes, 0)
