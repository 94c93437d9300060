"""Activations: as operators, and by name as the last step of matmul, linear and convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir import te
from tensorir.expr import Expr
from tensorir.ops.arguments import (
    check_axis,
    check_choice,
    check_float,
    check_shape,
    check_tensor,
    wide,
)
from tensorir.ops.elementwise import map_elements
from tensorir.ops.registry import SPECIAL, Example, operator, uniform
from tensorir.te.tensor import Tensor

ROOT_HALF = math.sqrt(0.5)
GELU_SCALE = math.sqrt(2 / math.pi)
GELU_CUBE = 0.044715
"""Hendrycks and Gimpel, Gaussian Error Linear Units, arXiv:1606.08415, section 2."""
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
"""Klambauer et al., Self-Normalizing Neural Networks, arXiv:1706.02515, section 2."""


def _relu(x: Expr) -> Expr:
    return te.max(x, 0)


def _relu6(x: Expr) -> Expr:
    return te.clip(x, 0, 6)


def _gelu(x: Expr) -> Expr:
    return x * 0.5 * (te.erf(x * ROOT_HALF) + 1.0)


def _gelu_tanh(x: Expr) -> Expr:
    return x * 0.5 * (te.tanh((x + x * x * x * GELU_CUBE) * GELU_SCALE) + 1.0)


def _silu(x: Expr) -> Expr:
    return x * te.sigmoid(x)


def _hardsigmoid(x: Expr) -> Expr:
    return te.clip(x * (1 / 6) + 0.5, 0.0, 1.0)


def _hardswish(x: Expr) -> Expr:
    return x * te.clip(x + 3.0, 0.0, 6.0) * (1 / 6)


def _softplus(x: Expr) -> Expr:
    return te.log1p(te.exp(-te.abs(x))) + te.max(x, 0.0)


def _mish(x: Expr) -> Expr:
    # tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2); beyond 20 it is 1.
    e = te.exp(te.min(x, 20.0))
    n = e * (e + 2.0)
    return x * (n / (n + 2.0))


ACTIVATIONS: dict[str, Callable[[Expr], Expr]] = {
    "relu": _relu,
    "relu6": _relu6,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": _silu,
    "sigmoid": lambda x: te.sigmoid(x),
    "tanh": lambda x: te.tanh(x),
    "hardswish": _hardswish,
    "hardsigmoid": _hardsigmoid,
    "softplus": _softplus,
    "mish": _mish,
}
"""What `activation=` of an operator may name, as functions of one float32 or float64 number."""


def activate(op: str, activation: str | None, x: Expr) -> Expr:
    """`x` after the activation of that name; None leaves it as it is."""
    if activation is None:
        return x
    check_choice(op, "activation", activation, tuple(ACTIVATIONS))
    return ACTIVATIONS[activation](x)


def _float(op: str, x: Tensor, f: Callable[[Expr], Expr], name: str) -> Tensor:
    check_float(op, "x", check_tensor(op, "x", x))
    return map_elements(op, x, f, name)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


PLAIN = Example([(3, 5)])
WITH_SPECIAL = Example([(7,)], data=SPECIAL)
FAR = Example([(2, 6)], data=uniform(-30, 30))


@operator(
    reference=lambda x: np.where(x < 0, 0 * np.sign(x), x).astype(x.dtype),
    examples=[
        Example([(3, 5)]),
        Example([(5,)], data=lambda rng, shape: np.array([np.nan, -1, 0, 2, np.inf])),
        Example([(0, 3)]),
        Example([("n", 4)], dtypes="float16", sizes={"n": 3}),
        Example([(11,)], dtypes="int8"),
    ],
)
def relu(x: Tensor, name: str = "relu") -> Tensor:
    """max(x, 0); NaN stays NaN."""
    return map_elements("relu", x, _relu, name)


@operator(reference=lambda x: np.clip(x, 0, 6), examples=[FAR, WITH_SPECIAL])
def relu6(x: Tensor, name: str = "relu6") -> Tensor:
    """`x` limited to [0, 6]; NaN stays NaN."""
    return map_elements("relu6", x, _relu6, name)


@operator(
    reference=lambda x, slope=0.01: np.where(x > 0, x, slope * x),
    examples=[PLAIN, Example([(4,)], {"slope": 0.5}), WITH_SPECIAL],
)
def leaky_relu(x: Tensor, slope: float = 0.01, name: str = "leaky_relu") -> Tensor:
    """`x` where it is positive, else `slope * x`."""
    return _float("leaky_relu", x, lambda e: te.if_then_else(e > 0, e, e * slope), name)


@operator(
    reference=lambda x, w: np.where(x > 0, x, x * w.reshape(-1, *[1] * (x.ndim - 2))),
    examples=[Example([(2, 3, 5), (3,)]), Example([(1, 1, 1), (1,)], dtypes="float64")],
)
def prelu(x: Tensor, slope: Tensor, axis: int = 1, name: str = "prelu") -> Tensor:
    """`x` where it is positive, else `x` times the slope of its channel.

    `slope` has one number for each index of dimension `axis` of `x`.
    """
    check_float("prelu", "x", check_tensor("prelu", "x", x))
    at = check_axis("prelu", axis, x.ndim)
    check_shape("prelu", "slope", slope, [x.shape[at]], x.dtype)

    def element(*i: Expr) -> Expr:
        e = wide(x[i])
        return te.cast(te.if_then_else(e > 0, e, e * wide(slope[i[at]])), x.dtype)

    return te.compute(x.shape, element, name)  # type: ignore[no-any-return]


@operator(
    reference=lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    examples=[PLAIN, Example([(4,)], {"alpha": 0.3}), WITH_SPECIAL],
)
def elu(x: Tensor, alpha: float = 1.0, name: str = "elu") -> Tensor:
    """`x` where it is positive, else `alpha * (exp(x) - 1)`."""
    return _float("elu", x, lambda e: te.if_then_else(e > 0, e, te.expm1(e) * alpha), name)


@operator(
    reference=lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0))),
    examples=[PLAIN, WITH_SPECIAL],
)
def selu(x: Tensor, name: str = "selu") -> Tensor:
    """The self-normalizing exponential linear unit (arXiv:1706.02515)."""

    def element(e: Expr) -> Expr:
        return te.if_then_else(e > 0, e, te.expm1(e) * SELU_ALPHA) * SELU_SCALE

    return _float("selu", x, element, name)


def _gelu_reference(x: Any, approximate: bool = False) -> Any:
    if approximate:
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + _erf(x / np.sqrt(2)))


@operator(
    reference=_gelu_reference,
    examples=[
        PLAIN,
        WITH_SPECIAL,
        Example([(3, 5)], {"approximate": True}),
        Example([(2, 5)], dtypes="bfloat16"),
    ],
)
def gelu(x: Tensor, approximate: bool = False, name: str = "gelu") -> Tensor:
    """x times the normal distribution function of x; `approximate` uses tanh (arXiv:1606.08415)."""
    return _float("gelu", x, _gelu_tanh if approximate else _gelu, name)


@operator(reference=lambda x: x * _logistic(x), examples=[PLAIN, FAR])
def silu(x: Tensor, name: str = "silu") -> Tensor:
    """x * sigmoid(x), also called swish."""
    return _float("silu", x, _silu, name)


@operator(reference=lambda x: np.clip(x / 6 + 0.5, 0, 1), examples=[FAR, WITH_SPECIAL])
def hardsigmoid(x: Tensor, name: str = "hardsigmoid") -> Tensor:
    """x / 6 + 1/2 limited to [0, 1]."""
    return _float("hardsigmoid", x, _hardsigmoid, name)


@operator(reference=lambda x: x * np.clip(x + 3, 0, 6) / 6, examples=[FAR, WITH_SPECIAL])
def hardswish(x: Tensor, name: str = "hardswish") -> Tensor:
    """x times (x + 3) limited to [0, 6], over 6 (arXiv:1905.02244)."""
    return _float("hardswish", x, _hardswish, name)


@operator(reference=lambda x: np.logaddexp(x, 0), examples=[PLAIN, FAR])
def softplus(x: Tensor, name: str = "softplus") -> Tensor:
    """log(1 + exp(x)), without overflow."""
    return _float("softplus", x, _softplus, name)


@operator(reference=lambda x: x * np.tanh(np.logaddexp(x, 0)), examples=[PLAIN, FAR])
def mish(x: Tensor, name: str = "mish") -> Tensor:
    """x * tanh(softplus(x)) (arXiv:1908.08681)."""
    return _float("mish", x, _mish, name)
