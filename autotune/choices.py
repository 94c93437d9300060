"""Choices: the free decisions of a sketch. A choice object owns all that can be done with it.

    PerfectTile     factors whose product is exactly the extent of a loop
    ImperfectTile   tile sizes that need not divide the extent: register and vector tiles
    Categorical     one of several options

Values are plain data, integers, strings, or tuples of them, so they survive JSON (see `freeze`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, comb, log2, prod
from typing import Any, Protocol

import numpy as np

from tensorir import TensorIRError

TILE_STEPS = tuple(
    sorted(b << shift for b in (1, 3) for shift in range(21))
)  # fmt: skip
"""1, 2, 3, 4, 6, 8, 12, 16, 24, ...: the sizes that middle levels of an ImperfectTile may have."""

MAX_WASTE = 0.25
"""Padding that an ImperfectTile accepts, as a share of the extent, where anything fits better."""

MOST = 4096
"""Values of one choice that a grid has at most."""


class Choice(Protocol):
    """One decision: its name, its values and how a search moves among them."""

    @property
    def name(self) -> str: ...

    def sample(self, rng: random.Random) -> Any:
        """A random value."""

    def neighbors(self, value: Any) -> list[Any]:
        """The values one small step away, without `value`, in an order that never varies."""

    def contains(self, value: Any) -> bool:
        """Whether this is one of the values."""

    def encode(self, value: Any) -> list[float]:
        """The value as numbers, always equally many."""

    def size(self) -> int:
        """How many values there are."""

    def __hash__(self) -> int:
        """Choices are values: equal ones have equal hashes."""


def freeze(value: Any) -> Any:
    """`value` as plain data that can be hashed: lists, which JSON makes of tuples, are tuples
    again, and scalars of NumPy, which JSON does not know, are those of Python."""
    if isinstance(value, (list, tuple)):
        return tuple([freeze(v) for v in value])
    return value.item() if isinstance(value, np.generic) else value


@lru_cache(maxsize=256)
def values_of(choice: Choice) -> tuple[Any, ...]:
    """The values that steps lead to, in the order of their numbers: MOST of them at most."""
    start = choice.sample(random.Random(choice.name))
    found, open_ = {start: None}, [start]
    while open_ and len(found) < MOST:
        for near in choice.neighbors(open_.pop(0)):
            if near not in found:
                found[near] = None
                open_.append(near)
    return tuple(sorted(found, key=lambda value: (choice.encode(value), repr(value))))


@lru_cache(maxsize=4096)
def prime_factors(n: int) -> tuple[tuple[int, int], ...]:
    """The (prime, exponent) pairs of n >= 1, primes ascending."""
    found: list[tuple[int, int]] = []
    prime = 2
    while n > 1:
        if prime * prime > n:
            prime = n
        exponent = 0
        while n % prime == 0:
            n //= prime
            exponent += 1
        if exponent:
            found.append((prime, exponent))
        prime += 1
    return tuple(found)


@lru_cache(maxsize=4096)
def divisors(n: int) -> tuple[int, ...]:
    """The divisors of n >= 1, ascending."""
    found = [1]
    for prime, exponent in prime_factors(n):
        found = [d * prime**e for d in found for e in range(exponent + 1)]
    return tuple(sorted(found))


def count_factorisations(n: int, parts: int) -> int:
    """In how many ways n is an ordered product of `parts` factors."""
    return prod(comb(e + parts - 1, parts - 1) for _, e in prime_factors(n))


@dataclass(frozen=True)
class PerfectTile:
    """All ordered factorisations of `extent` into `parts` factors, outermost first.

    `max_inner` bounds the innermost factor; 1 is always allowed. Samples are uniform.
    Raises TensorIRError for an extent or number of parts below 1.
    """

    name: str
    extent: int
    parts: int
    max_inner: int | None = None

    def __post_init__(self) -> None:
        _frozen(self, "extent", "parts", "max_inner")
        _check_tile(self.name, self.extent, self.parts)
        if self.max_inner is not None and self.max_inner < 1:
            raise TensorIRError(f"choice {self.name!r}: max_inner is {self.max_inner}, not >= 1")

    def _innermost(self) -> list[int]:
        if self.parts == 1:
            return [self.extent]
        limit = self.extent if self.max_inner is None else self.max_inner
        return [d for d in divisors(self.extent) if d <= limit]

    def sample(self, rng: random.Random) -> tuple[int, ...]:
        options = self._innermost()
        ways = [count_factorisations(self.extent // d, max(self.parts - 1, 1)) for d in options]
        inner = options[0] if len(options) == 1 else rng.choices(options, ways)[0]
        return (*_random_factorisation(self.extent // inner, self.parts - 1, rng), inner)

    def neighbors(self, value: tuple[int, ...]) -> list[tuple[int, ...]]:
        """One prime factor moved from one level to another; adjacent levels come first."""
        pairs = [(i, j) for i in range(self.parts) for j in range(self.parts) if i != j]
        found: dict[tuple[int, ...], None] = {}
        for source, to in sorted(pairs, key=lambda p: abs(p[0] - p[1])):
            for prime, _ in prime_factors(value[source]):
                moved = list(value)
                moved[source] //= prime
                moved[to] *= prime
                if self.contains(tuple(moved)):
                    found[tuple(moved)] = None
        return list(found)

    def contains(self, value: Any) -> bool:
        if not _is_sizes(value, self.parts) or prod(value) != self.extent:
            return False
        return self.parts == 1 or self.max_inner is None or value[-1] <= self.max_inner

    def encode(self, value: tuple[int, ...]) -> list[float]:
        return [log2(v) for v in value]

    def size(self) -> int:
        left = max(self.parts - 1, 1)
        return sum(count_factorisations(self.extent // d, left) for d in self._innermost())


@dataclass(frozen=True)
class ImperfectTile:
    """Tile sizes that need not divide `extent`; a value holds the parts - 1 inner factors.

    Outermost first, as in `split(loop, [None, *value])`: the missing outermost factor is
    ceil(extent / product). The last factor comes from `inner` (vector or register sizes; None for
    any of `steps`), the others from `steps`. Padding, that is how far the rounded-up product
    exceeds the extent, stays within `max_waste` of the extent unless no `inner` size does better.
    Raises TensorIRError for an extent below 1, parts below 2, or empty or non-positive sizes.
    """

    name: str
    extent: int
    parts: int
    inner: tuple[int, ...] | None = None
    steps: tuple[int, ...] = TILE_STEPS
    max_waste: float = MAX_WASTE

    def __post_init__(self) -> None:
        _frozen(self, "extent", "parts", "inner", "steps", "max_waste")
        _check_tile(self.name, self.extent, self.parts)
        if self.parts < 2:
            raise TensorIRError(
                f"choice {self.name!r}: an imperfect tile has at least 2 parts, not {self.parts}"
            )
        for what, sizes in (("inner", self.inner), ("steps", self.steps)):
            if sizes is not None and not (sizes and all(s >= 1 for s in sizes)):
                raise TensorIRError(
                    f"choice {self.name!r}: {what} is {sizes!r}, not one or more positive sizes"
                )
        steps = {s for s in (1, *self.steps) if s <= 2 * self.extent}
        object.__setattr__(self, "steps", tuple(sorted(steps)))
        inner = self.steps if self.inner is None else tuple(sorted(set(self.inner)))
        object.__setattr__(self, "inner", self._best_inner(inner))

    def _best_inner(self, sizes: Sequence[int]) -> tuple[int, ...]:
        fitting = tuple(s for s in sizes if self.waste((s,)) <= self.max_waste)
        return fitting or (min(sizes, key=lambda s: (self.waste((s,)), s)),)

    def waste(self, value: Sequence[int]) -> float:
        """The iterations beyond the extent, as a share of the extent."""
        covered = prod(value)
        return ceil(self.extent / covered) * covered / self.extent - 1

    def outermost(self, value: Sequence[int]) -> int:
        """The factor that is not in the value: ceil(extent / product)."""
        return -(-self.extent // prod(value))

    def _grid(self, level: int) -> tuple[int, ...]:
        assert self.inner is not None
        return self.inner if level == self.parts - 2 else self.steps

    def _fits(self, value: Sequence[int]) -> bool:
        allowed = max(self.max_waste, self.waste(value[-1:]))
        return self.waste(value) <= allowed + 1e-9

    def sample(self, rng: random.Random) -> tuple[int, ...]:
        """Each level uniform over the steps that still fit; the levels take turns at random."""
        value = [1] * (self.parts - 1)
        value[-1] = rng.choice(self._grid(self.parts - 2))
        levels = list(range(self.parts - 2))
        rng.shuffle(levels)
        for level in levels:
            value[level] = rng.choice(self._fitting(value, level))
        return tuple(value)

    def _fitting(self, value: list[int], level: int) -> list[int]:
        others = prod(value) // value[level]
        return [s for s in self.steps if self._fits([others // value[-1] * s, value[-1]])]

    def neighbors(self, value: tuple[int, ...]) -> list[tuple[int, ...]]:
        """One level one step up or down, or a factor of 2 moved between two adjacent levels."""
        found: dict[tuple[int, ...], None] = {}
        for level in range(self.parts - 1):
            for direction in (1, -1):
                stepped = self._step(value, level, direction)
                if stepped is not None:
                    found[stepped] = None
        for outer in range(self.parts - 2):
            a, b = value[outer : outer + 2]
            for pair in ((a * 2, b // 2), (a // 2, b * 2)):
                moved = (*value[:outer], *pair, *value[outer + 2 :])
                if prod(pair) == a * b and self.contains(moved):
                    found[moved] = None
        return list(found)

    def _step(self, value: tuple[int, ...], level: int, direction: int) -> tuple[int, ...] | None:
        """The nearest size above or below at `level` that fits with the others."""
        grid = self._grid(level)
        at = grid.index(value[level]) + direction
        while 0 <= at < len(grid):
            stepped = (*value[:level], grid[at], *value[level + 1 :])
            if self._fits(stepped):
                return stepped
            at += direction
        return None

    def contains(self, value: Any) -> bool:
        if not _is_sizes(value, self.parts - 1):
            return False
        known = all(size in self._grid(level) for level, size in enumerate(value))
        return known and self._fits(value)

    def encode(self, value: tuple[int, ...]) -> list[float]:
        return [log2(v) for v in (self.outermost(value), *value)]

    def size(self) -> int:
        assert self.inner is not None
        return sum(_count_middles(self, inner) for inner in self.inner)


@dataclass(frozen=True)
class Categorical:
    """One of `options`; `weights` bias the samples, not the neighbours.

    Raises TensorIRError for no options, equal options, or weights that do not match them.
    """

    name: str
    options: tuple[Any, ...]
    weights: tuple[float, ...] | None = None
    told: str = field(init=False, repr=False, default="")
    """The options as text: True is not 1 where choices are compared, nor -0.0 0.0."""

    def __post_init__(self) -> None:
        _frozen(self, "options", "weights")
        object.__setattr__(self, "told", repr(self.options))
        if not self.options or len(set(self.options)) < len(self.options):
            raise TensorIRError(
                f"choice {self.name!r}: options {self.options!r} are none or not distinct"
            )
        weights = self.weights
        if weights is not None and (
            len(weights) != len(self.options) or min(weights) < 0 or sum(weights) <= 0
        ):
            raise TensorIRError(
                f"choice {self.name!r}: weights {weights!r} do not match "
                f"{len(self.options)} options; give one number >= 0 for each"
            )

    def sample(self, rng: random.Random) -> Any:
        if self.weights is None:
            return rng.choice(self.options)
        return rng.choices(self.options, self.weights)[0]

    def neighbors(self, value: Any) -> list[Any]:
        return [option for option in self.options if option != value]

    def contains(self, value: Any) -> bool:
        return any(type(o) is type(value) and o == value for o in self.options)

    def encode(self, value: Any) -> list[float]:
        return [float(option == value) for option in self.options]

    def size(self) -> int:
        return len(self.options)


def _frozen(choice: Choice, *fields: str) -> None:
    """Have plain data in these fields, whatever they were given."""
    for each in fields:
        object.__setattr__(choice, each, freeze(getattr(choice, each)))


def _check_tile(name: str, extent: int, parts: int) -> None:
    for what, number in (("extent", extent), ("parts", parts)):
        if type(number) is not int or number < 1:
            raise TensorIRError(f"choice {name!r}: {what} is {number!r}, not a positive integer")


def _is_sizes(value: Any, count: int) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == count
        and all(type(v) is int and v >= 1 for v in value)
    )


def _random_factorisation(n: int, parts: int, rng: random.Random) -> list[int]:
    """Uniform over the ordered factorisations: bars among stars, for each prime on its own."""
    sizes = [1] * parts
    for prime, exponent in prime_factors(n):
        bars = sorted(rng.sample(range(exponent + parts - 1), parts - 1))
        edges = [-1, *bars, exponent + parts - 1]
        for level in range(parts):
            sizes[level] *= prime ** (edges[level + 1] - edges[level] - 1)
    return sizes


@lru_cache(maxsize=4096)
def _count_middles(tile: ImperfectTile, inner: int) -> int:
    products = {1: 1}
    for _ in range(tile.parts - 2):
        longer: dict[int, int] = {}
        for size, ways in products.items():
            for step in tile.steps:
                if size * step <= 2 * tile.extent:
                    longer[size * step] = longer.get(size * step, 0) + ways
        products = longer
    fits: Callable[[int], bool] = lambda size: tile._fits((size, inner))  # noqa: E731
    return sum(ways for size, ways in products.items() if fits(size))
