"""Inputs of programs of floats and integers."""

import numpy as np

from tensorir import PrimFunc


def drawn_inputs(func: PrimFunc) -> list[np.ndarray]:
    """Normal numbers for float32, integers of two digits and both signs for all other types."""
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal(p.const_shape).astype(p.dtype) if p.dtype == "float32"
        else rng.integers(-99, 99, p.const_shape).astype(p.dtype)
        for p in func.inputs
    ]  # fmt: skip
