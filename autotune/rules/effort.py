"""How long one thread takes for a block, about: what decides whether threads are worth starting.

The block runs as it is written, in vectors. Schedules that tile it take less, those that turn what
they read take more; a choice between one thread and all of them needs no better.
"""

from __future__ import annotations

from collections.abc import Iterable

from autotune.rules.group import (
    calls_extern,
    elements,
    instances,
    moved_bytes,
    size,
    stores_of,
    stride_in,
)
from tensorir import (
    BinOp,
    Block,
    Call,
    Cpu,
    Expr,
    IterKind,
    Load,
    Select,
    body_loads,
    variables,
    walk_exprs,
)

EVERY_OTHER = 2.5
"""Loads and shuffles for a vector of every other element."""

REUSED = 0.25
"""The share of loads that is left of those of elements that neighbours use too: they stay in
registers."""

ROWS_EACH = 32
"""Rows for each thread from which on threads share rows, and not pieces of them: what a row has in
common is computed once, and conditions on its places become borders of loops."""


def one_thread(blocks: Iterable[Block], cpu: Cpu, turned: bool = False) -> float:
    """Cycles of one thread for some blocks, one after the other; if what they read was `turned`,
    lanes are side by side."""
    return sum(_cycles(block, cpu, turned) for block in blocks)


def _cycles(block: Block, cpu: Cpu, turned: bool) -> float:
    costs, stores, reads = cpu.costs, stores_of(block), body_loads(block)
    buffers = {*(store.buffer for store in stores), *(load.buffer for load in reads)}
    if calls_extern(block) or not buffers:
        return elements(block)  # an operation each
    spatial = {it.var for it in block.spatial}
    width = cpu.elements(*(buffer.dtype for buffer in buffers))
    vectors = instances(block) / width
    loaded = sum(
        (1.0 if spatial <= x.variables else REUSED) * (1 if turned else loads_each(x, block, width))
        for x in reads
    )
    written = len(stores) / instances(block, IterKind.REDUCE) if block.is_reduction else len(stores)
    adds = vectors * arithmetic(block) / costs.units
    moves = vectors * (loaded + written) / costs.ports
    work = max(adds, moves) + costs.both * min(adds, moves)
    moved = cpu.lines(moved_bytes(block))
    return work + moved - costs.hidden * min(work, moved)


def loads_each(load: Load, block: Block, width: int) -> float:
    """Loads for a vector: several where its lanes are not side by side in memory, nor long rows,
    but for windows."""
    last = [it for it in block.iters if it.kind is not IterKind.REDUCE][-1:]
    step = next((stride_in(load, it.var, block) or 0 for it in last), 0)
    beside = [v for v in map(variables, load.indices) if last and last[0].var in v]
    rows = [x for x in block.reduced if size(x.extent) >= width]
    long = [x for x in rows if step >= size(x.extent) or not any(x.var in v for v in beside)]
    steps = {stride_in(load, it.var, block) for it in (*last, *long)}
    if steps & {0, 1} or not steps:
        return 1.0
    return EVERY_OTHER if 2 in steps else float(width)


def arithmetic(block: Block) -> float:
    """Operations of an instance without those of indices; a multiply-add is one, and what is used
    twice is computed once."""
    nodes = (walk_exprs(s.value, into=lambda e: not isinstance(e, Load)) for s in stores_of(block))
    return sum(operations_of(e) for each in nodes for e in each)


def operations_of(e: Expr) -> int:
    """Of one node of a value; a product that is added or subtracted is one with that."""
    if isinstance(e, Call):
        return 1 if e.name in Cpu.one_operation else Cpu.call_operations
    if isinstance(e, BinOp):
        fused = e.op in "+-" and any(isinstance(x, BinOp) and x.op == "*" for x in (e.a, e.b))
        return 0 if fused else 1
    return isinstance(e, Select)
