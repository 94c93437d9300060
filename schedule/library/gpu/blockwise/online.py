"""online: a scan over blocks of terms, whose rows a block of threads takes through all steps."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from schedule.analysis.uses import accesses
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.places import own_loops
from schedule.library.gpu.blockwise.stages import Stages
from schedule.library.gpu.cooperative_fetch import split_for_threads
from schedule.library.gpu.steps import (
    bind_kernel,
    fuse_for_blocks,
    in_order_of_reads,
    last_axis,
    vector_of,
    write_out,
)
from schedule.schedule import Schedule
from schedule.state import LoopRef
from tensorir import Buffer, Gpu, IterKind, Var, body_loads, checked, dtype, int_value, variables

TOGETHER = Gpu.access_words
"""Neighbours that a thread reads at once, and terms of a product that are written out for that."""

WRITTEN_OUT = 1024
"""Operations of a thread that are written out, at most."""


@checked
def online(
    sch: Schedule, block: str, *, rows: int = 4, threads: tuple[int, int] = (16, 8)
) -> LoopRef:
    """Schedule a scan over blocks of terms for a GPU, and what reads its last states: sums weighted
    by a softmax as the algorithms `online_32` and `online_64` make them, `block` their result.

    A block of threads takes `rows` x `threads[0]` rows through all steps. Neighbours in a row are
    shared by `threads[1]` threads. Sums of products, and elements of rows that one thread uses, are
    in registers; numbers of rows, weights, and what products read are in shared memory, in tiles
    that all threads fetch together, those that rows alone move once. Elementwise stages around go
    along. Extents need not divide.

    Returns the loop that is bound to blocks of threads.
    Raises ScheduleError where `block` reads no states of such a scan, and where a step is refused.
    """
    with all_or_nothing(sch, f"gpu.online({str(block)!r})"):
        return _Online(sch, block, rows, *threads).schedule()


class OnlineRows(NamedTuple):
    """What `online` takes together: the stages of its kernel, and the extents of what is a number
    for each row. Tiles divide the last of these; None where it is symbolic."""

    stages: tuple[str, ...]
    extents: tuple[int | None, ...]


@checked
def online_rows(sch: Schedule, block: str) -> OnlineRows:
    """What `online` finds, before it takes any step but to compute elementwise stages in those that
    alone use them. Raises ScheduleError where `block` reads no states of such a scan."""
    with all_or_nothing(sch, f"gpu.online_rows({str(block)!r})"):
        found = Stages(sch, block)
        iters = sch.state.block(found.first[0]).iters
        extents = {found.kinds[found.first[0], it.var]: int_value(it.extent) for it in iters}
        return OnlineRows(tuple(found.members), tuple(extents.get(row) for row in found.rows))


class _Online(Stages):
    """The steps, in order."""

    def __init__(self, sch: Schedule, block: str, own: int, down: int, across: int) -> None:
        super().__init__(sch, block)
        self.own, self.down, self.across = own, down, across
        self.bound: dict[str, list[LoopRef]] = {"threadIdx.y": [], "threadIdx.x": []}

    def schedule(self) -> LoopRef:
        sch = self.sch
        grid = self.one_nest()
        copies = [copy for name in (*self.before, *self.steps) for copy in self.copies(name, grid)]
        scopes = {b: self.scope(b) for n in (*self.before, *self.steps) for b in self.writes(n)}
        for buffer, scope in scopes.items():
            sch.set_scope(self.makers(buffer)[0], buffer.name, scope)
        for name in self.members:
            if name not in self.filled:
                self.share(name, grid)
        for copy in (*copies, *self.filled):
            self.fetch(copy)
        grid = fuse_for_blocks(sch, grid)
        return bind_kernel(sch, grid, self.bound)

    def one_nest(self) -> list[LoopRef]:
        """The loops over rows of all blocks as one nest; returns those over tiles of rows."""
        sch, nests = self.sch, dict[str, list[LoopRef]]()
        for name in (*self.first, *self.steps, *self.ends):
            by = {self.kinds[name, it.var]: it for it in sch.state.block(name).iters}
            whole = all(row in by and isinstance(by[row].binding, Var) for row in self.rows)
            require(whole, name, f"block {name!r} does not run over all rows")
            loops = {sch.state.loop(x).var: x for x in sch.get_loops(name)}
            outer = [loops[by[row].binding] for row in self.rows]  # type: ignore[index]
            inner = [x for x in own_loops(sch, name) if x not in outer]
            if len(outer) + len(inner) > 1:
                sch.reorder(*outer, *inner)
            tile, _ = sch.split(outer[-1], [None, self.own * self.down])
            nests[name] = [*outer[:-1], tile]
        steps = [sch.merge(*loops) for loops in zip(*[nests[name] for name in self.steps])]
        sch.reorder(*steps, self.time)
        for name in reversed(self.before):
            sch.compute_at(name, self.time)
        every = [*(nests[n] for n in self.first), steps, *(nests[n] for n in self.ends)]
        return [sch.merge(*loops) for loops in zip(*every)]

    def copies(self, name: str, grid: Sequence[LoopRef]) -> list[str]:
        """Copies in shared memory of what a sum of products reads."""
        sch, found = self.sch, list[str]()
        node = sch.state.block(name)
        inner = {b for n in self.members for b in self.writes(n)}
        time = sch.state.loop(self.time).var
        moves = {it.var for it in node.iters if time in variables(it.binding)}
        for load in body_loads(node):
            used = {v for index in load.indices for v in variables(index)}
            terms = [it.var for it in node.reduced]
            if not node.is_reduction or load.buffer in inner or not used & {*terms}:
                continue
            copy = str(sch.cache_read(name, load.buffer.name, "shared"))
            sch.compute_at(copy, self.time if used & moves else grid[-1])
            if variables(load.indices[last_axis(load.buffer)]) & {*terms}:  # lanes have other rows
                self.align(copy, Gpu.access_bytes)
            found.append(copy)
        return found

    def align(self, name: str, apart: int) -> None:
        """Put rows of what a block makes so many bytes further than a multiple of all banks."""
        (buffer,) = self.writes(name)
        size = dtype.itemsize(buffer.dtype)
        if rows := last_axis(buffer):
            banks = Gpu.banks * Gpu.bank_bytes // size
            self.sch.storage_align(name, buffer.name, rows - 1, banks, apart // size)

    def scope(self, buffer: Buffer) -> str:
        """Registers for what has more dimensions than rows have, if no sum of products reads it."""
        name = self.makers(buffer)[-1]
        if name in self.filled or set(self.dimensions(name)) <= {*self.rows}:
            return "shared"
        users = [user for user in self.steps if buffer in self.reads(user) and self.is_sum(user)]
        if all(set(self.dimensions(user)) <= {*self.rows} for user in users):
            return "local"
        self.align(name, 2 * Gpu.access_bytes)
        return "shared"

    def share(self, name: str, grid: Sequence[LoopRef]) -> None:
        """Give the loops of a block to threads: rows down, what is in a row across."""
        sch, node = self.sch, self.sch.state.block(name)
        around = [*grid, self.time]
        own = {sch.state.loop(x).var: x for x in sch.get_loops(name) if x not in around}
        kinds = {
            own[v]: (self.kinds[name, it.var], it.kind)
            for it in node.iters
            for v in variables(it.binding)
            if v in own and int_value(it.extent) != 1
        }
        units = [x for x in own.values() if x not in kinds]
        row = next((x for x, (kind, _) in kinds.items() if kind == self.rows[-1]), None)
        require(row is not None, name, f"block {name!r} has a single row")
        assert row is not None
        terms = [x for x, (_, kind) in kinds.items() if kind is IterKind.REDUCE]
        across = [x for x in kinds if x not in (row, *terms)]
        mine, down = sch.split(row, [None, self.down])
        self.bound["threadIdx.y"].append(down)
        if not across and not terms:
            sch.reorder(*units, down, mine)
            return
        far = across or terms
        wide = self.together(name, far[-1]) if across else 1
        parts = list(sch.split(far[-1], [None, self.across, *([wide] if wide > 1 else [])]))
        lane = parts.pop(1)
        self.bound["threadIdx.x"].append(lane)
        if not across:  # they share the terms
            sch.reorder(*units, down, mine, *terms[:-1], *parts, lane)
            return
        inner = [mine, *across[:-1], *parts]
        if terms:
            step, near = sch.split(terms[-1], [None, TOGETHER])
            sch.reorder(*units, down, lane, *terms[:-1], step, near, *inner)
            init = sch.decompose_reduction(name, (*terms[:-1], step)[0])
            self.write_out(name, [near, *inner])
            self.write_out(name, [x for x in sch.get_loops(init) if x not in sch.get_loops(name)])
            return
        sch.reorder(*units, down, lane, *inner)
        if name in self.ends and wide > 1 and vector_of(*self.writes(name)) % wide == 0:
            sch.vectorize(inner.pop())
        self.write_out(name, inner)

    def together(self, name: str, loop: LoopRef) -> int:
        """Neighbours of a row that one thread has: what is stored at the end is stored so."""
        states = {self.kinds[n, it.var] for n in self.ends for it in self.sch.state.block(n).iters}
        node, var = self.sch.state.block(name), self.sch.state.loop(loop).var
        kind = next(self.kinds[name, it.var] for it in node.iters if var in variables(it.binding))
        extent = self.sch.state.loop(loop).const_extent or 1
        if kind not in states:
            return 1
        return next(n for n in (TOGETHER, 2, 1) if n == 1 or extent % (n * self.across) == 0)

    def write_out(self, name: str, loops: Sequence[LoopRef]) -> None:
        """Unroll loops over what a thread has of a block, so that it is in registers."""
        sizes = [self.sch.state.loop(x).const_extent or WRITTEN_OUT for x in loops]
        if prod(sizes) <= WRITTEN_OUT:
            write_out(self.sch, loops)

    def fetch(self, copy: str) -> None:
        """Share a copy among all threads."""
        sch = self.sch
        in_order_of_reads(sch, copy)
        (made,) = self.writes(copy)
        read = next(a.buffer for a in accesses(sch.state.block(copy)) if not a.is_write)
        vector = min(vector_of(read), vector_of(made))
        _, down, lane, *near = split_for_threads(sch, copy, [self.down, self.across], vector)
        self.bound["threadIdx.y"].append(down)
        self.bound["threadIdx.x"].append(lane)
        for loop in near:
            sch.vectorize(loop)
