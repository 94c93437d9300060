"""How good predictions were, judged by ranks: a search only needs to know what is faster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TIE = 0.02
"""Times that differ by less than this share count as equal: timing noise is of that size."""


@dataclass(frozen=True)
class Quality:
    """Predictions against measurements of `samples` candidates; nan where that says nothing.

    spearman  correlation of ranks, -1 to 1
    pairwise  share of pairs, ties left out, that are ordered right; 0.5 is chance
    top1      fastest of all / measured time of the best predicted; 1 is perfect
    top5      fastest of all / fastest of the five best predicted
    """

    samples: int
    spearman: float
    pairwise: float
    top1: float
    top5: float

    def __str__(self) -> str:
        return (
            f"{self.samples} samples: rank correlation {self.spearman:.2f}, "
            f"pairs ordered right {self.pairwise:.0%}, "
            f"top-1 {self.top1:.0%}, top-5 {self.top5:.0%} of the best"
        )


def quality(predicted: np.ndarray, measured: np.ndarray) -> Quality:
    """Compare seconds predicted before measuring with those measured; failures are left out."""
    predicted = np.asarray(predicted, dtype=np.float64)
    measured = np.asarray(measured, dtype=np.float64)
    good = np.isfinite(predicted) & np.isfinite(measured) & (measured > 0)
    predicted, measured = predicted[good], measured[good]
    return Quality(
        len(measured),
        spearman(predicted, measured),
        pairwise_accuracy(predicted, measured),
        top_score(predicted, measured, 1),
        top_score(predicted, measured, 5),
    )


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """The correlation of the ranks, ties at their mean rank; nan where one side is constant."""
    if len(a) < 2:
        return float("nan")
    x, y = ranks(a), ranks(b)
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale else float("nan")


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0, equal values at the mean of theirs."""
    ordered = np.sort(values)
    low = np.searchsorted(ordered, values, "left")
    high = np.searchsorted(ordered, values, "right")
    return (low + high - 1) / 2.0


def pairwise_accuracy(predicted: np.ndarray, measured: np.ndarray) -> float:
    """The share of pairs that differ by more than TIE whose order is predicted right."""
    first, second = np.triu_indices(len(measured), 1)
    a, b = measured[first], measured[second]
    apart = np.abs(a - b) > TIE * np.minimum(a, b)
    if not apart.any():
        return float("nan")
    guess = np.sign(predicted[first] - predicted[second])[apart]
    return float(np.mean(np.where(guess == 0, 0.5, guess == np.sign(a - b)[apart])))


def top_score(predicted: np.ndarray, measured: np.ndarray, k: int) -> float:
    """The fastest time / the fastest among the k best predicted; 1 is perfect."""
    if not len(measured):
        return float("nan")
    chosen = np.argsort(predicted, kind="stable")[:k]
    return float(measured.min() / measured[chosen].min())
