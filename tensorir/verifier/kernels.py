"""The kernels of a program for a GPU: statements of the outermost sequence, and what they touch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from tensorir.analysis.block_accesses import Access, accesses
from tensorir.analysis.independence import Unit, placed_units
from tensorir.buffer import Buffer
from tensorir.func import PrimFunc
from tensorir.parts import touched
from tensorir.stmt import Block, For, ForKind, Seq, Stmt
from tensorir.visit import loads, walk

KERNELS = 128
"""Statements of which is kept what they touch: networks have dozens."""


class Fault(NamedTuple):
    """Why threads cannot run a program: the loop or block at fault, what is wrong, what to do."""

    where: str
    reason: str
    hint: str | None = None


@dataclass(frozen=True)
class Use:
    """An access, and the loops around the block or statement that makes it."""

    access: Access
    loops: tuple[For, ...]

    @property
    def who(self) -> str:
        """The block, or what else makes the access, for messages."""
        name = self.access.block.name
        return f"block {name!r}" if name else f"a statement of loop {self.loops[-1].name!r}"

    @property
    def place(self) -> str:
        """The block or innermost loop, as the place of an error."""
        return self.access.block.name or self.loops[-1].name

    def over(self, axis: str) -> For | None:
        """The loop around over an axis of threads."""
        return next((loop for loop in self.loops if loop.thread == axis), None)


@dataclass(frozen=True, eq=False)
class Kernel:
    """A statement of the outermost sequence."""

    stmt: Stmt

    @cached_property
    def threads(self) -> list[For]:
        """The loops over threads and blocks of threads, in program order."""
        found = [s for s in walk(self.stmt) if isinstance(s, For)]
        return [loop for loop in found if loop.kind is ForKind.THREAD]

    @cached_property
    def axes(self) -> dict[str, For]:
        """The axes, each with the first loop over it."""
        found: dict[str, For] = {}
        for loop in self.threads:
            found.setdefault(loop.thread or "", loop)
        return found

    @cached_property
    def written(self) -> frozenset[Buffer]:
        """The buffers that any of its statements writes."""
        return frozenset([b for s in walk(self.stmt) for b, _, is_write in touched(s) if is_write])

    @cached_property
    def units(self) -> list[Unit]:
        """The innermost blocks, each with the loops around; a statement outside of all blocks is
        one without variables."""
        return list(placed_units(self.stmt))

    @cached_property
    def uses(self) -> dict[Buffer, list[Use]]:
        """All accesses by buffer, those included that find out where and how often units run."""
        found: dict[Buffer, list[Use]] = {}
        for unit, loops in self.units:
            for access in (*accesses(unit), *_counted(unit, loops)):
                found.setdefault(access.buffer, []).append(Use(access, loops))
        return found


@lru_cache(maxsize=KERNELS)
def kernel_of(stmt: Stmt) -> Kernel:
    """A statement as a kernel; most steps of a schedule leave most kernels as they are."""
    return Kernel(stmt)


def kernels_of(func: PrimFunc) -> list[Kernel]:
    body = func.body
    return [kernel_of(s) for s in (body.stmts if isinstance(body, Seq) else (body,))]


def _counted(unit: Block, loops: tuple[For, ...]) -> Iterator[Access]:
    """What is read to find out how often the loops around a unit run."""
    for loop in loops:
        for load in loads(loop.extent):
            yield Access(unit, load.buffer, load.indices, is_write=False)
