"""3x3 convolutions of stride 1 by Winograd's minimal filtering: fewer products, larger errors.

F(m x n, 3x3) computes a tile of m x n outputs from one of (m + 2) x (n + 2) inputs with one product
for each element of the latter: 4 times fewer than the definition for m = n = 4, 2.25 times for
m = n = 2. The transforms are Y = A^T [(G g G^T) * (B^T d B)] A with Toom-Cook's points 0, 1, -1 and
infinity for sides of 2, and 0, 11/16, -11/16, 3/2, -3/2 and infinity for 4: as many products as the
usual 1, -1, 2, -2, and a third of their errors. Sources: Lavin and Gray, "Fast Algorithms for
Convolutional Neural Networks", 2016; how much points matter: Barabasz et al., "Error Analysis and
Improving the Accuracy of Winograd Convolution for Deep Neural Networks", 2020.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir import te
from tensorir.expr import Expr, int_value
from tensorir.ops.activation import activate
from tensorir.ops.arguments import check_float, check_shape, check_tensor, require, static
from tensorir.ops.conv_reference import conv
from tensorir.ops.naming import name_axes
from tensorir.ops.registry import Example, operator
from tensorir.ops.window import make_layout
from tensorir.ops.winograd_transforms import (
    CHANNELS_FIRST,
    CHANNELS_LAST,
    TRANSFORMS,
    A,
    B,
    ConvAxes,
    in_order,
    pick,
)
from tensorir.te.tensor import Tensor

ERROR = {2: 2e-6, 4: 1e-5}
"""The largest error in float32, in parts of the largest result, for the longer side of a tile.

Measured on inputs in [-1, 1) and up to 512 channels: 1e-6 and 6e-6; the definition has 6e-7."""


WHOLE = 16
"""Channels within the convolution are rounded up to a multiple of this, with zeros: vectors of
float32 of any machine are whole, and conditions are left where x, the weights and the result are
touched."""


_POINTS = {2: (0, 1, -1), 4: (0, A, -A, B, -B)}
"""Where Toom-Cook's method evaluates polynomials, beside infinity."""


def _weights_reference(weight: Any, tile: tuple[int, int] = (4, 4), layout: str = "NCHW") -> Any:
    """By the formula: the polynomial of g at each point, and its last coefficient."""
    weight = weight if layout == "NCHW" else np.moveaxis(weight, (3, 2), (0, 1))
    matrices = []
    for side in tile:
        points = _POINTS[side]
        matrices.append(np.array([*((1, p, p * p) for p in points), (0, 0, 1)]))
    return np.einsum("ay,ocyx,bx->aboc", matrices[0], weight, matrices[1])


def _reference(
    x: Any, weight: Any, bias: Any = None, tile: Any = (4, 4), padding: int = 1,
    activation: str | None = None, layout: str = "NCHW",
) -> Any:  # fmt: skip
    return conv(x, weight, bias, 1, padding, layout=layout, activation=activation)


@operator(
    reference=_weights_reference,
    examples=[
        Example([(2, 3, 3, 3)]),
        Example([(1, 2, 3, 3)], {"tile": (2, 4)}),
        Example([(0, 2, 3, 3)]),
        Example([(3, 3, 2, 4)], {"tile": (4, 2), "layout": "NHWC"}),
    ],
)
def winograd_weights(
    weight: Tensor,
    tile: tuple[int, int] = (4, 4),
    layout: str = "NCHW",
    name: str = "winograd_weights",
) -> Tensor:
    """G g G^T for each filter: weight [o, c, 3, 3], or [3, 3, c, o] for
    `layout` "NHWC", gives [tile[0] + 2, tile[1] + 2, o, c].

    Weights that are known ahead need it only once: conv2d_winograd takes the result too.
    """
    op = "winograd_weights"
    check_tensor(op, "weight", weight, 4)
    check_float(op, "weight", weight)
    _check_tile(op, tile)
    axes = _axes(op, layout)
    where = "last" if axes is CHANNELS_FIRST else "first"
    require(
        _is_3x3(weight, axes), op,
        f"weight {weight!r} has no 3x3 filters in its {where} dimensions",
    )  # fmt: skip
    filters = weight.shape[axes.weight.index("o")]
    return _transformed(weight, tile, axes, filters, name)


