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

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorir import te
from tensorir.expr import Expr, int_value
from tensorir.ops.activation import activate
from tensorir.ops.arguments import check_float, check_shape, check_tensor, require, static
from tensorir.ops.conv_reference import conv
from tensorir.ops.registry import Example, operator
from tensorir.te.tensor import Tensor

Exprs = Sequence[Expr]
Transform = Callable[[Exprs], Exprs]


A, B = 11 / 16, 3 / 2
"""Points of F(4), found by trying fractions: what is computed from them is exact in float32."""


def _input_4(d: Exprs) -> Exprs:
    even, odd = d[4] - B**2 * d[2], A * (d[3] - B**2 * d[1])
    even2, odd2 = d[4] - A**2 * d[2], B * (d[3] - A**2 * d[1])
    ends = [d[n + 4] + ((A * B) ** 2 * d[n] - (A**2 + B**2) * d[n + 2]) for n in (0, 1)]
    return ends[0], even + odd, even - odd, even2 + odd2, even2 - odd2, ends[1]


def _output_4(m: Exprs) -> Exprs:
    even, odd, even2, odd2 = m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
    return (
        m[0] + even + even2, A * odd + B * odd2, A**2 * even + B**2 * even2,
        A**3 * odd + B**3 * odd2 + m[5],
    )  # fmt: skip


def _weight_4(g: Exprs) -> Exprs:
    rows = [g[0] / (A * B) ** 2]
    for p, q in ((A, B), (B, A)):
        even, odd, norm = g[0] + p**2 * g[2], p * g[1], 2 * p**2 * (p**2 - q**2)
        rows += [(even + odd) / norm, (even - odd) / norm]
    return (*rows, g[2])


def _input_2(d: Exprs) -> Exprs:
    return d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]


def _output_2(m: Exprs) -> Exprs:
    return m[0] + m[1] + m[2], m[1] - m[2] - m[3]


def _weight_2(g: Exprs) -> Exprs:
    even = g[0] + g[2]
    return g[0], (even + g[1]) / 2.0, (even - g[1]) / 2.0, g[2]


_TRANSFORMS: dict[int, tuple[Transform, Transform, Transform]] = {
    2: (_input_2, _weight_2, _output_2),
    4: (_input_4, _weight_4, _output_4),
}
"""B^T, G and A^T, applied to the elements of a row, for the outputs that a tile has along it."""

ERROR = {2: 2e-6, 4: 1e-5}
"""The largest error in float32, in parts of the largest result, for the longer side of a tile.

Measured on inputs in [-1, 1) and up to 512 channels: 1e-6 and 6e-6; the definition has 6e-7."""


_POINTS = {2: (0, 1, -1), 4: (0, A, -A, B, -B)}
"""Where Toom-Cook's method evaluates polynomials, beside infinity."""


def _weights_reference(weight: Any, tile: tuple[int, int] = (4, 4)) -> Any:
    """By the formula: g at each point, over the differences of the point to all others."""
    matrices = []
    for side in tile:
        points = _POINTS[side]
        norms = [np.prod([p - q for q in points if q != p]) for p in points]
        norms[0] = abs(norms[0])  # at 0 the sign goes to the transform of the input
        rows = [(1 / norm, p / norm, p * p / norm) for p, norm in zip(points, norms)]
        matrices.append(np.array([*rows, (0, 0, 1)]))
    return np.einsum("ay,ocyx,bx->aboc", matrices[0], weight, matrices[1])


def _reference(
    x: Any, weight: Any, bias: Any = None, tile: Any = (4, 4), padding: int = 1,
    activation: str | None = None,
) -> Any:  # fmt: skip
    return conv(x, weight, bias, 1, padding, activation=activation)


