"""Which loops of a lowered program threads can share: whose iterations are proved independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from math import prod

from tensorir import dtype as dt
from tensorir.analysis.dependence import belongs_to, conflict, piped
from tensorir.analysis.independence import outside_analyzer, ranges, shared_accesses, units
from tensorir.buffer import Buffer
from tensorir.expr import Expr, const
from tensorir.func import PrimFunc
from tensorir.parts import replace_buffers
from tensorir.passes.facts.lifetimes import keeps_to_itself
from tensorir.passes.place_buffers import place_buffers
from tensorir.stmt import Alloc, For, ForKind, Stmt, replace
from tensorir.tensorize.tensor_intrin import TENSORIZE
from tensorir.visit import variables, walk

OWN_BYTES = 32 << 10
"""The most memory of its own that a thread is given for one buffer."""

PLAIN = (ForKind.SERIAL, ForKind.PARALLEL, ForKind.UNROLLED)
"""Loops whose iterations can be given to threads."""


@dataclass(frozen=True)
class Nest:
    """Loops directly in each other, of which threads share those that are `free`.

    inside   what one iteration of the free loops does
    own      intermediates of which each iteration of them has one for itself
    """

    free: tuple[For, ...]
    inside: Stmt
    own: tuple[Buffer, ...]

    @property
    def count(self) -> Expr:
        """The number of iterations of the free loops."""
        count: Expr = const(1)
        for loop in self.free:
            count = count * loop.extent
        return count


class FreeLoops:
    """Finds them in `func`. Buffers that are `scoped` are given to threads where they can be."""

    def __init__(self, func: PrimFunc, scoped: set[Buffer]) -> None:
        self.func = func
        self.scoped = scoped
        self.every = list(units(func.body))

    def nest(self, stmt: Stmt, outside: tuple[For, ...]) -> Nest | None:
        """The loops that begin at `stmt`, if threads can share any; those `outside` stay."""
        loops = _nested(stmt)
        prefix, own = self.prefix(loops, outside)
        free, rest = list(prefix), loops[len(prefix) :]
        if not own:  # else an iteration of a loop further in would need them for itself
            around = (*outside, *prefix)
            free += [f for f in rest[1:] if self.clashes(f, around, rest[0]) == []]
        if all([loop.const_extent == 1 for loop in free]):
            return None
        inside = loops[-1].body
        for loop in reversed(loops):
            if loop not in free:
                inside = replace(loop, body=inside)
        return Nest(tuple(free), inside, tuple(own))

    def prefix(
        self, loops: Sequence[For], outside: tuple[For, ...]
    ) -> tuple[Sequence[For], list[Buffer]]:
        """The outermost loops that are free, and the buffers that have to be each iteration's."""
        found: list[list[Buffer]] = []
        for n, loop in enumerate(loops):
            clashes = self.clashes(loop, (*outside, *loops[:n]), loop)
            if clashes is None:
                break
            found.append(clashes)
        for count in range(len(found), 0, -1):
            wanted = dict.fromkeys([b for clashes in found[:count] for b in clashes])
            if all([self.can_own(b, loops[count - 1]) for b in wanted]):
                kept = [b for b in self.scoped - wanted.keys() if self.can_own(b, loops[count - 1])]
                return loops[:count], [*wanted, *sorted(kept, key=lambda b: b.name)]
        return (), []

    def clashes(self, loop: For, outside: tuple[For, ...], outermost: For) -> list[Buffer] | None:
        """The intermediates that iterations of `loop` would have to have for themselves.

        Iterations are compared that differ in the loops from `outermost` inwards. None where they
        share what cannot be theirs.
        """
        below = list(units(loop.body))
        varying = ranges(outermost)
        analyzer = outside_analyzer(self.func, outside, varying)
        found = []
        for buffer, uses in shared_accesses(loop, below).items():
            if conflict(uses, loop, varying, analyzer) is None:
                continue
            if buffer in self.func.params or piped((*outside, loop), buffer):
                return None
            if not belongs_to(buffer, below, self.every):
                return None
            found.append(buffer)
        return found

    def can_own(self, buffer: Buffer, loop: For) -> bool:
        """Whether each iteration of `loop` can have `buffer` for itself, and it is small then."""
        below = list(units(loop.body))
        if not belongs_to(buffer, below, self.every):
            return False
        return keeps_to_itself(self.func, loop.var, buffer) and self.is_small(buffer)

    def is_small(self, buffer: Buffer) -> bool:
        local = buffer.with_scope("local")
        moved = {buffer: local}
        func = replace_fields(
            self.func, buffers=(local,), body=replace_buffers(self.func.body, moved)
        )
        for stmt in walk(place_buffers(func).body):
            if isinstance(stmt, Alloc) and stmt.buffer.name == buffer.name:
                shape = stmt.buffer.const_shape
                return shape is not None and prod(shape) * dt.itemsize(buffer.dtype) <= OWN_BYTES
        return False


def _nested(stmt: Stmt) -> list[For]:
    """The loops at `stmt`, each the only statement of the one around, of extents known there."""
    loops: list[For] = []
    while isinstance(stmt, For) and stmt.kind in PLAIN and TENSORIZE not in stmt.annotations:
        inner = variables(stmt.extent) & {loop.var for loop in loops}
        if inner or stmt.extent.has_loads:
            break
        loops.append(stmt)
        stmt = stmt.body
    return loops