def _transformed(
    weight: Tensor, tile: tuple[int, int], axes: ConvAxes, rounded: Expr, name: str
) -> Tensor:
    """G g G^T for `rounded` output channels, 0 for those that weight has not."""
    down, across = (TRANSFORMS[side][1] for side in tile)
    filters, channels = (weight.shape[axes.weight.index(axis)] for axis in "oc")

    def columns(k: Expr, c: Expr, a: Expr, x: Expr) -> Expr:
        column = [weight[in_order(axes.weight, o=k, c=c, r=r, s=x)] for r in range(3)]
        return pick(a, down(column))

    half = te.compute((filters, channels, tile[0] + 2, 3), columns, f"{name}_columns")

    def rows(a: Expr, b: Expr, k: Expr, c: Expr) -> Expr:
        row = across([half[k, c, a, column] for column in range(3)])
        return _below(k, filters, rounded, pick(b, row))

    shape = (tile[0] + 2, tile[1] + 2, rounded, channels)
    return te.compute(shape, rows, name)  # type: ignore[no-any-return]


@operator(
    reference=_reference,
    examples=[
        Example([(1, 2, 6, 5), (3, 2, 3, 3), (3,)], {"activation": "relu"}),
        Example([("n", 1, 4, 5), (2, 1, 3, 3)], {"tile": (2, 4), "padding": 0}, sizes={"n": 2}),
        Example([(1, 6, 3, 2), (6, 6, 3, 3), (6,)], {"tile": (2, 2), "padding": 2}, "float64"),
        Example([(1, 1, 1, 1), (1, 1, 3, 3)]),
        Example([(1, 0, 2, 2), (1, 0, 3, 3)]),
        Example(
            [("n", 5, 6, 3), (3, 3, 3, 4), (4,)], {"layout": "NHWC", "tile": (2, 4)}, sizes={"n": 2}
        ),
    ],
)
def conv2d_winograd(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    tile: tuple[int, int] = (4, 4),
    padding: int = 1,
    activation: str | None = None,
    layout: str = "NCHW",
    name: str = "conv2d_winograd",
) -> Tensor:
    """A 3x3 convolution of stride 1 by F(tile, 3x3), whose sides are 2 or 4.

    x is [n, c, h, w], weight [o, c, 3, 3] or what winograd_weights makes of it, bias [o]; the
    result is [n, o, h + 2 * padding - 2, w + 2 * padding - 2]. For `layout` "NHWC" the channels of
    x and of the result come last, and weight is [3, 3, c, o]. Errors are up to ERROR of the largest
    result, several times those of conv2d. All sizes but the batch are numbers.
    """
    return winograd_convolution(
        "conv2d_winograd", x, weight, bias, tile, padding, activation,
        _axes("conv2d_winograd", layout), name,
    )  # fmt: skip


