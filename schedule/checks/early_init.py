"""What an init means has to stay: tensorir.verifier.reductions says what that is."""

from __future__ import annotations

from schedule.checks.changed import Changed
from schedule.errors import Illegal
from tensorir import Block, For, Stmt, late_input, reduction_problem

COMPUTE_OUTSIDE = "compute it outside of the loops of the reduction"


def init_conflict(changed: Changed) -> Illegal | None:
    """Why the init of some reduction would not start it once; None if each does. Those in nests
    that are as they were before do."""
    state = changed.after
    sizes = state.func.size_ranges
    for block in changed.blocks:
        if block.init is None:
            continue
        above = state.block_path(block.name)[:-1]
        blocks = [n for n, stmt in enumerate(above) if isinstance(stmt, Block)]
        inside = above[blocks[-1] :] if blocks else above
        loops = tuple([stmt for stmt in inside if isinstance(stmt, For)])
        problem = reduction_problem(block, loops, sizes)
        if problem is not None:
            where, reason = problem
            return Illegal(where, reason, COMPUTE_OUTSIDE if where == block.name else None)
    return None


def require_input_before(block: Block, stmt: Stmt) -> None:
    """Refuse to run the init of `block` before `stmt`, which writes what it reads."""
    reason = late_input(block, stmt)
    if reason is not None:
        raise Illegal(block.name, reason, COMPUTE_OUTSIDE)
