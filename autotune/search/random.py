"""Random search: distinct programs that can be built, drawn without looking at any time."""

from __future__ import annotations

import random
from itertools import chain

from autotune.search.state import SearchState
from autotune.space import Candidate, Space, histogram
from tensorir import TensorIRError

DRAWS = 40
"""Samples drawn for each candidate asked for, before fewer are returned."""


def propose(space: Space, state: SearchState, count: int, rng: random.Random) -> list[Candidate]:
    """At most `count` new candidates; fewer when the space is nearly used up.

    The defaults come first if they were not measured yet. Raises TensorIRError when nothing is
    feasible, or when nothing was ever measured and every schedule is refused.
    """
    state.know(space)
    chosen: dict[Candidate, str] = {}
    for candidate in chain(state.defaults, (space.sample(rng) for _ in range(DRAWS * count))):
        if len(chosen) == count:
            break
        if state.spent(candidate) or state.features(space, candidate) is None:
            continue
        if candidate not in chosen and state.is_new(candidate, chosen.values()):
            chosen[candidate] = state.program(candidate)
    if not chosen:
        require_candidates(state)
    return list(chosen)


def require_candidates(state: SearchState) -> None:
    """Raise TensorIRError if nothing was measured and everything that was built is refused."""
    if state.refusals and not state.measured:
        raise TensorIRError(
            f"every schedule is refused ({histogram(state.refusals)}); "
            "check the rules that make the sketches"
        )
