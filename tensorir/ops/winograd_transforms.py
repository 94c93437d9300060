"""The transforms of Winograd's minimal filtering along one axis: F(m, r) by Toom-Cook's method.

F(m, r) makes m neighbouring sums of r terms from n = m + r - 1 values with n products. Sums and
weights are polynomials, evaluated at n points: 0, p and -p for each of `PAIRS[n]`, and infinity.
What is done to the input depends on the points alone, so F(4, 3) and F(2, 5) share it, and so do
the errors: in float32, in parts of the largest result, with inputs in [-1, 1) and 256 channels 6e-7
for four points along two windows and 2e-6 for six (1e-6 and 6e-6 are the most that was found, with
512), 4e-7 for six along one, and 3e-6 along three with 64; those of the definition are 6e-7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorir import te
from tensorir.expr import Expr

Exprs = Sequence[Expr]

A, B = 11 / 16, 3 / 2
"""Points for six products, found by trying fractions: what is computed from them is exact in
float32. As many products as with the usual 1, -1, 2, -2, and a third of their errors."""

PAIRS: dict[int, tuple[float, ...]] = {4: (1,), 6: (A, B)}
"""By the number of products, the points p for which both p and -p are taken."""


@dataclass(frozen=True)
class Filtering:
    """F(outputs, taps): so many sums of so many terms each."""

    outputs: int
    taps: int

    @property
    def points(self) -> int:
        """The products, and the values of the input, that a tile has."""
        return self.outputs + self.taps - 1

    @property
    def known(self) -> bool:
        """Whether there are points for it."""
        return self.points in PAIRS and min(self.outputs, self.taps) > 1

    def input(self, d: Exprs) -> Exprs:
        """B^T d: `points` values of the input, transformed."""
        return _input_4(d) if self.points == 4 else _input_6(d)

    def weight(self, g: Exprs) -> Exprs:
        """G g: the polynomial with the coefficients `g` at each point, and its last one."""
        middle: list[Expr] = []
        for p in PAIRS[self.points]:
            even, odd = (
                _sum([p**k for k in range(first, self.taps, 2)], g[first::2]) for first in (0, 1)
            )
            middle += [even + odd, even - odd]
        return g[0], *middle, g[-1]

    def output(self, products: Exprs) -> Exprs:
        """A^T m: `outputs` sums of the products at each point."""
        pairs = PAIRS[self.points]
        both = [(products[2 * n + 1], products[2 * n + 2]) for n in range(len(pairs))]
        found = []
        for power in range(self.outputs):
            terms = [a - b if power % 2 else a + b for a, b in both]
            total = _sum([p**power for p in pairs], terms)
            if power == 0:
                total = _sum([1] * (len(terms) + 1), [products[0], *terms])
            found.append(total + products[-1] if power == self.outputs - 1 else total)
        return found


def _sum(factors: Sequence[float], values: Exprs) -> Expr:
    terms = [value if factor == 1 else factor * value for factor, value in zip(factors, values)]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _input_4(d: Exprs) -> Exprs:
    return d[0] - d[2], 0.5 * (d[1] + d[2]), 0.5 * (d[2] - d[1]), d[3] - d[1]


def _input_6(d: Exprs) -> Exprs:
    middle: list[Expr] = []
    for p, q in ((A, B), (B, A)):
        norm = 2 * p**2 * (p**2 - q**2)
        even = 1 / norm * d[4] - q**2 / norm * d[2]
        odd = p / norm * d[3] - p * q**2 / norm * d[1]
        middle += [even + odd, even - odd]
    zero, outer, inner = (A * B) ** 2, 1 / (A * B) ** 2, A**2 + B**2
    first = d[0] + (outer * d[4] - inner * outer * d[2])
    return first, *middle, d[5] + (zero * d[1] - inner * d[3])


def pick(index: Expr, values: Exprs) -> Expr:
    """`values[index]`: a chain of choices, of which one is left where the index is a constant."""
    result = values[-1]
    for number in reversed(range(len(values) - 1)):
        result = te.select(index == number, values[number], result)
    return result
