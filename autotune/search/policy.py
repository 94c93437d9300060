"""The policy: all that is known to help a search, put together (`tune(strategy="policy")`).

The first batch is the defaults, what was best for other sizes, and the best of many samples by the
draft. Later ones come from variations of the best trials, ranked by draft and model (as far as the
model deserves it, see `autotune/search/trust.py`), with reservations: some slots go to neighbours
of the best trial whatever the ranking says, some to random candidates, and no two that are nearly
the same are measured together. Sketches are the arms of a bandit: slots go where the best time may
be improved. Each ingredient can be switched off; `make bench-tuner` shows what each is worth.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.search.bandit import Bandit
from autotune.search.descent import walks
from autotune.search.failures import Failures
from autotune.search.pool import DEFAULT as EVOLUTION
from autotune.search.pool import Pool, distance, evolve, samples, share_of, steps
from autotune.search.proposals import require_candidates
from autotune.search.state import SearchState
from autotune.search.trust import trust
from autotune.space import Candidate, Space


@dataclass(frozen=True)
class Policy:
    """Settings.

    builds    candidates that are looked at per call, at most
    model     "trusted": as far as it beats the draft; "always"; "never"
    hints     whether what was best for other sizes is tried first
    descent   share of a batch for neighbours of the best trials
    explore   share of a batch for random candidates
    diverse   whether near twins are kept apart
    bandit    whether sketches compete; if not, none gets more than half of a batch
    failures  whether what resembles failures is put back
    """

    builds: int = EVOLUTION.builds
    model: str = "trusted"
    hints: bool = True
    descent: float = 0.25
    explore: float = 0.1
    diverse: bool = True
    bandit: bool = True
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
    learned = {"always": 1.0, "never": 0.0}.get(settings.model)
    pool = Pool(
        space, state, settings.builds, trust(space, state).share if learned is None else learned
    )
    named = dict.fromkeys([*state.defaults, *(state.hints if settings.hints else ())])
    pool.add(c for c in named if not state.spent(c))
    first = state.best_seconds() is None
    share = 0.6 if first else EVOLUTION.samples
    drawn = samples(space, pool, list(space.sketches), int(settings.builds * share), rng)
    if not first:
        steps(space, state, pool, int(settings.builds * EVOLUTION.neighbors), rng)
    evolve(space, state, pool, EVOLUTION, rng)
    if not pool.scores:
        require_candidates(state)
    batch = Batch(state, pool.scores, count, settings)
    batch.take([c for c in named if c in pool.scores], count)
    free = batch.left
    likely = pool.likely(drawn)
    batch.take(rng.sample(likely, len(likely)), share_of(free, settings.explore, rng))
    around = walks(space, state) if settings.descent and not first else []
    near = [c for found in around for c in _ordered(found, batch.scores)]
    batch.take(near, share_of(free, settings.descent, rng))
    batch.fill()
    return batch.chosen


class Batch:
    """What is proposed together; `scores` are expected seconds, those of likely failures longer."""

    def __init__(
        self, state: SearchState, scores: dict[Candidate, float], count: int, settings: Policy
    ) -> None:
        failures = Failures(state) if settings.failures else None
        chance = failures.chance if failures is not None else lambda candidate: 0.0
        self.scores = {c: seconds / (1 - chance(c)) for c, seconds in scores.items()}
        self.chosen: list[Candidate] = []
        self._bandit = Bandit(state, self.scores) if settings.bandit else None
        self._count, self._diverse = count, settings.diverse
        self._half = -(-count // 2)

    @property
    def left(self) -> int:
        return self._count - len(self.chosen)

    def take(self, candidates: Iterable[Candidate], most: int) -> None:
        """At most so many of these in their order, whatever their scores."""
        for candidate in candidates:
            if most <= 0 or self.left <= 0:
                return
            if candidate in self.scores and candidate not in self.chosen:
                self._choose(candidate)
                most -= 1

    def fill(self) -> None:
        """The best by their scores, without near twins while there are others."""
        left = [c for c in _ordered(self.scores, self.scores) if c not in self.chosen]
        while self.left > 0 and left:
            names = dict.fromkeys(c.sketch for c in left)
            name = self._next(list(names))
            mine = [c for c in left if c.sketch == name]
            apart = (c for c in mine if not self._diverse or self._is_apart(c))
            candidate = next(apart, mine[0])
            left.remove(candidate)
            self._choose(candidate)

    def _next(self, names: Sequence[str]) -> str:
        """The sketch that the next slot belongs to; `names` begin with the best score's."""
        if self._bandit is not None:
            return self._bandit.next(names)
        taken = Counter(c.sketch for c in self.chosen)
        return next((name for name in names if taken[name] < self._half), names[0])

    def _is_apart(self, candidate: Candidate) -> bool:
        return all(distance(candidate, other) > 1 for other in self.chosen)

    def _choose(self, candidate: Candidate) -> None:
        self.chosen.append(candidate)
        if self._bandit is not None:
            self._bandit.count(candidate)


def _ordered(candidates: Iterable[Candidate], scores: dict[Candidate, float]) -> list[Candidate]:
    """Those with a score, the best first."""
    return sorted((c for c in candidates if c in scores), key=lambda c: (scores[c], c.key))
