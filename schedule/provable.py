"""Symbolic sizes and nested blocks: what cannot be proved in range any more is refused."""

from __future__ import annotations

from schedule.errors import Illegal
from schedule.state import State
from tensorir import Block, PrimFunc, VerifyError, verify


def unprovable(before: State, after: State) -> Illegal | None:
    """Why an access of the new program cannot be proved to stay in its buffer; None if all can.

    With numbers for extents the proofs succeed. With symbolic ones the arithmetic has limits, as
    in a part of a part of a loop, which runs max(n - 3, 0) times, and so has what a block knows of
    the predicate of the block around it. A program that could not be verified before is none the
    worse.
    """
    if not after.func.size_vars and not _nested(after):
        return None
    problem = _problem(after.func)
    if problem is None or _problem(before.func) is not None:
        return None
    return Illegal(
        "",
        f"afterwards it cannot be proved that {problem}",
        "take another factor or another order of steps",
    )


def _nested(state: State) -> bool:
    """Whether some block contains another one."""
    paths = (state.block_path(name)[:-1] for name in state.block_names())
    return any(isinstance(node, Block) for path in paths for node in path)


def _problem(func: PrimFunc) -> str | None:
    try:
        verify(func)
    except VerifyError as error:
        return str(error)
    return None
