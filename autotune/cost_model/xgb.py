"""A regressor of gradient-boosted trees, by the C functions of xgboost.

Its Python package imports scikit-learn and SciPy where they are installed, which takes longer than
all that a search has to learn.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
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
    "base_score": 0.0,
}

ROUNDS = 60


class XGBoostRegressor:
    """An average of boosted trees. Raises ImportError on creation where xgboost is missing."""

    def __init__(self, seed: int) -> None:
        _library()
        self._seed = seed
        self._models: list[_Trees] = []

    def fit(self, rows: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> None:
        data = _Matrix(rows, label=targets, weight=weights)
        seeds = [self._seed * BAGS + bag for bag in range(BAGS)]
        self._models = [_Trees({**PARAMETERS, "seed": seed}, data, ROUNDS) for seed in seeds]

    def predict(self, rows: np.ndarray) -> np.ndarray:
        data = _Matrix(rows)
        found: np.ndarray = np.mean([model.predict(data) for model in self._models], axis=0)
        return found


class _Matrix:
    """Rows of numbers, and float32 vectors about them by name, as xgboost holds them."""

    def __init__(self, rows: np.ndarray, **about: np.ndarray) -> None:
        self.count, self.handle = len(rows), ctypes.c_void_p()
        config = _text({"missing": np.nan, "nthread": 1})
        values = np.ascontiguousarray(rows, np.float32)
        _call("XGDMatrixCreateFromDense", _interface(values), config, ctypes.byref(self.handle))
        for name, vector in about.items():
            values = np.ascontiguousarray(vector, np.float32)
            _call("XGDMatrixSetInfoFromInterface", self.handle, name.encode(), _interface(values))

    def __del__(self) -> None:
        _call("XGDMatrixFree", self.handle)


class _Trees:
    """A model that so many rounds have made of some data."""

    def __init__(self, parameters: Mapping[str, Any], data: _Matrix, rounds: int) -> None:
        self.handle = ctypes.c_void_p()
        first = (ctypes.c_void_p * 1)(data.handle)
        _call("XGBoosterCreate", first, ctypes.c_uint64(1), ctypes.byref(self.handle))
        for name, value in parameters.items():
            _call("XGBoosterSetParam", self.handle, name.encode(), str(value).encode())
        for number in range(rounds):
            _call("XGBoosterUpdateOneIter", self.handle, ctypes.c_int(number), data.handle)

    def predict(self, data: _Matrix) -> np.ndarray:
        wanted = {"type": 0, "training": False, "iteration_begin": 0, "iteration_end": 0}
        shape, found = ctypes.POINTER(ctypes.c_uint64)(), ctypes.POINTER(ctypes.c_float)()
        _call(
            "XGBoosterPredictFromDMatrix", self.handle, data.handle,
            _text({**wanted, "strict_shape": False}), ctypes.byref(shape),
            ctypes.byref(ctypes.c_uint64()), ctypes.byref(found),
        )  # fmt: skip
        return np.ctypeslib.as_array(found, (data.count,)).copy()  # the next call overwrites it

    def __del__(self) -> None:
        _call("XGBoosterFree", self.handle)


@cache
def _library() -> ctypes.CDLL:
    """The library, found as the package finds it; ImportError where there is none."""
    package = find_spec("xgboost")
    origin = Path(package.origin or "") if package else Path()
    spec = spec_from_file_location("xgboost_libpath", origin.with_name("libpath.py"))
    if package is None or spec is None or spec.loader is None:
        raise ImportError("xgboost is not installed")
    places = module_from_spec(spec)
    spec.loader.exec_module(places)
    library = ctypes.CDLL(places.find_lib_path()[0])
    library.XGBGetLastError.restype = ctypes.c_char_p
    return library


def _call(name: str, *arguments: object) -> None:
    """Call a function of the library; RuntimeError with its words where it fails."""
    library = _library()
    if getattr(library, name)(*arguments):
        raise RuntimeError(f"{name}: {library.XGBGetLastError().decode()}")


def _interface(array: np.ndarray) -> bytes:
    """Where the elements of an array lie; it has to live until the call returns."""
    return _text(array.__array_interface__)


def _text(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data).encode()
