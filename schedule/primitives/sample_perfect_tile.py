"""sample_perfect_tile: draw factors of a loop's extent."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import comb, prod

from schedule.errors import require
from schedule.primitive import draws, primitive
from schedule.state import State

MOST_FACTORS = 64
"""No extent in int64 has more prime factors; the others would be 1."""


@primitive
def sample_perfect_tile(
    state: State,
    loop: str,
    n: int,
    max_innermost: int | None = None,
    decision: Sequence[int] | None = None,
) -> tuple[State, list[int]]:
    """Draw n factors, outermost first, whose product is the extent of `loop`; for split.

    All factorizations are equally likely. The program stays as it is. The schedule's generator
    draws where no `decision` is given; the trace holds what was drawn, so it replays to the same.

    rewrite:  sample_perfect_tile("i", 3, max_innermost=8) -> [2, 2, 4]
        for i in range(16):  ->  for i in range(16):
            S(i)                     S(i)

    requires:
        - the extent of `loop` is a number, at least 1
        - `n` is a positive integer, at most 64, and `max_innermost` is one if it is given
        - there is a factorization whose innermost factor is not larger than `max_innermost`
        - a `decision` has n positive integers, of that product, the innermost not too large
    """
    extent = _extent(state, loop, n, max_innermost)
    require(decision is not None, loop, "there is no decision, and nothing here draws one")
    assert decision is not None
    found = list(decision)
    ok = len(found) == n and all(_is_positive(f) for f in found) and prod(found) == extent
    require(ok, loop, f"decision {found} is not {n} positive integers of product {extent}")
    require(
        max_innermost is None or found[-1] <= max_innermost,
        loop,
        f"the innermost factor of decision {found} is larger than {max_innermost}",
    )
    return state, found


@draws(sample_perfect_tile)
def draw_perfect_tile(
    state: State,
    generator: random.Random,
    loop: str,
    n: int,
    max_innermost: int | None = None,
) -> list[int]:
    """Each factorization of the extent into n factors with the same probability."""
    extent = _extent(state, loop, n, max_innermost)
    if n == 1:
        return [extent]
    sizes = [d for d in _divisors(extent) if max_innermost is None or d <= max_innermost]
    weights = [_count(extent // d, n - 1) for d in sizes]
    innermost = generator.choices(sizes, weights)[0]
    factors = [1] * (n - 1)
    for prime, power in _primes(extent // innermost):
        # A composition of `power` into n - 1 parts is a choice of n - 2 bars among stars and bars.
        bars = sorted(generator.sample(range(power + n - 2), n - 2))
        edges = [-1, *bars, power + n - 2]
        for place, (low, high) in enumerate(zip(edges, edges[1:])):
            factors[place] *= prime ** (high - low - 1)
    return [*factors, innermost]


def _extent(state: State, loop: str, n: int, max_innermost: int | None) -> int:
    extent = state.loop(loop).const_extent
    require(
        extent is not None and extent > 0,
        loop,
        f"the extent {state.loop(loop).extent!r} of loop {str(loop)!r} is no positive number",
        "choose factors by sample_categorical and split with a None factor",
    )
    assert extent is not None
    require(n > 0, loop, f"n = {n!r} is not a positive integer")
    require(n <= MOST_FACTORS, loop, f"n = {n} are more factors than {MOST_FACTORS}")
    require(
        max_innermost is None or max_innermost > 0,
        loop,
        f"max_innermost = {max_innermost!r} is not a positive integer",
    )
    require(
        n > 1 or max_innermost is None or extent <= max_innermost,
        loop,
        f"the one factor of {extent} iterations would be larger than {max_innermost}",
    )
    return extent


def _is_positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _primes(number: int) -> list[tuple[int, int]]:
    """The prime factors of a number and their powers."""
    found, prime = [], 2
    while prime * prime <= number:
        power = 0
        while number % prime == 0:
            number, power = number // prime, power + 1
        if power:
            found.append((prime, power))
        prime += 1
    return [*found, (number, 1)] if number > 1 else found


def _divisors(number: int) -> list[int]:
    found = [1]
    for prime, power in _primes(number):
        found = [d * prime**k for d in found for k in range(power + 1)]
    return sorted(found)


def _count(number: int, n: int) -> int:
    """In how many ways a number is the product of n factors in a given order."""
    return prod(comb(power + n - 1, n - 1) for _, power in _primes(number))