@operator(
    reference=_weights_reference,
    examples=[
        Example([(2, 3, 3, 3)]),
        Example([(1, 2, 3, 3)], {"tile": (2, 4)}),
        Example([(0, 2, 3, 3)]),
    ],
)
def winograd_weights(
    weight: Tensor, tile: tuple[int, int] = (4, 4), name: str = "winograd_weights"
) -> Tensor:
    """G g G^T for each filter, computed in float64: weight [o, c, 3, 3] gives
    [tile[0] + 2, tile[1] + 2, o, c].

    Weights that are known ahead need it only once: conv2d_winograd takes the result too.
    """
    op = "winograd_weights"
    check_tensor(op, "weight", weight, 4)
    check_float(op, "weight", weight)
    _check_tile(op, tile)
    require(_is_3x3(weight), op, f"weight {weight!r} has no 3x3 filters in its last dimensions")
    down, across = (_TRANSFORMS[side][1] for side in tile)
    filters, channels = weight.shape[:2]

    def columns(k: Expr, c: Expr, a: Expr, x: Expr) -> Expr:
        return _pick(a, down([weight[k, c, row, x].astype("float64") for row in range(3)]))

    half = te.compute((filters, channels, tile[0] + 2, 3), columns, f"{name}_columns")

    def rows(a: Expr, b: Expr, k: Expr, c: Expr) -> Expr:
        row = across([half[k, c, a, column] for column in range(3)])
        return _pick(b, row).astype(weight.dtype)

    shape = (tile[0] + 2, tile[1] + 2, filters, channels)
    return te.compute(shape, rows, name)  # type: ignore[no-any-return]


