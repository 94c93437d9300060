"""Products with few rows or few columns: dot products in the lanes of vectors, in register tiles.

Where the terms of a sum lie side by side in both operands, vectors run along the sum: rfactor makes
partial sums of as many lanes, a tile of rows and columns of them stays in registers, and each lane
is added up in the end. Nothing needs to be transposed, and few columns fill whole vectors. An
operand of few columns whose terms are apart is transposed ahead: it is small. Sums are
reassociated.

Source: the kernels without packing of LIBXSMM (Heinecke et al., SC 2016), for the case of few rows.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

from autotune.choices import Categorical, Choice
from autotune.rules.effort import one_thread
from autotune.rules.group import Group, body_loads, output_store, size, stride_in
from autotune.rules.lanes import into_lanes, is_reduce_loop, lanes_inside, single_reducer
from autotune.rules.nest import finish_nest, loops_by_variable
from autotune.rules.packing import pack_rows, panel_index
from autotune.rules.plan import Plan, Values
from schedule import Schedule, ScheduleError
from tensorir import Block, Costs, Cpu, IterKind, IterVar, Load, dtype, int_value

MOST_ROWS = 32
"""Rows of a product below which no transposed copy of the other operand pays."""

COPIED_NEAR, COPIED_FAR = 1.5, 4.0
"""Cycles for each element of a transposed copy, in and beyond the second-level cache."""

NEAR = 1 << 18
"""Elements of an operand up to which it is near."""

SAFELY = 1.3
"""How much better an estimate has to be."""

TALLEST = 8
"""Rows and columns of a register tile, at most."""

LAST_STEPS = 8
"""Cycles until the lanes of a sum are added up, about."""

FAR_LOAD = 0.1
"""The share of a cycle that a load takes, as far as it comes from beyond the first-level cache."""


@dataclass(frozen=True)
class DotsPlan(Plan):
    """Schedules C[.., i, j] = sum of A[.., i, k] * B[.., j, k] with vectors along k.

    wide    the operand with the columns; `turned` says that it is transposed ahead
    sizes   extents of i, j and k
    """

    group: Group
    cpu: Cpu
    wide: str
    turned: bool
    sizes: tuple[int, int, int]
    lanes: int
    choices: tuple[Choice, ...]
    large: bool
    name: str = "dots"
    numerics: str = "reassociated"
    always = False

    def key(self, what: str) -> str:
        return f"{self.group.block}.{what}"

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        (tile, *_) = self.choices
        assert isinstance(tile, Categorical)
        known = self.sizes, self.lanes, self.cpu.costs
        best = min(tile.options, key=lambda t: tile_cycles(*known, *t))
        values = {tile.name: best, self.key("threads"): "parallel" if self.large else "serial"}
        return {choice.name: values[choice.name] for choice in self.choices}

    def suits(self, constants: Collection[str]) -> bool:
        """Whether this is the better way: a constant is transposed ahead of all calls, and a tile
        of outputs side by side then needs no last steps."""
        rows, columns, _ = self.sizes
        return self.turned or self.wide not in constants or min(rows, columns) == 1

    def feasible(self, values: Values) -> bool:
        high, wide = values[self.key("tile")]
        return _fits(high, wide, self.cpu.registers)

    def apply(self, sch: Schedule, values: Values) -> None:
        block = self.group.block
        high, wide = values[self.key("tile")]
        parallel = values[self.key("threads")] == "parallel"
        if self.turned:
            pack_rows(sch, block, self.wide, parallel)
        names = loops_by_variable(sch, block)
        depth = next(it for it in sch.state.block(block).iters if it.kind is IterKind.REDUCE)
        parts = into_lanes(sch, block, names[depth.var.name], self.lanes, self.lanes)
        writer = self.group.epilogue or sch.cache_write(block, 0, "local")
        *outer, row, column, lane = sch.get_loops(block)
        i0, i1 = sch.split(row, [None, high])
        j0, j1 = sch.split(column, [None, wide])
        rows, columns, _ = self.sizes
        grid = (i0, j0) if rows > columns else (j0, i0)  # the larger operand is read once
        sch.reorder(*outer, *grid, lane, i1, j1)
        task = sch.fuse(*outer, *grid)
        for part in reversed(parts):
            sch.compute_at(part, task)
        for part in parts:
            lanes_inside(sch, part, sch.get_loops(part).index(task) + 1)
        self._prefetch(sch, parts[0])
        for loop in (lane, i1, j1):
            sch.unroll(loop)
        sch.reverse_compute_at(writer, task)
        finish_nest(sch, writer, self.cpu, unroll_rows=16)
        if parallel:
            sch.parallel(task)

    def _prefetch(self, sch: Schedule, partial: str) -> None:
        """Ask ahead for the larger operand, which each row of tiles reads once."""
        node = sch.state.block(partial)
        steps = [loop for loop in sch.get_loops(partial) if is_reduce_loop(node, loop)]
        loads = [load for load in body_loads(node) if load.buffer in sch.func.params]
        if not steps or not loads:
            return
        load = max(loads, key=lambda load: prod(size(n) for n in load.buffer.shape))
        ahead = Cpu.page_bytes // (self.lanes * dtype.itemsize(load.buffer.dtype))
        with suppress(ScheduleError):  # an unrolled loop, or no constant size: a hint less
            sch.prefetch(partial, load.buffer.name, steps[-1], ahead)


def tile_cycles(
    sizes: tuple[int, int, int], lanes: int, costs: Costs, high: int, wide: int
) -> float:
    """About the time of a product of `sizes` in tiles of high x wide sums."""
    rows, columns, terms = sizes
    step = max(high * wide / costs.units, (high + wide) / costs.ports, costs.latency)
    step += FAR_LOAD * (high + wide)
    tile = terms / lanes * step + LAST_STEPS * high * wide
    return -(-rows // high) * -(-columns // wide) * tile


def _fits(high: int, wide: int, registers: int) -> bool:
    """Whether sums, the vectors of the shorter side and one of the other stay in registers."""
    return high * wide + min(high, wide) + 1 <= registers


def dots_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[DotsPlan]:
    """The plan for a product of two operands with contiguous terms where its sizes make it pay."""
    block = sch.state.block(group.block)
    store = output_store(block)
    if group.padding or store is None or not block.is_reduction or not single_reducer(store):
        return []
    spatial = [it for it in block.iters if it.kind is IterKind.SPATIAL]
    sums = [it for it in block.iters if it.kind is IterKind.REDUCE]
    order = {index: place for place, index in enumerate(store.indices)}
    spatial.sort(key=lambda it: order.get(it.var, -1))
    if len(sums) != 1 or len(spatial) < 2:
        return []
    *_, row, column = spatial
    lanes = cpu.lanes(store.buffer.dtype)
    operands = _operands(block, row, column, sums[0])
    if operands is None or any(int_value(it.extent) is None for it in (*spatial, *sums)):
        return []
    wide, turned = operands
    rows, columns, terms = whole = size(row.extent), size(column.extent), size(sums[0].extent)
    if not _pays(rows, columns, terms, lanes, turned, cpu.costs):
        return []
    if turned and panel_index(block, wide.buffer.name) is None:
        return []
    tiles = tuple(
        (h, w)
        for h in range(1, min(TALLEST, rows) + 1)
        for w in range(1, min(TALLEST, columns) + 1)
        if _fits(h, w, cpu.registers)
    )
    choices = (
        Categorical(f"{group.block}.tile", tiles),
        Categorical(f"{group.block}.threads", ("parallel", "serial")),
    )
    large = cpu.worth_threads(one_thread([block], cpu))
    return [DotsPlan(group, cpu, wide.buffer.name, turned, whole, lanes, choices, large)]


def _operands(
    block: Block, row: IterVar, column: IterVar, term: IterVar
) -> tuple[Load, bool] | None:
    """The operand with the columns, and whether its terms are apart; None for other blocks."""
    loads = body_loads(block)
    by_row = [x for x in loads if stride_in(x, row.var, block) != 0]
    by_column = [x for x in loads if stride_in(x, column.var, block) != 0]
    if len(loads) != 2 or len(by_row) != 1 or len(by_column) != 1 or by_row[0] is by_column[0]:
        return None
    if loads[0].buffer is loads[1].buffer or stride_in(by_row[0], term.var, block) != 1:
        return None
    (wide,) = by_column
    if stride_in(wide, term.var, block) == 1:
        return wide, False
    return (wide, True) if stride_in(wide, column.var, block) == 1 else None


def _pays(rows: int, columns: int, terms: int, lanes: int, turned: bool, costs: Costs) -> bool:
    """Whether vectors along the terms take less time than vectors along the columns."""
    if terms < 4 * lanes or min(rows, columns) < 2:
        return False
    if not turned:
        copy = (COPIED_NEAR if columns * terms <= NEAR else COPIED_FAR) * columns * terms
        across = rows * columns * terms / (costs.units * lanes) + copy
        sizes = (rows, columns, terms)
        dots = min(tile_cycles(sizes, lanes, costs, h, w) for h in (2, 4) for w in (2, 4))
        return rows < MOST_ROWS and SAFELY * dots < across
    along = terms * max(1, -(-columns // lanes))
    return rows >= MOST_ROWS and 1.1 * columns * (terms / lanes + LAST_STEPS) <= along
