"""The stages of a chain of rows: which they are, what they have of each row, and what all share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import prod

from schedule.analysis.uses import accesses, written
from schedule.errors import require
from schedule.library.contraction.find import flat_index
from schedule.library.gpu.memory.sectors import in_sector
from schedule.library.gpu.steps import in_memory
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import (
    Access,
    Analyzer,
    Buffer,
    Expr,
    IterKind,
    Load,
    Var,
    const,
    int_value,
    slope,
    substitute,
)


def axes_of_rows(sch: Schedule, block: str, chain: Sequence[str]) -> tuple[int, int]:
    """How many axes rows have, and how many are along one, in all of a chain that ends in `block`;
    refused where that differs."""
    kinds = [[it.kind for it in sch.state.block(b).iters] for b in chain]
    forms = {(k.count(IterKind.SPATIAL), k.count(IterKind.REDUCE)) for k in kinds}
    found = {form for form in forms if form[1]}
    none = f"block {block!r} and what it alone uses reduce in {len(found)} ways"
    require(len(found) == 1, block, none, "all reductions are to be along the same last axes")
    outer, axes = found.pop()
    odd = [str(n) for n, k in zip(chain, kinds) if len(k) not in (outer, outer + axes)]
    other = f"block {(odd or [''])[0]!r} is computed neither of rows nor of their elements"
    require(not odd, block, other)
    return outer, axes


def chain_of(
    sch: Schedule, block: str, among: Collection[str] | None = None, aside: Collection[str] = ()
) -> list[BlockRef]:
    """The block and those, `among` some if given, that nothing but stages `aside` uses the results
    of besides, in the order of the program."""
    found: list[str] = [block]
    for name in reversed(sch.get_blocks()):
        if among is not None and name not in among:
            continue
        users = [user for user in sch.get_consumers(name) if user not in aside]
        if users and name not in found and all(user in found for user in users):
            found.append(name)
    return [sch.get_block(name) for name in found[::-1]]


def with_aside(sch: Schedule, block: str, row: LoopRef, aside: Collection[str]) -> LoopRef:
    """The loop over rows of a block, and of stages `aside` that store a number of each row, as one.
    What runs between these goes ahead of them."""
    order = [str(name) for name in sch.get_blocks()]
    for name in order[order.index(block) + 1 :]:
        if name in aside:
            sch.run_before(name, block)
    order = [str(name) for name in sch.get_blocks()]
    taken = [name for name in order if name in aside]
    for name in order[order.index(taken[0]) + 1 : order.index(block)] if taken else ():
        if name not in aside:
            sch.run_before(name, taken[0])
    around = [sch.get_loops(name) or [sch.add_unit_loop(name)] for name in taken]
    alone = [sch.fuse(*loops) if len(loops) > 1 else loops[0] for loops in around]
    return sch.merge(*alone, row) if alone else row


@dataclass(frozen=True)
class RowStages:
    """What is computed of rows up to a block: `outer` axes tell rows, and `axes` are along one."""

    sch: Schedule
    block: str
    outer: int
    axes: int

    def inlined(self, chain: list[BlockRef], which: Callable[[str], bool]) -> list[BlockRef]:
        """Compute some stages but the last one where they are used; returns the others."""
        gone = [name for name in chain[:-1] if which(name)]
        for name in gone:
            self.sch.compute_inline(name)
        return [name for name in chain if name not in gone]

    def is_sum(self, name: str) -> bool:
        return any(it.kind is IterKind.REDUCE for it in self.sch.state.block(name).iters)

    def is_number(self, name: str) -> bool:
        """Whether it is a number of a row, computed of other such numbers."""
        return len(self.sch.state.block(name).iters) == self.outer and not self.is_sum(name)

    def along(self, chain: Sequence[str]) -> dict[Buffer, list[str]]:
        """What has an element for each element of each row, and the blocks that use it."""
        found: dict[Buffer, list[str]] = {}
        for name in chain:
            node = self.sch.state.block(name)
            own = [it.var for it in node.iters]
            for access in accesses(node):
                if len(own) < self.outer + self.axes or set(own) != set(in_memory(access)):
                    continue
                if self._is_box(access):
                    found.setdefault(access.buffer, []).append(name)
        return found

    def _is_box(self, access: Access) -> bool:
        """Whether what is read of an array is about all that lies between: no diagonal of it, of
        which a copy would have what is around as well."""
        iters = access.block.iters
        analyzer = Analyzer({it.var: it.extent for it in iters[self.outer :]})
        row: dict[Var, Expr] = {it.var: const(0) for it in iters[: self.outer]}
        ends = [analyzer.bounds(analyzer.simplify(substitute(i, row))) for i in access.indices]
        sizes = [high - low + 1 for low, high in ends if low is not None and high is not None]
        extents = [int_value(it.extent) for it in iters[self.outer :]]
        if None in extents or len(sizes) < len(ends):
            return True  # of any length, which shared memory has no room for
        return prod(sizes) <= in_sector(access.buffer.dtype) * prod(n or 1 for n in extents)

    def lie_in_rows(self, chain: Sequence[str]) -> bool:
        """Whether neighbours in memory are of one row, in all that has elements of rows."""
        for name in chain:
            node = self.sch.state.block(name)
            own = [it.var for it in node.iters]
            places = map(in_memory, accesses(node)) if len(own) > self.outer else ()
            if any(place[-1] in own[: self.outer] for place in places if len(place) == len(own)):
                return False
        return True

    def length(self, chain: Sequence[str]) -> int | None:
        """The elements of a row; None where they are not known."""
        sch = self.sch
        full = next(n for n in chain if len(sch.state.block(n).iters) > self.outer)
        extents = [int_value(it.extent) for it in sch.state.block(full).iters[self.outer :]]
        return None if None in extents else prod(n or 0 for n in extents)

    def common(self, chain: Sequence[str]) -> dict[Buffer, list[str]]:
        """What has an element for each element of a row, the same for all rows, and its users."""
        found: dict[Buffer, list[str]] = {}
        for name in chain:
            node = self.sch.state.block(name)
            own = [it.var for it in node.iters[self.outer :]]
            for access in accesses(node):
                if len(own) == self.axes and in_memory(access) == own:
                    found.setdefault(access.buffer, []).append(name)
        return found

    def copies(
        self, chain: Sequence[str], buffers: dict[Buffer, list[str]], scope: str
    ) -> list[BlockRef]:
        """Copies of what is read from outside."""
        sch = self.sch
        made = {buffer for name in chain for buffer in written(sch.state.block(name))}
        copies = []
        for buffer, users in buffers.items():
            if buffer not in made:
                copy = sch.cache_read(users[0], buffer.name, scope, list(dict.fromkeys(users)))
                self._lay_out(copy, users[0])
                copies.append(copy)
        return copies

    def _lay_out(self, copy: BlockRef, user: str) -> None:
        """Give a copy of what is read in parts of variables an axis for each variable, if it lies
        in memory as if it had these."""
        node = self.sch.state.block(user)
        (made,) = written(self.sch.state.block(copy))
        read = next(a for a in accesses(node) if a.buffer is made)
        if all(isinstance(index, Var) for index in read.indices):
            return
        flat = flat_index(Load(made, read.indices))
        analyzer = Analyzer({it.var: it.extent for it in node.iters})
        extents = {it.var: int_value(it.extent) or 0 for it in node.iters}
        place, parts, step = "d0", list[str](), 1
        for n, size in enumerate(made.shape[1:], 1):
            place = f"({place}) * {size} + d{n}"
        for var in reversed(in_memory(read)):
            if slope(flat, var, analyzer) != step:
                return
            parts.insert(0, f"({place}) // {step} % {extents[var]}")
            step *= extents[var]
        if made.const_shape is not None and step == prod(made.const_shape):
            names = ", ".join(f"d{n}" for n in range(made.ndim))
            self.sch.transform_layout(copy, made.name, f"{names}: {', '.join(parts)}")
