"""Simulated annealing: a walk from trial to trial that takes slower ones less and less readily.

No model is asked. Where the walk stands follows from the trials so far, so a search that was ended
goes on as it would have: the chance by which a slower trial was taken is drawn from its name.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import exp, log

from autotune.search.proposals import Proposals
from autotune.search.state import SearchState
from autotune.space import Candidate, Space


@dataclass(frozen=True)
class Annealing:
    """Settings.

    start    temperature at first: a trial that is slower by a factor f is taken with the chance
             exp(-log(f) / temperature)
    cooling  what is left of the temperature after each trial
    """

    start: float = 0.4
    cooling: float = 0.95


DEFAULT = Annealing()


def propose(
    space: Space,
    state: SearchState,
    count: int,
    rng: random.Random,
    settings: Annealing = DEFAULT,
) -> list[Candidate]:
    """At most `count` new candidates, mutations of the trial where the walk stands.

    Raises TensorIRError when nothing is feasible, or when nothing was ever measured and every
    schedule is refused.
    """
    batch = Proposals(space, state, count)
    here = _stands(space, state, settings)
    if here is not None:
        batch.fill(lambda: space.mutate(here, rng))
    return batch.finish(rng)


def _stands(space: Space, state: SearchState, settings: Annealing) -> Candidate | None:
    here, now, temperature = None, 0.0, settings.start
    for candidate, seconds in state.measured.items():
        temperature *= settings.cooling
        if not seconds or candidate.sketch not in space.sketches:
            continue
        slower = log(seconds / now) if here is not None else 0.0
        chance = exp(-slower / temperature) if slower > 0 else 1.0
        if random.Random(candidate.key).random() < chance:
            here, now = candidate, seconds
    return here
