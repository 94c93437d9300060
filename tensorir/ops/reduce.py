"""Reductions over one axis, several or all: sums, products, extremes, tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir import te
from tensorir.expr import Expr, int_value
from tensorir.ops.arguments import (
    Axes,
    accumulator,
    check_axes,
    check_axis,
    check_tensor,
    require,
    wide,
)
from tensorir.ops.moments import Rows
from tensorir.ops.registry import SPECIAL, Example, operator, values
from tensorir.te.tensor import Tensor


def check_rows(op: str, x: Tensor, axis: Axes) -> Rows:
    """The rows of `x` along `axis`: one dimension, several, or all of them for None."""
    check_tensor(op, "x", x)
    require(x.ndim > 0, op, f"x {x!r} has no dimension to reduce; use ops.reshape")
    axes = check_axes(op, axis, x.ndim)
    require(len(axes) > 0, op, "axis=() names no dimension; use None for all of them")
    return Rows(x, axes)


def fold(
    op: str,
    x: Tensor,
    axis: Axes,
    keepdims: bool,
    name: str,
    part: Callable[[Expr], Expr],
    reduce: Callable[..., Expr],
    finish: Callable[[Expr, Rows], Expr] | None = None,
    dtype: str | None = None,
) -> Tensor:
    """The reduction of `part` of every element, then `finish`, stored as `dtype`, that of x."""
    rows = check_rows(op, x, axis)
    k = rows.inner()
    out = dtype or x.dtype
    like = part(wide(x[(te.const(0),) * x.ndim])).dtype
    last = finish is None and not keepdims and like == out
    folded = te.compute(
        rows.shape,
        lambda *i: reduce(part(wide(x[rows.at(i, k)])), axis=k),
        name if last else f"{op}_of_parts",
    )
    if last:
        return folded  # type: ignore[no-any-return]
    return stored(rows, folded, keepdims, name, lambda e: finish(e, rows) if finish else e, out)


def stored(
    rows: Rows, folded: Tensor, keepdims: bool, name: str, finish: Callable[[Expr], Expr],
    dtype: str,
) -> Tensor:  # fmt: skip
    """`finish` of what was reduced, with dimensions of size 1 for those that are gone, or none."""
    shape = rows.shape
    if keepdims:
        one = te.const(1)
        shape = tuple(one if d in rows.axes else s for d, s in enumerate(rows.x.shape))

    def element(*i: Expr) -> Expr:
        return te.cast(finish(folded[rows.row(i) if keepdims else i]), dtype)

    return te.compute(shape, element, name)  # type: ignore[no-any-return]


def _no_bool(op: str, x: Tensor) -> None:
    check_tensor(op, "x", x)
    require(
        not dt.is_bool(x.dtype), op,
        f"x {x!r} is bool; convert it with ops.cast, or use ops.any and ops.all",
    )  # fmt: skip


def check_not_empty(op: str, x: Tensor, axis: Axes) -> None:
    """Raise TensorIRError for rows that are known to be empty."""
    sizes = [int_value(x.shape[d]) for d in check_rows(op, x, axis).axes]
    require(
        0 not in sizes, op, f"x {x!r} is empty along axis={axis!r}; {op} of nothing has no value"
    )


def same(e: Expr) -> Expr:
    """`e` itself, where nothing is to be done to elements."""
    return e


REDUCTIONS = [
    Example([(3, 4, 5)], {"axis": 1}),
    Example([(3, 4, 5)], {"axis": (0, -1), "keepdims": True}),
    Example([(7,)]),
    Example([("n", 6)], {"axis": -1}, "float16", sizes={"n": 3}),
]
EMPTY = [Example([(3, 0)], {"axis": 1}), Example([(0, 3)], {"axis": 1})]
INTS = [Example([(3, 5)], {"axis": 0}, "int32")]
WITH_NAN = [Example([(2, 7)], {"axis": 0}, data=SPECIAL)]


def _typed(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's reduction in the type of the input, as ours."""

    def reference(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        return function(x, axis=axis, keepdims=keepdims, dtype=dtype or x.dtype)

    return reference


@operator(
    reference=_typed(np.sum),
    examples=[*REDUCTIONS, *EMPTY, *INTS, Example([(4, 9)], {"axis": 1, "dtype": "int32"}, "int8")],
)
def sum(
    x: Tensor,
    axis: Axes = None,
    keepdims: bool = False,
    dtype: str | None = None,
    name: str = "sum",
) -> Tensor:
    """The sum over `axis`: one, several, or all for None; 0 over nothing.

    Sums in the type of `x`, or in `dtype`; of float16 and bfloat16 in float32, rounded once.
    """
    _no_bool("sum", x)
    out = dt.check_dtype(dtype or x.dtype)
    return fold(
        "sum", x, axis, keepdims, name, lambda e: te.cast(e, accumulator(out)), te.sum, dtype=out
    )


@operator(
    reference=_typed(np.prod),
    examples=[*REDUCTIONS, *EMPTY, *INTS],
)
def prod(
    x: Tensor,
    axis: Axes = None,
    keepdims: bool = False,
    dtype: str | None = None,
    name: str = "prod",
) -> Tensor:
    """The product over `axis`; 1 over nothing. Types are as in sum."""
    _no_bool("prod", x)
    out = dt.check_dtype(dtype or x.dtype)
    return fold(
        "prod", x, axis, keepdims, name, lambda e: te.cast(e, accumulator(out)), te.prod, dtype=out
    )


EXTREMES = [*REDUCTIONS, *INTS, *WITH_NAN, Example([(2, 3)], {}, "uint8")]


@operator(reference=np.max, examples=EXTREMES)
def max(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "max") -> Tensor:
    """The maximum over `axis`; NaN if an element is."""
    _no_bool("max", x)
    check_not_empty("max", x, axis)
    return fold("max", x, axis, keepdims, name, same, te.max)


@operator(reference=np.min, examples=EXTREMES)
def min(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "min") -> Tensor:
    """The minimum over `axis`; NaN if an element is."""
    _no_bool("min", x)
    check_not_empty("min", x, axis)
    return fold("min", x, axis, keepdims, name, same, te.min)


BOOLS = [
    Example([(3, 4)], {"axis": 1}, "bool", values(0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1)),
    Example([(2, 0)], {"axis": 1, "keepdims": True}, "bool"),
    Example([(3,)], {}, "bool"),
]


@operator(reference=np.any, examples=BOOLS)
def any(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "any") -> Tensor:
    """Whether an element along `axis`, of type bool, is True; False for nothing."""
    return _tested("any", x, axis, keepdims, name, te.any)


@operator(reference=np.all, examples=BOOLS)
def all(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "all") -> Tensor:
    """Whether all elements along `axis`, of type bool, are True; True for nothing."""
    return _tested("all", x, axis, keepdims, name, te.all)


def _tested(
    op: str, x: Tensor, axis: Axes, keepdims: bool, name: str, reduce: Callable[..., Expr]
) -> Tensor:
    check_tensor(op, "x", x)
    require(
        dt.is_bool(x.dtype), op, f"x {x!r} is {x.dtype}, not bool; compare it with ops.not_equal"
    )
    return fold(op, x, axis, keepdims, name, same, reduce)


ARGUMENTS = [
    Example([(3, 4, 5)], {"axis": 1}),
    Example([(3, 4)]),
    Example([("n", 6)], {"axis": -1, "keepdims": True}, "float16", sizes={"n": 3}),
    Example([(3, 7)], {"axis": 1}, data=SPECIAL),
    Example([(2, 6)], {"axis": 1}, "int32", values(2, 5, 5, 1, 1)),
    Example([(0, 3)], {"axis": 1}),
]


@operator(reference=np.argmax, examples=ARGUMENTS)
def argmax(
    x: Tensor, axis: int | None = None, keepdims: bool = False, name: str = "argmax"
) -> Tensor:
    """The int64 index of the first maximum along `axis`, or of the first NaN.

    With axis=None it is the row-major index into all of `x`.
    """
    return _arg("argmax", x, axis, keepdims, name, te.argmax)


@operator(reference=np.argmin, examples=ARGUMENTS)
def argmin(
    x: Tensor, axis: int | None = None, keepdims: bool = False, name: str = "argmin"
) -> Tensor:
    """The int64 index of the first minimum along `axis`, or of the first NaN; see argmax."""
    return _arg("argmin", x, axis, keepdims, name, te.argmin)


def _arg(
    op: str, x: Tensor, axis: int | None, keepdims: bool, name: str, reduce: Callable[..., Expr]
) -> Tensor:
    _no_bool(op, x)
    if axis is not None:
        check_axis(op, axis, x.ndim)
    check_not_empty(op, x, axis)
    rows = check_rows(op, x, axis)
    k = rows.inner()
    best = te.compute(
        rows.shape,
        lambda *i: reduce(wide(x[rows.at(i, k)]), axis=k),
        f"{op}_of_parts" if keepdims else name,
    )
    return stored(rows, best, True, name, same, dt.INDEX) if keepdims else best
