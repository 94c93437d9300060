"""One search on a recording: proposals are those of the strategy, times those that were recorded.

Each trial sees the time of one visit, drawn by the seed: the noise is that of the machine. At the
end the best by these times race, as they do in `tune`, on the other visits. What counts is the
median over all visits of the candidate that wins, which no search has seen.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from autotune.arguments import LARGEST_SEED, integer
from autotune.cost_model import make_cost_model
from autotune.search import SearchState, search_named
from autotune.search.strategies import Propose
from autotune.simulate.recording import Recorded, Recording
from autotune.simulate.space import RecordedSpace, row_of
from autotune.space import Candidate

BATCH = 8
"""Candidates per batch, as in `tune`."""

FINALISTS = 4
"""The best in the race at the end, the default besides."""


@dataclass(frozen=True)
class Simulated:
    """What one search did.

    tried  the candidates in order
    seen   seconds that the search was told, None for a failure
    ended  whether the strategy had nothing more to propose
    """

    recording: Recording
    seed: int
    tried: tuple[Candidate, ...]
    seen: tuple[float | None, ...]
    ended: bool

    def winner(self, trials: int | None = None) -> Recorded | None:
        """Who wins the race after so many trials (after all); None where nothing ran."""
        known = dict(list(zip(self.tried, self.seen))[:trials])
        ranked = sorted((s, c.key, c) for c, s in known.items() if s is not None)
        racing = [c for _, _, c in ranked[:FINALISTS]]
        racing += [c for c in self.recording.defaults[:1] if known.get(c) and c not in racing]
        entries = [self.recording.entry(c) for c in racing]
        times = [median(_unseen(self.seed, e)) for e in entries]
        return min(zip(times, range(len(entries)), entries))[2] if entries else None

    def regret(self, trials: int | None = None) -> float:
        """The winner's time over the best one's of the recording; 1 is perfect, inf is none."""
        found = self.winner(trials)
        if found is None or found.seconds is None:
            return float("inf")
        return found.seconds / self.recording.best_seconds()


def simulate(
    recording: Recording,
    strategy: str | Propose = "evolutionary",
    trials: int = 64,
    seed: int = 0,
    cost_model: str = "auto",
) -> Simulated:
    """Search a recording: a function of its arguments, in a fraction of a second.

    strategy  the name of one, or a function as `register_strategy` takes

    Raises TensorIRError where arguments are not of their kind, or nothing is feasible.
    """
    trials, seed = integer("trials", trials, 1), integer("seed", seed, 0, LARGEST_SEED)
    propose = search_named(strategy) if isinstance(strategy, str) else strategy
    space = RecordedSpace(recording)
    model = make_cost_model(cost_model, seed)
    state = SearchState(model, row_of, defaults=recording.defaults)
    tried: list[Candidate] = []
    seen: list[float | None] = []
    ended = False
    while len(tried) < trials and not ended:
        batch = propose(space, state, BATCH, random.Random(f"{seed}:{len(tried)}"))
        ended = not batch
        # In whole, as in `tune`: what is proposed together does not know of one another.
        for candidate in batch:
            time = _seen(seed, recording.entry(candidate))
            before = state.predicted(candidate)
            state.add(candidate, time, predicted=before)
            tried.append(candidate)
            seen.append(time)
    return Simulated(recording, seed, tuple(tried[:trials]), tuple(seen[:trials]), ended)


def _visit(seed: int, entry: Recorded) -> int:
    return random.Random(f"{seed}:{entry.candidate.key}").randrange(len(entry.visits))


def _seen(seed: int, entry: Recorded) -> float | None:
    return entry.visits[_visit(seed, entry)] if entry.status == "ok" else None


def _unseen(seed: int, entry: Recorded) -> Sequence[float]:
    """The visits that the search did not see; all, where there is but one."""
    at = _visit(seed, entry)
    return [t for n, t in enumerate(entry.visits) if n != at] or entry.visits
