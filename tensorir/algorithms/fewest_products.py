"""Which variables a sum of products is summed over first, so that the fewest products are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from math import prod
from operator import or_

from tensorir.expr import Var

EVERY_ORDER = 10
"""Variables of a sum for which all orders are compared; of more, the cheapest is next each time."""

_Plan = tuple[int, int, list[int]]
"""Products and sums, elements that are stored between the sums, and what these sums are over."""


def sums_ahead(
    factors: Sequence[Sequence[Var]], kept: Sequence[Var], sizes: Mapping[Var, int]
) -> list[tuple[Var, ...]]:
    """The variables of each sum that is taken of some factors before the others are multiplied.

    `factors` are the variables of each, `kept` those of the result. A sum is of all factors that
    have one of its variables, and what is left of these is one factor from there on; the last sum,
    of all that is left then, is none of the answer.
    """
    every = [*dict.fromkeys(v for each in factors for v in each)]
    bits = {v: 1 << n for n, v in enumerate(every)}
    orders = _Orders({bits[v]: sizes[v] for v in every}, _union(bits[v] for v in kept if v in bits))
    found = orders.least([_union(bits[v] for v in each) for each in factors])[2]
    return [tuple(v for v in every if bits[v] & over) for over in found]


class _Orders:
    """Plans of factors, each the bits of its variables, by the variables that are left to sum."""

    def __init__(self, sizes: Mapping[int, int], kept: int) -> None:
        self.sizes, self.kept, self.known = sizes, kept, dict[int, _Plan]()

    def size(self, variables: int) -> int:
        return prod(size for bit, size in self.sizes.items() if bit & variables)

    def least(self, factors: Sequence[int]) -> _Plan:
        """The best plan: what earlier sums leave is the same in whatever order they were taken."""
        every = _union(factors)
        to_sum = every & ~self.kept
        if to_sum in self.known:
            return self.known[to_sum]
        best: _Plan = (len(factors) - 1) * self.size(every), 0, []
        steps = [self.summed(factors, bit) for bit in self.sizes if bit & to_sum]
        steps = [step for step in steps if step[3]]
        if to_sum.bit_count() > EVERY_ORDER and steps:
            steps = [min(steps, key=lambda step: (step[0], self.size(step[2])))]
        for work, over, left, others in steps:
            after, stored, sums = self.least([*others, left])
            plan = work + after, stored + self.size(left), [over, *sums]
            best = min(best, plan, key=lambda each: each[:2])
        self.known[to_sum] = best
        return best

    def summed(self, factors: Sequence[int], first: int) -> tuple[int, int, int, list[int]]:
        """A sum over a variable of some factors: its work, all that it is over, what is left of
        these, and the other factors."""
        used = [each for each in factors if each & first]
        others = [each for each in factors if not each & first]
        inside = _union(used)
        left = inside & (self.kept | _union(others))
        return max(1, len(used) - 1) * self.size(inside), inside & ~left, left, others


def _union(variables: Iterable[int]) -> int:
    return reduce(or_, variables, 0)
