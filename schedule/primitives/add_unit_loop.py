"""add_unit_loop: a loop that runs once."""

from __future__ import annotations

from schedule.lookup import path_of
from schedule.primitive import primitive
from schedule.state import LoopRef, State
from tensorir import For, Var, const


@primitive
def add_unit_loop(state: State, block_or_loop: str) -> tuple[State, LoopRef]:
    """Put a loop of extent 1 directly around a block or a loop, and return it.

    It is a place for compute_at and reverse_compute_at, or for bind, where there is no loop.

    rewrite:  add_unit_loop("B")
        with block("B"):          for unit in range(1):
            B[()] = f(A)     ->       with block("B"):
                                          B[()] = f(A)

    requires:
        - `block_or_loop` names a block or a loop, and not both
    """
    path = path_of(state, block_or_loop)
    name = state.fresh_loop("unit")
    return state.replace(path, For(Var(name), const(1), path[-1])), LoopRef(name)
