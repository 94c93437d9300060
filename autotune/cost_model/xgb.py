"""A regressor of gradient-boosted trees, by xgboost."""

from __future__ import annotations

from typing import Any

import numpy as np

BAGS = 3
"""Models that are averaged, each with its own random rows and columns."""

PARAMETERS: dict[str, Any] = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_bin": 64,
    "max_depth": 5,
    "eta": 0.12,
    "subsample": 0.8,
    "colsample_bytree": 0.6,
    "min_child_weight": 1.0,
    "lambda": 1.0,
    "nthread": 1,  # a few hundred rows: starting threads takes longer than the work
    "verbosity": 0,
}

ROUNDS = 60


class XGBoostRegressor:
    """An average of boosted trees. Raises ImportError on creation where xgboost is missing."""

    def __init__(self, seed: int) -> None:
        import xgboost

        self._xgboost = xgboost
        self._seed = seed
        self._models: list[Any] = []

    def fit(self, rows: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> None:
        data = self._xgboost.DMatrix(rows, label=targets, weight=weights, nthread=1)
        self._models = [
            self._xgboost.train(
                {**PARAMETERS, "seed": self._seed * BAGS + bag, "base_score": 0.0}, data, ROUNDS
            )
            for bag in range(BAGS)
        ]

    def predict(self, rows: np.ndarray) -> np.ndarray:
        data = self._xgboost.DMatrix(rows, nthread=1)
        return np.mean([model.predict(data) for model in self._models], axis=0)
