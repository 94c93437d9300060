"""Whether a cost model of a user is one.

What a search relies on: predictions are finite and positive, a row's does not depend on the rows
beside it, the same trials and seed give the same ones, and a fit begins from scratch. Without the
last two a search that was ended would not go on as it began.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autotune.cost_model.model import CostModel
from autotune.features.table import FEATURES
from tensorir import TensorIRError

Make = Callable[[int], CostModel]
"""From a seed to a model that was never fitted."""

PARTS = ("notice", "fit", "predict")
TRIALS, OTHERS = 24, 5
"""Rows that a model is fitted to when it is checked, and rows that it never sees."""


def check_model(name: str, make: Make) -> None:
    """Try a model on made-up trials; TensorIRError, which says what is wrong, where it is none."""
    try:
        _check(name, make)
    except TensorIRError:
        raise
    except Exception as error:
        raise TensorIRError(
            f"cost model {name!r} failed on made-up trials: {type(error).__name__}: {error}"
        ) from error


def _check(name: str, make: Make) -> None:
    rng = np.random.default_rng(0)
    rows = rng.uniform(0, 8, (TRIALS + OTHERS, len(FEATURES))).astype(np.float32)
    seconds: list[float | None] = list(np.exp(rng.normal(-8, 1, TRIALS)))
    seconds[1], seconds[5] = None, float("inf")  # failures
    model = make(0)
    missing = [part for part in PARTS if not hasattr(model, part)]
    if missing:
        raise TensorIRError(f"cost model {name!r} has no {' and no '.join(missing)}")
    _predicted(name, model, rows, "before the first fit")
    model.fit(rows[:1], [None])
    _predicted(name, model, rows, "of failures alone")
    model.fit(rows[:TRIALS], seconds)
    found = _predicted(name, model, rows, f"of {TRIALS} trials")
    alone = np.concatenate([_predicted(name, model, row[None], "of one row") for row in rows])
    if not np.allclose(alone, found, rtol=1e-5):
        raise TensorIRError(
            f"cost model {name!r} predicts other seconds for a row when others are beside it"
        )
    other = make(0)
    other.fit(rows[:TRIALS], seconds)
    if not np.array_equal(_predicted(name, other, rows, "of the same trials"), found):
        raise TensorIRError(
            f"cost model {name!r} predicts otherwise after the same seed and trials: "
            "take all random numbers from the seed, and learn from scratch in every fit"
        )


def _predicted(name: str, model: CostModel, rows: np.ndarray, when: str) -> np.ndarray:
    for learned in (0.0, 1.0):
        found = np.asarray(model.predict(rows, learned))
        if found.shape != (len(rows),):
            raise TensorIRError(
                f"cost model {name!r} predicts an array of shape {found.shape} for {len(rows)} "
                f"rows, {when}: give seconds of shape ({len(rows)},)"
            )
        if not (np.isfinite(found).all() and (found > 0).all()):
            raise TensorIRError(
                f"cost model {name!r} predicts seconds that are not finite or not positive, {when}"
            )
    return found
