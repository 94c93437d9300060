"""Convolutions in one, two and three dimensions, with groups, bias and activation."""

from __future__ import annotations

from typing import Any

from tensorir import te
from tensorir.expr import Expr
from tensorir.ops import conv_reference as reference
from tensorir.ops.arguments import check_tensor, require, static
from tensorir.ops.epilogue import finish, product_dtype, stage_name, times
from tensorir.ops.naming import name_axes
from tensorir.ops.registry import Example, operator
from tensorir.ops.window import Layout, Window, make_layout, make_window, pad_stage
from tensorir.te.tensor import Tensor

TAP_NAMES = ("q", "r", "s")


def _weight_dims(weight: Tensor, layout: Layout) -> tuple[Expr, Expr, tuple[Expr, ...]]:
    """Output channels, input channels of a group, and the kernel: OI... first, ...IO last."""
    if layout.first:
        return weight.shape[0], weight.shape[1], weight.shape[2:]
    return weight.shape[-1], weight.shape[-2], weight.shape[:-2]


def _weight_at(layout: Layout, o: Expr, c: Expr, taps: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return (o, c, *taps) if layout.first else (*taps, c, o)


def _check_groups(op: str, x: Tensor, weight: Tensor, layout: Layout, groups: int) -> None:
    outputs, inner, _ = _weight_dims(weight, layout)
    channels = static(op, "the number of channels of x", x.shape[layout.channel])
    per_group = static(op, "the number of input channels of weight", inner)
    made = static(op, "the number of output channels of weight", outputs)
    require(isinstance(groups, int) and groups >= 1, op, f"groups={groups!r} must be at least 1")
    order = "[o, c / groups, ...]" if layout.first else "[..., c / groups, o]"
    require(
        per_group * groups == channels, op,
        f"x {x!r} has {channels} channels, and weight {weight!r} takes {per_group} in each of "
        f"{groups} groups; weight must be {order} for x of this layout",
    )  # fmt: skip
    require(
        made % groups == 0, op, f"{made} output channels cannot be divided among {groups} groups"
    )


def convolve(
    op: str,
    rank: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    layout: str | None,
    activation: str | None,
    out_dtype: str | None,
    name: str,
) -> Tensor:
    """The stages of any convolution: pad, the sums, and what follows them."""
    places = make_layout(op, layout, rank)
    check_tensor(op, "x", x, rank + 2)
    check_tensor(op, "weight", weight, rank + 2)
    _check_groups(op, x, weight, places, groups)
    outputs, _, kernel = _weight_dims(weight, places)
    sizes = tuple(x.shape[d] for d in places.spatial)
    window = make_window(op, sizes, kernel, stride, padding, dilation)
    acc = product_dtype(op, x, weight)
    dtype = out_dtype or (x.dtype if acc == "float32" else acc)
    pads = places.at((0, 0), (0, 0), window.padding)
    source = pad_stage(x, pads, 0, places.names("c"))
    last = stage_name(name, "conv", bias, activation, dtype == acc)
    conv = _sums(source, weight, outputs, window, groups, places, acc, last)
    axes = places.names("o")
    return finish(op, conv, bias, places.channel, activation, dtype, name, axes)


def _sums(
    x: Tensor,
    weight: Tensor,
    outputs: Expr,
    window: Window,
    groups: int,
    places: Layout,
    acc: str,
    name: str,
) -> Tensor:
    made, inner, kernel = _weight_dims(weight, places)
    each = static("conv", "groups", made) // groups
    depth = static("conv", "channels", inner)
    taps = tuple(
        te.reduce_axis(k, name=label) for k, label in zip(kernel, TAP_NAMES[3 - places.rank :])
    )
    channels = () if depth == 1 else (te.reduce_axis(inner, name="c"),)

    def element(*i: Expr) -> Expr:
        o, at = i[places.channel], tuple(i[d] for d in places.spatial)
        c = channels[0] if channels else te.const(0)
        source = c if groups == 1 else (o if each == 1 else o // each) * depth + c
        read = x[places.at(i[0], source, window.reads(at, taps))]
        product = times(read, weight[_weight_at(places, o, c, taps)], acc)
        return te.sum(product, axis=(*channels, *taps) if places.first else (*taps, *channels))

    shape = places.at(x.shape[0], outputs, window.output)
    return te.compute(shape, name_axes(places.names("o"), element), name)  # type: ignore[no-any-return]


@operator(
    reference=reference.conv,
    examples=[
        Example([(2, 3, 9), (4, 3, 3)]),
        Example([(1, 4, 7), (6, 2, 3), (6,)], {"padding": (1,), "groups": 2, "activation": "relu"}),
        Example([("n", 8, 3), (2, 3, 5)], {"layout": "NWC", "stride": 2, "dilation": 2},
                sizes={"n": 2}),
        Example([(1, 1, 5), (1, 1, 1)]),
    ],
)  # fmt: skip
def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    layout: str = "NCW",
    activation: str | None = None,
    out_dtype: str | None = None,
    name: str = "conv1d",
) -> Tensor:
    """A convolution along one dimension; see conv2d."""
    return convolve(
        "conv1d", 1, x, weight, bias, stride, padding, dilation, groups, layout, activation,
        out_dtype, name,
    )  # fmt: skip


@operator(
    reference=reference.conv,
    examples=[
        Example([(1, 3, 6, 7), (4, 3, 3, 3)]),
        Example([("n", 3, 6, 5), (4, 3, 3, 2), (4,)], {"padding": 1, "activation": "relu"},
                sizes={"n": 2}),
        Example([(1, 7, 6, 3), (3, 3, 3, 4), (4,)],
                {"layout": "NHWC", "padding": "same", "activation": "silu"}),
        Example([(1, 2, 7, 8), (3, 2, 3, 3)], {"stride": (2, 3), "padding": "same"}),
        Example([(1, 2, 9, 8), (3, 2, 3, 2)], {"dilation": (2, 3), "padding": ((0, 1), (2, 0))}),
        Example([(1, 4, 5, 5), (6, 2, 3, 3)], {"groups": 2, "padding": "valid"}),
        Example([(1, 5, 5, 4), (3, 3, 2, 6), (6,)], {"groups": 2, "layout": "NHWC"}),
        Example([(1, 3, 4, 4), (5, 3, 1, 1)], dtypes="float16"),
        Example([(1, 3, 4, 4), (5, 3, 3, 3), (5,)], {"padding": 1}, "bfloat16"),
        Example([(1, 4, 5, 5), (3, 4, 3, 3), (3,)], {"padding": 1}, ("uint8", "int8", "int32")),
        Example([(0, 2, 4, 4), (3, 2, 3, 3)], {"padding": 1}),
        Example([(1, 2, 5, 5), (0, 2, 3, 3)]),
    ],
)  # fmt: skip
def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    layout: str = "NCHW",
    activation: str | None = None,
    out_dtype: str | None = None,
    name: str = "conv2d",
) -> Tensor:
    """A convolution: sums of x times weight over windows, plus bias[o], activated.

    `layout` "NCHW" is x[n, c, h, w], weight[o, c / groups, r, s]; "NHWC" is x[n, h, w, c],
    weight[r, s, c / groups, o]. `stride` and `dilation` are one integer or one for each dimension;
    `padding` is one, one for each, pairs (before, after), "same" or "valid". Types are as in
    matmul. All sizes but the batch are numbers.
    """
    return convolve(
        "conv2d", 2, x, weight, bias, stride, padding, dilation, groups, layout, activation,
        out_dtype, name,
    )  # fmt: skip


