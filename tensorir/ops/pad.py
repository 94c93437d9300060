"""Padding: with a constant, with the reflected picture, or with its edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir import te
from tensorir.expr import Expr
from tensorir.ops.arguments import check_choice, check_tensor, number, require, static
from tensorir.ops.registry import Example, operator
from tensorir.ops.window import make_padding, pad_stage
from tensorir.te.tensor import Tensor

MODES = ("constant", "reflect", "edge")


LONG = 1024
"""Elements of a last dimension too long to be written out."""


def _source(j: Expr, n: int, mode: str) -> Expr:
    """Where element `j`, counted from the first of `n`, comes from."""
    if mode == "edge":
        return te.clip(j, 0, n - 1)
    folded = (n - 1) - te.abs((n - 1) - te.abs(j))
    return te.clip(folded, 0, n - 1)


def _numpy_pad(x: Any, padding: Any, mode: str = "constant", value: float = 0.0) -> Any:
    pairs = [(p, p) if np.ndim(p) == 0 else p for p in np.broadcast_to(padding, x.ndim)] if (
        np.ndim(padding) < 2
    ) else padding  # fmt: skip
    more = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x, pairs, mode=mode, **more)  # type: ignore[call-overload]


@operator(
    reference=_numpy_pad,
    examples=[
        Example([(3, 4)], {"padding": ((1, 2), (0, 3))}),
        Example([("n", 4)], {"padding": ((0, 0), (2, 1)), "value": -1.5}, sizes={"n": 3}),
        Example([("n",)], {"padding": 2}, sizes={"n": 3}),
        Example([(2, 3)], {"padding": 1, "value": 7}, "int8"),
        Example([(0, 3)], {"padding": 1}),
        Example([(3, 5)], {"padding": ((2, 1), (4, 4)), "mode": "reflect"}),
        Example([(2, 1030)], {"padding": ((0, 0), (3, 9)), "mode": "reflect"}),
        Example([(2, 1030)], {"padding": ((1, 0), (3, 0)), "mode": "edge"}),
        Example([(3, 4)], {"padding": ((2, 5), (0, 1)), "mode": "edge"}),
        Example([(1, 2)], {"padding": ((3, 0), (1, 1)), "mode": "edge"}, "float16"),
        Example([("n", 2)], {"padding": ((0, 0), (1, 1)), "mode": "reflect"}, sizes={"n": 3}),
        Example([(2,)], {"padding": 0}),
    ],
)
def pad(
    x: Tensor, padding: Any, mode: str = "constant", value: float = 0.0, name: str = "pad"
) -> Tensor:
    """`x` with elements around it: `padding` is an integer, one or a pair for each dimension.

    `mode` "constant" pads with `value`, "edge" with the nearest element, and "reflect" with the
    elements across the edge, which itself is not repeated: fewer than there are.
    """
    check_tensor("pad", "x", x)
    check_choice("pad", "mode", mode, MODES)
    pairs = make_padding("pad", padding, x.ndim)
    if mode == "constant" and any(pair != (0, 0) for pair in pairs):
        filler = number("pad", value, x.dtype).value
        return pad_stage(x, pairs, filler, [f"i{d}" for d in range(x.ndim)], name)
    sizes = {}
    for d, pair in enumerate(pairs):
        if pair != (0, 0) and mode != "constant":
            n = sizes[d] = static("pad", f"dimension {d} of x", x.shape[d])
            require(n > 0, "pad", f"dimension {d} of x {x!r} is empty; use mode='constant'")
            require(
                mode == "edge" or max(pair) < n, "pad",
                f"padding {pair} of dimension {d} reflects more than the {n - 1} elements beyond "
                "its edge; use less, or mode='edge'",
            )  # fmt: skip

    last = x.ndim - 1

    def element(*i: Expr) -> Expr:
        at = list(i)
        for d, n in sizes.items():
            if d != last or n < LONG:
                at[d] = _source(i[d] - pairs[d][0], n, mode)
        if sizes.get(last, 0) < LONG:
            return x[tuple(at)]
        j, n = i[last] - pairs[last][0], sizes[last]
        # apart from the edges, so that vectors read neighbours
        edges = _source(j, n, mode)
        inside, outside = x[(*at[:last], j)], x[(*at[:last], edges)]
        return te.if_then_else(te.all(0 <= j, j < n), inside, outside)

    shape = [size + low + high for size, (low, high) in zip(x.shape, pairs)]
    return te.compute(shape, element, name)  # type: ignore[no-any-return]
