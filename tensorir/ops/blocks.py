"""Between channels and positions, and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir import te
from tensorir.expr import Expr, const
from tensorir.ops.arguments import check_tensor, require, static
from tensorir.ops.conv_reference import from_first, to_first
from tensorir.ops.naming import name_axes
from tensorir.ops.registry import Example, operator
from tensorir.ops.window import Layout, make_layout
from tensorir.te.tensor import Tensor


def _picture(op: str, x: Tensor, block: int, layout: str) -> tuple[Layout, int, int, int]:
    """The layout, and the channels, rows and columns of a picture."""
    places = make_layout(op, layout, 2)
    check_tensor(op, "x", x, 4)
    require(isinstance(block, int) and block >= 1, op, f"block={block!r} must be at least 1")
    order = (places.channel, *places.spatial)
    c, h, w = (static(op, f"dimension {d} of x", x.shape[d]) for d in order)
    return places, c, h, w


def _to_space(x: Any, block: int, layout: str = "NCHW") -> Any:
    n, c, h, w = to_first(x, layout).shape
    parts = to_first(x, layout).reshape(n, block, block, c // block**2, h, w)
    y = parts.transpose(0, 3, 4, 1, 5, 2).reshape(n, c // block**2, h * block, w * block)
    return from_first(y, layout)


@operator(
    reference=_to_space,
    examples=[
        Example([("n", 8, 2, 3)], {"block": 2}, sizes={"n": 2}),
        Example([(1, 2, 3, 9)], {"block": 3, "layout": "NHWC"}, "int8"),
    ],
)
def depth_to_space(
    x: Tensor, block: int, layout: str = "NCHW", name: str = "depth_to_space"
) -> Tensor:
    """Pictures `block` times as high and wide, each element from a channel of its own.

    Output [n, c, h, w] is x[n, (h % block * block + w % block) * C + c, h // block, w // block],
    with C channels of the output: mode "DCR" of ONNX.
    """
    places, c, h, w = _picture("depth_to_space", x, block, layout)
    made = c // block**2
    require(
        made * block**2 == c, "depth_to_space",
        f"{c} channels cannot fill blocks of {block} x {block}; x {x!r} needs a multiple of "
        f"{block**2}",
    )  # fmt: skip

    def element(*i: Expr) -> Expr:
        y, z = (i[d] for d in places.spatial)
        channel = (y % block * block + z % block) * made + i[places.channel]
        return x[places.at(i[0], channel, (y // block, z // block))]

    shape = places.at(x.shape[0], const(made), (const(h * block), const(w * block)))
    return te.compute(shape, name_axes(places.names("c"), element), name)  # type: ignore[no-any-return]


def _to_depth(x: Any, block: int, layout: str = "NCHW") -> Any:
    n, c, h, w = to_first(x, layout).shape
    parts = to_first(x, layout).reshape(n, c, h // block, block, w // block, block)
    y = parts.transpose(0, 3, 5, 1, 2, 4).reshape(n, c * block**2, h // block, w // block)
    return from_first(y, layout)


@operator(
    reference=_to_depth,
    examples=[
        Example([("n", 2, 4, 6)], {"block": 2}, sizes={"n": 2}),
        Example([(1, 6, 3, 2)], {"block": 3, "layout": "NHWC"}, "int8"),
    ],
)
def space_to_depth(
    x: Tensor, block: int, layout: str = "NCHW", name: str = "space_to_depth"
) -> Tensor:
    """The opposite of depth_to_space: each element of a block goes to a channel of its own."""
    places, c, h, w = _picture("space_to_depth", x, block, layout)
    require(
        h % block == 0 and w % block == 0, "space_to_depth",
        f"{h} rows and {w} columns are not whole blocks of {block} x {block}; use ops.pad first",
    )  # fmt: skip

    def element(*i: Expr) -> Expr:
        y, z = (i[d] for d in places.spatial)
        place = i[places.channel] // c
        at = (y * block + place // block, z * block + place % block)
        return x[places.at(i[0], i[places.channel] % c, at)]

    shape = places.at(x.shape[0], const(c * block**2), (const(h // block), const(w // block)))
    return te.compute(shape, name_axes(places.names("c"), element), name)  # type: ignore[no-any-return]


def _triangle(op: str, x: Tensor, k: int, upper: bool, name: str) -> Tensor:
    check_tensor(op, "x", x)
    require(x.ndim >= 2, op, f"x {x!r} has fewer than 2 dimensions; use ops.reshape")

    def element(*i: Expr) -> Expr:
        kept = i[-2] + k <= i[-1] if upper else i[-1] <= i[-2] + k
        return te.if_then_else(kept, x[i], const(0, x.dtype))

    return te.compute(x.shape, element, name)  # type: ignore[no-any-return]


TRIANGLES = [
    Example([(4, 5)]),
    Example([(2, "n", "n")], {"k": -1}, "int32", sizes={"n": 3}),
    Example([(3, 2)], {"k": 1}, "bool"),
]


@operator(reference=np.tril, examples=TRIANGLES)
def tril(x: Tensor, k: int = 0, name: str = "tril") -> Tensor:
    """The last two dimensions up to the diagonal `k` places to the right; zeros beyond."""
    return _triangle("tril", x, k, False, name)


@operator(reference=np.triu, examples=TRIANGLES)
def triu(x: Tensor, k: int = 0, name: str = "triu") -> Tensor:
    """The last two dimensions from the diagonal `k` places to the right on; zeros before."""
    return _triangle("triu", x, k, True, name)
