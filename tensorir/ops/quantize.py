"""Between real numbers and small integers: quantize, dequantize, requantize.

An integer q stands for scale * (q - zero_point); see Jacob et al., Quantization and Training of
Neural Networks for Efficient Integer-Arithmetic-Only Inference, arXiv:1712.05877.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

import numpy as np

from tensorir import dtype as dt
from tensorir import te
from tensorir.expr import Expr, const
from tensorir.ops.arguments import check_axis, check_float, check_shape, check_tensor, require
from tensorir.ops.registry import SPECIAL, Example, integers, operator, uniform, values
from tensorir.te.tensor import Tensor

Scale = Union[Tensor, float]


def _scale_at(
    op: str, what: str, scale: Scale, x: Tensor, axis: int
) -> Callable[[tuple[Expr, ...]], Expr]:
    """Reads `scale` for an element of `x`: one number, or one for each index of `axis`."""
    if isinstance(scale, Tensor):
        at = check_axis(op, axis, x.ndim)
        check_shape(op, what, scale, [x.shape[at]], "float32")
        return lambda i: scale[i[at]]
    require(
        isinstance(scale, (int, float)) and scale > 0, op,
        f"{what}={scale!r} must be positive, or a float32 tensor with one scale per channel",
    )  # fmt: skip
    return lambda i: const(float(scale), "float32")


def _check_point(op: str, zero_point: int, dtype: str) -> None:
    require(dt.check_dtype(dtype) in ("int8", "uint8", "int16", "uint16"), op,
            f"dtype={dtype!r} is unknown; use int8, uint8, int16 or uint16")  # fmt: skip
    low, high = dt.int_limits(dtype)
    require(
        isinstance(zero_point, int) and low <= zero_point <= high, op,
        f"zero_point={zero_point!r} must be an integer from {low} to {high}, as {dtype} holds",
    )  # fmt: skip


def _rounded(e: Expr, zero_point: int, dtype: str) -> Expr:
    """round(e) + zero_point limited to what `dtype` holds."""
    low, high = dt.int_limits(dtype)
    shifted = te.rint(e) + float(zero_point)
    return te.cast(te.clip(shifted, float(low), float(high)), dtype)


def _spread(scale: Any, x: Any, axis: int) -> Any:
    shape = [1] * x.ndim
    if np.ndim(scale):
        shape[axis] = -1
    return np.reshape(scale, shape)


def _to_integers(y: Any, zero_point: int, dtype: str) -> Any:
    limits = np.iinfo(dtype)
    shifted = np.where(np.isnan(y), 0, np.rint(y)) + zero_point
    return np.clip(shifted, limits.min, limits.max).astype(dtype)


def _quantized(x: Any, scale: Any, zero_point: int = 0, dtype: str = "int8", axis: int = -1) -> Any:
    return _to_integers(x / _spread(scale, x, axis), zero_point, dtype)


@operator(
    reference=_quantized,
    examples=[
        Example([(3, 5)], {"scale": 0.03125}),
        Example([(3, 5)], {"scale": 0.0078125, "zero_point": 128, "dtype": "uint8"}),
        Example([(7,)], {"scale": 0.5, "zero_point": 3}, data=SPECIAL),
        Example([(2, 3, 4), (3,)], {"axis": 1}, data=(None, values(0.25, 0.125, 0.5))),
    ],
)
def quantize(
    x: Tensor,
    scale: Scale,
    zero_point: int = 0,
    dtype: str = "int8",
    axis: int = -1,
    name: str = "quantize",
) -> Tensor:
    """round(x / scale) + zero_point, to nearest even, limited to what `dtype` holds.

    `scale` is a number, or a float32 tensor with one for each index of dimension `axis`. NaN
    becomes `zero_point`.
    """
    check_float("quantize", "x", check_tensor("quantize", "x", x))
    _check_point("quantize", zero_point, dtype)
    at = _scale_at("quantize", "scale", scale, x, axis)

    def element(*i: Expr) -> Expr:
        e = te.cast(x[i], "float32") / at(i)
        return _rounded(te.if_then_else(te.isnan(e), 0.0, e), zero_point, dtype)

    return te.compute(x.shape, element, name)  # type: ignore[no-any-return]


@operator(
    reference=lambda x, scale, zero_point=0, axis=-1: (
        (x.astype(float) - zero_point) * _spread(scale, x, axis)
    ),
    examples=[
        Example([(3, 5)], {"scale": 0.1}, "int8"),
        Example([(3, 5)], {"scale": 0.25, "zero_point": 128}, "uint8"),
        Example([(2, 3), (3,)], {"zero_point": -5}, ("int32", "float32"), (None, uniform(0.1, 2))),
    ],
)
def dequantize(
    x: Tensor, scale: Scale, zero_point: int = 0, axis: int = -1, name: str = "dequantize"
) -> Tensor:
    """scale * (x - zero_point) as float32; `scale` is as for quantize."""
    check_tensor("dequantize", "x", x)
    require(dt.is_int(x.dtype), "dequantize", f"x {x!r} is {x.dtype} and must hold integers")
    at = _scale_at("dequantize", "scale", scale, x, axis)

    def element(*i: Expr) -> Expr:
        return (te.cast(x[i], "float32") - float(zero_point)) * at(i)

    return te.compute(x.shape, element, name)  # type: ignore[no-any-return]


@operator(
    reference=lambda x, scale, zero_point=0, dtype="int8", axis=-1: _to_integers(
        x * _spread(scale, x, axis), zero_point, dtype
    ),
    examples=[
        Example([(3, 5)], {"scale": 0.0078125}, "int32", integers(-30000, 30000)),
        Example([(3, 5)], {"scale": 0.5, "zero_point": 128, "dtype": "uint8"}, "int32"),
        Example([(2, 3, 4), (3,)], {"axis": 1}, ("int32", "float32"),
                (integers(-3000, 3000), values(0.25, 0.125, 0.5))),
    ],
)  # fmt: skip
def requantize(
    x: Tensor,
    scale: Scale,
    zero_point: int = 0,
    dtype: str = "int8",
    axis: int = -1,
    name: str = "requantize",
) -> Tensor:
    """round(x * scale) + zero_point of int32 sums, limited to what `dtype` holds.

    `scale` is the product of the scales of the factors over that of the result: a number, or a
    float32 tensor with one for each index of dimension `axis`. Computed in float32, so sums beyond
    2**24 lose their last bits.
    """
    check_tensor("requantize", "x", x)
    require(x.dtype == "int32", "requantize", f"x {x!r} is {x.dtype} and must be int32")
    _check_point("requantize", zero_point, dtype)
    at = _scale_at("requantize", "scale", scale, x, axis)

    def element(*i: Expr) -> Expr:
        return _rounded(te.cast(x[i], "float32") * at(i), zero_point, dtype)

    return te.compute(x.shape, element, name)  # type: ignore[no-any-return]
