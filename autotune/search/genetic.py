"""A genetic algorithm, as users of TVM know it: generations of trials, and no model.

The first generation is drawn at random. The parents of the next one are those of the last and the
elite of all before, chosen with chances as their speeds are; a child takes each value from one of
its parents, and may mutate. Which generation is the current one follows from the number of trials,
so a search that was ended goes on as it would have.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from autotune.search.proposals import Proposals
from autotune.search.state import SearchState
from autotune.space import Candidate, Space


@dataclass(frozen=True)
class Genetic:
    """Settings: trials of a generation, the elite, and the chance of each value to mutate."""

    population: int = 24
    elites: int = 3
    mutation: float = 0.1


DEFAULT = Genetic()


def propose(
    space: Space,
    state: SearchState,
    count: int,
    rng: random.Random,
    settings: Genetic = DEFAULT,
) -> list[Candidate]:
    """At most `count` new candidates: children of the last whole generation, or random ones.

    Raises TensorIRError when nothing is feasible, or when nothing was ever measured and every
    schedule is refused.
    """
    batch = Proposals(space, state, count)
    parents = _parents(space, state, settings)
    if not parents:
        return batch.finish(rng)

    def child() -> Candidate:
        a = _drawn(parents, rng)
        b = _drawn({c: speed for c, speed in parents.items() if c != a} or parents, rng)
        made = space.crossover(a, b, rng)
        stays = (1 - settings.mutation) ** len(made.values)
        return made if rng.random() < stays else space.mutate(made, rng)

    batch.fill(child)
    return batch.finish(rng)


def _drawn(speeds: dict[Candidate, float], rng: random.Random) -> Candidate:
    return rng.choices(list(speeds), list(speeds.values()))[0]


def _parents(space: Space, state: SearchState, settings: Genetic) -> dict[Candidate, float]:
    """The last whole generation and the elite, with calls per second; none if nothing ran."""
    trials = {c: s for c, s in state.measured.items() if c.sketch in space.sketches}
    order = list(trials)
    whole = len(order) // settings.population * settings.population
    elite = [c for c in state.ranked() if c in trials and c in set(order[:whole])]
    chosen = [*elite[: settings.elites], *order[max(whole - settings.population, 0) : whole]]
    return {c: 1 / seconds for c in chosen if (seconds := trials[c])}
