"""What a chain asks for ahead: rows of its arguments, while the processor computes other rows.

A chain reads a row, computes on it in cache for a long time, and writes it. Memory would rest
meanwhile: so the pass with most arithmetic asks for the next rows, and for the memory of the
results of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from autotune.rules.effort import arithmetic
from autotune.rules.group import attempt, bytes_of, instances, lane_of, size
from schedule import LoopRef, Schedule
from tensorir import Block, Cpu, ForKind, Load, Store, body_loads, variables


def ask_ahead(
    sch: Schedule, stages: Sequence[str], task: LoopRef, rows: bool, results: bool
) -> dict[str, str]:
    """Spread requests over the costliest stage of a task: with `rows` for what the first stage that
    reads an argument reads in the next task, with `results` for what the last one writes in this.
    Returns what cannot be asked for, as rows that have no constant size, or are not whole.
    """
    loop, refused = _busiest_loop(sch, stages), dict[str, str]()
    if loop is None:
        return refused
    last, asked = stages[-1], dict[str, tuple[str, int]]()
    for block in stages if rows else ():
        for load in arguments_read_once(sch, block):
            asked.setdefault(load.buffer.name, (block, 1))
    store = sch.state.block(last).body
    if results and isinstance(store, Store) and store.buffer in sch.func.params:
        asked[store.buffer.name] = last, 0
    for buffer, (block, distance) in asked.items():
        what = f"{buffer!r} asked for ahead"
        attempt(refused, what, sch.spread_prefetch, block, buffer, task, loop, distance)
    return refused


def ask_for_picked(sch: Schedule, block: str, cpu: Cpu, refused: dict[str, str]) -> None:
    """Let the vectors of a row ask for the next row of what a block picks elements of. `refused`
    learns what is not asked for, as rows of more lines than are picked."""
    loops = [f.name for f in sch.state.loops_around(block) if f.kind is ForKind.SERIAL][-2:]
    for name in picked(sch.state.block(block), cpu) if len(loops) == 2 else ():
        attempt(refused, f"{name!r} asked for ahead", sch.spread_prefetch, block, name, *loops)


def picked(block: Block, cpu: Cpu) -> dict[str, Load]:
    """What lanes read where memory tells them to, of buffers that the second cache does not hold:
    processors do not ask for that ahead themselves."""
    lane, reads = lane_of(block), body_loads(block)
    told = [x for x in reads if any(i.has_loads and lane in variables(i) for i in x.indices)]
    return {load.buffer.name: load for load in told if bytes_of(load.buffer) > cpu.l2_bytes}


def asking_pays(stages: Sequence[Block], cpu: Cpu, item: int) -> bool:
    """Whether a stage before the last computes so long on elements of so many bytes that the lines
    of as many as the first one reads can come meanwhile."""
    most = max(instances(block) * arithmetic(block) for block in stages[:-1])
    cycles = most * item / cpu.vector_bytes / cpu.costs.units
    return cpu.asks_ahead(cycles, instances(stages[0]) * item / cpu.line_bytes)


def arguments_read_once(sch: Schedule, block: str) -> list[Load]:
    """The loads of arguments of which a block reads each element about once: others stay in
    cache."""
    node = sch.state.block(block)
    given = [load for load in body_loads(node) if load.buffer in sch.func.params]
    return [x for x in given if instances(node) <= 2 * prod(map(size, x.buffer.shape))]


def _busiest_loop(sch: Schedule, stages: Sequence[str]) -> str | None:
    """The innermost serial loop of the stage before the last with the most arithmetic."""
    best: tuple[float, str] | None = None
    for block in stages[:-1]:
        node = sch.state.block(block)
        serial = [f for f in sch.state.loops_around(block)[1:] if f.kind is ForKind.SERIAL]
        work = instances(node) * arithmetic(node)
        if serial and (best is None or work >= best[0]):
            best = work, serial[-1].name
    return best[1] if best else None
