"""Normalizations of groups of channels: group norm and instance norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir import te
from tensorir.expr import Expr, ExprLike, int_value
from tensorir.ops.arguments import check_float, check_tensor, require, wide
from tensorir.ops.moments import Rows
from tensorir.ops.norm import check_scales, layer_norm_reference, scaled, unit, unit_rows
from tensorir.ops.registry import Example, operator
from tensorir.te.tensor import Tensor


def _group_norm(
    x: Any, gamma: Any = None, beta: Any = None, groups: int = 1, eps: float = 1e-5, **_: Any
) -> Any:
    parts = x.reshape(x.shape[0], groups, -1)
    y = np.moveaxis(unit(parts, -1, eps).reshape(x.shape), 1, -1)
    y = y if gamma is None else y * gamma
    y = y if beta is None else y + beta
    return np.moveaxis(y, -1, 1)


@operator(
    reference=_group_norm,
    examples=[
        Example([(2, 6, 3, 5), (6,), (6,)], {"groups": 3}),
        Example([("n", 4, 3)], {"groups": 1}, sizes={"n": 2}),
        Example([(1, 3, 5), (3,)], {"groups": 3}),
        Example([(2, 6, 3), (6,), (6,)], {"groups": 2, "algorithm": "welford"}),
        Example([(2, 4, 3)], {"groups": 2}, dtypes="float16"),
    ],
)
def group_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    groups: int = 1,
    eps: float = 1e-5,
    algorithm: str = "passes",
    name: str = "group_norm",
) -> Tensor:
    """Layer norm over each of `groups` parts of the channels, dimension 1 (arXiv:1803.08494).

    `x` is [n, c, ...]; `gamma` and `beta` have one number per channel.
    """
    check_float("group_norm", "x", check_tensor("group_norm", "x", x))
    require(x.ndim >= 2, "group_norm", f"x {x!r} has no dimension for channels; use ops.reshape")
    channels = int_value(x.shape[1])
    require(
        channels is not None and isinstance(groups, int) and groups >= 1 and not channels % groups,
        "group_norm", f"{x.shape[1]!r} channels are not {groups!r} equal groups; choose a divisor",
    )  # fmt: skip
    assert channels is not None
    check_scales("group_norm", x, (x.shape[1],), gamma, beta)
    each = channels // groups
    split: list[ExprLike] = [x.shape[0], groups, each, *x.shape[2:]]
    parts = te.compute(split, lambda *i: wide(x[(i[0], i[1] * each + i[2], *i[3:])]), "parts")
    rows = Rows(parts, range(2, parts.ndim))
    mean, scale = unit_rows("group_norm", rows, eps, algorithm)

    def element(*i: Expr) -> Expr:
        row = (i[0], i[1] // each)
        normal = (wide(x[i]) - mean[row]) * scale[row]
        return te.cast(scaled(normal, (i[1],), gamma, beta), x.dtype)

    return te.compute(x.shape, element, name)  # type: ignore[no-any-return]


@operator(
    reference=lambda x, gamma=None, beta=None, eps=1e-5: layer_norm_reference(
        x,
        None if gamma is None else gamma[:, None, None],
        None if beta is None else beta[:, None, None],
        (2, 3),
        eps,
    ),
    examples=[Example([(2, 3, 4, 5), (3,), (3,)]), Example([(1, 2, 3, 3)], {"eps": 0.1})],
)
def instance_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    eps: float = 1e-5,
    name: str = "instance_norm",
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * gamma + beta, over each channel of each sample.

    `x` is [n, c, ...]; `gamma` and `beta` have one number per channel.
    """
    check_float("instance_norm", "x", check_tensor("instance_norm", "x", x))
    require(x.ndim >= 3, "instance_norm", f"x {x!r} must be [n, c, ...]; use ops.reshape")
    check_scales("instance_norm", x, (x.shape[1],), gamma, beta)
    rows = Rows(x, range(2, x.ndim))
    mean, scale = unit_rows("instance_norm", rows, eps)

    def element(*i: Expr) -> Expr:
        normal = (wide(x[i]) - mean[rows.row(i)]) * scale[rows.row(i)]
        return te.cast(scaled(normal, (i[1],), gamma, beta), x.dtype)

    return te.compute(x.shape, element, name)  # type: ignore[no-any-return]
