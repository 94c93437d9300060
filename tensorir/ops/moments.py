"""Mean and variance over axes: in two passes, or in one by Welford's reduction of triples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorir import te
from tensorir.expr import Expr, binary, cast
from tensorir.ops.arguments import check_choice, wide
from tensorir.te.axis import Axis
from tensorir.te.tensor import Tensor

ALGORITHMS = ("passes", "welford")

Part = tuple[Expr, Expr, Expr]


def _merge(old: Part, new: Part) -> Part:
    """Count, mean and sum of squared distances from the mean, of two parts together."""
    (n, mean, spread), (m, other, more) = old, new
    count = n + m
    share = te.if_then_else(binary("==", count, 0.0), 0.0, m / count)
    step = other - mean
    return count, mean + step * share, spread + more + step * step * (n * share)


welford = te.comm_reducer(
    _merge, lambda n, mean, spread: (te.const(0, n), te.const(0, mean), te.const(0, spread)),
    name="welford",
)  # fmt: skip
"""Reduces triples (1, x, 0) to (count, mean, sum of squared distances from it): Chan, Golub and
LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979."""


def one_part(x: Expr) -> Part:
    """One element as a part: it is the mean, and nothing is apart from it."""
    return te.const(1, x.dtype), x, te.const(0, x.dtype)


class Rows:
    """Which dimensions of `x` are reduced, and how elements, rows and reductions index it."""

    def __init__(self, x: Tensor, axes: Sequence[int]) -> None:
        self.x = x
        self.axes = tuple(axes)
        self.kept = tuple(d for d in range(x.ndim) if d not in self.axes)
        self.shape = tuple(x.shape[d] for d in self.kept)

    def row(self, i: Sequence[Expr]) -> tuple[Expr, ...]:
        """The index of the row in which the element `i` lies."""
        return tuple(i[d] for d in self.kept)

    def inner(self, prefix: str = "k") -> list[Axis]:
        """New reduce axes over a row, named after `prefix`."""
        few = len(self.axes) == 1
        return [
            te.reduce_axis(self.x.shape[d], name=prefix if few else f"{prefix}{n}")
            for n, d in enumerate(self.axes)
        ]

    def at(self, row: Sequence[Expr], inner: Sequence[Expr]) -> tuple[Expr, ...]:
        """The index of the element of a row at `inner`."""
        outer, parts = iter(row), dict(zip(self.axes, inner))
        return tuple(parts[d] if d in parts else next(outer) for d in range(self.x.ndim))

    def size(self, dtype: str) -> Expr:
        """The number of elements of a row, as a number of type `dtype`."""
        total: Expr = te.const(1)
        for d in self.axes:
            total = total * self.x.shape[d]
        return cast(dtype, total)


def mean_and_spread(
    op: str, rows: Rows, algorithm: str = "passes", spread: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Per row the mean, and the sum of squared distances from it if `spread` is wanted."""
    check_choice(op, "algorithm", algorithm, ALGORITHMS)
    x = rows.x

    def read(row: Sequence[Expr], k: Sequence[Expr]) -> Expr:
        return wide(x[rows.at(row, k)])

    k = rows.inner()
    if algorithm == "welford" and spread:

        def triple(*i: Expr) -> Any:
            return welford(one_part(read(i, k)), axis=k)

        _, mean, squares = te.compute(rows.shape, triple, "moments")
        return mean, squares
    total = te.compute(rows.shape, lambda *i: te.sum(read(i, k), axis=k), "total")
    size = rows.size(total.dtype)
    mean = te.compute(rows.shape, lambda *i: total[i] / size, "mean")
    if not spread:
        return mean, None
    r = rows.inner("r")

    def squared(*i: Expr) -> Expr:
        distance = read(i, r) - mean[i]
        return te.sum(distance * distance, axis=r)

    return mean, te.compute(rows.shape, squared, "spread")
