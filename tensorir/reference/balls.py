"""Numbers with error bounds: how far the value of a kernel may be from the exact one.

This is a running error analysis: each operation carries the bounds of its operands along and
adds one rounding of its result, unless operands and result are exact. Sums add what sums.py says.
Math functions (functions.py) may be wrong by MATH_ULPS units themselves. Infinite values are exact,
unless the bounds that led to them say nothing: an overflow of a kernel's type makes the bound inf.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir.errors import TensorIRError
from tensorir.expr import Const
from tensorir.numbers.intrin import MATH
from tensorir.reference.contract import contract
from tensorir.reference.exact import UFUNCS, Array, Exact, bits_as, constant, convert, numbers_dtype
from tensorir.reference.functions import EXACT_FUNCTIONS, function_error
from tensorir.reference.sums import (
    any_order,
    grid,
    is_exact,
    multiples,
    representable,
    sum_error,
)

PARTS_GRID = 6
"""Of terms that are summed in parts, because there are many, multiples of 2**-6 count as exact."""

MATH_ULPS = 8
"""Units in the last place by which a math function of a target may be off."""

ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-52}
"""Unit roundoffs; that of float64 counts twice, for the reference is computed in float64 itself."""

SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}
LARGEST = {
    "float16": 65504.0,
    "bfloat16": (2.0 - 2.0**-7) * 2.0**127,
    "float32": float(np.finfo(np.float32).max),
    "float64": float(np.finfo(np.float64).max),
}
ZERO = np.zeros(())


@dataclass(frozen=True, eq=False)
class Ball:
    """The exact value and a bound on the error of a kernel's; a wrong bool or index is inf off."""

    value: Array
    err: Array

    @property
    def exact(self) -> bool:
        return self.err is ZERO