@operator(
    reference=_reference,
    examples=[
        Example([(1, 2, 6, 5), (3, 2, 3, 3), (3,)], {"activation": "relu"}),
        Example([("n", 1, 4, 5), (2, 1, 3, 3)], {"tile": (2, 4), "padding": 0}, sizes={"n": 2}),
        Example([(1, 6, 3, 2), (6, 6, 3, 3), (6,)], {"tile": (2, 2), "padding": 2}, "float64"),
        Example([(1, 1, 1, 1), (1, 1, 3, 3)]),
        Example([(1, 0, 2, 2), (1, 0, 3, 3)]),
    ],
)
def conv2d_winograd(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    tile: tuple[int, int] = (4, 4),
    padding: int = 1,
    activation: str | None = None,
    name: str = "conv2d_winograd",
) -> Tensor:
    """A 3x3 convolution of stride 1 in layout NCHW by F(tile, 3x3), whose sides are 2 or 4.

    x is [n, c, h, w], weight [o, c, 3, 3] or what winograd_weights makes of it, bias [o]; the
    result is [n, o, h + 2 * padding - 2, w + 2 * padding - 2]. Errors are up to ERROR of the
    largest result, several times those of conv2d. All sizes but the batch are numbers.
    """
    op = "conv2d_winograd"
    check_float(op, "x", check_tensor(op, "x", x, 4))
    check_tensor(op, "weight", weight, 4)
    _check_tile(op, tile)
    count = isinstance(padding, int) and not isinstance(padding, bool) and padding >= 0
    require(count, op, f"padding={padding!r} is no integer from 0 on")
    samples, channels, *image = x.shape
    sides = (tile[0] + 2, tile[1] + 2)
    plain = _is_3x3(weight) and weight.shape[1] is channels
    ready = tuple(map(int_value, weight.shape[:2])) == sides and not plain
    u = weight if ready else winograd_weights(weight, tile, f"{name}_weights")
    require(
        u.shape[3] is channels and u.dtype == x.dtype, op,
        f"weight {weight!r} does not take {channels!r} channels of {x.dtype}, as x {x!r} has them",
    )  # fmt: skip
    if bias is not None:
        check_shape(op, "bias", bias, [u.shape[2]])
    out = [static(op, "a side of x", size) + 2 * padding - 2 for size in image]
    require(
        min(out) > 0, op, f"x {x!r} with padding={padding} is smaller than the filter; pad it more"
    )
    tiles = tuple(-(-size // side) for size, side in zip(out, tile))
    pad = _strips(x, tile, tiles, padding, name)
    v = _input_tiles(pad, tile, tiles, name)
    channel = te.reduce_axis(channels, name="c")
    products = te.compute(
        (*sides, u.shape[2], samples * (tiles[0] * tiles[1])),
        lambda a, b, k, t: te.sum(v[a, b, channel, t] * u[a, b, k, channel], axis=channel),
        f"{name}_products",
    )
    half = _output_rows(products, tile, tiles, samples, f"{name}_rows")

    def element(n: Expr, k: Expr, h: Expr, w: Expr) -> Expr:
        place = (n, k, h // tile[0], h % tile[0])
        row = [half[(*place, column, w // tile[1])] for column in range(sides[1])]
        value = _pick(w % tile[1], _TRANSFORMS[tile[1]][2](row))
        return activate(op, activation, value if bias is None else value + bias[k])

    return te.compute((samples, u.shape[2], *out), element, name)  # type: ignore[no-any-return]


def _is_3x3(weight: Tensor) -> bool:
    return tuple(map(int_value, weight.shape[2:])) == (3, 3)


def _check_tile(op: str, tile: tuple[int, int]) -> None:
    pair = isinstance(tile, (tuple, list)) and len(tile) == 2
    known = pair and all(side in _TRANSFORMS for side in tile)
    require(known, op, f"tile={tile!r} is no pair of {' or '.join(map(str, _TRANSFORMS))}")


def _strips(
    x: Tensor, tile: tuple[int, int], tiles: tuple[int, ...], padding: int, name: str
) -> Tensor:
    """The rows of x that a row of tiles reads, zeros around: [n, c, tiles[0], tile[0] + 2, width].

    Rows that two rows of tiles read are there twice, so that each has its own.
    """
    samples, channels, height, width = x.shape
    shape = (samples, channels, tiles[0], tile[0] + 2)

    def row(n: Expr, c: Expr, ty: Expr, y: Expr, w: Expr) -> Expr:
        h = ty * tile[0] + y
        inside = (h >= padding) & (h < height + padding)
        return te.if_then_else(inside, x[n, c, h - padding, w], 0.0)

    strips = te.compute((*shape, width), row, f"{name}_strips")

    def element(n: Expr, c: Expr, ty: Expr, y: Expr, w: Expr) -> Expr:
        inside = (w >= padding) & (w < width + padding)
        return te.if_then_else(inside, strips[n, c, ty, y, w - padding], 0.0)

    sizes = (*shape, tiles[1] * tile[1] + 2)
    return te.compute(sizes, element, f"{name}_pad")  # type: ignore[no-any-return]


def _input_tiles(pad: Tensor, tile: tuple[int, int], tiles: tuple[int, ...], name: str) -> Tensor:
    """B^T d B for the tiles of all samples, row by row: [tile[0] + 2, tile[1] + 2, c, tiles]."""
    samples, channels, *_ = pad.shape
    down, across = (_TRANSFORMS[side][0] for side in tile)

    def columns(n: Expr, c: Expr, ty: Expr, y: Expr, x: Expr) -> Expr:
        return _pick(y, down([pad[n, c, ty, row, x] for row in range(tile[0] + 2)]))

    half = te.compute(pad.shape, columns, f"{name}_columns")

    def rows(a: Expr, b: Expr, c: Expr, t: Expr) -> Expr:
        row, tx = t // tiles[1], t % tiles[1]
        place = (row // tiles[0], c, row % tiles[0], a)
        reach = [half[(*place, tx * tile[1] + column)] for column in range(tile[1] + 2)]
        return _pick(b, across(reach))

    count = samples * (tiles[0] * tiles[1])
    sizes = (tile[0] + 2, tile[1] + 2, channels, count)
    return te.compute(sizes, rows, f"{name}_input")  # type: ignore[no-any-return]


def _output_rows(
    products: Tensor, tile: tuple[int, int], tiles: tuple[int, ...], samples: Expr, name: str
) -> Tensor:
    """A^T M for each tile."""
    down = _TRANSFORMS[tile[0]][2]

    def rows(n: Expr, k: Expr, ty: Expr, y: Expr, x: Expr, tx: Expr) -> Expr:
        t = (n * tiles[0] + ty) * tiles[1] + tx
        return _pick(y, down([products[row, x, k, t] for row in range(tile[0] + 2)]))

    shape = (samples, products.shape[2], tiles[0], tile[0], tile[1] + 2, tiles[1])
    return te.compute(shape, rows, name)  # type: ignore[no-any-return]


def _pick(index: Expr, values: Exprs) -> Expr:
    """`values[index]`: a chain of choices, of which one is left where the index is a constant."""
    result = values[-1]
    for number in reversed(range(len(values) - 1)):
        result = te.select(index == number, values[number], result)
    return result
