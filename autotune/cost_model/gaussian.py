"""A regressor by a Gaussian process, in NumPy: nothing has to be imported for a search to learn.

Two things are learned at once: what is linear in the features, which holds far from the trials too,
and what is peculiar to rows that are near one another. On recorded searches it orders candidates
as well as boosted trees do (`make bench-tuner`), whose library takes longer to import than all
models of a search take to be fitted.
"""

from __future__ import annotations

import numpy as np

NOISE = 0.1
"""Variance of a trial of weight 1, where that of each of the two parts is about 1."""

STILL = 1e-6
"""Deviation of a column from which on it says something."""

FAR = 4.0
"""Deviations from the mean that a feature is taken to have, at most: what is linear goes on for
ever, and no trial has shown that."""


class GaussianProcess:
    """The mean of a Gaussian process; a row's prediction depends on no row beside it, to the last
    bit. There is nothing random in it."""

    def __init__(self, seed: int) -> None:
        self._mean = 0.0

    def fit(self, rows: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> None:
        spread = rows.std(axis=0, dtype=np.float64)
        self._columns = spread > STILL
        self._spread = spread[self._columns]
        self._middle = rows.mean(axis=0, dtype=np.float64)[self._columns]
        self._rows = self._scaled(rows)
        self._mean = np.average(targets, weights=weights)
        alike = self._alike(self._rows) + np.diag(NOISE / weights)
        self._pull = np.linalg.solve(alike, targets - self._mean)

    def predict(self, rows: np.ndarray) -> np.ndarray:
        alike = self._alike(self._scaled(rows))
        found: np.ndarray = self._mean + _dot(alike, self._pull)
        return found

    def _scaled(self, rows: np.ndarray) -> np.ndarray:
        """float64 [rows, columns that say something], of mean 0, deviation 1 among the trials."""
        known = np.compress(self._columns, rows, axis=1)  # row after row, as sums want them
        return np.clip((known - self._middle) / self._spread, -FAR, FAR)

    def _alike(self, rows: np.ndarray) -> np.ndarray:
        """The covariance of each row with each trial, [rows, trials]: by their product, and by how
        near they are."""
        count = max(len(self._spread), 1)
        product = _dot(rows[:, None], self._rows) / count
        apart = _dot(rows, rows)[:, None] + _dot(self._rows, self._rows)
        covariance: np.ndarray = product + np.exp(product - apart / (2 * count))
        return covariance


def _dot(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Sums of products along the last axis. The order of terms in products of matrices depends on
    how many rows there are."""
    total: np.ndarray = (one * other).sum(axis=-1)
    return total
