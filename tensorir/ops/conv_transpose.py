"""Transposed convolutions, without multiplications by zeros between the elements of the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorir import te
from tensorir.expr import Expr
from tensorir.ops import conv_reference as reference
from tensorir.ops.arguments import check_tensor, per_dim, require, static
from tensorir.ops.conv import TAP_NAMES
from tensorir.ops.epilogue import finish, product_dtype, stage_name, times
from tensorir.ops.naming import name_axes
from tensorir.ops.registry import Example, operator
from tensorir.ops.window import SPATIAL, Layout, make_layout, make_padding, pad_stage
from tensorir.te.tensor import Tensor


@dataclass(frozen=True)
class Phases:
    """One spatial dimension: output t = q * stride + p sums x[q - j] * w[p + stride * j] over j.

    For stride 1 there is one phase, which is left out, and q counts from the first output.
    """

    stride: int
    first: int
    """The first output that is kept, of those without padding."""
    output: int
    steps: int
    """How many q there are."""
    taps: int
    """How many j there are."""
    before: int
    """Zeros before and after the input, so that all q - j can be read."""
    after: int

    def input(self, q: Expr, j: Expr) -> Expr:
        """Where the padded input is read."""
        shift = self.before + (self.first if self.stride == 1 else 0)
        return q + shift - j


def _phases(
    op: str, size: int, kernel: int, stride: int, pads: tuple[int, int], extra: int
) -> Phases:
    output = (size - 1) * stride + kernel - sum(pads) + extra
    require(
        output >= 0 and size >= 1, op,
        f"{size} elements, a kernel of {kernel}, stride {stride} and padding {pads} leave no output"
        "; use less padding",
    )  # fmt: skip
    taps, first = -(-kernel // stride), pads[0]
    begin = first if stride == 1 else 0
    steps = output if stride == 1 else -(-(output + first) // stride)
    before, after = max(taps - 1 - begin, 0), max(steps + begin - size, 0)
    return Phases(stride, first, output, steps, taps, before, after)


def _sums(
    x: Tensor,
    weight: Tensor,
    dims: Sequence[Phases],
    groups: int,
    places: Layout,
    acc: str,
    name: str,
) -> Tensor:
    """The sums for each q and, where the stride is not 1, each phase after its q."""
    each = static("conv_transpose", "o", weight.shape[1] if places.first else weight.shape[-2])
    depth = static("conv_transpose", "c", x.shape[places.channel]) // groups
    taps = tuple(
        te.reduce_axis(p.taps, name=label) for p, label in zip(dims, TAP_NAMES[3 - places.rank :])
    )
    c = te.reduce_axis(depth, name="c")
    names, sizes = [], []
    for p, label in zip(dims, SPATIAL[places.rank].lower()):
        names += [label] if p.stride == 1 else [label, f"p{label}"]
        sizes += [p.steps] if p.stride == 1 else [p.steps, p.stride]

    def element(*i: Expr) -> Expr:
        o = i[1] if places.first else i[-1]
        inner = iter(i[2:] if places.first else i[1:-1])
        read, at = [], []
        for p, j in zip(dims, taps):
            q = next(inner)
            read.append(p.input(q, j))
            at.append(j if p.stride == 1 else next(inner) + j * p.stride)
        group = te.const(0) if groups == 1 else o // each
        source, made = group * depth + c, o - group * each
        w = weight[(source, made, *at) if places.first else (*at, made, source)]
        product = times(x[places.at(i[0], source, read)], w, acc)
        return te.sum(product, axis=(c, *taps) if places.first else (*taps, c))

    shape = places.at(x.shape[0], each * groups, sizes)
    named = name_axes(places.at("n", "o", names), element)
    return te.compute(shape, named, name)  # type: ignore[no-any-return]


def _interleave(sums: Tensor, dims: Sequence[Phases], places: Layout, name: str) -> Tensor:
    """The outputs in order, without the padding."""

    def element(*i: Expr) -> Expr:
        at: list[Expr] = []
        for p, d in zip(dims, places.spatial):
            t = i[d] + p.first
            at += [i[d]] if p.stride == 1 else [t // p.stride, t % p.stride]
        return sums[places.at(i[0], i[places.channel], at)]

    outer = (sums.shape[0], sums.shape[1] if places.first else sums.shape[-1])
    shape = places.at(*outer, [p.output for p in dims])
    return te.compute(shape, name_axes(places.names("o"), element), name)  # type: ignore[no-any-return]


def _check(op: str, x: Tensor, weight: Tensor, groups: int, places: Layout) -> tuple[Expr, ...]:
    """Raise TensorIRError where the arguments do not fit; the kernel's sizes."""
    check_tensor(op, "x", x, places.rank + 2)
    check_tensor(op, "weight", weight, places.rank + 2)
    channels = static(op, "the number of channels of x", x.shape[places.channel])
    taken = static(op, "channels of weight", weight.shape[0 if places.first else -1])
    order = "[c, o / groups, ...]" if places.first else "[..., o / groups, c]"
    require(
        channels == taken, op,
        f"x {x!r} has {channels} channels, and weight {weight!r} takes {taken}; weight must be "
        f"{order} for x of this layout",
    )  # fmt: skip
    require(
        isinstance(groups, int) and groups >= 1 and channels % groups == 0, op,
        f"{channels} channels are not groups={groups!r} equal parts; use a divisor",
    )  # fmt: skip
    return weight.shape[2:] if places.first else weight.shape[:-2]


