"""The init of a reduction runs before its loops: what it reads has to be there by then."""

from __future__ import annotations

from schedule.analysis import blocks_below, reduction_loops, written
from schedule.errors import Illegal
from schedule.state import State
from tensorir import Block, Buffer, Stmt, loads, stmt_exprs, walk


def init_conflict(state: State) -> Illegal | None:
    """Why the init of some reduction would read what is written later; None if none does."""
    for name in state.block_names():
        block = state.block(name)
        found = reduction_loops(block, state.loops_around(name)) if starts_from(block) else []
        refusal = written_inside(block, found[0]) if found else None
        if refusal is not None:
            return refusal
    return None


def require_input_before(block: Block, stmt: Stmt) -> None:
    """Refuse to run the init of `block` before `stmt`, which writes what it reads."""
    refusal = written_inside(block, stmt)
    if refusal is not None:
        raise refusal


def written_inside(block: Block, stmt: Stmt) -> Illegal | None:
    """Why the init of `block` cannot run before `stmt`; None if it can."""
    read = starts_from(block)
    for other in blocks_below(stmt) if read else ():
        for buffer in read.intersection(written(other)) if other.name != block.name else ():
            return Illegal(
                block.name,
                f"block {block.name!r} starts from {buffer.name!r}, which block {other.name!r} "
                "would write after that",
                "compute it outside of the loops of the reduction",
            )
    return None


def starts_from(block: Block) -> frozenset[Buffer]:
    """The buffers that the init of a block reads; none for most reductions."""
    stmts = walk(block.init) if block.init is not None else ()
    return frozenset([n.buffer for s in stmts for e in stmt_exprs(s) for n in loads(e)])
