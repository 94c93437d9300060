"""Numbers of the reference: float64 for all floats, integers of their own type, as NumPy arrays.

An algebra says what the operations of expressions do to such numbers; balls.py has another, which
carries error bounds along. `count` is the number of terms of a whole reduction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir.arrays import decode, encode
from tensorir.expr import Const
from tensorir.numbers.intrin import MATH
from tensorir.reference.contract import contract

Array = np.ndarray[Any, Any]

UFUNCS: dict[str, np.ufunc] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "//": np.floor_divide,
    "%": np.remainder,
    "min": np.minimum,
    "max": np.maximum,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
}


def numbers_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy type in which values of `dtype` are held here."""
    return np.dtype("float64") if dt.is_float(dtype) else dt.numpy_dtype(dtype)


def constant(e: Const) -> Array:
    return np.asarray(e.value, numbers_dtype(e.dtype))


def convert(a: Array, source: str, target: str) -> Array:
    """`a` cast from `source` to `target`; floats are not rounded, integers wrap."""
    if dt.is_bool(target):
        return np.asarray(a != 0)
    if dt.is_float(source) and dt.is_int(target):
        finite = np.isfinite(a)
        whole = np.trunc(np.where(finite, a, 0.0)).astype(np.int64)
        return np.where(finite, whole.astype(target), np.array(dt.int_limits(target)[0], target))
    return a.astype(numbers_dtype(target))


def bits_as(a: Array, source: str, target: str) -> Array:
    """The bits of `a`, rounded to `source`, as numbers of `target`."""
    return decode(encode(a, source).view(dt.numpy_dtype(target)), target)


class Exact:
    """The algebra of plain values."""

    def constant(self, e: Const) -> Any:
        return constant(e)

    def exact(self, a: Array) -> Any:
        return a

    def within(self, a: Array, bound: float) -> Any:
        """Values of which a kernel's may be `bound` off."""
        return a

    def value(self, a: Any) -> Array:
        return a  # type: ignore[no-any-return]

    def map(self, fn: Callable[[Array], Array], a: Any, index_errors: tuple[Any, ...] = ()) -> Any:
        """A rearrangement of the elements of `a`, such as an indexing."""
        return fn(a)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return np.zeros(shape, numbers_dtype(dtype))

    def part(self, a: Any, where: tuple[Any, ...]) -> Any:
        """A view of some elements of `a`, to assign to."""
        return a[(*where, ...)]

    def assign(self, target: Any, a: Any) -> None:
        target[...] = a

    def is_sure(self, a: Any) -> bool:
        return True

    def forget(self, target: Any) -> None:
        """Nothing is known to be off."""

    def binary(self, op: str, dtype: str, a: Any, b: Any) -> Any:
        return UFUNCS[op](a, b)

    def negate(self, a: Any) -> Any:
        return np.logical_not(a)

    def cast(self, source: str, target: str, a: Any) -> Any:
        return convert(a, source, target)

    def select(self, cond: Any, a: Any, b: Any) -> Any:
        return np.where(cond, a, b)

    def call(self, name: str, dtype: str, args: tuple[Any, ...]) -> Any:
        return np.asarray(MATH[name].numpy(*args))

    def reinterpret(self, source: str, target: str, a: Any) -> Any:
        return bits_as(a, source, target)

    def fold(self, op: str, dtype: str, a: Any, axes: tuple[int, ...], count: int) -> Any:
        """All elements along `axes` merged with `op`; the axes stay, with extent 1."""
        return UFUNCS[op].reduce(a, axis=axes, keepdims=True, dtype=numbers_dtype(dtype))

    def start(self, op: str, dtype: str, a: Any, count: int) -> Any:
        """What `count` terms are merged with."""
        return a

    def weigh(self, a: Any, dtype: str, count: int) -> Any:
        """What is there before `count` terms are added to it."""
        return a

    def merge(self, op: str, dtype: str, a: Any, b: Any) -> Any:
        """Two partial results of one reduction as one."""
        return UFUNCS[op](a, b)

    def arg(self, op: str, a: Any, position: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
        """The smallest position of the extreme (or of NaN) along `axes`, and the extreme."""
        best = UFUNCS[op].reduce(a, axis=axes, keepdims=True)
        same = (a == best) | ((a != a) & (best != best))
        last = np.iinfo(position.dtype).max
        return np.where(same, position, last).min(axis=axes, keepdims=True), best

    def dot(
        self, dtype: str, a: Any, b: Any, sizes: tuple[int, ...], axes: tuple[int, ...], count: int
    ) -> Any:
        """The sum of `a * b` along `axes` of the grid `sizes`; the axes stay, with extent 1."""
        return contract(a, b, sizes, axes)