def convolve_transposed(
    op: str,
    rank: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    layout: str | None,
    activation: str | None,
    out_dtype: str | None,
    name: str,
) -> Tensor:
    """The stages of any transposed convolution: pad, the sums by phases, their order, the rest."""
    places = make_layout(op, layout, rank)
    kernel = [static(op, "kernel", k) for k in _check(op, x, weight, groups, places)]
    require(min(kernel) >= 1, op, f"the kernel {tuple(kernel)} has an empty dimension")
    sizes = [static(op, f"spatial dimension {n}", x.shape[d]) for n, d in enumerate(places.spatial)]
    steps = per_dim(op, "stride", stride, rank, 1)
    extra = per_dim(op, "output_padding", output_padding, rank, 0)
    require(
        all(e < s for e, s in zip(extra, steps)), op,
        f"output_padding={output_padding!r} must be less than the stride {steps}",
    )  # fmt: skip
    pads = make_padding(op, padding, rank)
    dims = [_phases(op, *parts) for parts in zip(sizes, kernel, steps, pads, extra)]
    acc = product_dtype(op, x, weight)
    dtype = out_dtype or (x.dtype if acc == "float32" else acc)
    around = places.at((0, 0), (0, 0), [(p.before, p.after) for p in dims])
    source = pad_stage(x, around, 0, places.names("c"))
    missing = [(0, p.taps * p.stride - k) for p, k in zip(dims, kernel)]
    ends = ((0, 0), (0, 0), *missing) if places.first else (*missing, (0, 0), (0, 0))
    w = pad_stage(weight, ends, 0, [f"d{n}" for n in range(rank + 2)])
    strided = any(s > 1 for s in steps)
    last = stage_name(name, "conv", bias, activation, dtype == acc)
    conv = _sums(source, w, dims, groups, places, acc, "phases" if strided else last)
    if strided:
        conv = _interleave(conv, dims, places, last)
    axes = places.names("o")
    return finish(op, conv, bias, places.channel, activation, dtype, name, axes)


@operator(
    reference=reference.conv_transpose,
    examples=[
        Example([(2, 3, 5), (3, 4, 3)], {"stride": 2}),
        Example([(1, 4, 3), (4, 2, 4), (4,)], {"groups": 2, "padding": 1, "activation": "relu"}),
        Example([(1, 4, 2), (3, 3, 2)], {"stride": 3, "layout": "NWC", "output_padding": 2}),
    ],
)
def conv1d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    layout: str = "NCW",
    activation: str | None = None,
    out_dtype: str | None = None,
    name: str = "conv1d_transpose",
) -> Tensor:
    """The transposed convolution along one dimension; see conv2d_transpose."""
    return convolve_transposed(
        "conv1d_transpose", 1, x, weight, bias, stride, padding, output_padding, groups, layout,
        activation, out_dtype, name,
    )  # fmt: skip


@operator(
    reference=reference.conv_transpose,
    examples=[
        Example([(1, 2, 4, 3), (2, 3, 3, 3)]),
        Example([("n", 2, 4, 3), (2, 3, 4, 4), (3,)],
                {"stride": 2, "padding": 1, "activation": "relu"}, sizes={"n": 2}),
        Example([(1, 3, 4, 2), (3, 3, 3, 2), (3,)],
                {"stride": 2, "layout": "NHWC", "padding": ((1, 0), (0, 2)), "output_padding": 1}),
        Example([(1, 4, 3, 3), (4, 1, 2, 3)], {"stride": (3, 1), "groups": 4}),
        Example([(1, 2, 3, 3), (2, 2, 3, 3)], {"stride": 2}, "float16"),
        Example([(1, 2, 3, 3), (2, 2, 2, 2)], {"padding": 2}),
        Example([(1, 1, 1, 1), (1, 1, 1, 1)]),
    ],
)  # fmt: skip
def conv2d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    layout: str = "NCHW",
    activation: str | None = None,
    out_dtype: str | None = None,
    name: str = "conv2d_transpose",
) -> Tensor:
    """The gradient of conv2d with respect to its input, as a layer of its own.

    weight[c, o / groups, r, s] for "NCHW", [r, s, o / groups, c] for "NHWC". The output has
    (size - 1) * stride + kernel - padding + output_padding elements in each direction. Each phase
    of the output is a sum over the taps that meet it: there are no multiplications by zeros, except
    where the stride does not divide the kernel.
    """
    return convolve_transposed(
        "conv2d_transpose", 2, x, weight, bias, stride, padding, output_padding, groups, layout,
        activation, out_dtype, name,
    )  # fmt: skip


@operator(
    reference=reference.conv_transpose,
    examples=[
        Example([(1, 2, 2, 3, 2), (2, 2, 2, 3, 2)], {"stride": (2, 1, 2), "padding": (0, 1, 0)}),
        Example([(1, 2, 2, 2, 1), (1, 2, 1, 2, 1), (2,)], {"layout": "NDHWC", "stride": 2}),
    ],
)
def conv3d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    layout: str = "NCDHW",
    activation: str | None = None,
    out_dtype: str | None = None,
    name: str = "conv3d_transpose",
) -> Tensor:
    """The transposed convolution along three dimensions; see conv2d_transpose."""
    return convolve_transposed(
        "conv3d_transpose", 3, x, weight, bias, stride, padding, output_padding, groups, layout,
        activation, out_dtype, name,
    )  # fmt: skip
