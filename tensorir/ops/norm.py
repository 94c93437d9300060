"""Normalizations: layer, RMS and batch norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir import te
from tensorir.expr import Expr
from tensorir.ops.arguments import (
    accumulator,
    check_axes,
    check_axis,
    check_float,
    check_shape,
    check_tensor,
    require,
    wide,
)
from tensorir.ops.moments import Rows, mean_and_spread
from tensorir.ops.registry import Example, operator, uniform
from tensorir.te.tensor import Tensor

Axis = Any


def scaled(e: Expr, at: tuple[Expr, ...], gamma: Tensor | None, beta: Tensor | None) -> Expr:
    """e * gamma[at] + beta[at], with those that there are."""
    e = e if gamma is None else e * wide(gamma[at])
    return e if beta is None else e + wide(beta[at])


def check_scales(
    op: str, x: Tensor, shape: tuple[Expr, ...], gamma: Tensor | None, beta: Tensor | None
) -> None:
    """Raise TensorIRError where gamma or beta has another shape, or no type to multiply `x` by."""
    for what, t in (("gamma", gamma), ("beta", beta)):
        if t is not None:
            check_shape(op, what, t, shape)
            check_float(op, what, t)
            require(
                accumulator(t.dtype) == accumulator(x.dtype), op,
                f"{what} {t!r} and x {x!r} are computed in different types; use ops.cast",
            )  # fmt: skip


def unit_rows(op: str, rows: Rows, eps: float, algorithm: str = "passes") -> tuple[Tensor, Tensor]:
    """The mean of each row, and 1 / sqrt(variance + eps)."""
    mean, spread = mean_and_spread(op, rows, algorithm)
    assert spread is not None
    size = rows.size(spread.dtype)
    return mean, te.compute(rows.shape, lambda *i: te.rsqrt(spread[i] / size + eps), "scale")


def _trailing(op: str, x: Tensor, axis: Axis) -> tuple[int, ...]:
    check_float(op, "x", check_tensor(op, "x", x))
    return check_axes(op, axis, x.ndim)


def unit(x: Any, axis: Any, eps: float) -> Any:
    """Arrays, for references: mean 0 and variance 1 along `axis`."""
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + eps)


def layer_norm_reference(
    x: Any, gamma: Any = None, beta: Any = None, axis: Any = -1, eps: float = 1e-5, **_: Any
) -> Any:
    """layer_norm of arrays."""
    y = unit(x, axis, eps)
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


LAYERS = [
    Example([(3, 7), (7,), (7,)]),
    Example([("n", 5)], sizes={"n": 3}),
    Example([(2, 3, 4), (3, 4), (3, 4)], {"axis": (-2, -1)}),
    Example([(3, 8), None, (8,)], {"eps": 0.1}, "float16"),
    Example([(2, 1), (1,)], data=uniform(1, 2)),
    Example([(0, 3), (3,)]),
    Example([(2, 16)], data=uniform(100, 101), dtypes="float64"),
]


@operator(
    reference=layer_norm_reference,
    examples=LAYERS
    + [
        Example([(3, 7), (7,), (7,)], {"algorithm": "welford"}),
        Example([(2, 16)], {"algorithm": "welford"}, data=uniform(100, 101), dtypes="float64"),
        Example([(2, 3, 4)], {"axis": (1, 2), "algorithm": "welford"}, "bfloat16"),
    ],
)
def layer_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    axis: Axis = -1,
    eps: float = 1e-5,
    algorithm: str = "passes",
    name: str = "layer_norm",
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * gamma + beta, over `axis` (arXiv:1607.06450).

    `gamma` and `beta` have the shape of the dimensions `axis`, an integer or several. `algorithm`
    "passes" computes the mean, then the variance; "welford" both in one pass.
    """
    axes = _trailing("layer_norm", x, axis)
    check_scales("layer_norm", x, tuple(x.shape[d] for d in axes), gamma, beta)
    rows = Rows(x, axes)
    mean, scale = unit_rows("layer_norm", rows, eps, algorithm)

    def element(*i: Expr) -> Expr:
        row, at = rows.row(i), tuple(i[d] for d in axes)
        normal = (wide(x[i]) - mean[row]) * scale[row]
        return te.cast(scaled(normal, at, gamma, beta), x.dtype)

    return te.compute(x.shape, element, name)  # type: ignore[no-any-return]


