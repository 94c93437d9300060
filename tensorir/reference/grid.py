"""Evaluating an expression on a whole grid of variable values at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError
from tensorir.expr import BinOp, Call, Cast, Const, Expr, Load, Not, Select, Var
from tensorir.numbers.intrin import REINTERPRET
from tensorir.reference.exact import Array

Affine = tuple[dict[Var, int], int]


class Grid:
    """Some variables run over ranges, one dimension each; others have one value.

    `axes` maps a variable to (dimension, low, high) and `fixed` to its value. Results are numbers
    of `algebra` that broadcast to the grid: extent 1 where they do not depend on a dimension.
    """

    def __init__(
        self,
        algebra: Any,
        memory: Mapping[Buffer, Any],
        rank: int,
        axes: Mapping[Var, tuple[int, int, int]],
        fixed: Mapping[Var, Any],
    ) -> None:
        self.algebra = algebra
        self.memory = memory
        self.rank = rank
        self.axes = axes
        self.fixed = fixed
        self.memo: dict[Expr, Any] = {}

    def evaluate(self, e: Expr) -> Any:
        found = self.memo.get(e)
        if found is None:
            rule = getattr(self, f"_{type(e).__name__.lower()}", None)
            if rule is None:
                raise TensorIRError(f"the reference cannot evaluate {e!r}; use interpret")
            found = self.memo[e] = rule(e)
        return found

    def _const(self, e: Const) -> Any:
        return self.algebra.constant(e)

    def _var(self, e: Var) -> Any:
        if e in self.axes:
            d, low, high = self.axes[e]
            shape = [1] * self.rank
            shape[d] = high - low
            return self.algebra.exact(np.arange(low, high, dtype=np.int64).reshape(shape))
        value = self.fixed[e]
        if isinstance(value, (int, float)):
            return self.algebra.constant(Const(value, e.dtype))
        return value

    def _binop(self, e: BinOp) -> Any:
        return self.algebra.binary(e.op, e.a.dtype, self.evaluate(e.a), self.evaluate(e.b))

    def _not(self, e: Not) -> Any:
        return self.algebra.negate(self.evaluate(e.a))

    def _cast(self, e: Cast) -> Any:
        return self.algebra.cast(e.a.dtype, e.dtype, self.evaluate(e.a))

    def _select(self, e: Select) -> Any:
        cond = self.evaluate(e.cond)
        return self.algebra.select(cond, self.evaluate(e.a), self.evaluate(e.b))

    def _call(self, e: Call) -> Any:
        if e.name == REINTERPRET:
            return self.algebra.reinterpret(e.args[0].dtype, e.dtype, self.evaluate(e.args[0]))
        return self.algebra.call(e.name, e.dtype, tuple([self.evaluate(a) for a in e.args]))

    def _load(self, e: Load) -> Any:
        held = self.memory[e.buffer]
        shape = self.algebra.value(held).shape
        affine = [self.affine(i) for i in e.indices]
        if None not in affine and self.inside(affine, shape):  # type: ignore[arg-type]
            return self.algebra.map(lambda a: self.view(a, affine), held)  # type: ignore[arg-type]
        if 0 in shape:  # nothing to read: the side of a select that is not chosen
            return self.algebra.empty((), e.dtype)
        found = tuple([self.evaluate(i) for i in e.indices])
        # an index that is out of range belongs to the side of a select that is not chosen
        where = tuple([np.clip(self.algebra.value(i), 0, n - 1) for i, n in zip(found, shape)])
        return self.algebra.map(lambda a: np.asarray(a[where]), held, found)

    def affine(self, e: Expr) -> Affine | None:
        """`e` as a sum of coefficients times axes of the grid, and a constant."""
        if e.dtype != dt.INDEX:
            return None
        if isinstance(e, Const):
            return {}, int(e.value)
        if isinstance(e, Var):
            if e in self.axes:
                return {e: 1}, 0
            value = self.fixed[e]
            return ({}, value) if isinstance(value, int) else None
        if not isinstance(e, BinOp) or e.op not in ("+", "-", "*"):
            return None
        a, b = self.affine(e.a), self.affine(e.b)
        return None if a is None or b is None else _combine(e.op, a, b)

    def inside(self, indices: list[Affine], shape: tuple[int, ...]) -> bool:
        """Whether affine indices stay in range on the whole grid; False if it has no points."""
        for (terms, offset), size in zip(indices, shape):
            low = high = offset
            for var, scale in terms.items():
                _, first, end = self.axes[var]
                if first >= end:
                    return False
                low += scale * (first if scale > 0 else end - 1)
                high += scale * (end - 1 if scale > 0 else first)
            if low < 0 or high >= size:
                return False
        return True

    def view(self, a: Array, indices: list[Affine]) -> Array:
        """The elements at affine indices on the grid, without a copy."""
        extents, steps = [1] * self.rank, [0] * self.rank
        start = []
        for (terms, offset), stride in zip(indices, a.strides):
            for var, scale in terms.items():
                d, low, high = self.axes[var]
                extents[d] = high - low
                steps[d] += scale * stride
                offset += scale * low
            start.append(offset)
        corners: tuple[Any, ...] = tuple([slice(s, None) for s in start])
        corner = a[(*corners, ...)]
        return as_strided(corner, extents, steps, writeable=False)


def _combine(op: str, a: Affine, b: Affine) -> Affine | None:
    (left, x), (right, y) = a, b
    if op == "*":
        if left and right:
            return None
        terms, scale = (left, y) if not right else (right, x)
        return {v: c * scale for v, c in terms.items() if c * scale}, x * y
    sign = 1 if op == "+" else -1
    merged = dict(left)
    for v, c in right.items():
        merged[v] = merged.get(v, 0) + sign * c
    return {v: c for v, c in merged.items() if c}, x + sign * y
