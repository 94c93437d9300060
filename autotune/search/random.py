"""Random search: distinct programs that can be built, drawn without looking at any time."""

from __future__ import annotations

import random

from autotune.search.proposals import Proposals
from autotune.search.state import SearchState
from autotune.space import Candidate, Space


def propose(space: Space, state: SearchState, count: int, rng: random.Random) -> list[Candidate]:
    """At most `count` new candidates; fewer when the space is nearly used up.

    The defaults come first if they were not measured yet. Raises TensorIRError when nothing is
    feasible, or when nothing was ever measured and every schedule is refused.
    """
    return Proposals(space, state, count).finish(rng)
