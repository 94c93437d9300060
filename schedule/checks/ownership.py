"""Whose a buffer is, and where its block meets others: checks that many primitives make."""

from __future__ import annotations

from schedule.analysis.uses import blocks_below, writers
from schedule.errors import require
from schedule.state import State
from tensorir import Buffer, For


def require_sole_writer(
    state: State, buffer: Buffer, writer: str, where: str | None = None, hint: str | None = None
) -> None:
    """Refuse, at `where` (the writer if not given), a buffer that a second block writes."""
    for other in writers(state, buffer):
        reason = f"{buffer.name!r} is also written by block {other!r}"
        require(other == writer, where or writer, reason, hint)


def innermost_shared_loop(state: State, block: str) -> For:
    """The innermost loop around a block that holds other blocks too; refused if there is none."""
    shared = [f for f in state.loops_around(block) if len(blocks_below(f)) > 1]
    hint = "compute_at it where it is used first"
    require(bool(shared), block, f"no loop around block {block!r} has other blocks inside", hint)
    return shared[-1]
