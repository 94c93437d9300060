"""Evolutionary search: the best trials are varied, and the cost model picks what to measure.

The first proposals, with nothing measured, are the defaults and the best of many random samples
by the model (which then is the analytic draft). The search depends on nothing but its arguments:
the same trials and seed give the same proposals in every process.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from autotune.search.pool import (
    DEFAULT,
    Evolution,
    Pool,
    distance,
    evolve,
    samples,
    share_of,
    steps,
)
from autotune.search.proposals import require_candidates
from autotune.search.state import SearchState
from autotune.space import Candidate, Space


def propose(
    space: Space,
    state: SearchState,
    count: int,
    rng: random.Random,
    settings: Evolution = DEFAULT,
) -> list[Candidate]:
    """At most `count` new candidates: defaults, best predicted, explored; fewer if used up.

    At most half of them are of one sketch while others are worth trying. Raises TensorIRError
    when nothing is feasible, or when nothing was ever measured and every schedule is refused.
    """
    state.fit(space)
    pool = Pool(space, state, settings.builds)
    first = not any(seconds is not None for seconds in state.measured.values())
    defaults = [c for c in dict.fromkeys(state.defaults) if not state.spent(c)]
    pool.add(defaults)
    names = state.alive(space)
    share = 0.6 if first else settings.samples
    randoms = samples(space, pool, names, int(settings.builds * share), rng)
    if not first:
        steps(space, state, pool, int(settings.builds * settings.neighbors), rng)
    evolve(space, state, pool, settings, rng)
    if not pool.scores:
        require_candidates(state)
    chosen = [c for c in defaults if c in pool.scores][:count]
    fresh = [c for c in pool.likely(randoms) if c not in chosen]
    blind = share_of(count - len(chosen), settings.explore, rng)
    explored = rng.sample(fresh, min(blind, len(fresh)))
    batch = _diverse(pool.ranked(), chosen + explored, count, len(names) > 1)
    return [c for c in batch if c not in explored] + explored


def _diverse(
    ranked: Sequence[Candidate], chosen: list[Candidate], count: int, several: bool
) -> list[Candidate]:
    """`chosen` filled up to `count` in order of rank.

    The first pass takes no near twin of one that is chosen and at most half of one sketch, the
    later passes drop these wishes one after the other.
    """
    limit = -(-count // 2) if several else count
    per_sketch = Counter(c.sketch for c in chosen)
    taken = set(chosen)
    spread: Callable[[Candidate], bool] = lambda c: all(  # noqa: E731
        distance(c, other) > 1 for other in chosen
    )
    balanced: Callable[[Candidate], bool] = lambda c: per_sketch[c.sketch] < limit  # noqa: E731
    for wishes in ((balanced, spread), (balanced,), ()):
        for candidate in ranked:
            if len(chosen) >= count:
                return chosen
            if candidate not in taken and all(wish(candidate) for wish in wishes):
                chosen.append(candidate)
                taken.add(candidate)
                per_sketch[candidate.sketch] += 1
    return chosen
