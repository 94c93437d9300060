"""Statistics over axes: mean, variance, standard deviation, norms, logsumexp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir import te
from tensorir.expr import Expr, binary, select
from tensorir.ops.arguments import Axes, check_choice, check_float, check_tensor, require, wide
from tensorir.ops.moments import mean_and_spread
from tensorir.ops.reduce import (
    EMPTY,
    REDUCTIONS,
    WITH_NAN,
    check_not_empty,
    check_rows,
    fold,
    same,
    stored,
)
from tensorir.ops.registry import SPECIAL, Example, operator, uniform, values
from tensorir.te.tensor import Tensor


def _mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    over = range(x.ndim) if axis is None else np.atleast_1d(axis)
    return x.sum(axis, keepdims=keepdims) / np.prod([x.shape[d] for d in over], dtype=float)


@operator(
    reference=_mean,
    examples=[*REDUCTIONS, Example([(2, 0)], {"axis": 1}), Example([(0, 3)], {"axis": 1})],
)
def mean(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "mean") -> Tensor:
    """The mean over `axis`, of floats; NaN over nothing."""
    check_float("mean", "x", check_tensor("mean", "x", x))
    return fold(
        "mean", x, axis, keepdims, name, same, te.sum, lambda e, rows: e / rows.size(e.dtype)
    )


FAR = uniform(1000, 1001)
SPREAD = [
    *REDUCTIONS,
    Example([(3, 5)], {"axis": 1, "ddof": 1}),
    Example([(3, 5, 2)], {"axis": (1, 2), "algorithm": "welford"}),
    Example([(2, 32)], {"axis": 1}, "float64", FAR),
    Example([(2, 32)], {"axis": 1, "algorithm": "welford"}, "float64", FAR),
    Example([(2, 7)], {"axis": 1, "algorithm": "welford"}, data=SPECIAL),
]


def _numpy_var(x: Any, axis: Any = None, keepdims: bool = False, ddof: int = 0, **_: Any) -> Any:
    return np.var(x, axis=axis, keepdims=keepdims, ddof=ddof)


def _variance(
    op: str, x: Tensor, axis: Axes, keepdims: bool, ddof: int, algorithm: str, name: str,
    finish: Callable[[Expr], Expr],
) -> Tensor:  # fmt: skip
    check_float(op, "x", check_tensor(op, "x", x))
    require(isinstance(ddof, int) and ddof >= 0, op, f"ddof={ddof!r} must be an integer from 0 on")
    rows = check_rows(op, x, axis)
    _, spread = mean_and_spread(op, rows, algorithm)
    assert spread is not None
    count = rows.size(dt.INDEX) - ddof
    divisor = te.cast(count, spread.dtype)
    return stored(rows, spread, keepdims, name, lambda e: finish(e / divisor), x.dtype)


@operator(reference=_numpy_var, examples=SPREAD)
def var(
    x: Tensor,
    axis: Axes = None,
    keepdims: bool = False,
    ddof: int = 0,
    algorithm: str = "passes",
    name: str = "var",
) -> Tensor:
    """The variance over `axis`: squared distances from the mean over (count - ddof).

    `algorithm` "passes" computes the mean first; "welford" both in one pass.
    """
    return _variance("var", x, axis, keepdims, ddof, algorithm, name, same)


@operator(reference=lambda x, **attrs: np.sqrt(_numpy_var(x, **attrs)), examples=SPREAD)
def std(
    x: Tensor,
    axis: Axes = None,
    keepdims: bool = False,
    ddof: int = 0,
    algorithm: str = "passes",
    name: str = "std",
) -> Tensor:
    """The standard deviation over `axis`, the root of the variance; see var."""
    return _variance("std", x, axis, keepdims, ddof, algorithm, name, te.sqrt)


@operator(
    reference=lambda x, ord=2, axis=None, keepdims=False: (
        np.sum(np.abs(x) ** ord, axis=axis, keepdims=keepdims) ** (1 / ord)
    ),
    examples=[*REDUCTIONS, *EMPTY, Example([(3, 5)], {"axis": 1, "ord": 1}), *WITH_NAN],
)
def norm(
    x: Tensor, ord: int = 2, axis: Axes = None, keepdims: bool = False, name: str = "norm"
) -> Tensor:
    """The norm over `axis`: of `ord` 1 the sum of |x|, of 2 the root of the sum of x * x."""
    check_float("norm", "x", check_tensor("norm", "x", x))
    check_choice("norm", "ord", ord, (1, 2))
    if ord == 1:
        return fold("norm", x, axis, keepdims, name, te.abs, te.sum)
    return fold(
        "norm", x, axis, keepdims, name, lambda e: e * e, te.sum, lambda e, rows: te.sqrt(e)
    )


@operator(
    reference=lambda x, axis=None, keepdims=False: np.logaddexp.reduce(
        x if axis is not None else x.reshape(-1),
        axis=0 if axis is None else axis,
        keepdims=keepdims,
    ),
    examples=[
        Example([(3, 4, 5)], {"axis": 1, "keepdims": True}),
        Example([(7,)], data=uniform(-500, 500)),
        Example([("n", 6)], {"axis": -1}, "float16", sizes={"n": 3}),
        Example([(2, 3)], {"axis": 1}, data=values(-np.inf, -np.inf, -np.inf, 1, 2, 3)),
        Example([(2, 2)], {"axis": 1}, data=values(np.inf, 1, np.nan, 1)),
    ],
)
def logsumexp(
    x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "logsumexp"
) -> Tensor:
    """log of the sum of exp(x) over `axis`, without overflow; -inf for nothing but -inf."""
    check_float("logsumexp", "x", check_tensor("logsumexp", "x", x))
    check_not_empty("logsumexp", x, axis)
    rows = check_rows("logsumexp", x, axis)
    k, r = rows.inner(), rows.inner("r")
    top = te.compute(rows.shape, lambda *i: te.max(wide(x[rows.at(i, k)]), axis=k), "top")

    def finite(e: Expr) -> Expr:
        infinite = binary("==", te.abs(e), te.infinity(e.dtype))
        return select(infinite, te.const(0, e.dtype), e)

    shift = te.compute(rows.shape, lambda *i: finite(top[i]), "shift")
    total = te.compute(
        rows.shape, lambda *i: te.sum(te.exp(wide(x[rows.at(i, r)]) - shift[i]), axis=r), "total"
    )
    shape = rows.shape
    log = te.compute(shape, lambda *i: te.log(total[i]) + shift[i], "log")
    return stored(rows, log, keepdims, name, same, x.dtype)