@operator(
    reference=reference.conv,
    examples=[
        Example([(1, 2, 4, 5, 4), (3, 2, 3, 2, 3)], {"padding": (1, 0, 1)}),
        Example([(1, 4, 5, 4, 2), (2, 2, 2, 1, 4), (4,)],
                {"layout": "NDHWC", "groups": 2, "stride": 2, "activation": "relu"}),
        Example([(1, 1, 3, 3, 3), (2, 1, 2, 2, 2)], {"dilation": 2}, "float64"),
    ],
)  # fmt: skip
def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    layout: str = "NCDHW",
    activation: str | None = None,
    out_dtype: str | None = None,
    name: str = "conv3d",
) -> Tensor:
    """A convolution along three dimensions; see conv2d."""
    return convolve(
        "conv3d", 3, x, weight, bias, stride, padding, dilation, groups, layout, activation,
        out_dtype, name,
    )  # fmt: skip


def _depthwise_reference(x: Any, weight: Any, bias: Any = None, **attrs: Any) -> Any:
    last = attrs.get("layout") == "NHWC"
    return reference.conv(x, weight, bias, groups=x.shape[-1 if last else 1], **attrs)


@operator(
    reference=_depthwise_reference,
    examples=[
        Example([(2, 3, 6, 5), (3, 1, 3, 3)], {"padding": 1}),
        Example([(1, 6, 5, 3), (3, 3, 1, 3), (3,)],
                {"layout": "NHWC", "stride": 2, "padding": "same", "activation": "relu"}),
        Example([(1, 2, 6, 6), (4, 1, 2, 3)], {"dilation": 2}),
        Example([(1, 2, 4, 4), (2, 1, 3, 3)], {"padding": 1}, ("uint8", "int8")),
    ],
)  # fmt: skip
def depthwise_conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    layout: str = "NCHW",
    activation: str | None = None,
    out_dtype: str | None = None,
    name: str = "depthwise_conv2d",
) -> Tensor:
    """conv2d with as many groups as channels: each has kernels of its own.

    `weight` is [c * m, 1, r, s], for "NHWC" [r, s, 1, c * m]; channel c makes the m outputs from
    c * m on. The rest is as in conv2d.
    """
    op = "depthwise_conv2d"
    places = make_layout(op, layout, 2)
    check_tensor(op, "x", x, 4)
    groups = static(op, "the number of channels of x", x.shape[places.channel])
    return convolve(
        op, 2, x, weight, bias, stride, padding, dilation, groups, layout, activation, out_dtype,
        name,
    )  # fmt: skip
