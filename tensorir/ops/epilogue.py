"""The last steps of matmul, linear and convolutions: accumulators, bias, activation, the output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir import te
from tensorir.expr import Expr
from tensorir.ops.activation import activate
from tensorir.ops.arguments import accumulator, check_shape, require, wide
from tensorir.ops.naming import name_axes
from tensorir.ops.registry import find_operator
from tensorir.te.tensor import Tensor

NARROW = ("int8", "uint8", "int16")
"""Integers whose products are summed in int32; they may be mixed, as in u8 x s8."""


def product_dtype(op: str, a: Tensor, b: Tensor) -> str:
    """The type that sums of products of elements of `a` and `b` are accumulated in."""
    if a.dtype in NARROW and b.dtype in NARROW:
        return "int32"
    require(
        a.dtype == b.dtype and not dt.is_bool(a.dtype), op,
        f"{a!r} and {b!r} are {a.dtype} and {b.dtype}: numbers of one type are needed, or two of "
        f"{', '.join(NARROW)}; convert one with ops.cast",
    )  # fmt: skip
    return accumulator(a.dtype)


def finish(
    op: str,
    product: Tensor,
    bias: Tensor | None,
    channel: int,
    activation: str | None,
    dtype: str,
    name: str,
    axes: Sequence[str],
) -> Tensor:
    """The stage after the product: adds `bias` along dimension `channel`, activates, converts.

    `axes` are the names of its loops. Without any of it that is the product itself.
    """
    dt.check_dtype(dtype)
    if bias is not None:
        check_shape(op, "bias", bias, [product.shape[channel]])
        require(
            accumulator(bias.dtype) == product.dtype, op,
            f"bias {bias!r} is {bias.dtype} and is added to sums of type {product.dtype}; "
            f"convert it with ops.cast",
        )  # fmt: skip
    require(
        activation in (None, "relu", "relu6") or dt.is_float(product.dtype), op,
        f"activation={activation!r} needs floats, and the sums are {product.dtype}; use 'relu', or "
        "ops.requantize first",
    )  # fmt: skip
    if bias is None and activation is None and dtype == product.dtype:
        return product

    def element(*i: Expr) -> Expr:
        e: Expr = product[i]
        if bias is not None:
            e = e + wide(bias[i[channel]])
        return te.cast(activate(op, activation, e), dtype)

    return te.compute(product.shape, name_axes(axes, element), name)  # type: ignore[no-any-return]


def stage_name(name: str, stage: str, bias: Any, activation: Any, same_type: bool) -> str:
    """`name` for a stage that is the last one, else `stage`."""
    return name if bias is None and activation is None and same_type else stage


def times(a: Expr, b: Expr, dtype: str) -> Expr:
    """The product of two elements in the type it is summed in."""
    return te.cast(a, dtype) * te.cast(b, dtype)


def finished(x: Any, bias: Any, shape: Sequence[int], activation: str | None) -> Any:
    """The same to arrays, for references: `bias` is reshaped to `shape` first."""
    y = x if bias is None else x + np.reshape(bias, shape)
    if activation is None:
        return y
    if activation == "gelu_tanh":
        return find_operator("gelu").reference(y, approximate=True)
    return find_operator(activation).reference(y)
