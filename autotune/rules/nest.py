"""Small steps that the rules share, all made of primitives."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from autotune.rules.group import size, stores_of, stride_in
from schedule import LoopRef, Schedule, ScheduleError, library
from tensorir import Block, Cpu, For, ForKind, IterKind, Var, variables


def loops_by_variable(sch: Schedule, block: str) -> dict[str, str]:
    """From the block variable's name to the one loop that it is bound to, where it is just that."""
    node = sch.state.block(block)
    return {it.var.name: it.binding.name for it in node.iters if isinstance(it.binding, Var)}


def loops_by_kind(sch: Schedule, block: str) -> tuple[list[LoopRef], list[LoopRef]]:
    """The loops that variables of the results, and of the terms, are bound to one by one."""
    names = loops_by_variable(sch, block)
    iters = [it for it in sch.state.block(block).iters if it.var.name in names]
    spatial, terms = (
        [LoopRef(names[it.var.name]) for it in iters if it.kind is kind]
        for kind in (IterKind.SPATIAL, IterKind.REDUCE)
    )
    return spatial, terms


def fuse_outer(sch: Schedule, loops: Sequence[LoopRef]) -> LoopRef:
    """Nested loops as one; of those of symbolic extent the first ones only that may be fused."""
    for count in range(len(loops), 1, -1):
        try:
            return sch.fuse(*loops[:count])
        except ScheduleError:  # what it touches cannot be told from quotients by symbols
            continue
    return loops[0]


def loop_of(sch: Schedule, block: str, var: str) -> LoopRef | None:
    """The own loop of a block that moves one of its variables; None where it has one value."""
    binding = next(it.binding for it in sch.state.block(block).iters if it.var.name == var)
    used = {v.name for v in variables(binding)}
    return next((loop for loop in library.own_loops(sch, block) if loop in used), None)


def finish_nest(
    sch: Schedule, block: str, cpu: Cpu, unroll_rows: int, step: int | None = None
) -> None:
    """Vectorize the innermost loop of a block that copies or finishes, unroll a few rows around.

    The innermost loop is vectorized where the stored elements are contiguous along it, cut to a few
    vectors first, or to `step`. Rows are unrolled if there are at most `unroll_rows`.
    """
    around = map(sch.state.loop, library.own_loops(sch, block))
    loops = [f for f in around if f.kind is ForKind.SERIAL]
    if not loops or not is_contiguous(sch.state.block(block), loops[-1]):
        return
    inner, rows, lanes = loops[-1], loops[:-1], cpu.lanes()
    long = inner.const_extent is None or inner.const_extent > 8 * lanes
    chunk = step or (4 * lanes if long else None)
    last = LoopRef(inner.name) if chunk is None else sch.split(inner.name, [None, chunk])[-1]
    sch.vectorize(last)
    for loop in rows if prod(size(f.extent) for f in rows) <= unroll_rows else ():
        sch.unroll(LoopRef(loop.name))


def is_contiguous(block: Block, loop: For) -> bool:
    """Whether every store moves by one element with a variable of the loop."""
    moving = [it.var for it in block.iters if loop.var in variables(it.binding)]
    return all(any(stride_in(s, v, block) == 1 for v in moving) for s in stores_of(block))
