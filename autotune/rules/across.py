"""Stages that read in several places, along another axis than they write: stencils whose result is
turned, and all that is computed of several such arrays.

They are computed in the order of what they read, in tiles, and the results alone are turned in
registers. Strips of tiles go along what is read, so that only their ends are smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.rules.effort import one_thread
from autotune.rules.group import Group, lane_of, output_store, stride_in
from autotune.rules.nest import finish_nest, fuse_outer, loops_by_variable
from autotune.rules.plan import OpenPlan, Values, threads, tried
from autotune.rules.stores import stores
from schedule import LoopRef, Schedule, library
from tensorir import Block, Cpu, IterKind, Load, Var, body_loads, dtype

MOST_WRITTEN = 256
"""Loads in all rows of a tile that is written out."""


@dataclass(frozen=True, eq=False)
class AcrossPlan(OpenPlan):
    """Tiles of `read`, the axis along which it reads, and of `written`, that of the results."""

    read: str
    written: str
    beside: int
    """Squares of a tile: as many as fill a line of the results."""
    rows: int
    """Rows of a tile that are written out."""
    name: str = "across"
    numerics: str = "bitwise"

    def apply(self, sch: Schedule, values: Values) -> None:
        writer, own = self._writer(sch), self.chosen(values)
        side = own["tile"]
        names = loops_by_variable(sch, writer)
        spatial = [LoopRef(names[it.var.name]) for it in sch.state.block(writer).iters]
        read, written = LoopRef(names[self.read]), LoopRef(names[self.written])
        others = [loop for loop in spatial if loop not in (read, written)]
        strip, column = sch.split(written, [None, self.beside * side])
        tile, row = sch.split(read, [None, side])
        sch.reorder(*others, strip, tile, row, column)
        sch.compute_at(self.group.block, tile)
        finish_nest(sch, self.group.block, self.cpu, unroll_rows=self.rows)
        sch.unroll(row)
        sch.vectorize(column)
        if own.get("stores") == "stream":
            sch.stream(writer)
        if own["threads"] == "parallel":
            sch.parallel(fuse_outer(sch, [*others, strip]))

    def _writer(self, sch: Schedule) -> str:
        """The stage that turns the results, which have the order of what is read."""
        block = self.group.block
        store = output_store(sch.state.block(block))
        assert store is not None
        writer = str(sch.reindex(block, store.buffer.name, "local"))
        made = output_store(sch.state.block(block))
        assert made is not None
        own = [it.var.name for it in sch.state.block(block).iters]
        names = [f"d{n}" for n in range(len(own))]
        rest = [name for name, var in zip(names, own) if var != self.read]
        order = [*rest, names[own.index(self.read)]]
        sch.transform_layout(block, made.buffer.name, f"{', '.join(names)}: {', '.join(order)}")
        return writer


def across_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[AcrossPlan]:
    """A plan for an elementwise stage of which more is read along another axis than is written."""
    block = sch.state.block(group.block)
    written, store = lane_of(block), output_store(block)
    if written is None or store is None or any(
        it.kind is not IterKind.SPATIAL or not isinstance(it.binding, Var) for it in block.iters
    ):
        return []
    steps = [stride_in(load, written, block) for load in body_loads(block)]
    turned = [load for load, step in zip(body_loads(block), steps) if step not in (0, 1)]
    read = _read_along(block, turned, [it.var for it in block.iters if it.var is not written])
    if read is None or len(turned) <= 1 + steps.count(1):
        return []
    lanes = cpu.lanes()
    cycles = one_thread([block], cpu)
    options = {
        "tile": ((lanes // 2, lanes) if lanes > 4 else (lanes,), lanes),
        "threads": threads(cpu, cycles),
        **stores(sch, group.block, cpu),
    }
    plan = AcrossPlan(
        group, cpu, options, cycles, read.name, written.name,
        beside=max(1, Cpu.line_bytes // dtype.itemsize(store.buffer.dtype) // lanes),
        rows=MOST_WRITTEN // len(steps),
    )  # fmt: skip
    return [tried(sch, plan)]


def _read_along(block: Block, turned: Sequence[Load], rows: Sequence[Var]) -> Var | None:
    """The one variable along which all loads go through neighbours in memory, or nearly so."""
    found = set()
    for load in turned:
        steps = {var: stride_in(load, var, block) for var in rows}
        found.add(next((v for v in rows if 0 < (steps[v] or 0) <= library.NEAR), None))
    return found.pop() if len(found) == 1 else None
