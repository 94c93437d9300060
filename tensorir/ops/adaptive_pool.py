"""Pooling of whole pictures, and to a given size."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir import te
from tensorir.expr import Expr, all_of, cast, const
from tensorir.ops.arguments import (
    accumulator,
    check_float,
    check_tensor,
    per_dim,
    require,
    static,
    wide,
)
from tensorir.ops.conv_reference import from_first, full, to_first
from tensorir.ops.moments import Rows, mean_and_spread
from tensorir.ops.naming import name_axes
from tensorir.ops.registry import SPECIAL, Example, operator
from tensorir.ops.window import Layout, make_layout
from tensorir.te.axis import Axis
from tensorir.te.tensor import Tensor


def _picture(op: str, x: Tensor, layout: str | None) -> Layout:
    """The layout of `x`, whose rank decides which names there are."""
    check_tensor(op, "x", x)
    require(3 <= x.ndim <= 5, op, f"x {x!r} must have 3 to 5 dimensions; use ops.reshape")
    return make_layout(op, layout, x.ndim - 2)


def _spread_out(x: Tensor, rows: Tensor, places: Layout, dtype: str, name: str) -> Tensor:
    """`rows`, [n, c], as pictures of one element."""
    shape = places.at(x.shape[0], x.shape[places.channel], [1] * places.rank)

    def element(*i: Expr) -> Expr:
        return te.cast(rows[i[0], i[places.channel]], dtype)

    return te.compute(shape, name_axes(places.names("c"), element), name)  # type: ignore[no-any-return]


def _spatial(x: Any, layout: str | None) -> tuple[int, ...]:
    return tuple(range(1, x.ndim - 1) if layout and layout.endswith("C") else range(2, x.ndim))


@operator(
    reference=lambda x, layout=None: x.mean(_spatial(x, layout), keepdims=True),
    examples=[
        Example([("n", 3, 4, 5)], sizes={"n": 2}),
        Example([(2, 3, 5, 4)], {"layout": "NHWC"}, "float16"),
        Example([(1, 2, 7)]),
        Example([(1, 2, 3, 2, 2)]),
    ],
)
def global_avg_pool(x: Tensor, layout: str | None = None, name: str = "global_avg_pool") -> Tensor:
    """The mean of each channel of each picture, which keeps its dimensions, of size 1."""
    places = _picture("global_avg_pool", x, layout)
    check_float("global_avg_pool", "x", x)
    mean, _ = mean_and_spread("global_avg_pool", Rows(x, places.spatial), spread=False)
    return _spread_out(x, mean, places, x.dtype, name)


@operator(
    reference=lambda x, layout=None: x.max(_spatial(x, layout), keepdims=True),
    examples=[
        Example([("n", 3, 4, 5)], sizes={"n": 2}),
        Example([(2, 3, 5, 4)], {"layout": "NHWC"}, "int8"),
        Example([(1, 2, 7)], data=SPECIAL),
    ],
)
def global_max_pool(x: Tensor, layout: str | None = None, name: str = "global_max_pool") -> Tensor:
    """The maximum of each channel of each picture, which keeps its dimensions, of size 1."""
    places = _picture("global_max_pool", x, layout)
    rows = Rows(x, places.spatial)
    k = rows.inner()
    top = te.compute(rows.shape, lambda *i: te.max(wide(x[rows.at(i, k)]), axis=k), "top")
    return _spread_out(x, top, places, x.dtype, name)


class _Bins:
    """Output y of `count` pools the elements from floor(y * size / count) up to, not including,
    ceil((y + 1) * size / count)."""

    def __init__(self, size: int, count: int) -> None:
        self.size, self.count = size, count
        rest, step = size % count, gcd(size, count)  # starts lie at multiples of step / count
        self.longest = size // count + (0 if rest == 0 else 1 if rest == step else 2)
        self.same = rest in (0, step)

    def start(self, y: Expr) -> Expr:
        even = self.size % self.count == 0
        return y * (self.size // self.count) if even else y * self.size // self.count

    def end(self, y: Expr) -> Expr:
        return ((y + 1) * self.size + (self.count - 1)) // self.count

    def element(self, y: Expr, k: Axis) -> Expr:
        """Where element k of output y is; one that exists, if that is shorter than the longest."""
        at = self.start(y) + k
        return at if self.same else te.min(at, self.size - 1)

    def inside(self, y: Expr, k: Axis) -> Expr:
        """Whether element k belongs to output y, which may be shorter than the longest."""
        return te.const(True, "bool") if self.same else self.start(y) + k < self.end(y)


def _bins(op: str, x: Tensor, output_size: Any, places: Layout) -> list[_Bins]:
    counts = per_dim(op, "output_size", output_size, places.rank, 1)
    sizes = [static(op, f"spatial dimension {n}", x.shape[d]) for n, d in enumerate(places.spatial)]
    require(min(sizes) >= 1, op, f"x {x!r} has an empty spatial dimension")
    return [_Bins(size, count) for size, count in zip(sizes, counts)]


def _reduced(
    x: Tensor, bins: list[_Bins], places: Layout, reduce: Any, unit: float, name: str
) -> Tensor:
    """`unit` is what counts for nothing."""
    taps = [te.reduce_axis(b.longest, name=label) for b, label in zip(bins, "qrs")]

    def element(*i: Expr) -> Expr:
        at = [i[d] for d in places.spatial]
        inside = all_of(*(b.inside(y, k) for b, y, k in zip(bins, at, taps)))
        read = [b.element(y, k) for b, y, k in zip(bins, at, taps)]
        e = wide(x[places.at(i[0], i[places.channel], read)])
        if not all(b.same for b in bins):
            e = te.if_then_else(inside, e, const(unit, e.dtype))
        return reduce(e, axis=taps)  # type: ignore[no-any-return]

    shape = places.at(x.shape[0], x.shape[places.channel], [b.count for b in bins])
    return te.compute(shape, name_axes(places.names("c"), element), name)  # type: ignore[no-any-return]


def _adaptive(x: Any, output_size: Any, layout: str | None, reduce: Any) -> Any:
    x = to_first(x, layout)
    counts = full(output_size, x.ndim - 2)
    y = np.empty((*x.shape[:2], *counts), x.dtype)
    for at in np.ndindex(*counts):
        held = tuple(
            slice(int(np.floor(p * n / o)), int(np.ceil((p + 1) * n / o)))
            for p, n, o in zip(at, x.shape[2:], counts)
        )
        y[(..., *at)] = reduce(x[(..., *held)], tuple(range(2, x.ndim)))
    return from_first(y, layout)


ADAPTIVE = [
    Example([("n", 2, 6, 9)], {"output_size": (2, 3)}, sizes={"n": 2}),
    Example([(1, 2, 7, 5)], {"output_size": (3, 2)}),
    Example([(1, 3, 2, 3)], {"output_size": 5}),
    Example([(1, 7, 4, 2)], {"output_size": (3, 1), "layout": "NHWC"}, "float16"),
    Example([(2, 3, 7)], {"output_size": 4}),
]


@operator(
    reference=lambda x, output_size, layout=None: _adaptive(x, output_size, layout, np.mean),
    examples=ADAPTIVE,
)
def adaptive_avg_pool(
    x: Tensor, output_size: Any, layout: str | None = None, name: str = "adaptive_avg_pool"
) -> Tensor:
    """The mean over as many windows as `output_size` says, which cover the picture evenly.

    Window y of n along a dimension of size s goes from floor(y * s / n) to ceil((y + 1) * s / n).
    `output_size` is one number or one for each spatial dimension.
    """
    places = _picture("adaptive_avg_pool", x, layout)
    check_float("adaptive_avg_pool", "x", x)
    bins = _bins("adaptive_avg_pool", x, output_size, places)
    total = _reduced(x, bins, places, te.sum, 0, "total")

    def element(*i: Expr) -> Expr:
        count: Expr = te.const(1)
        for b, d in zip(bins, places.spatial):
            count = count * (b.longest if b.same else b.end(i[d]) - b.start(i[d]))
        return te.cast(total[i] / cast(total.dtype, count), x.dtype)

    return te.compute(total.shape, name_axes(places.names("c"), element), name)  # type: ignore[no-any-return]


@operator(
    reference=lambda x, output_size, layout=None: _adaptive(x, output_size, layout, np.max),
    examples=[*ADAPTIVE, Example([(1, 2, 5, 5)], {"output_size": 2}, "int16")],
)
def adaptive_max_pool(
    x: Tensor, output_size: Any, layout: str | None = None, name: str = "adaptive_max_pool"
) -> Tensor:
    """The maximum over as many windows as `output_size` says; see adaptive_avg_pool."""
    places = _picture("adaptive_max_pool", x, layout)
    bins = _bins("adaptive_max_pool", x, output_size, places)
    narrow = accumulator(x.dtype) != x.dtype
    top = _reduced(
        x, bins, places, te.max, dt.lowest(accumulator(x.dtype)), "top" if narrow else name
    )
    if not narrow:
        return top
    return te.compute(top.shape, lambda *i: te.cast(top[i], x.dtype), name)  # type: ignore[no-any-return]
