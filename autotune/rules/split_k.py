"""Split-K: a long sum with few results, in parts that threads compute side by side.

The reduction is cut in blocks, whose partial results are a product of their own (rfactor) with one
more axis; they are added up in the end. Threads get work where the results alone are too few, and
the part of an operand that a block reads stays in the second-level cache. Sums are reassociated.

Source: the split-K schedules of NVIDIA's CUTLASS ("Efficient GEMM in CUDA").
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod
from typing import Any

from autotune.choices import Choice
from autotune.rules.group import Group, output_store
from autotune.rules.lanes import single_reducer
from autotune.rules.nest import finish_nest, loops_by_variable
from autotune.rules.plan import Plan, Values
from autotune.rules.tiled import TiledPlan
from autotune.rules.tiled_choices import tiled_plans
from schedule import Schedule
from tensorir import Cpu, IterKind, int_value

LONG = 1024
"""Terms of a part of a sum, at least."""

ROWS, VECTORS = 6, 4
"""The register tile by which results are counted."""

MOST_TILES = 16
"""Register tiles for each thread, up to which splitting the sum is tried."""


@dataclass(frozen=True)
class SplitKPlan(Plan):
    """`parts` blocks of the reduction `axis`, each a tiled product."""

    group: Group
    cpu: Cpu
    axis: str
    parts: int
    inner: TiledPlan
    name: str = "split_k"
    numerics: str = "reassociated"

    @property
    def choices(self) -> tuple[Choice, ...]:
        return self.inner.choices

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        values = self.inner.default(constants)
        part, *rows, columns = self.inner.spatial
        values[self.inner.key(part.name)] = (1, 1, 1)
        if self.inner.lanes < columns.extent and prod(a.extent for a in rows) < ROWS:
            values.update((self.inner.key(a.name), (1, 1, a.extent)) for a in rows)
        return values

    def feasible(self, values: Values) -> bool:
        return self.inner.feasible(values)

    def apply(self, sch: Schedule, values: Values) -> None:
        block = self.group.block
        _partial_sums(sch, block, self.axis, self.parts)
        self.inner.apply(sch, values)
        *outer, column, part = sch.get_loops(block)
        sch.reorder(part, *outer, column)
        finish_nest(sch, block, self.cpu, unroll_rows=0)
        if self.group.epilogue:
            finish_nest(sch, self.group.epilogue, self.cpu, unroll_rows=0)


def _partial_sums(sch: Schedule, block: str, axis: str, parts: int) -> str:
    """The block that computes the sums of `parts` parts; `block` adds them up."""
    outer, _ = sch.split(loops_by_variable(sch, block)[axis], [parts, None])
    return str(sch.rfactor(block, outer, 0))


def needed_split_k(sch: Schedule, group: Group, cpu: Cpu) -> list[SplitKPlan]:
    """A plan where there are fewer register tiles of results than two for each thread."""
    return _plans(sch, group, cpu, 0, 2 * cpu.threads)


def possible_split_k(sch: Schedule, group: Group, cpu: Cpu) -> list[SplitKPlan]:
    """A plan where there are not many, for a search to try."""
    return _plans(sch, group, cpu, 2 * cpu.threads, MOST_TILES * cpu.threads)


def _plans(sch: Schedule, group: Group, cpu: Cpu, least: int, below: int) -> list[SplitKPlan]:
    """The plan for a reduction with `least` to `below` register tiles and a long sum."""
    block = sch.state.block(group.block)
    store = output_store(block)
    if not block.is_reduction or group.padding or store is None or not single_reducer(store):
        return []
    sums = [it for it in block.iters if it.kind is IterKind.REDUCE]
    sizes = [int_value(it.extent) for it in block.iters if it.kind is IterKind.SPATIAL]
    terms = int_value(sums[0].extent)
    if len(sums) != 1 or len(sizes) < 2 or terms is None or None in sizes:
        return []
    *outer, rows, columns = [size or 0 for size in sizes]
    width = VECTORS * cpu.lanes()
    tiles = prod(outer) * -(-rows // ROWS) * -(-columns // width)
    parts = _parts(terms, min(columns, width), cpu)
    if not least <= tiles < below or parts < 2:
        return []
    trial = sch.copy()
    partial = _partial_sums(trial, group.block, sums[0].var.name, parts)
    inner = tiled_plans(trial, Group(partial), cpu)
    return [
        SplitKPlan(group, cpu, sums[0].var.name, parts, plan)
        for plan in inner
        if not plan.gathered and len(plan.spatial) > 2
    ]


def _parts(terms: int, columns: int, cpu: Cpu) -> int:
    """Equal parts for all threads, whose columns fit half of the second-level cache; else 1.

    Where nothing divides the sum so, or the parts would be short: a sum of 9973 terms stays whole.
    """
    fitting = max(LONG, cpu.kept_bytes(2) // (4 * columns))
    rounds = max(1, -(-terms // (fitting * cpu.threads)))
    for tries in range(rounds, 2 * rounds + 1):
        parts = tries * cpu.threads
        if terms % parts == 0 and terms // parts >= LONG:
            return parts
    return 1
