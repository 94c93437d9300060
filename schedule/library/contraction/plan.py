"""What is chosen for the nest of a contraction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from schedule.library.contraction.axes import Contraction


@dataclass(frozen=True)
class Pack:
    """An operand that is read through a copy in panels of `width` values of `axis`, made ahead."""

    operand: int
    axis: int
    width: int


@dataclass(frozen=True)
class NestPlan:
    """A nest for a contraction; sizes stand for its spatial axes, in order.

    lane     the axis whose neighbours are in vectors
    tile     the register tile: how many values of each axis have their sums in registers
    task     how many values of each axis belong to what one thread takes at a time
    steps    the axes that are summed over, outermost first
    order    the axes in the order of the loops inside of a task, outermost first
    packs    operands that are copied ahead of the nest
    pad      where padding goes: "root", "task", or "inline" into the sums
    flat     whether the terms of a sum are written out: elements that several rows of a tile read
             are then loaded once. "rows": the sums of a tile side by side; "single": one after the
             other; "shifts": side by side too, the windows that the rows share innermost, so that
             of what they read only one column is in registers; "" for loops
    written  terms of the last of the steps, innermost then, that are written out in these loops
    threads  whether threads share the tasks
    depth    terms of the last of the steps that are taken at a time, if not all: the sums of a task
             wait in cache meanwhile, and operands are read in their order
    ahead    operands that are asked for before they are read, and how many bytes before
    apart    the axis along which some factors of products stand still: these are multiplied with
             each other first, and the product is shared by the values of the axis in a tile; None
             for products as they are written
    chained  whether the parts of a term are added to the sums one by one
    asks     whether the lines that a tile is written to are asked for beside its sums
    """

    lane: int
    lanes: int
    tile: tuple[int, ...]
    task: tuple[int, ...]
    steps: tuple[int, ...]
    order: tuple[int, ...]
    packs: tuple[Pack, ...] = ()
    pad: str = "task"
    flat: str = ""
    threads: bool = True
    ahead: tuple[tuple[int, int], ...] = ()
    depth: int = 0
    written: int = 1
    apart: int | None = None
    chained: bool = False
    asks: bool = False

    def order_of_tasks(self, c: Contraction) -> tuple[int, ...]:
        """The axes in the order of the loops over tasks: a symbolic one first, other ones last,
        because what iterations touch cannot be told from quotients by symbols."""
        symbolic = [n for n in self.order if c.axes[n].extent is None]
        known = (n for n in self.order if n not in symbolic)
        return (*symbolic[:1], *known, *symbolic[1:])

    def stride_of_terms(self, c: Contraction, operand: int) -> int | None:
        """Elements of an operand, as it is read, between neighbours of the innermost step."""
        step = c.operands[operand].strides[self.steps[-1]]
        widths = (pack.width for pack in self.packs if pack.operand == operand)
        return next(widths, step) if step else step

    def shared_steps(self, c: Contraction) -> tuple[int, ...]:
        """The steps in which rows of a tile read elements that others of them read as well."""
        rows = [n for n in c.spatial if self.tile[n] > 1 and n != self.lane]
        return tuple(n for n in self.steps if any(c.overlap(row, n) for row in rows))

    def around_rows(self, c: Contraction) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The steps as they are nested: outside of the rows of a tile, and inside of them."""
        inside = self.steps if self.flat == "single" else ()
        if self.flat == "shifts":
            inside = self.shared_steps(c)
        return tuple(n for n in self.steps if n not in inside), inside


@dataclass(frozen=True)
class Partial:
    """Partial sums along an axis that is summed over; `count` need not divide its extent.

    "parts" are so many runs of terms, for threads or caches: the contraction stores them, and they
    are added up after it. "lanes" are so many neighbours side by side: they are added up with each
    tile, and the contraction still stores its results, where each lane stands still. Parts are
    whole multiples of `step` terms; there may be fewer of them then.
    """

    axis: int
    count: int
    kind: Literal["parts", "lanes"]
    step: int = 1

    def cut(self, extent: int | None) -> tuple[int | None, int | None]:
        """The extents of the two loops that a loop becomes, the outer one first."""
        each = None if extent is None else -(-extent // self.count)
        if self.kind == "lanes":
            return each, self.count
        if extent is None or each is None:
            return self.count, None
        length = -(-each // self.step) * self.step
        return -(-extent // length), length
