"""Which stages of a program are a chain: those that go row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autotune.rules.group import Group, body_loads, instances, output_store, size, stride_in
from autotune.rules.lanes import reduces_by_one
from autotune.rules.packing import panel_index
from autotune.rules.runs import contiguous_run, run_length
from schedule import Schedule, ScheduleError
from tensorir import Block, Cpu, IterKind, dtype, variables

IDLE = 1.25
"""How much longer whole rows may take than rows in parts that threads share evenly."""

LONG_ROW = 100_000
"""Terms of a row from which on its parts are worth a wait of all threads for each other."""


PACK_FROM = 6
"""Rows from which on packing an operand costs less than it gains."""


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


def find_chain(sch: Schedule, last: str, groups: Sequence[Group], cpu: Cpu) -> Chain | None:
    """The largest chain that ends in `last`; None where there is none that pays."""
    node = sch.state.block(last)
    store = output_store(node)
    if store is None or any(it.kind is IterKind.OPAQUE for it in node.iters):
        return None
    best: tuple[str, ...] = ()
    depth = 0
    for deep in range(len(spatial_sizes(node)), 0, -1):
        found = _movable(sch, last, deep)
        if len(found) > len(best):
            best, depth = found, deep
    chain = _classified(sch, best, depth, groups, cpu)
    return chain if chain is not None and _pays(sch, chain, cpu) else None


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
    cpu: Cpu,
) -> Chain | None:
    """The chain of `stages`, cut after the last reduction that does not go row by row."""
    statistics: list[str] = []
    products: list[str] = []
    packed: list[tuple[str, str]] = []
    before: set[str | None] = set()
    first = 0
    for at, name in enumerate(stages):
        block = sch.state.block(name)
        if not block.is_reduction:
            continue
        operands = _gathered(block, depth, cpu) if _has_columns(block, depth) else None
        if operands is not None:
            products.append(name)
            packed.extend((name, operand) for operand in operands)
        elif not _has_columns(block, depth) and _along_memory(block, cpu):
            statistics.append(name)
        else:
            first, statistics, products, packed = at + 1, [], [], []
            before = {name, *(g.epilogue for g in groups if g.block == name)}
    kept = tuple(stage for stage in stages[first:] if stage not in before)
    epilogues = {g.block: g.epilogue for g in groups if g.block in products and g.epilogue in kept}
    return (
        Chain(kept, depth, tuple(statistics), tuple(products), epilogues, tuple(packed))
        if kept
        else None
    )


def _pays(sch: Schedule, chain: Chain, cpu: Cpu) -> bool:
    """Whether a statistic goes back to the elements of its row, and rows and caches suffice."""
    order = list(chain.stages)
    back = any(
        instances(sch.state.block(stage)) > instances(sch.state.block(s), IterKind.SPATIAL)
        for s in chain.statistics
        for stage in order[order.index(s) + 1 :]
    )
    rows = prod(spatial_sizes(sch.state.block(chain.last))[: chain.depth])
    kept = sum(instances(sch.state.block(stage), IterKind.SPATIAL) // rows for stage in order[:-1])
    fits = 4 * kept * (6 if chain.products else 1) <= cpu.l2_bytes
    split = _better_in_parts(sch, chain, rows, cpu)
    return back and rows >= cpu.threads and fits and not split


def _better_in_parts(sch: Schedule, chain: Chain, rows: int, cpu: Cpu) -> bool:
    """Whether threads would wait for one that has a long row more."""
    terms = max((last_reduce(sch.state.block(s)) for s in chain.statistics), default=0)
    rounds = -(-rows // cpu.threads)
    return rounds * cpu.threads > IDLE * rows and terms >= LONG_ROW and not chain.products


def spatial_sizes(block: Block) -> list[int]:
    return [size(it.extent) for it in block.iters if it.kind is IterKind.SPATIAL]


def last_reduce(block: Block) -> int:
    """The terms of a reduction along contiguous memory."""
    return run_length(contiguous_run(block)) or 0


def _has_columns(block: Block, depth: int) -> bool:
    return prod(spatial_sizes(block)[depth:]) > 1


def _along_memory(block: Block, cpu: Cpu) -> bool:
    """Whether rfactor can put the last reduction loops, of contiguous elements, into lanes."""
    terms = run_length(contiguous_run(block))
    return reduces_by_one(block) and terms is not None and terms >= 2 * cpu.lanes()


def _gathered(block: Block, depth: int, cpu: Cpu) -> list[str] | None:
    """The operands of a product whose neighbouring columns are apart in memory.

    None where the block is no product for a chain: its columns are no axis of what it stores, the
    part of an operand that all rows share does not fit the second-level cache, or too few rows
    share one that would have to be packed.
    """
    store = output_store(block)
    spatial = [it.var for it in block.iters if it.kind is IterKind.SPATIAL]
    if store is None or len(spatial) != depth + 1 or store.indices[-1] is not spatial[-1]:
        return None
    rows, found = set(spatial[:depth]), []
    extents = {it.var: size(it.extent) for it in block.iters}
    for load in body_loads(block):
        shared = [
            size(extent)
            for index, extent in zip(load.indices, load.buffer.shape)
            if not variables(index) & rows
        ]
        if prod(shared) * dtype.itemsize(load.buffer.dtype) > cpu.l2_bytes // 2:
            return None
        step = stride_in(load, spatial[-1], block)
        if step not in (0, 1):
            if panel_index(block, load.buffer.name) is None:
                return None
            apart = {v for index in load.indices for v in variables(index)}
            if prod(extents[v] for v in rows if v not in apart) < PACK_FROM:
                return None
            found.append(load.buffer.name)
    return found
