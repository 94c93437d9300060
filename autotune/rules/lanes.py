"""Reductions in vector lanes: partial results in as many lanes as asked for, then fewer."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.rules.group import output_store
from schedule import LoopRef, Schedule, library
from tensorir import Block, combiner_of, variables

FEW = 4
"""Terms that are written out."""


def reduces_by_one(block: Block) -> bool:
    """Whether a block is a reduction by one operation, of one value, that rfactor takes."""
    found = combiner_of(block) if block.is_reduction and output_store(block) else None
    return found is not None and len(found.ops) == 1


def is_reduce_loop(block: Block, loop: str) -> bool:
    """Whether a loop drives a reduction variable of the block."""
    return loop in {v.name for it in block.reduced for v in variables(it.binding)}


def into_lanes(sch: Schedule, block: str, loop: str, width: int, lanes: int) -> list[str]:
    """Factor a reduction over `loop` into `width` partial results, and these as `add_lanes` does.

    Returns the new blocks in program order; `block` keeps the sum over the last few lanes.
    """
    _, lane = sch.split(loop, [None, width])
    first = str(sch.rfactor(block, lane))
    *steps, _ = library.add_lanes(sch, block, width, lanes)
    return [first, *steps]


def lanes_inside(sch: Schedule, blocks: Sequence[str], outside: int) -> None:
    """Order the loops of partial reductions, those below the first `outside`, as one nest in which
    what they read in common is read once: lanes innermost.

    The lanes become a vector, the spatial loops around them are unrolled.
    """
    few = 0
    for block in blocks:
        own, node = sch.get_loops(block)[outside:], sch.state.block(block)
        reducing = [loop for loop in own if is_reduce_loop(node, loop)]
        sch.reorder(*reducing, *[loop for loop in own if loop not in reducing])
        few = len(reducing)
    depth = len(sch.get_loops(blocks[0])) - 1
    for level in range(outside, depth if len(blocks) > 1 else outside):
        merge_level(sch, blocks, level)
    for block in blocks:
        sch.vectorize(sch.get_loops(block)[-1])
    shared = sch.get_loops(blocks[0])[outside:depth]
    for loop in shared[few:]:
        sch.unroll(loop)
    unroll_short(sch, shared[:few])


def merge_level(sch: Schedule, blocks: Sequence[str], level: int) -> None:
    """One loop for those of `blocks` that are `level` loops deep, next to each other."""
    sch.merge(*[sch.get_loops(block)[level] for block in blocks])


def unroll_short(sch: Schedule, loops: Sequence[LoopRef]) -> None:
    """Write the loops of a few terms out: what they index can then be kept in registers."""
    for loop in loops:
        if (sch.state.loop(loop).const_extent or FEW + 1) <= FEW:
            sch.unroll(loop)
