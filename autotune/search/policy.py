"""The policy: all that is known to help a search, put together (`tune(strategy="policy")`).

The first batch is the defaults, what was best for other sizes, and the best of many samples by the
draft. Later ones come from variations of the best trials, ranked by draft, formulas and model (as
far as it deserves it, see `autotune/search/trust.py`), but some slots go to neighbours of the best
trial and to what the formula of a sketch puts first. No sketch gets more than half of a batch where
others are not hopeless. Each ingredient can be switched off; `make bench-tuner` shows what each is
worth. Near twins kept apart, a bandit over sketches and candidates drawn at random did not pay.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from autotune.search.batch import Batch, ordered
from autotune.search.descent import walks
from autotune.search.hints import next_hints
from autotune.search.pool import DEFAULT as EVOLUTION
from autotune.search.pool import Pool, evolve, samples, share_of, steps
from autotune.search.proposals import require_candidates
from autotune.search.state import SearchState
from autotune.search.trust import share_learned
from autotune.space import Candidate, Space


@dataclass(frozen=True)
class Policy:
    """Settings.

    builds    candidates that are looked at per call, at most
    model     "trusted": as far as it beats the draft; "always"; "never"
    hints     whether what was best for other sizes is tried first
    descent   share of a batch for neighbours of the best trials
    formulas  share of a batch for what formulas put first, of each sketch
    failures  whether what resembles failures is put back
    """

    builds: int = EVOLUTION.builds
    model: str = "trusted"
    hints: bool = True
    descent: float = 0.25
    formulas: float = 0.25
    failures: bool = True


DEFAULT = Policy()


def propose(
    space: Space,
    state: SearchState,
    count: int,
    rng: random.Random,
    settings: Policy = DEFAULT,
) -> list[Candidate]:
    """At most `count` new candidates; fewer if the space is used up.

    Raises TensorIRError when nothing is feasible, or when nothing was ever measured and every
    schedule is refused.
    """
    state.fit(space)
    learned = share_learned(settings.model, space, state)
    pool = Pool(space, state, settings.builds, learned)
    named = list(dict.fromkeys([*state.defaults, *(state.hints if settings.hints else ())]))
    pool.add(c for c in named if not state.spent(c))
    first = state.best_seconds() is None
    share = 0.6 if first else EVOLUTION.samples
    samples(space, pool, list(space.sketches), int(settings.builds * share), rng)
    if not first:
        steps(space, state, pool, int(settings.builds * EVOLUTION.neighbors), rng)
    evolve(space, state, pool, EVOLUTION, rng)
    if not pool.scores:
        require_candidates(state)
    batch = Batch(state, pool.scores, count, settings.failures)
    batch.take([c for c in state.defaults if c in pool.scores], count)
    batch.take(next_hints(state, pool.likely(named), batch.left), batch.left)
    around = walks(space, state) if settings.descent and not first else ()
    near = (c for found in around for c in ordered(found, batch.scores))
    batch.take(near, share_of(batch.left, settings.descent, rng))
    firsts = state.formulas.firsts(batch.scores, state.alive(space))
    batch.take(ordered(firsts, batch.scores), share_of(batch.left, settings.formulas, rng))
    batch.fill()
    return batch.chosen
