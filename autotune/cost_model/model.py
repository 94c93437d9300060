"""A cost model: predicted seconds from features, learned from what was measured.

Below MIN_SAMPLES the draft alone answers. Above, a regressor learns the residual
log(measured / draft) of the draft, so it starts from what is known about machines and only has to
learn where that is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol
from zlib import crc32

import numpy as np

from autotune.cost_model.roofline import draft
from autotune.features.table import FEATURE_SCHEMA
from tensorir import TensorIRError

MIN_SAMPLES = 8
"""Successful trials from which on the residual is learned."""

HALF_TRUST = 16
"""Successful trials at which the learned residual counts by half."""

Draft = Callable[[np.ndarray], np.ndarray]


class Regressor(Protocol):
    """Learns numbers from rows; the same rows and seed give the same predictions."""

    def fit(self, rows: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> None: ...

    def predict(self, rows: np.ndarray) -> np.ndarray: ...


class CostModel(Protocol):
    """What a search asks of a model."""

    notice: str | None
    """Something the user should know, such as that a better library is missing."""

    def fit(self, features: np.ndarray, seconds: Sequence[float | None]) -> None:
        """Learn from scratch from these trials; None, inf and nan mark failures."""

    def predict(self, features: np.ndarray, learned: float = 1.0) -> np.ndarray:
        """Predicted seconds of each row; lower is better.

        `learned` is the share of what was learned that counts, 0 to 1: with 0 the order is that of
        before the first trial.
        """


class ResidualModel:
    """Draft times a learned correction.

    make   a new regressor from a seed; called for every fit
    draft  seconds from features; the analytic estimate unless given
    """

    def __init__(
        self,
        kind: str,
        make: Callable[[int], Regressor],
        seed: int = 0,
        draft: Draft = draft,
    ) -> None:
        self.kind = kind
        self.seed = seed
        self.notice: str | None = None
        self._make = make
        self._draft = draft
        self._regressor: Regressor | None = None
        self._offset = 0.0
        self._trust = 0.0
        self._data: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def samples(self) -> int:
        """Successful trials that the model was fitted to."""
        return 0 if self._data is None else len(self._data[1])

    def fit(self, features: np.ndarray, seconds: Sequence[float | None]) -> None:
        """Learn from scratch; the fastest trials weigh most, failures are left out.

        Raises TensorIRError where the numbers of rows and seconds differ.
        """
        rows = np.asarray(features, dtype=np.float32)
        rows = rows.reshape(0, 0) if rows.size == 0 else np.atleast_2d(rows)
        if len(rows) != len(seconds):
            raise TensorIRError(f"{len(rows)} rows and {len(seconds)} times do not match")
        times = np.array([np.nan if s is None else s for s in seconds], dtype=np.float64)
        good = np.isfinite(times) & (times > 0)
        rows, times = rows[good], times[good]
        self._data = (rows, times)
        self._regressor, self._offset, self._trust = None, 0.0, 0.0
        if not len(times):
            return
        residual = np.log(times) - np.log(self._draft(rows))
        self._offset = float(np.median(residual))
        if len(times) < MIN_SAMPLES:
            return
        self._trust = len(times) / (len(times) + HALF_TRUST)
        weights = np.sqrt(times.min() / times)
        self._regressor = self._make(self.seed)
        self._regressor.fit(rows, residual - self._offset, weights)

    def predict(self, features: np.ndarray, learned: float = 1.0) -> np.ndarray:
        """Predicted seconds of each row, float64: the draft's with so much of the correction."""
        rows = np.asarray(features, dtype=np.float32)
        if not len(rows):
            return np.zeros(0)
        rows = np.atleast_2d(rows)
        log_time = np.log(self._draft(rows)) + self._offset
        if self._regressor is not None and learned > 0:
            residual = np.asarray(self._regressor.predict(rows), dtype=np.float64)
            log_time += learned * self._trust * residual
        return np.exp(log_time)

    def save(self, path: str | Path) -> None:
        """Write what `load` needs: the trials and the settings, not the regressor, as .npz."""
        from tensorir import whole_file  # few models are kept

        rows, times = self._data or (np.zeros((0, 0), np.float32), np.zeros(0))
        about = {"kind": self.kind, "seed": self.seed, "schema": FEATURE_SCHEMA}
        with whole_file(path) as draft, draft.open("wb") as file:
            np.savez_compressed(file, rows=rows, times=times, about=np.array(json.dumps(about)))


class RandomModel:
    """Predicts at random: the yardstick that a model has to beat."""

    kind = "random"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.notice: str | None = None

    def fit(self, features: np.ndarray, seconds: Sequence[float | None]) -> None:
        """Learns nothing."""

    def predict(self, features: np.ndarray, learned: float = 1.0) -> np.ndarray:
        """Between 0 and 1 for each row, the same for the same row and seed."""
        rows = np.asarray(features, dtype=np.float32)
        salt = self.seed.to_bytes(8, "little", signed=True)
        return np.array([(crc32(salt + row.tobytes()) + 1) / 2**32 for row in rows])
