"""3x3 convolutions of stride 1 by Winograd's minimal filtering: fewer products, larger errors.

F(m x n, 3x3) computes a tile of m x n outputs from one of (m + 2) x (n + 2) inputs with one product
for each element of the latter: 4 times fewer than the definition for m = n = 4, 2.25 times for
m = n = 2. The transforms are Y = A^T [(G g G^T) * (B^T d B)] A, in `winograd_transforms`. Sources:
Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016; how much points matter:
Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural
Networks", 2020.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir import te
from tensorir.expr import Expr, Var, int_value
from tensorir.ops.activation import activate
from tensorir.ops.arguments import check_float, check_shape, check_tensor, require, static
from tensorir.ops.conv_reference import conv
from tensorir.ops.registry import Example, operator
from tensorir.ops.window import make_layout
from tensorir.ops.winograd_form import Window, Windowed
from tensorir.ops.winograd_stages import winograd_stages
from tensorir.ops.winograd_transforms import PAIRS, Filtering
from tensorir.ops.winograd_weights import weight_stages
from tensorir.te.tensor import Tensor

TAPS = 3
SIDES = (2, 4)

ERROR = {2: 2e-6, 4: 1e-5}
"""The largest error in float32, in parts of the largest result, for the longer side of a tile.

Measured on inputs in [-1, 1) and up to 512 channels: 1e-6 and 6e-6; the definition has 6e-7."""


def _weights_reference(weight: Any, tile: tuple[int, int] = (4, 4), layout: str = "NCHW") -> Any:
    """By the formula: the polynomial of g at each point, and its last coefficient."""
    weight = weight if layout == "NCHW" else np.moveaxis(weight, (3, 2), (0, 1))
    matrices = []
    for side in tile:
        points = [sign * p for p in PAIRS[side + TAPS - 1] for sign in (1, -1)]
        matrices.append(np.array([(1, 0, 0), *((1, p, p * p) for p in points), (0, 0, 1)]))
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
    sizes = {axis: weight.shape[axes.weight.index(axis)] for axis in "oc"}
    form = _form(axes, {**sizes, "n": te.const(1)}, (1, 1), 0)
    return weight_stages(form, weight, [Filtering(side, TAPS) for side in tile], name)


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
    op = "conv2d_winograd"
    axes = _axes(op, layout)
    check_float(op, "x", check_tensor(op, "x", x, 4))
    check_tensor(op, "weight", weight, 4)
    _check_tile(op, tile)
    count = isinstance(padding, int) and not isinstance(padding, bool) and padding >= 0
    require(count, op, f"padding={padding!r} is no integer from 0 on")
    channels = x.shape[axes.image.index("c")]
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
    for size in (filters, channels):
        static(op, "the number of channels", size)
    if bias is not None:
        check_shape(op, "bias", bias, [filters])
    image = [x.shape[axes.image.index(axis)] for axis in "hw"]
    out = [static(op, "a side of x", size) + 2 * padding - 2 for size in image]
    require(
        min(out) > 0, op, f"x {x!r} with padding={padding} is smaller than the filter; pad it more"
    )
    sizes = {"n": x.shape[axes.image.index("n")], "c": channels, "o": filters}
    form = _form(axes, sizes, out, padding)

    def finish(value: Expr, i: Sequence[Expr]) -> Expr:
        at = i[axes.result.index("c")]
        return activate(op, activation, value if bias is None else value + bias[at])

    return winograd_stages(form, x, weight, tile, name, finish, ready)


@dataclass(frozen=True)
class ConvAxes:
    """The order of the dimensions of a convolution's tensors.

    `image` and `result` are orders of n (samples), c (channels), h and w, `weight` one of o (output
    channels), c, r and s (rows and columns of the filter).
    """

    image: str
    weight: str
    result: str


CHANNELS_FIRST = ConvAxes("nchw", "ocrs", "nchw")
CHANNELS_LAST = ConvAxes("nhwc", "rsco", "nhwc")


def _form(
    axes: ConvAxes, sizes: Mapping[str, Expr], out: Sequence[int], padding: int
) -> Windowed:
    """The convolution in terms of variables that are named as the axes are, k for the result's
    channels."""
    names = {axis: Var("k" if axis == "o" else axis) for axis in "nochwrs"}
    n, o, c, h, w, r, s = (names[axis] for axis in "nochwrs")
    image = {"n": n, "c": c, "h": h + r - padding, "w": w + s - padding}
    windows = tuple(
        Window(at, tap, size, TAPS, axes.image.index(a), axes.weight.index(b), -padding)
        for at, tap, size, a, b in ((h, r, out[0], "h", "r"), (w, s, out[1], "w", "s"))
    )
    spatial = {"n": sizes["n"], "o": sizes["o"], "h": te.const(out[0]), "w": te.const(out[1])}
    reduced = {"c": sizes["c"], "r": te.const(TAPS), "s": te.const(TAPS)}
    return Windowed(
        tuple(image[axis] for axis in axes.image),
        tuple(names[axis] for axis in axes.weight),
        tuple(names["o" if axis == "c" else axis] for axis in axes.result),
        {names[axis]: size for axis, size in spatial.items()},
        {names[axis]: size for axis, size in reduced.items()},
        windows,
    )


def _filters(weight: Tensor, axes: ConvAxes, ready: bool) -> tuple[Expr, Expr]:
    """The numbers of output and of input channels of weights, `ready` ones or 3x3 filters."""
    if ready:
        return weight.shape[2], weight.shape[3]
    return weight.shape[axes.weight.index("o")], weight.shape[axes.weight.index("c")]


def _axes(op: str, layout: str) -> ConvAxes:
    return CHANNELS_FIRST if make_layout(op, layout, 2).first else CHANNELS_LAST


def _is_3x3(weight: Tensor, axes: ConvAxes) -> bool:
    return all(int_value(weight.shape[axes.weight.index(axis)]) == TAPS for axis in "rs")


def _check_tile(op: str, tile: tuple[int, int]) -> None:
    pair = isinstance(tile, (tuple, list)) and len(tile) == 2
    known = pair and all(side in SIDES for side in tile)
    require(known, op, f"tile={tile!r} is no pair of {' or '.join(map(str, SIDES))}")
