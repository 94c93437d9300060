"""What an init means has to stay: tensorir.verifier.reductions says what that is."""

from __future__ import annotations

from schedule.errors import Illegal
from schedule.state import State
from tensorir import Block, For, Stmt, late_input, reduction_problem

COMPUTE_OUTSIDE = "compute it outside of the loops of the reduction"


def init_conflict(before: State, state: State) -> Illegal | None:
    """Why the init of some reduction would not start it once; None if each does. Those in nests
    that are as they were `before` do."""
    sizes = state.func.size_ranges
    for block in state.changed_since(before):
        if block.init is None:
            continue
        loops: list[For] = []
        for stmt in state.block_path(block.name)[:-1]:
            if isinstance(stmt, For):
                loops.append(stmt)
            elif isinstance(stmt, Block):
                loops = []
        problem = reduction_problem(block, tuple(loops), sizes)
        if problem is not None:
            where, reason = problem
            return Illegal(where, reason, COMPUTE_OUTSIDE if where == block.name else None)
    return None


def require_input_before(block: Block, stmt: Stmt) -> None:
    """Refuse to run the init of `block` before `stmt`, which writes what it reads."""
    reason = late_input(block, stmt)
    if reason is not None:
        raise Illegal(block.name, reason, COMPUTE_OUTSIDE)