class Balls:
    """The algebra of balls."""

    def __init__(self, growth: str) -> None:
        if growth not in ("order", "algebra"):
            raise TensorIRError(f"growth is 'order' or 'algebra', not {growth!r}")
        self.strict = growth == "order"

    def sum_growth(self, count: int, dtype: str) -> float:
        """The error of a sum of `count` terms, relative to the sum of their magnitudes."""
        if not dt.is_float(dtype):
            return 0.0
        least = 0.0 if self.strict else 6.0 * float(np.sqrt(count + 2)) * ROUNDOFF[dtype]
        return max(least, any_order(count, ROUNDOFF[dtype]))

    def constant(self, e: Const) -> Ball:
        return Ball(constant(e), ZERO)

    def exact(self, a: Array) -> Ball:
        return Ball(a, ZERO)

    def within(self, a: Array, bound: float) -> Ball:
        return Ball(a, np.full(a.shape, bound))

    def value(self, a: Ball) -> Array:
        return a.value

    def map(self, fn: Callable[[Array], Array], a: Ball, indices: tuple[Any, ...] = ()) -> Ball:
        err = ZERO if a.exact else fn(np.broadcast_to(a.err, a.value.shape))
        for i in indices:
            if not i.exact:
                err = np.where(i.err > 0, np.inf, err)
        return Ball(fn(a.value), err)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Ball:
        return Ball(np.zeros(shape, numbers_dtype(dtype)), np.zeros(shape))

    def part(self, a: Ball, where: tuple[Any, ...]) -> Ball:
        return Ball(a.value[(*where, ...)], a.err[(*where, ...)])

    def assign(self, target: Ball, a: Ball) -> None:
        target.value[...] = a.value
        target.err[...] = a.err

    def is_sure(self, a: Ball) -> bool:
        """Whether rounding changes nothing."""
        return not np.any(a.err)

    def forget(self, target: Ball) -> None:
        """Nothing can be said of it from now on."""
        target.err[...] = np.inf

    def rounded(
        self, dtype: str, value: Array, err: Any, units: float = 1.0, exactly: Array | None = None
    ) -> Ball:
        """A result of type `dtype` that was rounded by at most `units`.

        `exactly` says where `value` is what it should be before that; everywhere if it is None.
        """
        if not dt.is_float(dtype):
            return Ball(value, ZERO if err is ZERO else np.asarray(err))
        size = np.abs(value)  # of the exact value: what is rounded may be `err` larger
        own = units * (ROUNDOFF[dtype] * (size + err) + SMALLEST[dtype]) if units else ZERO
        if self.strict and 0 < units <= 1:
            kept = (np.asarray(err) == 0) & representable(value, dtype)
            own = np.where(kept if exactly is None else kept & exactly, 0.0, own)
        total = err + own
        total = np.where(size + total > LARGEST[dtype], np.inf, total)
        total = np.where(np.isnan(total), np.inf, total)
        infinite = np.where(np.isinf(err) | np.isnan(err), np.inf, 0.0)
        return Ball(value, np.where(np.isfinite(value), total, infinite))

    def binary(self, op: str, dtype: str, a: Ball, b: Ball) -> Ball:
        value = np.asarray(UFUNCS[op](a.value, b.value))
        known = a.exact and b.exact
        if op in ("<", "<=", "==", "!="):
            return Ball(value, ZERO if known else _unsure(a, b))
        if op in ("and", "or"):
            return Ball(value, ZERO if known else _unsure_logic(op, a, b))
        if op in ("min", "max"):
            return Ball(value, ZERO if known else np.maximum(a.err, b.err))
        exactly = None
        if dtype == "float64" and self.strict:  # of which `value` is a rounded result itself
            exactly = is_exact(op, a.value, b.value, value)
        if known:
            return self.rounded(dtype, value, ZERO, exactly=exactly)
        x, y = np.abs(a.value), np.abs(b.value)
        if op in ("+", "-"):
            err = a.err + b.err
        elif op == "*":
            err = _times(x, b.err) + _times(y, a.err) + _times(a.err, b.err)
            err = np.where(_any([np.isinf(a.err), np.isinf(b.err)]), np.inf, err)
        elif op == "/":
            room = y - b.err
            err = np.where(room > 0, (a.err + _times(np.abs(value), b.err)) / room, np.inf)
        else:
            err = np.where((a.err > 0) | (b.err > 0), np.inf, 0.0)
        return self.rounded(dtype, value, err, exactly=exactly)

    def negate(self, a: Ball) -> Ball:
        return Ball(np.logical_not(a.value), a.err)

    def cast(self, source: str, target: str, a: Ball) -> Ball:
        value = convert(a.value, source, target)
        if dt.is_float(target):
            wider = dt.is_float(source) and dt.bits(target) > dt.bits(source) or target == source
            if wider:
                return Ball(value, a.err)
            made = self.rounded(target, value, a.err)
            if dt.is_float(source):
                return made
            whole = (np.abs(value) <= 1 / ROUNDOFF[target]) & (a.err == 0)
            return Ball(value, np.where(whole, 0.0, made.err))
        if a.exact:
            return Ball(value, ZERO)
        if not dt.is_float(source):
            off = a.err > 0
        elif dt.is_bool(target):
            off = (np.abs(a.value) <= a.err) & (a.err > 0)
        else:
            ends = [convert(a.value + s * a.err, source, target) for s in (-1.0, 1.0)]
            off = (ends[0] != value) | (ends[1] != value)
        return Ball(value, np.where(off | np.isinf(a.err), np.inf, 0.0))

    def select(self, cond: Ball, a: Ball, b: Ball) -> Ball:
        value = np.where(cond.value, a.value, b.value)
        if cond.exact and a.exact and b.exact:
            return Ball(value, ZERO)
        chosen = np.where(cond.value, a.err, b.err)
        if cond.exact:
            return Ball(value, chosen)
        same = a.value == b.value
        apart = np.where(same, 0.0, np.abs(a.value.astype(float) - b.value.astype(float)))
        if not np.issubdtype(value.dtype, np.floating):
            apart = np.where(same, 0.0, np.inf)
        either = np.nan_to_num(apart, nan=np.inf, posinf=np.inf) + np.maximum(a.err, b.err)
        return Ball(value, np.where(cond.err > 0, either, chosen))

    def call(self, name: str, dtype: str, args: tuple[Ball, ...]) -> Ball:
        value = np.asarray(MATH[name].numpy(*(a.value for a in args)))
        known = all(a.exact for a in args)
        if dt.is_bool(dtype):
            lost = _any([np.isinf(a.err) for a in args])
            return Ball(value, ZERO if known else np.where(lost, np.inf, 0.0))
        if not dt.is_float(dtype):
            return Ball(value, _never_off(args))
        err = ZERO
        if not known:
            err = function_error(name, value, [(a.value, a.err) for a in args])
        return self.rounded(dtype, value, err, 0.0 if name in EXACT_FUNCTIONS else MATH_ULPS)

    def reinterpret(self, source: str, target: str, a: Ball) -> Ball:
        return Ball(bits_as(a.value, source, target), _never_off((a,)))

    def fold(self, op: str, dtype: str, a: Ball, axes: tuple[int, ...], count: int) -> Ball:
        value = Exact().fold(op, dtype, a.value, axes, count)
        err = np.broadcast_to(a.err, a.value.shape)
        if op in ("max", "min", "or", "and"):
            return Ball(value, ZERO if a.exact else err.max(axis=axes, keepdims=True))
        growth = self.sum_growth(count, dtype)
        sizes = np.abs(a.value).astype(np.float64) + err
        if op == "+" and self.strict and dt.is_float(dtype):
            total = err.sum(axis=axes, keepdims=True)
            total = total + sum_error(sizes, axes, count, ROUNDOFF[dtype])
            total = np.where(self.adds_exactly(dtype, a, err, sizes, axes, count), 0.0, total)
        elif op == "+":
            total = err.sum(axis=axes, keepdims=True)
            total = total + _times(growth, sizes.sum(axis=axes, keepdims=True))
        else:
            high = np.prod(sizes, axis=axes, keepdims=True)
            total = high * (1 + growth) - np.abs(value)
            if not dt.is_float(dtype):
                total = np.where(err.max(axis=axes, keepdims=True) > 0, np.inf, 0.0)
        return self.rounded(dtype, value, total)

    def start(self, op: str, dtype: str, a: Ball, count: int) -> Ball:
        """What `count` terms are merged with: it is in every partial sum."""
        if op != "+":
            return a
        more = _times(self.sum_growth(count, dtype), np.abs(a.value).astype(np.float64) + a.err)
        return Ball(a.value, a.err + more)

    def adds_exactly(
        self, dtype: str, a: Ball, err: Array, sizes: Array, axes: tuple[int, ...], count: int
    ) -> Array:
        """Where no order of summation rounds: exact terms that are multiples of one number."""
        if np.any(err):
            return np.zeros((), bool)
        whole = sizes.sum(axis=axes, keepdims=True)
        if math.prod(sizes.shape[d] for d in axes) < count:  # other parts have terms as well
            whole = np.maximum(whole, count * sizes.max(initial=0.0))
            return multiples(whole, PARTS_GRID, dtype) & (grid(a.value) <= PARTS_GRID)
        return multiples(whole, grid(a.value), dtype)

    def weigh(self, a: Ball, dtype: str, count: int) -> Ball:
        """What is there before `count` terms are added to it."""
        growth = self.sum_growth(count + 1, dtype)
        return Ball(a.value, a.err + _times(growth, np.abs(a.value).astype(np.float64) + a.err))

    def merge(self, op: str, dtype: str, a: Ball, b: Ball) -> Ball:
        """Two partial results; the rounding of a sum is counted in its parts already."""
        if op != "+":
            return self.binary(op, dtype, a, b)
        return Ball(np.asarray(a.value + b.value), np.asarray(a.err + b.err))

    def arg(self, op: str, a: Ball, position: Ball, axes: tuple[int, ...]) -> tuple[Ball, Ball]:
        index, best = Exact().arg(op, a.value, position.value, axes)
        if a.exact:
            return Ball(index, ZERO), Ball(best, ZERO)
        err = np.broadcast_to(a.err, a.value.shape)
        margin = err + err.max(axis=axes, keepdims=True)
        rival = (position.value != index) & (margin > 0) & ~(np.abs(a.value - best) > margin)
        unsure = rival.any(axis=axes, keepdims=True)
        return (
            Ball(index, np.where(unsure, np.inf, 0.0)),
            Ball(best, err.max(axis=axes, keepdims=True)),
        )

    def dot(
        self,
        dtype: str,
        a: Ball,
        b: Ball,
        sizes: tuple[int, ...],
        axes: tuple[int, ...],
        count: int,
    ) -> Ball:
        value = contract(a.value, b.value, sizes, axes)
        if not dt.is_float(dtype):
            unsure = contract(_any_err(a), np.ones_like(b.value, float), sizes, axes)
            unsure = unsure + contract(np.ones_like(a.value, float), _any_err(b), sizes, axes)
            return Ball(value, np.where(unsure > 0, np.inf, 0.0))
        x, y = np.abs(a.value), np.abs(b.value)
        high = contract(x + a.err, y + b.err, sizes, axes)
        err = self.sum_growth(count, dtype) * high
        known = not np.any(a.err) and not np.any(b.err)
        if not known:
            err = err + (high - contract(x, y, sizes, axes))
        elif self.strict:
            step, whole = grid(x) + grid(y), high
            if math.prod(sizes[d] for d in axes) < count:  # other parts have terms as well
                fits = step <= PARTS_GRID
                step = PARTS_GRID
                whole = np.full(high.shape, count * x.max(initial=0.0) * y.max(initial=0.0))
                whole = whole if fits else np.full(high.shape, np.inf)
            err = np.where(multiples(whole, step, dtype), 0.0, err)
        return self.rounded(dtype, value, err)


