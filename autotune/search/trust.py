"""How far a learned model is used: as far as it has beaten the draft on what neither had seen.

Each trial's time was predicted before it was measured. Where the model's predictions of the latest
trials order them better than the draft's do, what the model learned counts; otherwise the draft
orders alone. Learning goes on either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np

from autotune.cost_model.quality import spearman
from autotune.search.state import SearchState
from autotune.space import Space

WINDOW = 32
"""The latest trials that are looked at."""

ENOUGH = 8
"""Trials below which nothing is known of the model: it then counts by half."""

SLOPE = 2.5
"""A lead of 1 / (2 SLOPE) in rank correlation gives the model all the say, such a lag none."""


@dataclass(frozen=True)
class Trust:
    """What a model was worth on the latest trials that it predicted.

    samples  how many these are
    model    rank correlation of its predictions with the times; nan where that says nothing
    draft    that of the draft on the same trials
    share    of what was learned that counts, 0 to 1
    """

    samples: int
    model: float
    draft: float
    share: float

    def __str__(self) -> str:
        return (
            f"model {self.model:.2f}, draft {self.draft:.2f} in rank correlation over "
            f"{self.samples} trials: the model counts {self.share:.0%}"
        )


def share_learned(model: str, space: Space, state: SearchState) -> float:
    """How much of what a model learned counts, 0 to 1, by a setting (`Policy.model`)."""
    known = {"always": 1.0, "never": 0.0}.get(model)
    return trust(space, state).share if known is None else known


def trust(space: Space, state: SearchState) -> Trust:
    """The worth of the model of `state` now: a function of trials and predictions alone."""
    known, predicted, times = [], [], []
    for candidate in reversed(state.measured):
        seconds, before = state.measured[candidate], state.foreseen.get(candidate)
        if seconds is None or before is None or candidate.sketch not in space.sketches:
            continue
        if state.features(space, candidate) is not None:
            known.append(candidate)
            predicted.append(before)
            times.append(seconds)
        if len(times) == WINDOW:
            break
    if len(times) < ENOUGH:
        return Trust(len(times), float("nan"), float("nan"), 0.5)
    measured = np.array(times)
    drafted = state.expected(known, learned=0.0)
    model, draft = spearman(np.array(predicted), measured), spearman(drafted, measured)
    if not isfinite(model) or not isfinite(draft):
        return Trust(len(times), model, draft, 0.5)
    share = min(max(0.5 + SLOPE * (model - draft), 0.0), 1.0)
    return Trust(len(times), model, draft, share)
