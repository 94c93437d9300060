"""Grid search: the space in a fixed order, coarse first, then ever finer; no time is looked at.

A position between 0 and 1 is a place in the grid of a sketch, its last choice the fastest to vary.
Positions follow van der Corput's sequence, whose every beginning is spread evenly, so the search
may be stopped after any trial. (TVM's grid begins in a corner and stays there for thousands of
trials.)
"""

from __future__ import annotations

import random

from autotune.search.proposals import Proposals
from autotune.search.state import SearchState
from autotune.space import Candidate, Space

PLACES = 4096
"""Places of a sketch that are looked at in one call; where these are used up, samples follow."""


def propose(space: Space, state: SearchState, count: int, rng: random.Random) -> list[Candidate]:
    """At most `count` new candidates, the next of the grid that are feasible; sketches take turns.

    Raises TensorIRError when nothing is feasible, or when nothing was ever measured and every
    schedule is refused.
    """
    batch = Proposals(space, state, count)
    for place in range(PLACES):
        for sketch in space.sketches.values():
            if batch.left <= 0:
                return batch.chosen
            values = sketch.at(spread(place))
            if sketch.refusal(values) is None:
                batch.offer(Candidate(sketch.name, values))
    return batch.finish(rng)


def spread(place: int) -> float:
    """Number `place`, from 0, of van der Corput's sequence of base 2: 0, 1/2, 1/4, 3/4, 1/8, ..."""
    position, share = 0.0, 0.5
    while place:
        position += share * (place & 1)
        place, share = place >> 1, share / 2
    return position