def _times(a: Any, b: Any) -> Any:
    """The product, where infinity times zero is zero: no error, or nothing to be in error."""
    product = np.multiply(a, b)
    return np.where(np.isnan(product), 0.0, product)


def _unsure(a: Ball, b: Ball) -> Array:
    margin = a.err + b.err
    close = ~(np.abs(np.subtract(a.value, b.value, dtype=float)) > margin)
    either_nan = np.isnan(np.add(a.value, b.value, dtype=float)) & (margin == 0)
    return np.where(close & (margin > 0) & ~either_nan, np.inf, 0.0)


def _unsure_logic(op: str, a: Ball, b: Ball) -> Array:
    """A side that is sure and decides makes the other not matter."""
    decides = op == "or"
    sure = ((a.value == decides) & (a.err == 0)) | ((b.value == decides) & (b.err == 0))
    return np.where(sure, 0.0, np.maximum(a.err, b.err))


def _never_off(args: tuple[Ball, ...]) -> Array:
    """The error of bits or counts: none, or nothing can be said."""
    if all(a.exact for a in args):
        return ZERO
    return np.where(_any([a.err > 0 for a in args]), np.inf, 0.0)


def _any(conditions: list[Array]) -> Array:
    return functools.reduce(np.logical_or, conditions)


def _any_err(a: Ball) -> Array:
    return np.broadcast_to((a.err > 0).astype(float), a.value.shape)