def winograd_convolution(
    op: str,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    tile: tuple[int, int],
    padding: int,
    activation: str | None,
    axes: ConvAxes,
    name: str,
) -> Tensor:
    """conv2d_winograd with the dimensions of x, weight and the result in the orders of `axes`."""
    check_float(op, "x", check_tensor(op, "x", x, 4))
    check_tensor(op, "weight", weight, 4)
    _check_tile(op, tile)
    count = isinstance(padding, int) and not isinstance(padding, bool) and padding >= 0
    require(count, op, f"padding={padding!r} is no integer from 0 on")
    samples, channels, *image = (x.shape[axes.image.index(axis)] for axis in "nchw")
    sides = (tile[0] + 2, tile[1] + 2)
    plain = _is_3x3(weight, axes) and weight.shape[axes.weight.index("c")] is channels
    ready = tuple(map(int_value, weight.shape[:2])) == sides and not plain
    require(
        ready or _is_3x3(weight, axes), op,
        f"weight {weight!r} has no 3x3 filters, nor is it what winograd_weights makes of them for "
        f"tile={tile!r}",
    )  # fmt: skip
    filters, depth = _filters(weight, axes, ready)
    require(
        depth is channels and weight.dtype == x.dtype, op,
        f"weight {weight!r} does not take {channels!r} channels of {x.dtype}, as x {x!r} has them",
    )  # fmt: skip
    rounded = _whole(op, filters)
    u = _rounded_weights(weight, tile, axes, ready, rounded, f"{name}_weights")
    if bias is not None:
        check_shape(op, "bias", bias, [filters])
    out = [static(op, "a side of x", size) + 2 * padding - 2 for size in image]
    require(
        min(out) > 0, op, f"x {x!r} with padding={padding} is smaller than the filter; pad it more"
    )
    tiles = tuple(-(-size // side) for size, side in zip(out, tile))
    pad = _strips(op, x, tile, tiles, padding, axes, name)
    v = _input_tiles(pad, tile, tiles, name)
    channel = te.reduce_axis(channels, name="c")
    products = te.compute(
        (*sides, rounded, samples * (tiles[0] * tiles[1])),
        lambda a, b, k, t: te.sum(v[a, b, channel, t] * u[a, b, k, channel], axis=channel),
        f"{name}_products",
    )
    half = _output_rows(products, tile, tiles, samples, f"{name}_rows")

    def element(*i: Expr) -> Expr:
        at = dict(zip(axes.result, i))
        place = (at["n"], at["c"], at["h"] // tile[0], at["h"] % tile[0])
        row = [half[(*place, column, at["w"] // tile[1])] for column in range(sides[1])]
        value = pick(at["w"] % tile[1], TRANSFORMS[tile[1]][2](row))
        return activate(op, activation, value if bias is None else value + bias[at["c"]])

    shape = in_order(axes.result, n=samples, c=filters, h=out[0], w=out[1])
    loops = in_order(axes.result, n="n", c="k", h="h", w="w")
    return te.compute(shape, name_axes(loops, element), name)  # type: ignore[no-any-return]


def _filters(weight: Tensor, axes: ConvAxes, ready: bool) -> tuple[Expr, Expr]:
    """The numbers of output and of input channels of weights, `ready` ones or 3x3 filters."""
    if ready:
        return weight.shape[2], weight.shape[3]
    return weight.shape[axes.weight.index("o")], weight.shape[axes.weight.index("c")]


def _rounded_weights(
    weight: Tensor, tile: tuple[int, int], axes: ConvAxes, ready: bool, rounded: Expr, name: str
) -> Tensor:
    """Transformed weights for `rounded` output channels."""
    if not ready:
        return _transformed(weight, tile, axes, rounded, name)
    filters = weight.shape[2]
    if filters is rounded:
        return weight

    def element(a: Expr, b: Expr, k: Expr, c: Expr) -> Expr:
        return _below(k, filters, rounded, weight[a, b, k, c])

    shape = (*weight.shape[:2], rounded, weight.shape[3])
    return te.compute(shape, element, name)  # type: ignore[no-any-return]


def _whole(op: str, channels: Expr) -> Expr:
    return te.const(-(-static(op, "the number of channels", channels) // WHOLE) * WHOLE)


def _below(index: Expr, size: Expr, rounded: Expr, value: Expr) -> Expr:
    """`value` where index < size, and 0 from there to `rounded`."""
    return value if size is rounded else te.if_then_else(index < size, value, 0.0)


def _axes(op: str, layout: str) -> ConvAxes:
    return CHANNELS_FIRST if make_layout(op, layout, 2).first else CHANNELS_LAST


def _is_3x3(weight: Tensor, axes: ConvAxes) -> bool:
    return all(int_value(weight.shape[axes.weight.index(axis)]) == 3 for axis in "rs")


def _check_tile(op: str, tile: tuple[int, int]) -> None:
    pair = isinstance(tile, (tuple, list)) and len(tile) == 2
    known = pair and all(side in TRANSFORMS for side in tile)
    require(known, op, f"tile={tile!r} is no pair of {' or '.join(map(str, TRANSFORMS))}")


def _strips(
    op: str,
    x: Tensor,
    tile: tuple[int, int],
    tiles: tuple[int, ...],
    padding: int,
    axes: ConvAxes,
    name: str,
) -> Tensor:
    """The rows of x that a row of tiles reads, zeros around: [n, c, tiles[0], tile[0] + 2, width].

    Rows that two rows of tiles read are there twice, so that each has its own. Channels are rounded
    up.
    """
    samples, channels, height, width = (x.shape[axes.image.index(axis)] for axis in "nchw")
    rounded = _whole(op, channels)
    shape = (samples, rounded, tiles[0], tile[0] + 2)

    def row(n: Expr, c: Expr, ty: Expr, y: Expr, w: Expr) -> Expr:
        h = ty * tile[0] + y
        inside = (h >= padding) & (h < height + padding)
        inside = inside if channels is rounded else inside & (c < channels)
        return te.if_then_else(inside, x[in_order(axes.image, n=n, c=c, h=h - padding, w=w)], 0.0)

    strips = te.compute((*shape, width), row, f"{name}_strips")

    def element(n: Expr, c: Expr, ty: Expr, y: Expr, w: Expr) -> Expr:
        inside = (w >= padding) & (w < width + padding)
        return te.if_then_else(inside, strips[n, c, ty, y, w - padding], 0.0)

    sizes = (*shape, tiles[1] * tile[1] + 2)
    return te.compute(sizes, element, f"{name}_pad")  # type: ignore[no-any-return]


def _input_tiles(pad: Tensor, tile: tuple[int, int], tiles: tuple[int, ...], name: str) -> Tensor:
    """B^T d B for the tiles of all samples, row by row: [tile[0] + 2, tile[1] + 2, c, tiles]."""
    samples, channels, *_ = pad.shape
    down, across = (TRANSFORMS[side][0] for side in tile)

    def columns(n: Expr, c: Expr, ty: Expr, y: Expr, x: Expr) -> Expr:
        return pick(y, down([pad[n, c, ty, row, x] for row in range(tile[0] + 2)]))

    half = te.compute(pad.shape, columns, f"{name}_columns")

    def rows(a: Expr, b: Expr, c: Expr, t: Expr) -> Expr:
        row, tx = t // tiles[1], t % tiles[1]
        place = (row // tiles[0], c, row % tiles[0], a)
        reach = [half[(*place, tx * tile[1] + column)] for column in range(tile[1] + 2)]
        return pick(b, across(reach))

    count = samples * (tiles[0] * tiles[1])
    sizes = (tile[0] + 2, tile[1] + 2, channels, count)
    return te.compute(sizes, rows, f"{name}_input")  # type: ignore[no-any-return]


def _output_rows(
    products: Tensor, tile: tuple[int, int], tiles: tuple[int, ...], samples: Expr, name: str
) -> Tensor:
    """A^T M for each tile."""
    down = TRANSFORMS[tile[0]][2]

    def rows(n: Expr, k: Expr, ty: Expr, y: Expr, x: Expr, tx: Expr) -> Expr:
        t = (n * tiles[0] + ty) * tiles[1] + tx
        return pick(y, down([products[row, x, k, t] for row in range(tile[0] + 2)]))

    shape = (samples, products.shape[2], tiles[0], tile[0], tile[1] + 2, tiles[1])
    return te.compute(shape, rows, name)  # type: ignore[no-any-return]
