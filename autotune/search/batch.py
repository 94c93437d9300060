"""The slots of a batch that the policy proposes: who gets them, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from autotune.search.bandit import Bandit
from autotune.search.failures import Failures
from autotune.search.state import SearchState
from autotune.space import Candidate


class Batch:
    """What is proposed together; `scores` are expected seconds, those of likely failures longer.

    bandit    whether sketches compete for slots; if not, none gets more than half of them
    failures  whether what resembles failures is put back
    """

    def __init__(
        self,
        state: SearchState,
        scores: dict[Candidate, float],
        count: int,
        bandit: bool,
        failures: bool,
    ) -> None:
        known = Failures(state) if failures else None
        chance = known.chance if known is not None else lambda candidate: 0.0
        self.scores = {c: seconds / (1 - chance(c)) for c, seconds in scores.items()}
        self.chosen: list[Candidate] = []
        self._bandit = Bandit(state, self.scores) if bandit else None
        self._count = count
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
        """The best by their scores, each of the sketch whose turn it is."""
        left = [c for c in ordered(self.scores, self.scores) if c not in self.chosen]
        while self.left > 0 and left:
            names = dict.fromkeys(c.sketch for c in left)
            name = self._next(list(names))
            candidate = next(c for c in left if c.sketch == name)
            left.remove(candidate)
            self._choose(candidate)

    def _next(self, names: Sequence[str]) -> str:
        """The sketch that the next slot belongs to; `names` begin with the best score's."""
        if self._bandit is not None:
            return self._bandit.next(names)
        taken = Counter(c.sketch for c in self.chosen)
        return next((name for name in names if taken[name] < self._half), names[0])

    def _choose(self, candidate: Candidate) -> None:
        self.chosen.append(candidate)
        if self._bandit is not None:
            self._bandit.count(candidate)


def ordered(candidates: Iterable[Candidate], scores: dict[Candidate, float]) -> list[Candidate]:
    """Those with a score, the best first."""
    return sorted((c for c in candidates if c in scores), key=lambda c: (scores[c], c.key))
