"""The expected results of a function, computed by NumPy from its definition."""

from __future__ import annotations

import numpy as np

from autotune.measure.reference import Reference, draw_inputs, draw_numbers, make_reference
from tensorir import Numbers, PrimFunc, blocks, reference_with_tolerance


def make_oracle(func: PrimFunc, seed: int, sizes: Numbers | None = None) -> Reference:
    """Inputs drawn for `func`, what it must make of them, and the error that rounding may cause.

    Numbers among its arguments that are no sizes are drawn too, where `sizes` does not give them.
    Both are evaluated in float64 by NumPy; the bounds hold for every order of the sums. A program
    with sums has looser ones as well, for kernels of another algorithm. Where an output overflows
    or is not a number, positive inputs are tried instead.
    """
    for positive in (False, True):
        inputs = draw_inputs(func, seed, sizes, positive)
        known = {**(sizes or {}), **draw_numbers(func, seed, sizes, positive)}
        arrays = [inputs[p.name] for p in func.given]
        with np.errstate(all="ignore"):
            outputs, bounds = reference_with_tolerance(func, *arrays, sizes=known)
        if all(np.isfinite(a).all() for a in outputs):
            break
    loose: tuple[np.ndarray, ...] = ()
    if any(block.is_reduction for block in blocks(func.body)):
        with np.errstate(all="ignore"):
            _, loose = reference_with_tolerance(func, *arrays, growth="algebra", sizes=known)
    names = [p.name for p in func.outputs]
    expected, tolerance, other = (dict(zip(names, each)) for each in (outputs, bounds, loose))
    return make_reference(func, inputs, expected, tolerance, other, known)
