"""What is chosen for the tiles of a contraction on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from tensorir import Gpu


class Cut(NamedTuple):
    """How values of an axis are shared, outermost first: among warps of a block of threads, in
    parts that a thread takes in turn, among lanes of a warp, and as neighbours of one thread.

    Of an axis that is summed over, `parts` and `elements` are terms that a thread adds in a step.
    """

    warps: int = 1
    parts: int = 1
    lanes: int = 1
    elements: int = 1

    @property
    def total(self) -> int:
        """Values that a block of threads has at once."""
        return self.warps * self.parts * self.lanes * self.elements

    @property
    def own(self) -> int:
        """Values that a thread has."""
        return self.parts * self.elements


@dataclass(frozen=True)
class TilePlan:
    """A nest for a contraction on a GPU.

    cuts      for each axis of the contraction
    shared    operands that are fetched to shared memory by all threads of a block together
    steps     the axes that are summed over, outermost first
    ahead     steps that copies run ahead of the sums
    gathered  those of `shared` of which only the elements that are used are fetched, a dimension
              for each variable, and not all that lies between them
    split     parts into which `along`, an axis that is summed over, is cut, each with blocks of
              threads of its own; a second kernel adds them up
    laid      those of `shared` that a kernel of its own lays out ahead
    sectors   whether rows that begin within a sector of memory are fetched from where it begins
    results   whether results go through shared memory, from where warps write rows from one sector
              to the next
    """

    cuts: tuple[Cut, ...]
    shared: tuple[int, ...]
    steps: tuple[int, ...]
    ahead: int = 0
    gathered: tuple[int, ...] = ()
    split: int = 1
    along: int = 0
    laid: tuple[int, ...] = ()
    sectors: bool = False
    results: bool = False

    @cached_property
    def totals(self) -> tuple[int, ...]:
        """Values of each axis that a block of threads has at once."""
        return tuple([cut.total for cut in self.cuts])

    def changed(self, cuts: tuple[Cut, ...], results: bool) -> TilePlan:
        """The same with other cuts, `results` of which go through shared memory or not."""
        how = (self.ahead, self.gathered, self.split, self.along, self.laid, self.sectors)
        return TilePlan(cuts, self.shared, self.steps, *how, results)

    def fills_warps(self, axis: int) -> bool:
        """Whether all lanes of a warp are neighbours along an axis."""
        return self.cuts[axis].lanes == Gpu.warp

    @property
    def values(self) -> tuple[object, ...]:
        """The same in plain tuples, as records keep it; `of` reads it."""
        cuts = tuple(map(tuple, self.cuts))
        how = (self.ahead, self.gathered, self.split, self.along, self.laid)
        return (cuts, self.shared, self.steps, *how, self.sectors, self.results)

    @classmethod
    def of(cls, values: tuple[Any, ...]) -> TilePlan:
        """The plan of such values."""
        cuts, shared, steps, ahead, gathered, split, along, *later = values
        plain = (tuple(shared), tuple(steps), ahead, tuple(gathered), split, along)
        laid = tuple(later[0]) if later else ()  # older records have less
        sectors, results = [n < len(later) and bool(later[n]) for n in (1, 2)]
        return cls(tuple(Cut(*cut) for cut in cuts), *plain, laid, sectors, results)
