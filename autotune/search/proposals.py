"""A batch in the making: candidates of distinct programs, which were never tried."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from autotune.search.state import SearchState
from autotune.space import Candidate, Space, histogram
from tensorir import TensorIRError

DRAWS = 40
"""Samples drawn for each candidate asked for, before fewer are returned."""


class Proposals:
    """At most `count` candidates; the defaults that were not measured yet are the first of them."""

    def __init__(self, space: Space, state: SearchState, count: int) -> None:
        self._space, self._state, self.count = space, state, count
        self.chosen: list[Candidate] = []
        state.know(space)
        self.offer_all(dict.fromkeys(state.defaults))

    @property
    def left(self) -> int:
        """How many are wanted still."""
        return self.count - len(self.chosen)

    def offer(self, candidate: Candidate) -> bool:
        """Whether the candidate is taken: it is not where it or its program is known, or it is
        refused, or one too many."""
        state, chosen = self._state, self.chosen
        if self.left <= 0 or candidate in chosen or state.spent(candidate):
            return False
        if state.features(self._space, candidate) is None:
            return False
        if not state.is_new(candidate, [state.program(other) for other in chosen]):
            return False
        self.chosen.append(candidate)
        return True

    def offer_all(self, candidates: Iterable[Candidate]) -> None:
        """Offer these in order, while any are wanted."""
        for candidate in candidates:
            if self.left <= 0:
                return
            self.offer(candidate)

    def fill(self, draw: Callable[[], Candidate]) -> None:
        """Draw until nothing more is wanted, or many draws have found nothing."""
        for _ in range(DRAWS * max(self.left, 0)):
            if self.left <= 0:
                return
            self.offer(draw())

    def finish(self, rng: random.Random) -> list[Candidate]:
        """What was chosen, filled up with samples of the space.

        Raises TensorIRError when nothing is feasible, or when nothing was ever measured and every
        schedule is refused.
        """
        self.fill(lambda: self._space.sample(rng))
        if not self.chosen:
            require_candidates(self._state)
        return self.chosen


def require_candidates(state: SearchState) -> None:
    """Raise TensorIRError if nothing was measured and everything that was built is refused."""
    if state.refusals and not state.measured:
        raise TensorIRError(
            f"every schedule is refused ({histogram(state.refusals)}); "
            "check the rules that make the sketches"
        )
