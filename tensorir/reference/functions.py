"""How far a math function is off where its operands are: the bounds of balls.py.

Most functions are monotone, or have one turn at zero, so the ends of the interval of an operand
are farthest from the value; the others have a bound of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorir.numbers.intrin import MATH

Array = np.ndarray[Any, Any]
Operand = tuple[Array, Array]
"""The value, and the bound on its error."""

EXACT_FUNCTIONS = ("floor", "ceil", "trunc", "rint", "round", "fabs", "fmod")
"""Functions that targets compute without an error of their own."""

QUOTIENTS: dict[str, Callable[..., Any]] = {
    "floordiv": np.floor_divide,
    "floormod": np.floor_divide,
    "fmod": lambda a, b: np.trunc(a / b),
}
"""The whole quotients of functions that are not continuous in it."""


def function_error(name: str, value: Array, operands: Sequence[Operand]) -> Array:
    """A bound on |f(x) - value| for all x within the bounds of the operands.

    It is inf where an operand is not known at all, and where the function jumps in between.
    """
    special = _SPECIAL.get(name)
    err = _at_ends(name, value, operands) if special is None else special(name, value, *operands)
    lost = np.isnan(err)
    for _, bound in operands:
        lost = lost | np.isinf(bound)
    return np.where(lost, np.inf, err)


def _at_ends(name: str, value: Array, operands: Sequence[Operand]) -> Array:
    function, err = MATH[name].numpy, np.zeros(())
    for signs in itertools.product((-1.0, 1.0), repeat=len(operands)):
        end = np.asarray(function(*(v + s * bound for s, (v, bound) in zip(signs, operands))))
        same = (end == value) | (np.isnan(end) & np.isnan(value))
        apart = np.where(same, 0.0, np.abs(end - value))
        err = np.maximum(err, np.where(np.isnan(apart), np.inf, apart))
    return err


def _wave(name: str, value: Array, x: Operand) -> Array:
    return np.minimum(x[1], 2.0)  # no slope is steeper than 1


def _tangent(name: str, value: Array, x: Operand) -> Array:
    a, bound = x
    crossed = (np.cos(a - bound) > 0) != (np.cos(a + bound) > 0)
    return np.where(crossed | (bound >= 1), np.inf, _at_ends(name, value, (x,)))


def _angle(name: str, value: Array, y: Operand, x: Operand) -> Array:
    around = (np.abs(y[0]) <= y[1]) & (np.abs(x[0]) <= x[1])  # the origin, of any angle
    unsure = (y[1] > 0) | (x[1] > 0)
    return np.where(around & unsure, 2 * np.pi, _at_ends(name, value, (y, x)))


def _power(name: str, value: Array, x: Operand, y: Operand) -> Array:
    through_zero = (np.abs(x[0]) <= x[1]) & (x[1] > 0)
    of_negative = (x[0] < x[1]) & (y[1] > 0)  # odd and even powers, and fractions
    return np.where(through_zero | of_negative, np.inf, _at_ends(name, value, (x, y)))


def _quotient(name: str, value: Array, a: Operand, b: Operand) -> Array:
    whole = QUOTIENTS[name]
    exact = np.asarray(whole(a[0], b[0]))
    sure = np.abs(b[0]) > b[1]
    for s, t in itertools.product((-1.0, 1.0), repeat=2):
        sure = sure & (whole(a[0] + s * a[1], b[0] + t * b[1]) == exact)
    err = np.zeros(()) if name == "floordiv" else a[1] + np.abs(exact) * b[1]
    known = (a[1] == 0) & (b[1] == 0)
    return np.where(known, 0.0, np.where(sure, err, np.inf))


_SPECIAL: dict[str, Callable[..., Array]] = {
    **dict.fromkeys(("sin", "cos"), _wave),
    "tan": _tangent,
    "atan2": _angle,
    "pow": _power,
    **dict.fromkeys(QUOTIENTS, _quotient),
}
