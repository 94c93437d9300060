"""What formulas tell beside draft and model: cycles of candidates, of sketches that have a formula.

The draft that a model begins with and a formula are wrong about different things, so the geometric
mean of both is nearer than either: on recorded times of eight operators the rank correlation of
formulas is 0.65 in the mean over sketches, that of the draft 0.50.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import nan

import numpy as np

from autotune.cost_model.roofline import CLOCK
from autotune.space import Candidate, Space


class Formulas:
    """The cycles of candidates that were built, and what they change."""

    def __init__(self) -> None:
        self._cycles: dict[Candidate, float] = {}
        self._rate = CLOCK  # as long as no trial tells it

    def note(self, space: Space, candidate: Candidate) -> None:
        """Ask the formula of the candidate's sketch, if it has one."""
        cycles = space.sketches[candidate.sketch].cycles([candidate.values])
        if cycles is not None:
            self._cycles[candidate] = float(cycles[0])

    def corrections(self, candidates: Sequence[Candidate], drafted: np.ndarray) -> np.ndarray:
        """The factors that take expectations that begin with these seconds of the draft to the
        means; 1 where there is no formula."""
        apart = self._apart(candidates, drafted) / self._rate
        return np.where(np.isnan(apart), 1.0, np.sqrt(apart))

    def compare(self, trials: Sequence[Candidate], drafted: np.ndarray) -> None:
        """Find how many cycles of formulas the draft takes for a second: factors tell candidates
        apart from the trials that the model is fitted to, whatever the units are."""
        apart = self._apart(trials, drafted)
        if not np.isnan(apart).all():
            self._rate = float(np.nanmedian(apart))

    def firsts(self, among: Iterable[Candidate], sketches: Collection[str]) -> list[Candidate]:
        """What formulas put first, of each of these sketches: of all that is good in one, draft and
        model may be wrong."""
        told = [c for c in among if c in self._cycles and c.sketch in sketches]
        found: dict[str, Candidate] = {}
        for candidate in sorted(told, key=lambda c: (self._cycles[c], c.key)):
            found.setdefault(candidate.sketch, candidate)
        return list(found.values())

    def _apart(self, candidates: Sequence[Candidate], drafted: np.ndarray) -> np.ndarray:
        return np.array([self._cycles.get(c, nan) for c in candidates]) / drafted
