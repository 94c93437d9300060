"""Whether an algorithm computes what it says it does: both ways are evaluated on its examples.

They are evaluated in float64 at random points, where rational functions that agree are equal
(Schwartz-Zippel).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir.algorithms.algorithm import Algorithm
from tensorir.algorithms.apply import apply_algorithm
from tensorir.algorithms.registry import known_algorithms
from tensorir.arrays import shape_of
from tensorir.errors import TensorIRError
from tensorir.func import PrimFunc
from tensorir.numbers.numerics import check_numerics
from tensorir.reference import reference
from tensorir.tensorize.match import Mismatch
from tensorir.visit import blocks

CLOSE = 1e-11
"""Largest difference of two results in float64, in parts of the largest value: rational functions
that agree so at random points are equal (Schwartz-Zippel)."""

SEEDS = range(3)


def register_algorithm(algorithm: Algorithm) -> None:
    """Make an algorithm known to `Schedule.use_algorithm` and to the search.

    Raises TensorIRError for a name that is taken, and where the algorithm computes something else
    than a block of its examples.
    """
    if not isinstance(algorithm, Algorithm):
        raise TensorIRError(f"{algorithm!r} is no algorithm: give a tensorir.Algorithm")
    if algorithm.name in known_algorithms():
        raise TensorIRError(f"there is an algorithm {algorithm.name!r} already")
    check_algorithm(algorithm)
    known_algorithms()[algorithm.name] = algorithm


def check_algorithm(algorithm: Algorithm) -> None:
    """Evaluate each example both ways in float64; TensorIRError if the results differ."""
    check_numerics(algorithm.numerics)
    examples = algorithm.examples()
    if not examples:
        raise _wrong(algorithm, "it has no examples to check it on")
    for func, name in examples:
        block = {b.name: b for b in blocks(func.body)}.get(name)
        if block is None:
            raise _wrong(algorithm, f"an example has no block {name!r}")
        try:
            other = apply_algorithm(func, block, algorithm).func
        except Mismatch as mismatch:
            raise _wrong(algorithm, f"it does not take its own example: {mismatch}") from mismatch
        for seed in SEEDS:
            _compare(algorithm, func, other, seed)


def _compare(algorithm: Algorithm, func: PrimFunc, other: PrimFunc, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(shape_of(p, {})).astype(p.dtype) for p in func.inputs]
    wanted, found = (_evaluated(program, arrays) for program in (func, other))
    for param, a, b in zip(func.outputs, wanted, found):
        scale = float(np.max(np.abs(a), initial=0.0)) or 1.0
        error = float(np.max(np.abs(a - b), initial=0.0)) / scale
        if not error <= CLOSE:
            raise _wrong(
                algorithm,
                f"{param.name!r} of its example differs by {error:.3g} of the largest value in "
                f"float64 arithmetic; rounding makes less than {CLOSE:g}",
            )


def _evaluated(func: PrimFunc, arrays: list[Any]) -> tuple[Any, ...]:
    return reference(func, *arrays)


def _wrong(algorithm: Algorithm, reason: str) -> TensorIRError:
    return TensorIRError(f"algorithm {algorithm.name!r}: {reason}")
