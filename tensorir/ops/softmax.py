"""softmax and log_softmax: in passes over a row, or with the online normalizer of one pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir import te
from tensorir.expr import Expr, binary
from tensorir.ops.arguments import check_axis, check_choice, check_float, check_tensor, wide
from tensorir.ops.registry import SPECIAL, Example, operator, uniform, values
from tensorir.te.tensor import Tensor

ALGORITHMS = ("passes", "online")


def _merge(old: tuple[Expr, Expr], new: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
    """The maximum of two parts of a row, and the sum of exp(x - maximum) over both.

    One exponential is enough: the sum of the part that holds the maximum stays as it is.
    """
    (m, s), (other, t) = old, new
    top, below = te.max(m, other), te.min(m, other)
    empty = binary("==", below, float("-inf"))  # where below - top may be NaN
    shrink = te.if_then_else(empty, 0.0, te.exp(below - top))
    return top, te.if_then_else(m >= other, s + t * shrink, s * shrink + t)


def part(x: Expr) -> tuple[Expr, Expr]:
    """One element as a part: of -inf the sum is 0, and of inf and NaN it is NaN."""
    nothing = binary("==", x, float("-inf"))
    return x, te.if_then_else(nothing, 0.0, x - x + 1.0)


online_normalizer = te.comm_reducer(
    _merge, lambda m, s: (-te.infinity(m), te.const(0, s)), name="online_normalizer"
)
"""Reduces parts to (max, sum of exp(x - max)): Milakov and Gimelshein, Online normalizer
calculation for softmax, arXiv:1805.02867."""


def _statistics(x: Tensor, axis: int, algorithm: str) -> tuple[Tensor, Tensor, Tensor | None]:
    """For each row along `axis` its maximum and the sum of exp(x - maximum), without that
    dimension; and the tensor of exp(x - maximum) where it was made."""
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    k = te.reduce_axis(x.shape[axis], name="k")

    def read(t: Tensor, i: tuple[Expr, ...], at: Expr) -> Expr:
        return wide(t[(*i[:axis], at, *i[axis:])])

    if algorithm == "online":

        def pair(*i: Expr) -> Any:
            return online_normalizer(part(read(x, i, k)), axis=k)

        top, total = te.compute(shape, pair, "normalizer")
        return top, total, None
    top = te.compute(shape, lambda *i: te.max(read(x, i, k), axis=k), "top")
    power = te.compute(
        x.shape, lambda *i: te.exp(wide(x[i]) - top[(*i[:axis], *i[axis + 1 :])]), "power"
    )
    r = te.reduce_axis(x.shape[axis], name="r")
    total = te.compute(shape, lambda *i: te.sum(read(power, i, r), axis=r), "total")
    return top, total, power


def _checked(op: str, x: Tensor, axis: int, algorithm: str) -> int:
    check_float(op, "x", check_tensor(op, "x", x))
    check_choice(op, "algorithm", algorithm, ALGORITHMS)
    return check_axis(op, axis, x.ndim)


def _log_softmax(x: Any, axis: int = -1, **_: Any) -> Any:
    with np.errstate(all="ignore"):
        return x - np.logaddexp.reduce(x, axis=axis, keepdims=True)


def _softmax(x: Any, axis: int = -1, **_: Any) -> Any:
    return np.exp(_log_softmax(x, axis))


HOLES = values(1.0, -np.inf, 2.0, -np.inf, 0.5)
EXAMPLES = [
    Example([(3, 7)]),
    Example([("n", "m")], sizes={"n": 3, "m": 5}),
    Example([(2, 3, 4)], {"axis": 1}),
    Example([(3, 4)], data=uniform(-300, 300)),
    Example([(3, 5)], data=HOLES),
    Example([(2, 5)], dtypes="float16"),
    Example([(4, 1)]),
    Example([(0, 3)]),
    Example([(3, 7)], {"algorithm": "online"}),
    Example([(3, 5)], {"algorithm": "online"}, data=HOLES),
    Example([(3, 4)], {"algorithm": "online", "axis": 0}, "bfloat16", uniform(-30, 30)),
]
LOST = [Example([(2, 7)], {"algorithm": name}, data=SPECIAL) for name in ALGORITHMS] + [
    Example([(2, 3)], {"algorithm": name}, data=values(-np.inf)) for name in ALGORITHMS
]
"""Rows with NaN or inf, and rows of -inf, have no softmax: all of it is NaN."""


@operator(reference=_softmax, examples=EXAMPLES + LOST)
def softmax(x: Tensor, axis: int = -1, algorithm: str = "passes", name: str = "softmax") -> Tensor:
    """exp(x) over its sum along `axis`, without overflow.

    `algorithm` "passes" finds the maximum, then the sum; "online" finds both in one pass over the
    row (arXiv:1805.02867), and computes the exponentials of the result once more. A row is divided
    once, and then multiplied: one more rounding than a division each. A row that holds NaN or inf,
    or -inf only, gives NaN.
    """
    at = _checked("softmax", x, axis, algorithm)
    top, total, power = _statistics(x, at, algorithm)
    scale = te.compute(total.shape, lambda *i: 1.0 / total[i], "scale")

    def element(*i: Expr) -> Expr:
        row = (*i[:at], *i[at + 1 :])
        above = te.exp(wide(x[i]) - top[row]) if power is None else power[i]
        return te.cast(above * scale[row], x.dtype)

    return te.compute(x.shape, element, name)  # type: ignore[no-any-return]


@operator(reference=_log_softmax, examples=EXAMPLES)
def log_softmax(
    x: Tensor, axis: int = -1, algorithm: str = "passes", name: str = "log_softmax"
) -> Tensor:
    """The logarithm of softmax along `axis`, accurate where softmax is tiny.

    `algorithm` is as for softmax.
    """
    at = _checked("log_softmax", x, axis, algorithm)
    top, total, _ = _statistics(x, at, algorithm)
    log_total = te.compute(total.shape, lambda *i: te.log(total[i]), "log_total")

    def element(*i: Expr) -> Expr:
        row = (*i[:at], *i[at + 1 :])
        return te.cast(wide(x[i]) - top[row] - log_total[row], x.dtype)

    return te.compute(x.shape, element, name)  # type: ignore[no-any-return]
