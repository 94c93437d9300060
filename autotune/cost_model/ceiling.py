"""The noise ceiling of a search: how well its own repeats agree bounds what a model can reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.quality import Quality, quality


@dataclass(frozen=True)
class Ceiling:
    """How the second visits of trials are ordered by what was known before.

    noise  by the first visits of the same trials: no prediction can be expected to do better
    model  by the predictions, where there were any
    """

    noise: Quality
    model: Quality

    def __str__(self) -> str:
        """Nothing where too few were visited twice to say anything."""
        if self.noise.samples < 2:
            return ""
        text = f"{self.noise.samples} trials visited twice: {_order(self.noise)}"
        return text if self.model.samples < 2 else f"{text}; by the model {_order(self.model)}"


def ceiling(times: Sequence[Sequence[float]], predicted: Sequence[float | None]) -> Ceiling:
    """The ceiling by the seconds of the visits of each trial, and the seconds predicted for it.

    Trials that were visited once, since they were far behind, are left out: those that are left are
    near one another, and hard to order.
    """
    twice = [(each, guess) for each, guess in zip(times, predicted, strict=True) if len(each) > 1]
    second = np.array([each[1] for each, _ in twice])
    first = np.array([each[0] for each, _ in twice])
    guesses = np.array([np.nan if guess is None else guess for _, guess in twice])
    return Ceiling(quality(first, second), quality(guesses, second))


def _order(found: Quality) -> str:
    return f"pairs ordered alike {found.pairwise:.0%}, rank correlation {found.spearman:.2f}"
