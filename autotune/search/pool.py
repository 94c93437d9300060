"""What searches with a model choose from: candidates that were built, with predicted seconds.

They are random samples, neighbours of the best trials, and variations of trials and candidates.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.search.state import SearchState
from autotune.space import Candidate, Infeasible, Space


@dataclass(frozen=True)
class Evolution:
    """Settings of the search.

    builds       candidates looked at per call, at most, and built unless a formula says that it is
                 not worth the milliseconds
    generations  rounds of variation per call
    parents      trials and candidates that are varied
    samples      share of the builds spent on random samples once there are trials
    neighbors    share of the builds spent on steps away from the best trials
    crossover    share of the children that have two parents
    explore      share of the proposals that are taken from the random samples, unranked
    """

    builds: int = 128
    generations: int = 4
    parents: int = 24
    samples: float = 0.25
    neighbors: float = 0.25
    crossover: float = 0.35
    explore: float = 0.1


DEFAULT = Evolution()

UNLIKELY = 10.0
"""What is expected to take so many times the best is not tried for exploration's sake: models err,
but hardly by so much, and such trials take as long as many others."""

FIRST, BUILT = 1 / 12, 1 / 4
"""The share of candidates that are built, of those that formulas tell the cycles of: before there
are trials, and later. The formulas order them better than the draft does by the features of what is
built; once the model has learned where both are wrong, features tell more."""

WIDE = 10
"""How many times as many are drawn where a formula tells the best of them: a formula takes a tenth
of a millisecond, a build tens of them."""


class Pool:
    """Candidates that were built and are not measured yet, with predicted seconds.

    `learned` is the share of what the model learned that counts.
    """

    def __init__(
        self, space: Space, state: SearchState, builds: int, learned: float = 1.0
    ) -> None:
        self._space, self._state, self._learned = space, state, learned
        # What was built in an earlier call counts too, or else a search that goes on after it
        # was killed, and has forgotten, would propose other candidates.
        self.left = builds
        self.scores: dict[Candidate, float] = {}
        self._programs: set[str] = set()

    def add(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Build and score those that are new, while builds are left; returns those added.

        One that makes the program of another has taken a build, and is not added.
        """
        added = dict[Candidate, None]()
        candidates = list(candidates)
        wanted = [c for c in candidates if self._is_new(c)]
        self._state.prepare(self._space, wanted[: max(self.left, 0)])
        for candidate in candidates:
            if candidate in added or not self._is_new(candidate):
                continue
            if self.left <= 0:
                break
            self.left -= 1
            row = self._state.features(self._space, candidate)
            if row is not None and self._state.is_new(candidate, self._programs):
                added[candidate] = None
                self._programs.add(self._state.program(candidate))
        found = list(added)
        self.scores.update(zip(found, self._state.expected(found, self._learned).tolist()))
        return found

    def drawn(self, name: str, count: int, rng: random.Random) -> list[Candidate]:
        """Random candidates of a sketch; where it has a formula, the best by it of many more."""
        sketch = self._space.sketches[name]
        found = [self._space.sample(rng, name) for _ in range(count)]
        if sketch.cycles([found[0].values]) is None:
            return found
        found += [self._space.sample(rng, name) for _ in range((WIDE - 1) * count)]
        new = [c for c in dict.fromkeys(found) if self._is_new(c)]
        cycles = sketch.cycles([c.values for c in new]) if new else None
        if cycles is None:
            return []
        return [new[at] for at in np.argsort(cycles, kind="stable")[:count]]

    def promising(
        self, candidates: Sequence[Candidate], most: float = math.inf
    ) -> list[Candidate]:
        """Those of the first `most` new ones that are worth a build, in their order: where a
        formula tells the cycles of a sketch's candidates, the better part, and what it cannot tell
        from that. The others count as if they were built."""
        wanted = int(max(min(self.left, most), 0))
        share = FIRST if self._state.best_seconds() is None else BUILT
        new = [c for c in dict.fromkeys(candidates) if self._is_new(c)][:wanted]
        kept: set[Candidate] = set()
        for name in dict.fromkeys(c.sketch for c in new):
            some = [c for c in new if c.sketch == name]
            cycles = self._space.sketches[name].cycles([c.values for c in some])
            if cycles is None:
                kept.update(some)
                continue
            last = np.sort(cycles)[math.ceil(share * len(some)) - 1]
            kept.update(c for c, each in zip(some, cycles) if each <= last)
        self.left -= len(new) - len(kept)
        return [c for c in new if c in kept]

    def _is_new(self, candidate: Candidate) -> bool:
        return candidate not in self.scores and not self._state.spent(candidate)

    def likely(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those in the pool that may be good; all in it where none is expected to be."""
        found = [c for c in candidates if c in self.scores]
        best = self._state.best_seconds() or min(self.scores.values(), default=0.0)
        return [c for c in found if self.scores[c] <= UNLIKELY * best] or found

    def ranked(self) -> list[Candidate]:
        """Fastest predicted first."""
        return sorted(self.scores, key=lambda c: (self.scores[c], c.key))


def samples(
    space: Space, pool: Pool, names: Sequence[str], builds: int, rng: random.Random
) -> list[Candidate]:
    """Random candidates, equally many of each sketch; sketches with nothing feasible drop out."""
    failures: list[str] = []
    drawn: list[Candidate] = []
    for name in names:
        try:
            drawn += pool.drawn(name, max(builds // len(names), 1), rng)
        except Infeasible as error:
            failures.append(str(error))
    if len(failures) == len(names) and not pool.scores:
        raise Infeasible("\n".join(failures))
    return pool.add(pool.promising(drawn))


def steps(space: Space, state: SearchState, pool: Pool, builds: int, rng: random.Random) -> None:
    """Neighbours of the best trials, those of the very best first, as far as `builds` reach."""
    near: list[Candidate] = []
    for parent in state.ranked()[:4]:
        found = space.neighbors(parent)
        rng.shuffle(found)
        near += found
    pool.add(pool.promising(near, builds))


def evolve(
    space: Space, state: SearchState, pool: Pool, settings: Evolution, rng: random.Random
) -> None:
    """Vary the best trials and candidates until the builds or generations are used up."""
    for generation in range(settings.generations):
        parents = _parents(space, state, pool, settings.parents)
        quota = pool.left // (settings.generations - generation)
        if not parents or quota <= 0:
            return
        weights = [1 / (rank + 2) for rank in range(len(parents))]
        children: dict[Candidate, None] = {}
        for _ in range(4 * quota):
            if len(children) >= quota:
                break
            a, b = rng.choices(parents, weights, k=2)
            crossed = a != b and rng.random() < settings.crossover
            child = space.crossover(a, b, rng) if crossed else space.mutate(a, rng)
            if child not in pool.scores and not state.spent(child):
                children[child] = None
        pool.add(pool.promising(list(children)))


def _parents(space: Space, state: SearchState, pool: Pool, count: int) -> list[Candidate]:
    """The fastest of trials and candidates, by measured and by predicted time."""
    times = dict(pool.scores)
    for candidate, seconds in state.measured.items():
        if seconds is not None and candidate.sketch in space.sketches:
            times[candidate] = seconds
    return sorted(times, key=lambda c: (times[c], c.key))[:count]


def share_of(count: int, share: float, rng: random.Random) -> int:
    """So much of `count`, rounded at random, so that small batches have some now and then."""
    exact = max(count, 0) * share
    return int(exact) + (rng.random() < exact - int(exact))


def distance(a: Candidate, b: Candidate) -> int:
    """In how many choices two candidates differ; many for different sketches."""
    if a.sketch != b.sketch or len(a.values) != len(b.values):
        return len(a.values) + len(b.values) + 2
    # Where there is a single choice, no two candidates could differ in more.
    near = sum(x != y for x, y in zip(a.values, b.values))
    return near if len(a.values) > 1 else 2 * near
