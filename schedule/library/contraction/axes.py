"""Contraction: what a block computes, in terms of strides. No name decides anything.

The axes of a contraction are those of the data, and not those of the text: a variable of one value
is none, variables that lie side by side in every access are one axis, and a variable that is read
in parts (`o // 32`) is several. So the many ways of writing one operator have one contraction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TypeVar

FAR = 1 << 40
"""The extent assumed for symbolic axes, where it matters whether they reach an element."""

Steps = tuple["int | None", ...]
"""How far something moves with each axis: 0, not at all; None, not by steps of one size."""

NEAR = 4
"""Elements between neighbours up to which a vector is read as a few whole ones, and shuffled."""


@dataclass(frozen=True)
class Digit:
    """A part of a block variable: (variable // lower) % extent, or variable // lower if `top`.

    `place` is the variable's position among those of the block; the extent is None where it is
    symbolic, as only that of a whole variable may be, and `most` what it can be then, if that is
    known.
    """

    place: int
    lower: int
    extent: int | None
    top: bool = True
    most: int | None = None

    @property
    def whole(self) -> bool:
        """Whether it is all of its variable."""
        return self.lower == 1 and self.top


@dataclass(frozen=True)
class Axis:
    """One loop of a contraction: digits that move together, outermost first."""

    digits: tuple[Digit, ...]
    reduce: bool

    @cached_property
    def extent(self) -> int | None:
        """The number of values; None where it is symbolic."""
        sizes = [digit.extent for digit in self.digits]
        return None if None in sizes else prod(size or 0 for size in sizes)

    @property
    def most(self) -> int | None:
        """The number of values, or how many there are at most; None where that is not known."""
        return self.digits[0].most if self.extent is None and self.digits[1:] == () else self.extent

    @property
    def joined(self) -> Axis:
        """The same axis with digits that follow each other in a variable as one."""
        found: list[Digit] = []
        for digit in self.digits:
            last = found[-1] if found else None
            follows = last is not None and last.place == digit.place
            if last and follows and digit.extent and last.lower == digit.lower * digit.extent:
                size = None if last.extent is None else last.extent * digit.extent
                found[-1] = replace(digit, extent=size, top=last.top)
            else:
                found.append(digit)
        return Axis(tuple(found), self.reduce)


@dataclass(frozen=True)
class Access:
    """How a buffer is read or written: the elements between neighbours of each axis.

    `dims` has a row for each dimension of the buffer, with how far its index moves along each axis.
    What callers give, a `param`, begins anywhere in a line.
    """

    buffer: str
    dtype: str
    shape: tuple[int | None, ...]
    dims: tuple[Steps, ...]
    strides: Steps
    param: bool = False

    @property
    def row(self) -> int:
        """The dimension along which it has neighbours: the last one of more than one value."""
        return max((n for n, size in enumerate(self.shape) if size != 1), default=-1)


def flat_strides(
    shape: Sequence[int | None], dims: Sequence[Sequence[int | None]], axes: int
) -> Steps:
    """The elements between neighbours of each axis, from those of each dimension."""
    weights: list[int | None] = [1]
    for size in reversed(shape[1:]):
        weights.insert(0, None if weights[0] is None or size is None else weights[0] * size)
    found: list[int | None] = []
    for axis in range(axes):
        column = [row[axis] for row in dims]
        steps = [
            None if s is None or w is None else s * w for s, w in zip(column, weights) if s != 0
        ]
        found.append(None if None in steps else sum(step or 0 for step in steps))
    return tuple(found)


A = TypeVar("A", bound=Access)


@dataclass(frozen=True)
class Operand(Access):
    """A load of a block. `pad` is the block that makes the buffer, for it alone, by padding, and
    `filled` are the dimensions whose places decide what is padding; `own` are the axes at whose
    values alone it is read, and so is all of the buffer that moves with the same variables;
    `converted` is used as another type than in memory; `numbers` is made of variables alone."""

    pad: str | None = None
    filled: tuple[int, ...] = ()
    own: frozenset[int] = frozenset()
    converted: bool = False
    numbers: bool = False


@dataclass(frozen=True)
class Factors:
    """A product in the value of a contraction: the operands that each of its factors reads.

    `place` is its position among the products that can be regrouped, `parts` are the products
    within it as they are written, each as the positions of its factors.
    """

    dtype: str
    place: int
    reads: tuple[tuple[int, ...], ...]
    parts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Expression:
    """An operation in the terms of a contraction: its place in the value that the block stores, the
    positions of the variables that it uses, and the operands that it reads."""

    place: tuple[int, ...]
    variables: tuple[int, ...]
    reads: tuple[int, ...]


@dataclass(frozen=True)
class Contraction:
    """A block with sums, its elementwise user `last` (itself if none), and all of its accesses.

    `axes` are sorted: spatial ones by falling stride in the result, then those of the reduction.
    `written` are the latter in the order of the definition, which is that of the sums. `sums` is
    how the block stores, `result` how `last` does; `operations` are the instructions on values of
    an instance, a multiply-add being one. `numbers` are the steps along each axis of what is
    computed of the variables alone, as a part of a value; `missing` are terms that partial sums in
    lanes lack in their last step; `products` are those of three factors or more, `expressions` the
    operations on what is read, the largest first; `repeated` are the steps of the scan that it is a
    part of, 0 without one; `chain` are the parts of a term that can be added one by one, and the
    instructions which that saves.
    """

    block: str
    last: str
    axes: tuple[Axis, ...]
    written: tuple[int, ...]
    operands: tuple[Operand, ...]
    sums: Access
    result: Access
    operations: int
    numbers: tuple[Steps, ...] = ()
    missing: int = 0
    products: tuple[Factors, ...] = ()
    expressions: tuple[Expression, ...] = ()
    repeated: int = 0
    chain: tuple[int, int] = (1, 0)

    @cached_property
    def spatial(self) -> tuple[int, ...]:
        """Positions of the spatial axes among `axes`."""
        return tuple(n for n, axis in enumerate(self.axes) if not axis.reduce)

    @cached_property
    def reduced(self) -> tuple[int, ...]:
        """Positions of the axes that are summed over."""
        return tuple(n for n, axis in enumerate(self.axes) if axis.reduce)

    @cached_property
    def moving(self) -> tuple[tuple[int, ...], ...]:
        """The axes along which each operand has other elements."""
        return tuple(tuple(n for n, s in enumerate(o.strides) if s != 0) for o in self.operands)

    def with_steps(self, change: Callable[[Steps], Steps]) -> Contraction:
        """With other steps along the axes in all that is read, stored and computed."""

        def moved(access: A) -> A:
            dims, strides = tuple(map(change, access.dims)), change(access.strides)
            return replace(access, dims=dims, strides=strides)

        return replace(
            self, operands=tuple(map(moved, self.operands)), sums=moved(self.sums),
            result=moved(self.result), numbers=tuple(map(change, self.numbers)),
        )  # fmt: skip

    def is_window(self, axis: int, operand: int | None = None) -> bool:
        """Whether values of the axis and of one of the other kind read the same elements, of one
        operand or of any."""
        others = self.spatial if self.axes[axis].reduce else self.reduced
        return any(self.overlap(axis, n, operand) for n in others)

    def in_padding(self, axis: int, operand: int) -> int:
        """How many dimensions that have padding an axis moves an operand along."""
        o = self.operands[operand]
        return sum(o.dims[n][axis] != 0 for n in o.filled)

    def overlap(self, axis: int, other: int, operand: int | None = None) -> bool:
        """Whether values of two axes read the same elements, of one operand or of any."""
        extents = (self.axes[axis].extent, self.axes[other].extent)
        asked = self.operands if operand is None else (self.operands[operand],)
        rows = ((o, row) for o in asked for row in o.dims if row[axis] != 0 != row[other])
        return any(_overlap(_steps(o, row, axis, other), extents) for o, row in rows)

    def is_used_again(self, operand: int) -> bool:
        """Whether elements of an operand are used by several elements of the result."""
        strides, every = self.operands[operand].strides, range(len(self.axes))
        return any(
            strides[n] == 0 or any(self.overlap(n, other, operand) for other in every if other != n)
            for n in self.spatial
        )

    def is_read_in_vectors(self, operand: int, lane: int) -> bool:
        """Whether the lanes of an operand are near each other along an axis, or one element."""
        step = self.operands[operand].strides[lane]
        return step is not None and 0 <= step <= NEAR

    def can_pack(self, operand: int, axis: int) -> bool:
        """Whether `pack` takes an operand in panels of an axis."""
        o = self.operands[operand]
        return axis in o.own and o.pad is None and None not in o.strides


def _steps(o: Operand, row: Sequence[int | None], *axes: int) -> Sequence[int | None]:
    """How far an index moves with axes, or the place in memory where an axis is several of it."""
    steps, flat = [row[n] for n in axes], [o.strides[n] for n in axes]
    return steps if None not in steps or 0 in steps or None in flat else flat


def _overlap(steps: Sequence[int | None], extents: Sequence[int | None]) -> bool:
    """Whether two axes that move an index reach the same values; not so if they are its digits."""
    known = [abs(step) for step in steps if step is not None]
    if len(known) < len(steps):
        return True
    (near, length), (far, _) = sorted((step, n or FAR) for step, n in zip(known, extents))
    return near * length > far
