"""The expected results of a function, computed by NumPy from its definition."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autotune.measure import Reference, draw_inputs, make_reference
from tensorir import PrimFunc, reference


def make_oracle(func: PrimFunc, seed: int, sizes: Mapping[str, int] | None = None) -> Reference:
    """Inputs drawn for `func` and what it must make of them, evaluated in float64 by NumPy.

    Where the outputs overflow or are not numbers, positive inputs are tried instead.
    """
    for positive in (False, True):
        inputs = draw_inputs(func, seed, sizes, positive)
        with np.errstate(all="ignore"):
            outputs = reference(func, *(inputs[p.name] for p in func.inputs))
        expected = {p.name: array for p, array in zip(func.outputs, outputs)}
        if all(np.isfinite(a).all() for a in expected.values()) or positive:
            break
    return make_reference(func, inputs, expected)
