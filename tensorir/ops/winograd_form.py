"""What Winograd's algorithm is for: a sum over windows of an image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorir import te
from tensorir.expr import TRUE, Expr, Var, const, int_value
from tensorir.names import Names
from tensorir.ops.naming import name_axes
from tensorir.te.tensor import Tensor
from tensorir.visit import variables

WHOLE = 16
"""Channels within the stages are rounded up to a multiple of this, with zeros: vectors of float32
of any machine are whole, and conditions are left where image, weights and result are touched."""


@dataclass(frozen=True)
class Window:
    """The dimension `image` of an image, read at `at + tap + offset`, or at `at - tap + offset` if
    `flipped`, and dimension `weight` of the weights, which moves with the tap alone."""

    at: Var
    tap: Var
    extent: int
    taps: int
    image: int
    weight: int
    offset: int = 0
    flipped: bool = False

    @property
    def first(self) -> int:
        """The least place that the first sum reads; places before 0 count as zeros."""
        return self.offset - (self.taps - 1 if self.flipped else 0)


@dataclass(frozen=True)
class Windowed:
    """result[at] = the sum of image[..] * weight[..]; variables with their extents, those of the
    result in the order of its dimensions (None: a dimension of one element)."""

    image: tuple[Expr, ...]
    weight: tuple[Expr, ...]
    result: tuple[Var | None, ...]
    spatial: Mapping[Var, Expr]
    reduced: Mapping[Var, Expr]
    windows: tuple[Window, ...]

    def others(self, indices: Sequence[Expr], dims: Sequence[int]) -> list[int]:
        """The dimensions that are no windows."""
        return [dim for dim in range(len(indices)) if dim not in dims]

    @property
    def rest(self) -> list[Var]:
        """Variables of the result that are no windows'."""
        inside = {window.at for window in self.windows}
        return [var for var in self.result if var is not None and var not in inside]

    @property
    def channel(self) -> int | None:
        """The dimension of the image that the longest sum runs over by itself."""
        plain = [
            (int_value(self.reduced[i]) or 0, -dim)
            for dim, i in enumerate(self.image)
            if isinstance(i, Var) and i in self.reduced
        ]
        return -max(plain)[1] if plain else None

    @property
    def filter(self) -> Var | None:
        """The longest variable of the result that only the weights have, at a dimension of theirs;
        None where images have them all, as in groups."""
        seen = {var for index in self.image for var in variables(index)}
        plain = [v for v in self.rest if v not in seen and v in self.weight]
        known = [v for v in plain if int_value(self.spatial[v]) is not None]
        return max(known, key=lambda v: int_value(self.spatial[v]) or 0, default=None)


def rounded(size: Expr) -> Expr:
    """The next multiple of WHOLE; a symbolic size as it is."""
    known = int_value(size)
    return size if known is None or known % WHOLE == 0 else const(-(-known // WHOLE) * WHOLE)


def stage(
    name: str, shape: Sequence[Any], names: Sequence[str], element: Callable[..., Expr]
) -> Tensor:
    """te.compute with these names of loops, as far as they are free."""
    unique = Names()
    named = name_axes([unique.unique(wanted) for wanted in names], element)
    made: Tensor = te.compute(tuple(shape), named, name)
    return made


def where(inside: Expr, value: Expr) -> Expr:
    """`value`, and 0 where the condition does not hold."""
    return value if inside is TRUE else te.if_then_else(inside, value, 0.0)


def plain(index: Expr, otherwise: str) -> str:
    """The name of a loop for an index that is a variable."""
    return index.name.removeprefix("v") or index.name if isinstance(index, Var) else otherwise
