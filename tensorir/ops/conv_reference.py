"""What the references of convolutions and pooling share: NumPy only, no expressions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tensorir.ops.epilogue import finished

Array = Any


def to_first(x: Array, layout: str | None) -> Array:
    """`x` with its channels in dimension 1."""
    return np.moveaxis(x, -1, 1) if layout and layout.endswith("C") else x


def from_first(y: Array, layout: str | None) -> Array:
    return np.moveaxis(y, 1, -1) if layout and layout.endswith("C") else y


def pairs_of(padding: Any, size: Any, reach: Any, stride: Any) -> list[tuple[int, int]]:
    """The padding of each dimension; `reach` is how far a kernel extends."""
    if padding == "valid":
        padding = 0
    if padding == "same":
        outputs = np.ceil(np.divide(size, stride)).astype(int)
        total = np.maximum((outputs - 1) * stride + reach - size, 0)
        return [(int(t) // 2, int(t) - int(t) // 2) for t in total]
    given = np.broadcast_to(padding, (len(size),)) if np.ndim(padding) < 2 else padding
    return [(int(p), int(p)) if np.ndim(p) == 0 else (int(p[0]), int(p[1])) for p in given]


def full(value: Any, rank: int) -> Array:
    return np.broadcast_to(value, (rank,))


def taps(
    x: Array, kernel: Any, stride: Array, dilation: Array, outputs: Any
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """For each element of a kernel, what it meets in all windows of the padded x[n, c, ...]."""
    for tap in itertools.product(*map(range, kernel)):
        at = [
            slice(r * d, r * d + s * (n - 1) + 1, s)
            for r, d, s, n in zip(tap, dilation, stride, outputs)
        ]
        yield tap, x[(slice(None), slice(None), *at)]


def conv(
    x: Array, weight: Array, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1, layout: str | None = None, activation: str | None = None,
    out_dtype: str | None = None,
) -> Array:  # fmt: skip
    """A convolution as one matrix product for each element of the kernel."""
    last = bool(layout and layout.endswith("C"))
    x = to_first(x, layout)
    weight = np.moveaxis(weight, (-1, -2), (0, 1)) if last else weight
    if x.dtype.kind in "iu":
        x, weight = x.astype(np.int32), weight.astype(np.int32)
    rank = x.ndim - 2
    stride, dilation = full(stride, rank), full(dilation, rank)
    reach = (np.array(weight.shape[2:]) - 1) * dilation + 1
    pads = pairs_of(padding, np.array(x.shape[2:]), reach, stride)
    padded = np.pad(x, [(0, 0), (0, 0), *pads])
    outputs = (np.array(padded.shape[2:]) - reach) // stride + 1
    n, o = x.shape[0], weight.shape[0]
    y = np.zeros((n, groups, o // groups, *outputs), x.dtype)
    split = weight.reshape(groups, o // groups, *weight.shape[1:])
    for tap, seen in taps(padded, weight.shape[2:], stride, dilation, outputs):
        parts = seen.reshape(n, groups, weight.shape[1], *outputs)
        y += np.einsum("ngc...,goc->ngo...", parts, split[(..., *tap)])
    y = finished(y.reshape(n, o, *outputs), bias, (-1, *(1,) * rank), activation)
    return from_first(y, layout) if out_dtype is None else from_first(y, layout).astype(out_dtype)


def conv_transpose(
    x: Array, weight: Array, bias: Any = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, layout: str | None = None,
    activation: str | None = None, out_dtype: str | None = None,
) -> Array:  # fmt: skip
    """A transposed convolution by adding each input element's share to the output."""
    last = bool(layout and layout.endswith("C"))
    x = to_first(x, layout)
    weight = np.moveaxis(weight, (-1, -2), (0, 1)) if last else weight
    rank, kernel = x.ndim - 2, np.array(weight.shape[2:])
    stride = full(stride, rank)
    pads = pairs_of(padding, np.array(x.shape[2:]), kernel, stride)
    size = (np.array(x.shape[2:]) - 1) * stride + kernel
    n, o = x.shape[0], weight.shape[1]
    y = np.zeros((n, groups, o, *(size + full(output_padding, rank) + 1)), x.dtype)
    each = weight.shape[0] // groups
    parts = x.reshape(n, groups, each, *x.shape[2:])
    split = weight.reshape(groups, each, *weight.shape[1:])
    for tap in itertools.product(*map(range, kernel)):
        shares: list[Any] = [slice(r, r + s * m, s) for r, s, m in zip(tap, stride, x.shape[2:])]
        y[(..., *shares)] += np.einsum("ngc...,gco->ngo...", parts, split[(..., *tap)])
    cut: list[Any] = [
        slice(low, length - high + extra)
        for (low, high), length, extra in zip(pads, size, full(output_padding, rank))
    ]
    y = y[(..., *cut)].reshape(n, groups * o, *(s.stop - s.start for s in cut))
    return from_first(finished(y, bias, (-1, *(1,) * rank), activation), layout)
