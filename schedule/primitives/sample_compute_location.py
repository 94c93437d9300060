"""sample_compute_location: draw the loop to compute a block in."""

from __future__ import annotations

import random

from schedule.analysis.uses import consumers
from schedule.errors import Illegal, require
from schedule.primitive import draws, primitive, run
from schedule.state import LoopRef, State

ROOT = "root"
"""The decision to leave the block where it is."""


@primitive
def sample_compute_location(
    state: State, block: str, decision: str | None = None
) -> tuple[State, LoopRef | None]:
    """Draw one of the loops at which compute_at of `block` is legal, or None: leave it.

    `decision` is the name of a loop or "root". The program stays as it is; call compute_at with
    the loop. The schedule's generator draws where no decision is given, each place with the same
    probability; the trace holds what was drawn.

    rewrite:  sample_compute_location("B") -> "i"
        S  ->  S

    requires:
        - there is a block of that name
        - a `decision` is "root", or a loop at which compute_at of the block is legal
    """
    state.block(block)
    require(decision is not None, block, "there is no decision, and nothing here draws one")
    assert decision is not None
    if decision == ROOT:
        return state, None
    found = locations(state, block, [decision])
    require(
        len(found) > 0,
        block,
        f"block {str(block)!r} cannot be computed at {decision!r}",
        f"places are {', '.join([ROOT, *locations(state, block)])}",
    )
    return state, LoopRef(decision)


@draws(sample_compute_location)
def draw_compute_location(state: State, generator: random.Random, block: str) -> str:
    """The name of a loop, or "root"."""
    state.block(block)
    return generator.choice([ROOT, *locations(state, block)])


def locations(state: State, block: str, among: list[str] | None = None) -> list[str]:
    """The loops, of `among` if given, at which compute_at of the block is legal."""
    if among is None:
        users = consumers(state, block)
        loops = [loop.name for name in users for loop in state.loops_around(name)]
        among = [name for name in dict.fromkeys(loops) if name != ROOT]
    found = []
    for loop in among:
        try:
            run(state, "compute_at", {"block": block, "loop": loop})
        except Illegal:
            continue
        found.append(loop)
    return found
