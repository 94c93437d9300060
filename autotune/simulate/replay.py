"""One search on a recording: proposals are those of the strategy, times those that were recorded.

Each trial sees the time of one visit, drawn by the seed: the noise is that of the machine. At the
end all that may be the fastest by these times race with the default as they do in `tune`. A race
times all in the same seconds, so what slows the machine down for a while hits all alike, and the
rounds are not those of visits that lie minutes apart: each takes the median of its other visits,
with noise as it is within the rounds of real races.

A third of the visits is kept from a search: these judge the candidate that wins, and beside it the
one that is fastest of all by the visits that could be seen, which is the best known. So neither is
praised for the luck by which it was chosen. Of the visits that judge the least counts: what else a
machine does makes times longer, never shorter (Chen and Revels, 2016), and does so for seconds, so
that of three often two are spoiled.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, sqrt
from statistics import median

import numpy as np

from autotune.arguments import LARGEST_SEED, integer
from autotune.cost_model import make_cost_model
from autotune.noise.finalists import finalists, most_finalists
from autotune.noise.race import Race
from autotune.noise.spread import pooled_spread
from autotune.noise.visits import Visit
from autotune.search import DEFAULT_STRATEGY, SearchState, search_named
from autotune.search.state import Hint
from autotune.search.strategies import Propose
from autotune.simulate.recording import Recorded, Recording
from autotune.simulate.space import row_of, space_of
from autotune.space import Candidate
from autotune.tuning.batches import batch_size

WITHIN_ROUNDS = 0.025
"""The spread of a block within its round, with the tails of Student's distribution. In 1400 rounds
of eight programs blocks were off by 3 % (robust deviation), and by more than 10 % in 8 of 100,
whether or not two rounds shared their process or their arrays. The same programs were 3 to 70 %
slower for seconds, all at once, while the host had the two processors on different caches of the
third level: a cache line then takes 300 ns there and back instead of 60, and programs whose threads
read what others wrote wait for it."""


@dataclass(frozen=True)
class Simulated:
    """What one search did.

    tried  the candidates in order
    seen   seconds that the search was told, None for a failure
    ended  whether the strategy had nothing more to propose, or enough was found
    """

    recording: Recording
    seed: int
    tried: tuple[Candidate, ...]
    seen: tuple[float | None, ...]
    ended: bool
    _races: dict[tuple[Candidate, ...], Recorded] = field(
        default_factory=dict, repr=False, compare=False
    )

    def racing(self, trials: int | None = None) -> tuple[Candidate, ...]:
        """Who takes part in the race after so many trials (after all), the default first; no one
        where nothing ran."""
        known = dict(list(zip(self.tried, self.seen))[:trials])
        ranked = sorted((s, c.key, c) for c, s in known.items() if s is not None)
        if not ranked:
            return ()
        near = finalists([[Visit(s)] for s, _, _ in ranked], most_finalists(ranked[0][0]))
        default = [c for c in self.recording.defaults[:1] if known.get(c)]
        return tuple(dict.fromkeys([*default, *(ranked[at][2] for at in near)]))

    def winner(self, trials: int | None = None) -> Recorded | None:
        """Who wins the race after so many trials (after all); None where nothing ran."""
        racing = self.racing(trials)
        if not racing:
            return None
        if racing not in self._races:
            self._races[racing] = self._raced([self.recording.entry(c) for c in racing])
        return self._races[racing]

    def _raced(self, entries: Sequence[Recorded]) -> Recorded:
        """Who wins a race, the first unless another one is certainly faster."""
        shown, _ = dealt(self.seed, self.recording)
        times = [median(_unseen(self.seed, entry, shown)) for entry in entries]
        between = pooled_spread([[entry.visits[n] for n in shown] for entry in entries])
        spread = min(WITHIN_ROUNDS, between)
        rng = random.Random(f"{self.seed}:race")
        race = Race(len(entries), default=0, round_s=sum(e.seconds or 0.0 for e in entries))
        while race.wanted:
            rounds = [
                [times[at] * exp(spread * _student(rng)) for at in race.running]
                for _ in range(race.wanted)
            ]
            race.add(np.array(rounds))
        return next(e for e, found in zip(entries, race.outcomes()) if found.won)

    def regret(self, trials: int | None = None) -> float:
        """The winner's time over the best known one's, by the least of the visits that no search
        sees: 1 where it is the best known, less where it is better by them, inf where nothing ran.
        """
        found = self.winner(trials)
        if found is None:
            return float("inf")
        shown, judging = dealt(self.seed, self.recording)
        times = [
            min(entry.visits[at] for at in judging)
            for entry in (found, self.recording.fastest(shown))
        ]
        return times[0] / times[1]


def simulate(
    recording: Recording,
    strategy: str | Propose = DEFAULT_STRATEGY,
    trials: int = 64,
    seed: int = 0,
    cost_model: str = "auto",
    hints: Mapping[Candidate, Hint] | None = None,
) -> Simulated:
    """Search a recording: a function of its arguments, in a fraction of a second.

    strategy  the name of one, or a function as `register_strategy` takes
    hints     recorded candidates that are expected to be good, and what is known of them

    Raises TensorIRError where arguments are not of their kind, or nothing is feasible.
    """
    trials, seed = integer("trials", trials, 1), integer("seed", seed, 0, LARGEST_SEED)
    propose = search_named(strategy) if isinstance(strategy, str) else strategy
    space = space_of(recording)
    model = make_cost_model(cost_model, seed, recording.draft)
    state = SearchState(model, row_of, defaults=recording.defaults)
    state.hints = hints or {}
    shown, _ = dealt(seed, recording)
    tried: list[Candidate] = []
    seen: list[float | None] = []
    ended = False
    while len(tried) < trials and not ended:
        batch = propose(space, state, batch_size(len(tried)), random.Random(f"{seed}:{len(tried)}"))
        ended = not batch
        # In whole, as in `tune`: what is proposed together does not know of one another.
        for candidate, before in zip(batch, state.predicted(batch)):
            entry = recording.entry(candidate)
            time = entry.visits[_visit(seed, entry, shown)] if entry.status == "ok" else None
            state.add(candidate, time, predicted=before)
            tried.append(candidate)
            seen.append(time)
    return Simulated(recording, seed, tuple(tried[:trials]), tuple(seen[:trials]), ended)


def dealt(seed: int, recording: Recording) -> tuple[list[int], list[int]]:
    """The visits that a search of this seed sees, and those that judge it: of one or two, all."""
    order = list(range(recording.visits))
    random.Random(f"{seed}:visits").shuffle(order)
    judging = len(order) // 3
    return order[judging:], order[:judging] or order


def _student(rng: random.Random) -> float:
    """Of Student's distribution with two degrees of freedom, whose tails are those of races."""
    return rng.gauss(0.0, 1.0) / sqrt(rng.expovariate(1.0))


def _visit(seed: int, entry: Recorded, shown: Sequence[int]) -> int:
    return random.Random(f"{seed}:{entry.candidate.key}").choice(shown)


def _unseen(seed: int, entry: Recorded, shown: Sequence[int]) -> Sequence[float]:
    """The shown visits that the search did not see; the one that it saw, where there is but one."""
    at = _visit(seed, entry, shown)
    return [entry.visits[n] for n in shown if n != at] or [entry.visits[at]]
