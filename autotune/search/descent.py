"""Coordinate descent: one choice at a time, and a step is taken where it is surely faster.

The walk begins at the fastest of the first batch. The neighbours of where it stands are measured;
it goes to the fastest of them if that is faster by more than noise. Where none is, the place is an
end, and the walk begins anew at the fastest trial that is no neighbour of an end. All of it follows
from the trials so far.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from autotune.search.proposals import Proposals
from autotune.search.state import SearchState
from autotune.space import Candidate, Space

SIGNIFICANT = 0.03
"""The share of the time that a step has to save: two visits of one candidate differ by so much."""


def propose(space: Space, state: SearchState, count: int, rng: random.Random) -> list[Candidate]:
    """At most `count` new candidates: neighbours of where the walk stands, random ones at first.

    Raises TensorIRError when nothing is feasible, or when nothing was ever measured and every
    schedule is refused.
    """
    batch = Proposals(space, state, count)
    if any(seconds for seconds in state.measured.values()):
        for near in walks(space, state):
            batch.offer_all(rng.sample(near, len(near)))
            if batch.left <= 0:
                break
    return batch.finish(rng)


def walks(space: Space, state: SearchState) -> Iterator[list[Candidate]]:
    """What is not measured yet around where descents stand; around the fastest first.

    Neighbours are looked for when they are asked for: a batch takes a few of the first walks, and
    there are as many walks as trials.
    """
    ended: set[Candidate] = set()
    for start in state.ranked():
        if start in ended or start.sketch not in space.sketches:
            continue
        here, near = start, space.neighbors(start)
        while (step := _step(state, here, near)) is not None:
            here, near = step, space.neighbors(step)
        ended.update((here, *near))
        unknown = [c for c in near if not state.spent(c)]
        if unknown:
            yield unknown


def _step(state: SearchState, here: Candidate, near: Sequence[Candidate]) -> Candidate | None:
    """The fastest neighbour, if it is surely faster."""
    times = {c: s for c in near if (s := state.measured.get(c))}
    if not times:
        return None
    best = min(times, key=lambda c: (times[c], c.key))
    now = state.measured[here]
    return best if now and times[best] < (1 - SIGNIFICANT) * now else None
