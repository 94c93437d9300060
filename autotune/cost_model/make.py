"""Choosing a cost model by name, and reading one back."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from autotune.cost_model.forest import ForestRegressor
from autotune.cost_model.model import CostModel, Draft, RandomModel, Regressor, ResidualModel
from autotune.cost_model.roofline import draft as analytic
from autotune.cost_model.xgb import XGBoostRegressor
from autotune.features.features import FEATURE_SCHEMA
from tensorir import TensorIRError

REGRESSORS: dict[str, tuple[str, Callable[[int], Regressor]]] = {
    "xgboost": ("xgboost", XGBoostRegressor),
    "sklearn": ("sklearn", ForestRegressor),
}
"""Kind of model -> the package it needs, and its regressor. The first importable one is `auto`."""

KINDS = ("auto", *REGRESSORS, "random")


def make_cost_model(kind: str = "auto", seed: int = 0, draft: Draft = analytic) -> CostModel:
    """A cost model of one of KINDS, not yet fitted.

    `auto` takes xgboost, or scikit-learn where that is missing and says so in `notice`. Raises
    TensorIRError for an unknown kind, and where a kind needs a package that is not installed.
    """
    if kind == "random":
        return RandomModel(seed)
    if kind not in KINDS:
        raise TensorIRError(f"unknown cost model {kind!r}; known are {', '.join(KINDS)}")
    notice = None
    if kind == "auto":
        kind = next((k for k, row in REGRESSORS.items() if find_spec(row[0])), "xgboost")
        if kind != "xgboost":
            notice = "xgboost is not installed; the cost model uses scikit-learn instead"
    package, regressor = REGRESSORS[kind]
    if find_spec(package) is None:
        install = "scikit-learn" if package == "sklearn" else package
        raise TensorIRError(
            f"cost model {kind!r} needs a package that is not installed; pip install {install}"
        )
    return ResidualModel(kind, regressor, seed, draft, notice)


def load_cost_model(path: str | Path, draft: Draft = analytic) -> CostModel:
    """The model that `save` wrote, fitted again to the trials in the file.

    Raises TensorIRError for a file that is no cost model or has features of another version.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            rows, times = stored["rows"], stored["times"]
            about = json.loads(str(stored["about"]))
            kind, seed, schema = about["kind"], about["seed"], about["schema"]
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise TensorIRError(f"{str(path)!r} is not a cost model: {error}") from error
    if schema != FEATURE_SCHEMA:
        raise TensorIRError(
            f"{str(path)!r} has features of version {schema}, this is version {FEATURE_SCHEMA}; "
            "fit a new model"
        )
    model = make_cost_model(kind, seed, draft)
    model.fit(rows, list(times))
    return model
