"""Algorithms for GPUs, of sums whose results have several axes in one dimension, as heads side by
side: they want a variable for each."""

from __future__ import annotations

from schedule.errors import Refusal
from schedule.library.contraction.find import find_contraction
from schedule.library.contraction.plain import on_axes
from schedule.schedule import Schedule
from schedule.state import BlockRef
from tensorir import BinOp, body_loads, walk_exprs


def use_on_axes(sch: Schedule, block: str, algorithm: str) -> BlockRef | None:
    """Compute a sum that reads at parts of its variables by an algorithm for GPUs, after it got a
    variable for each axis, and so did the stage behind it, which stores where it did. Returns the
    block that makes the result; None, and nothing is done, where the algorithm is not for it."""
    if not _reads_parts(sch, block):
        return None
    start = len(sch.trace)
    try:
        c = find_contraction(sch, block, _user_of(sch, block), merged=False)
        on_axes(sch, c, terms=False)
        return sch.use_algorithm(block, algorithm)
    except Refusal:  # it is no such sum on its axes either
        sch.undo(len(sch.trace) - start)
        return None


def _user_of(sch: Schedule, block: str) -> str | None:
    """The stage that makes something else of each result, which gets these variables too."""
    users = sch.get_consumers(block)
    alone = len(users) == 1 and not sch.state.block(users[0]).is_reduction
    return str(users[0]) if alone else None


def _reads_parts(sch: Schedule, block: str) -> bool:
    loads = body_loads(sch.state.block(block))
    every = (e for load in loads for index in load.indices for e in walk_exprs(index))
    return any(isinstance(e, BinOp) and e.op in ("//", "%") for e in every)
