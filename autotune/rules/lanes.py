"""Reductions in vector lanes: partial results in as many lanes as asked for, then fewer."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.rules.group import output_store
from schedule import LoopRef, Schedule, library
from tensorir import BinOp, Block, IterKind, Load, Store, dtype, variables

FEW = 4
"""Terms that are written out."""


def single_reducer(store: Store) -> bool:
    """Whether rfactor takes the reduction: one associative operation on the stored element."""
    value = store.value
    known = isinstance(value, BinOp) and value.op in ("+", "*", "min", "max", "and", "or")
    if not known or dtype.lanes(store.buffer.dtype) != 1:
        return False
    assert isinstance(value, BinOp)
    own = [p for p in (value.a, value.b) if isinstance(p, Load) and p.buffer is store.buffer]
    return len(own) == 1


def reduces_by_one(block: Block) -> bool:
    """Whether a block is a reduction that rfactor takes."""
    store = output_store(block)
    return block.is_reduction and store is not None and single_reducer(store)


def is_reduce_loop(block: Block, loop: str) -> bool:
    """Whether a loop drives a reduction variable of the block."""
    return any(
        it.kind is IterKind.REDUCE and loop in {v.name for v in variables(it.binding)}
        for it in block.iters
    )


def into_lanes(sch: Schedule, block: str, loop: str, width: int, lanes: int) -> list[str]:
    """Factor a reduction over `loop` into `width` partial results, and these as `add_lanes` does.

    Returns the new blocks in program order; `block` keeps the sum over the last few lanes.
    """
    _, lane = sch.split(loop, [None, width])
    first = str(sch.rfactor(block, lane))
    *steps, _ = library.add_lanes(sch, block, width, lanes)
    return [first, *steps]


def lanes_inside(sch: Schedule, block: str, outside: int) -> None:
    """Order the loops of a partial reduction, those below the first `outside`: lanes innermost.

    The lanes become a vector, the spatial loops around them are unrolled.
    """
    node = sch.state.block(block)
    own = sch.get_loops(block)[outside:]
    reducing = [loop for loop in own if is_reduce_loop(node, loop)]
    others = [loop for loop in own if loop not in reducing]
    sch.reorder(*reducing, *others)
    sch.vectorize(others[-1])
    for loop in others[:-1]:
        sch.unroll(loop)
    unroll_short(sch, reducing)


def unroll_short(sch: Schedule, loops: Sequence[LoopRef]) -> None:
    """Write the loops of a few terms out: what they index can then be kept in registers."""
    for loop in loops:
        if (sch.state.loop(loop).const_extent or FEW + 1) <= FEW:
            sch.unroll(loop)
