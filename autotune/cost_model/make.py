"""Choosing a cost model by name, and reading one back."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from autotune.cost_model.check import Make, check_model
from autotune.cost_model.gaussian import GaussianProcess
from autotune.cost_model.model import CostModel, Draft, RandomModel, Regressor, ResidualModel
from autotune.cost_model.roofline import draft as analytic
from autotune.features.table import FEATURE_SCHEMA
from tensorir import Cpu, Target, TensorIRError, device_of


def _forest(seed: int) -> Regressor:
    from autotune.cost_model.forest import ForestRegressor  # few searches want another model

    return ForestRegressor(seed)


def _xgboost(seed: int) -> Regressor:
    from autotune.cost_model.xgb import XGBoostRegressor

    return XGBoostRegressor(seed)


REGRESSORS: dict[str, tuple[str, Callable[[int], Regressor]]] = {
    "gaussian": ("numpy", GaussianProcess),
    "xgboost": ("xgboost", _xgboost),
    "sklearn": ("sklearn", _forest),
}
"""Kind of model -> the package it needs, and its regressor. The first one is `auto`."""

KINDS = ("auto", *REGRESSORS, "random")
"""Those that come along."""

MODELS: dict[str, Make] = {}
"""Those that were registered."""


def known_models() -> tuple[str, ...]:
    """All names that `make_cost_model` takes, those of `register_cost_model` last."""
    return *KINDS, *MODELS


def draft_of(target: Target) -> Draft:
    """Seconds from features of schedules for a target (of backends.resolve)."""
    device = device_of(target)
    if isinstance(device, Cpu):
        return partial(analytic, cpu=device)
    from autotune.gpu.features import draft as of_gpus  # processors do not need it

    return of_gpus


def make_cost_model(kind: str = "auto", seed: int = 0, draft: Draft = analytic) -> CostModel:
    """A cost model by its name, not yet fitted: one of KINDS, or one that was registered.

    `auto` takes the Gaussian process. Raises TensorIRError for an unknown kind, and where a kind
    needs a package that is not installed. A registered model has a draft of its own, or none.
    """
    if kind == "random":
        return RandomModel(seed)
    if kind in MODELS:
        return MODELS[kind](seed)
    if kind not in KINDS:
        raise TensorIRError(
            f"unknown cost model {kind!r}; known are {', '.join(known_models())}; "
            "register_cost_model adds one"
        )
    kind = next(iter(REGRESSORS)) if kind == "auto" else kind
    package, regressor = REGRESSORS[kind]
    if find_spec(package) is None:
        install = "scikit-learn" if package == "sklearn" else package
        raise TensorIRError(
            f"cost model {kind!r} needs a package that is not installed; pip install {install}"
        )
    return ResidualModel(kind, regressor, seed, draft)


def register_cost_model(name: str, make: Make) -> None:
    """Make a model known to `tune(cost_model=name)`, the command line and simulations.

    make  from a seed, an int, to a new `CostModel`; `autotune.cost_model.ResidualModel` makes one
          of a regressor. It is tried on made-up trials here

    Raises TensorIRError for a name that is taken or is none, and for what is no model.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise TensorIRError(f"a cost model's name is an identifier, such as 'ridge', not {name!r}")
    if name in known_models():
        raise TensorIRError(f"there is a cost model {name!r} already: choose another name")
    if not callable(make):
        raise TensorIRError(f"cost model {name!r} is {make!r}, not a function from a seed to one")
    check_model(name, make)
    MODELS[name] = make


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