def _rms_norm(x: Any, gamma: Any = None, axis: Any = -1, eps: float = 1e-5) -> Any:
    y = x / np.sqrt(np.mean(np.square(x), axis=axis, keepdims=True) + eps)
    return y if gamma is None else y * gamma


@operator(
    reference=_rms_norm,
    examples=[
        Example([(3, 7), (7,)]),
        Example([("n", 5)], sizes={"n": 2}),
        Example([(2, 3, 4), (3, 4)], {"axis": (1, 2), "eps": 0.5}),
        Example([(3, 8), (8,)], dtypes="bfloat16"),
        Example([(2, 1)]),
    ],
)
def rms_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    axis: Axis = -1,
    eps: float = 1e-5,
    name: str = "rms_norm",
) -> Tensor:
    """x / sqrt(mean of x * x + eps) * gamma, over `axis` (arXiv:1910.07467)."""
    axes = _trailing("rms_norm", x, axis)
    check_scales("rms_norm", x, tuple(x.shape[d] for d in axes), gamma, None)
    rows, k = Rows(x, axes), Rows(x, axes).inner()

    def square(*i: Expr) -> Expr:
        e = wide(x[rows.at(i, k)])
        return te.sum(e * e, axis=k)

    squares = te.compute(rows.shape, square, "squares")
    size = rows.size(squares.dtype)
    scale = te.compute(rows.shape, lambda *i: te.rsqrt(squares[i] / size + eps), "scale")

    def element(*i: Expr) -> Expr:
        normal = wide(x[i]) * scale[rows.row(i)]
        return te.cast(scaled(normal, tuple(i[d] for d in axes), gamma, None), x.dtype)

    return te.compute(x.shape, element, name)  # type: ignore[no-any-return]


def _batch_norm(
    x: Any, mean: Any, variance: Any, gamma: Any = None, beta: Any = None, axis: int = 1,
    eps: float = 1e-5,
) -> Any:  # fmt: skip
    last = np.moveaxis(x, axis, -1)
    y = (last - mean) / np.sqrt(variance + eps)
    y = y if gamma is None else y * gamma
    y = y if beta is None else y + beta
    return np.moveaxis(y, -1, axis)


VARIANCE = uniform(0.5, 2)


@operator(
    reference=_batch_norm,
    examples=[
        Example([(2, 3, 4, 5), *[(3,)] * 4], data=(None, None, VARIANCE, None, None)),
        Example([("n", 5), (5,), (5,)], data=(None, None, VARIANCE), sizes={"n": 2}),
        Example([(2, 3, 4), (4,), (4,), None, (4,)], {"axis": -1, "eps": 0.1},
                data=(None, None, VARIANCE, None, None)),
        Example([(1, 3, 2), (3,), (3,)], dtypes="float16", data=(None, None, VARIANCE)),
    ],
)  # fmt: skip
def batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    axis: int = 1,
    eps: float = 1e-5,
    name: str = "batch_norm",
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * gamma + beta, with given statistics (arXiv:1502.03167).

    All of them have one number per index of dimension `axis`, the channel.
    """
    check_float("batch_norm", "x", check_tensor("batch_norm", "x", x))
    at = check_axis("batch_norm", axis, x.ndim)
    channels = (x.shape[at],)
    check_scales("batch_norm", x, channels, gamma, beta)
    for what, t in (("mean", mean), ("variance", variance)):
        check_shape("batch_norm", what, t, channels, x.dtype)
    scale = te.compute(channels, lambda c: te.rsqrt(wide(variance[c]) + eps), "scale")

    def element(*i: Expr) -> Expr:
        c = i[at]
        normal = (wide(x[i]) - wide(mean[c])) * scale[c]
        return te.cast(scaled(normal, (c,), gamma, beta), x.dtype)

    return te.compute(x.shape, element, name)  # type: ignore[no-any-return]
