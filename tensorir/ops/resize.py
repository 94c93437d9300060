"""Resizing of pictures: nearest element, or linear between the nearest two."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np

from tensorir import te
from tensorir.expr import Expr, cast
from tensorir.ops.arguments import (
    check_choice,
    check_float,
    check_tensor,
    per_dim,
    require,
    static,
    wide,
)
from tensorir.ops.naming import name_axes
from tensorir.ops.registry import Example, operator
from tensorir.ops.window import make_layout
from tensorir.te.tensor import Tensor

COORDINATES = ("half_pixel", "align_corners", "asymmetric")


class _Map:
    """Where output y of `count` lies among `size` elements, as a fraction of integers.

    Integers make the element exact, whatever the sizes.
    """

    def __init__(self, size: int, count: int, coordinates: str) -> None:
        self.size, self.count, self.coordinates = size, count, coordinates

    def fraction(self, y: Expr) -> tuple[Expr, int]:
        """Numerator, from 0 on, and denominator of the coordinate."""
        size, count = self.reduced()
        if self.coordinates == "half_pixel":
            return te.max((y * 2 + 1) * size - count, 0), 2 * count
        return y * size, count

    def reduced(self) -> tuple[int, int]:
        """How far apart in `size` elements neighbours of `count` lie, as a fraction."""
        corners = self.coordinates == "align_corners"
        size, count = self.size - corners, max(self.count - corners, 1)
        common = gcd(size, count)
        return size // common, count // common

    def nearest(self, y: Expr) -> Expr:
        """The element below for asymmetric and half_pixel (whose picture of y is one half to the
        right), the nearest one, of two the later, for align_corners."""
        size, count = self.reduced()
        if self.coordinates == "asymmetric":
            return y * size // count
        if self.coordinates == "half_pixel":
            return (y * 2 + 1) * size // (2 * count)
        return te.min((y * (2 * size) + count) // (2 * count), self.size - 1)

    def between(self, y: Expr, dtype: str) -> tuple[Expr, Expr, Expr]:
        """The elements before and after, and the weight of the latter."""
        numerator, denominator = self.fraction(y)
        low = te.min(numerator // denominator, self.size - 1)
        weight = cast(dtype, numerator % denominator) / cast(dtype, te.const(denominator))
        return low, te.min(low + 1, self.size - 1), weight


LONG = 1024
"""Elements of a row that is too long to be written out: where each lies is computed ahead."""


class _Table(_Map):
    """The same, computed once for all rows."""

    def __init__(self, plain: _Map, method: str) -> None:
        super().__init__(plain.size, plain.count, plain.coordinates)
        find = plain.nearest if method == "nearest" else lambda y: plain.between(y, "float32")[0]
        self.plain, shape = plain, (plain.count,)
        self.low = te.compute(shape, lambda y: find(y), "low")
        self.weights: dict[str, Tensor] = {}

    def nearest(self, y: Expr) -> Expr:
        return te.clip(self.low[y], 0, self.size - 1)

    def between(self, y: Expr, dtype: str) -> tuple[Expr, Expr, Expr]:
        if dtype not in self.weights:
            self.weights[dtype] = te.compute(
                (self.count,), lambda z: self.plain.between(z, dtype)[2], "weight"
            )
        low = self.nearest(y)
        return low, te.min(low + 1, self.size - 1), self.weights[dtype][y]


def _source(y: Any, size: int, count: int, coordinates: str) -> Any:
    if coordinates == "half_pixel":
        return (y + 0.5) * size / count - 0.5
    if coordinates == "align_corners":
        return y * (size - 1) / max(count - 1, 1)
    return y * size / count


def _weights(size: int, count: int, method: str, coordinates: str) -> Any:
    """The matrix that makes `count` elements of `size`."""
    matrix = np.zeros((count, size))
    for y in range(count):
        at = _source(y, size, count, coordinates)
        if method == "nearest":
            shift = {"half_pixel": 0.5, "align_corners": 0.5, "asymmetric": 0}[coordinates]
            matrix[y, min(int(np.floor(at + shift + 1e-9)), size - 1)] = 1
            continue
        at = np.clip(at, 0, size - 1)
        low = int(np.floor(at + 1e-9))
        matrix[y, low] += 1 - (at - low)
        matrix[y, min(low + 1, size - 1)] += at - low
    return matrix


def _reference(
    x: Any, size: Any, method: str = "linear", coordinates: str = "half_pixel",
    layout: str = "NCHW",
) -> Any:  # fmt: skip
    axes = (2, 3) if layout == "NCHW" else (1, 2)
    counts = np.broadcast_to(size, 2)
    rows, columns = (
        _weights(x.shape[d], int(n), method, coordinates) for d, n in zip(axes, counts)
    )
    letters = "nchw,yh,xw->ncyx" if layout == "NCHW" else "nhwc,yh,xw->nyxc"
    return np.einsum(letters, x, rows, columns, optimize=True).astype(x.dtype)


@operator(
    reference=_reference,
    examples=[
        Example([("n", 2, 3, 4)], {"size": (6, 8)}, sizes={"n": 2}),
        Example([(1, 2, 5, 7)], {"size": (3, 4)}),
        Example([(1, 1, 2, 70)], {"size": (2, 1030)}),
        Example([(1, 1, 2, 7)], {"size": (2, 1030), "method": "nearest"}),
        Example([(1, 5, 3, 2)], {"size": (7, 5), "layout": "NHWC", "coordinates": "align_corners"}),
        Example([(1, 1, 3, 4)], {"size": 5, "coordinates": "asymmetric"}, "float16"),
        Example([(1, 1, 3, 4)], {"size": (7, 9), "method": "nearest"}),
        Example([(1, 2, 5, 7)], {"size": (3, 2), "method": "nearest"}, "uint8"),
        Example([(1, 1, 3, 4)],
                {"size": (7, 2), "method": "nearest", "coordinates": "align_corners"}),
        Example([(1, 4, 3, 2)],
                {"size": 6, "method": "nearest", "coordinates": "asymmetric", "layout": "NHWC"}),
        Example([(1, 1, 1, 1)], {"size": 3, "coordinates": "align_corners"}),
        Example([(1, 1, 3, 3)], {"size": 1, "coordinates": "align_corners"}),
    ],
)  # fmt: skip
def resize2d(
    x: Tensor,
    size: Any,
    method: str = "linear",
    coordinates: str = "half_pixel",
    layout: str = "NCHW",
    name: str = "resize2d",
) -> Tensor:
    """`x` with `size` rows and columns, one number or two: "nearest" elements, or "linear".

    `coordinates` says which element output y of n takes, with s elements: "half_pixel" that at
    (y + 1/2) * s / n - 1/2, "align_corners" at y * (s - 1) / (n - 1), "asymmetric" at y * s / n.
    """
    op = "resize2d"
    check_choice(op, "method", method, ("nearest", "linear"))
    check_choice(op, "coordinates", coordinates, COORDINATES)
    places = make_layout(op, layout, 2)
    check_tensor(op, "x", x, 4)
    counts = per_dim(op, "size", size, 2, 1)
    sizes = [static(op, f"spatial dimension {n}", x.shape[d]) for n, d in enumerate(places.spatial)]
    require(min(sizes) >= 1, op, f"x {x!r} has an empty spatial dimension")
    across, along = (_Map(s, n, coordinates) for s, n in zip(sizes, counts))
    even = method == "nearest" and counts[1] % sizes[1] == 0
    if counts[1] > LONG and places.channel == 1 and not even:
        along = _Table(along, method)
    outer = x.shape[0], x.shape[places.channel]
    shape = places.at(*outer, counts)
    axes = places.names("c")

    def parts(i: tuple[Expr, ...]) -> tuple[Expr, Expr, tuple[Expr, Expr]]:
        h, w = (i[d] for d in places.spatial)
        return h, w, (i[0], i[places.channel])

    if method == "nearest":

        def near(*i: Expr) -> Expr:
            h, w, (n, c) = parts(i)
            return x[places.at(n, c, (across.nearest(h), along.nearest(w)))]

        return te.compute(shape, name_axes(axes, near), name)  # type: ignore[no-any-return]
    check_float(op, "x", x)

    def row(*i: Expr) -> Expr:
        h, w, (n, c) = parts(i)
        low, high, weight = across.between(h, wide(x[i]).dtype)
        a, b = (wide(x[places.at(n, c, (y, w))]) for y in (low, high))
        return a + (b - a) * weight

    rows = te.compute(places.at(*outer, (counts[0], sizes[1])), name_axes(axes, row), "rows")

    def element(*i: Expr) -> Expr:
        h, w, (n, c) = parts(i)
        low, high, weight = along.between(w, rows.dtype)
        a, b = (rows[places.at(n, c, (h, z))] for z in (low, high))
        return te.cast(a + (b - a) * weight, x.dtype)

    return te.compute(shape, name_axes(axes, element), name)  # type: ignore[no-any-return]
