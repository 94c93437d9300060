"""The slots of a batch that the policy proposes: who gets them, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from autotune.search.failures import Failures
from autotune.search.state import HOPELESS, SearchState
from autotune.space import Candidate


class Batch:
    """What is proposed together; `scores` are expected seconds, those of likely failures longer.

    failures  whether what resembles failures is put back
    """

    def __init__(
        self,
        state: SearchState,
        scores: dict[Candidate, float],
        count: int,
        failures: bool,
    ) -> None:
        known = Failures(state) if failures else None
        chance = known.chance if known is not None else lambda candidate: 0.0
        self.scores = {c: seconds / (1 - chance(c)) for c, seconds in scores.items()}
        self.chosen: list[Candidate] = []
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
                self.chosen.append(candidate)
                most -= 1

    def fill(self) -> None:
        """The best by their scores, of one sketch half of the slots where others have candidates
        that are not hopeless: scores may be wrong of a sketch as a whole."""
        left = [c for c in ordered(self.scores, self.scores) if c not in self.chosen]
        taken = Counter(c.sketch for c in self.chosen)
        while self.left > 0 and left:
            limit = HOPELESS * self.scores[left[0]]
            others = (c for c in left if taken[c.sketch] < self._half and self.scores[c] <= limit)
            best = next(others, left[0])
            left.remove(best)
            self.chosen.append(best)
            taken[best.sketch] += 1


def ordered(candidates: Iterable[Candidate], scores: dict[Candidate, float]) -> list[Candidate]:
    """Those with a score, the best first."""
    return sorted((c for c in candidates if c in scores), key=lambda c: (scores[c], c.key))
