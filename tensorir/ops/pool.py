"""Pooling: the maximum or the mean over windows, whole pictures, or windows that fit a size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tensorir import dtype as dt
from tensorir import te
from tensorir.expr import Expr, cast
from tensorir.ops.arguments import check_float, check_tensor, per_dim, require, wide
from tensorir.ops.conv import TAP_NAMES
from tensorir.ops.naming import name_axes
from tensorir.ops.pool_reference import mean_pooled, pooled
from tensorir.ops.registry import SPECIAL, Example, operator
from tensorir.ops.window import Layout, Window, make_layout, make_window, pad_stage
from tensorir.te.tensor import Tensor


def _windows(
    op: str, rank: int, x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, layout: str | None,
) -> tuple[Layout, Window]:  # fmt: skip
    places = make_layout(op, layout, rank)
    check_tensor(op, "x", x, rank + 2)
    taps = per_dim(op, "kernel", kernel, rank, 1)
    steps = taps if stride is None else stride
    sizes = [x.shape[d] for d in places.spatial]
    window = make_window(op, sizes, taps, steps, padding, dilation, ceil_mode)
    for d, pair in enumerate(window.padding):
        reach = (taps[d] - 1) * window.dilation[d] + 1
        require(
            max(pair) < reach, op,
            f"padding {pair} of spatial dimension {d} is not less than the {reach} elements that "
            "the kernel reaches over, so a window would hold no element; use less",
        )  # fmt: skip
    return places, window


def _padded(x: Tensor, places: Layout, window: Window, value: float) -> Tensor:
    """`x` with padding, and what a last window that begins inside reaches over the end."""
    pads = []
    for d, (low, high) in enumerate(window.padding):
        reach = (window.kernel[d] - 1) * window.dilation[d] + 1
        last = (window.output[d] - 1) * window.stride[d] + reach
        pads.append((low, max(high, last - window.sizes[d] - low)))
    return pad_stage(x, places.at((0, 0), (0, 0), pads), value, places.names("c"))


def _reduced(
    x: Tensor, places: Layout, window: Window, reduce: Callable[..., Expr], name: str
) -> Tensor:
    taps = [te.reduce_axis(k, name=label)
            for k, label in zip(window.kernel, TAP_NAMES[3 - places.rank :])]  # fmt: skip

    def element(*i: Expr) -> Expr:
        at = window.reads([i[d] for d in places.spatial], taps)
        return reduce(x[places.at(i[0], i[places.channel], at)], axis=taps)

    shape = places.at(x.shape[0], x.shape[places.channel], window.output)
    return te.compute(shape, name_axes(places.names("c"), element), name)  # type: ignore[no-any-return]


def _max_pool(
    op: str, rank: int, x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, layout: str, name: str,
) -> Tensor:  # fmt: skip
    places, window = _windows(
        op, rank, x, kernel, stride, padding, dilation, ceil_mode, layout
    )  # fmt: skip
    padded = _padded(x, places, window, dt.lowest(x.dtype))
    narrow = x.dtype in dt.STORAGE_ONLY
    top = _reduced(padded, places, window, lambda e, axis: te.max(wide(e), axis=axis),
                   "top" if narrow else name)  # fmt: skip
    return _stored(top, x.dtype, places, name)


def _stored(t: Tensor, dtype: str, places: Layout, name: str) -> Tensor:
    if t.dtype == dtype:
        return t
    named = name_axes(places.names("c"), lambda *i: cast(dtype, t[i]))
    return te.compute(t.shape, named, name)  # type: ignore[no-any-return]


def _avg_pool(
    op: str, rank: int, x: Tensor, kernel: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, layout: str, name: str,
) -> Tensor:  # fmt: skip
    check_float(op, "x", check_tensor(op, "x", x))
    places, window = _windows(op, rank, x, kernel, stride, padding, 1, ceil_mode, layout)
    padded = _padded(x, places, window, 0)
    total = _reduced(padded, places, window, lambda e, axis: te.sum(wide(e), axis=axis), "total")
    size = _counter(window, count_include_pad)

    def element(*i: Expr) -> Expr:
        count = size([i[d] for d in places.spatial])
        return te.cast(total[i] / cast(total.dtype, count), x.dtype)

    return te.compute(total.shape, name_axes(places.names("c"), element), name)  # type: ignore[no-any-return]


def _counter(window: Window, with_padding: bool) -> Callable[[Sequence[Expr]], Expr]:
    """How many elements the mean of the window at an index is over."""

    def along(d: int, y: Expr) -> Expr:
        low, high = window.padding[d]
        k, s, n = window.kernel[d], window.stride[d], window.sizes[d]
        over = (window.output[d] - 1) * s + k > n + low + high
        if not over and (with_padding or low == high == 0):
            return te.const(k)
        start = y * s - low
        end = te.min(start + k, n + high)
        return end - start if with_padding else te.min(end, n) - te.max(start, 0)

    def count(at: Sequence[Expr]) -> Expr:
        return math.prod((along(d, y) for d, y in enumerate(at)), start=te.const(1))

    return count


def _common_examples(rank: int) -> Iterator[Example]:
    """Examples that suit both kinds of pooling of this rank."""
    sizes = (7, 6, 5)[:rank]
    last = "N" + "DHW"[3 - rank :] + "C"
    yield Example([("n", 2, *sizes)], {"kernel": 2}, sizes={"n": 2})
    yield Example([(1, *sizes, 3)], {"kernel": 3, "stride": 2, "padding": 1, "layout": last})
    yield Example([(1, 2, *sizes)], {"kernel": 3, "stride": 2, "ceil_mode": True, "padding": 1})
    if rank == 2:
        yield Example([(1, 2, 5, 5)], {"kernel": 2, "ceil_mode": True}, "float16")
        yield Example([(1, 1, 7, 8)], {"kernel": (2, 3), "stride": (3, 2), "padding": "same"})
        yield Example([(1, 1, 4, 5)], {"kernel": 3, "stride": 1, "padding": ((1, 0), (2, 1))})
        yield Example([(0, 2, 4, 4)], {"kernel": 2})


def _max_examples(rank: int) -> list[Example]:
    more = [
        Example([(1, 2, 7, 7)], {"kernel": 2, "stride": 1, "dilation": 3}),
        Example([(1, 2, 5, 5)], {"kernel": 3, "padding": 1}, "int8"),
        Example([(1, 1, 4, 7)], {"kernel": 2, "stride": 1}, data=SPECIAL),
    ]
    return [*_common_examples(rank), *(more if rank == 2 else [])]


def _avg_examples(rank: int) -> list[Example]:
    leave_out = [
        Example(e.shapes, {**e.attrs, "count_include_pad": False}, e.dtypes, sizes=e.sizes)
        for e in _common_examples(rank)
        if "padding" in e.attrs
    ]
    return [*_common_examples(rank), *leave_out]


@operator(reference=pooled, examples=_max_examples(1))
def max_pool1d(
    x: Tensor, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, layout: str = "NCW", name: str = "max_pool1d",
) -> Tensor:  # fmt: skip
    """The maximum over windows along one dimension; see max_pool2d."""
    return _max_pool("max_pool1d", 1, x, kernel, stride, padding, dilation, ceil_mode, layout, name)


@operator(reference=pooled, examples=_max_examples(2))
def max_pool2d(
    x: Tensor, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, layout: str = "NCHW", name: str = "max_pool2d",
) -> Tensor:  # fmt: skip
    """The maximum over windows of `kernel` elements; NaN if one of them is.

    `stride` is that of the kernel unless it is given. Padding, in the forms of conv2d, is never the
    maximum. With `ceil_mode` a last window may reach over the end.
    """
    return _max_pool("max_pool2d", 2, x, kernel, stride, padding, dilation, ceil_mode, layout, name)


@operator(reference=pooled, examples=_max_examples(3))
def max_pool3d(
    x: Tensor, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, layout: str = "NCDHW", name: str = "max_pool3d",
) -> Tensor:  # fmt: skip
    """The maximum over windows along three dimensions; see max_pool2d."""
    return _max_pool("max_pool3d", 3, x, kernel, stride, padding, dilation, ceil_mode, layout, name)


@operator(reference=mean_pooled, examples=_avg_examples(1))
def avg_pool1d(
    x: Tensor, kernel: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, layout: str = "NCW", name: str = "avg_pool1d",
) -> Tensor:  # fmt: skip
    """The mean over windows along one dimension; see avg_pool2d."""
    return _avg_pool(
        "avg_pool1d", 1, x, kernel, stride, padding, ceil_mode, count_include_pad, layout, name
    )


@operator(reference=mean_pooled, examples=_avg_examples(2))
def avg_pool2d(
    x: Tensor, kernel: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, layout: str = "NCHW", name: str = "avg_pool2d",
) -> Tensor:  # fmt: skip
    """The mean over windows of `kernel` elements.

    Zeros of the padding count unless `count_include_pad` is False; what a last window of
    `ceil_mode` holds beyond the padding never does. The rest is as in max_pool2d.
    """
    return _avg_pool(
        "avg_pool2d", 2, x, kernel, stride, padding, ceil_mode, count_include_pad, layout, name
    )


@operator(reference=mean_pooled, examples=_avg_examples(3))
def avg_pool3d(
    x: Tensor, kernel: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, layout: str = "NCDHW", name: str = "avg_pool3d",
) -> Tensor:  # fmt: skip
    """The mean over windows along three dimensions; see avg_pool2d."""
    return _avg_pool(
        "avg_pool3d", 3, x, kernel, stride, padding, ceil_mode, count_include_pad, layout, name
    )
