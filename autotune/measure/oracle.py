"""The expected results of a function, computed by NumPy from its definition."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autotune.measure.reference import Reference, draw_inputs, make_reference
from tensorir import PrimFunc, reference_with_tolerance


def make_oracle(func: PrimFunc, seed: int, sizes: Mapping[str, int] | None = None) -> Reference:
    """Inputs drawn for `func`, what it must make of them, and the error that rounding may cause.

    Both are evaluated in float64 by NumPy; the bounds allow every order of a float32 sum, with
    errors that behave like a random walk. Where an output overflows or is not a number, positive
    inputs are tried instead.
    """
    for positive in (False, True):
        inputs = draw_inputs(func, seed, sizes, positive)
        arrays = [inputs[p.name] for p in func.given]
        with np.errstate(all="ignore"):
            outputs, bounds = reference_with_tolerance(func, *arrays, growth="random", sizes=sizes)
        if all(np.isfinite(a).all() for a in outputs):
            break
    names = [p.name for p in func.outputs]
    return make_reference(func, inputs, dict(zip(names, outputs)), dict(zip(names, bounds)))
