"""The transforms of Winograd's algorithm along a row of a tile, and the axes of a convolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tensorir import te
from tensorir.expr import Expr

Exprs = Sequence[Expr]
Transform = Callable[[Exprs], Exprs]

A, B = 11 / 16, 3 / 2
"""Points of F(4), found by trying fractions: what is computed from them is exact in float32."""


def _input_4(d: Exprs) -> Exprs:
    middle: list[Expr] = []
    for p, q in ((A, B), (B, A)):
        norm = 2 * p**2 * (p**2 - q**2)
        even = 1 / norm * d[4] - q**2 / norm * d[2]
        odd = p / norm * d[3] - p * q**2 / norm * d[1]
        middle += [even + odd, even - odd]
    zero, outer, inner = (A * B) ** 2, 1 / (A * B) ** 2, A**2 + B**2
    first = d[0] + (outer * d[4] - inner * outer * d[2])
    return first, *middle, d[5] + (zero * d[1] - inner * d[3])


def _output_4(m: Exprs) -> Exprs:
    even, odd, even2, odd2 = m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
    return (
        m[0] + even + even2, A * odd + B * odd2, A**2 * even + B**2 * even2,
        A**3 * odd + B**3 * odd2 + m[5],
    )  # fmt: skip


def _weight_4(g: Exprs) -> Exprs:
    middle: list[Expr] = []
    for p in (A, B):
        even, odd = g[0] + p**2 * g[2], p * g[1]
        middle += [even + odd, even - odd]
    return g[0], *middle, g[2]


def _input_2(d: Exprs) -> Exprs:
    return d[0] - d[2], 0.5 * (d[1] + d[2]), 0.5 * (d[2] - d[1]), d[1] - d[3]


def _output_2(m: Exprs) -> Exprs:
    return m[0] + m[1] + m[2], m[1] - m[2] - m[3]


def _weight_2(g: Exprs) -> Exprs:
    even = g[0] + g[2]
    return g[0], even + g[1], even - g[1], g[2]


TRANSFORMS: dict[int, tuple[Transform, Transform, Transform]] = {
    2: (_input_2, _weight_2, _output_2),
    4: (_input_4, _weight_4, _output_4),
}
"""B^T, G and A^T, applied to the elements of a row, for the outputs that a tile has along it."""


@dataclass(frozen=True)
class ConvAxes:
    """The order of the dimensions of a convolution's tensors.

    `image` and `result` are orders of n (samples), c (channels), h and w, `weight` one of o (output
    channels), c, r and s (rows and columns of the filter).
    """

    image: str = "nchw"
    weight: str = "ocrs"
    result: str = "nchw"


CHANNELS_FIRST = ConvAxes()
CHANNELS_LAST = ConvAxes("nhwc", "rsco", "nhwc")


def in_order(axes: str, **at: Any) -> tuple[Any, ...]:
    """Sizes or indices in the order of `axes`, which names each of them by one letter."""
    return tuple(at[axis] for axis in axes)


def pick(index: Expr, values: Exprs) -> Expr:
    """`values[index]`: a chain of choices, of which one is left where the index is a constant."""
    result = values[-1]
    for number in reversed(range(len(values) - 1)):
        result = te.select(index == number, values[number], result)
    return result
