"""rows: what is computed of each row alone, such as sums, softmax and norms, reads it once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from schedule.analysis.uses import accesses, written
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.find import flat_index
from schedule.library.gpu.memory.sectors import ends_apart, from_sectors, in_sector
from schedule.library.gpu.steps import (
    bind_all,
    bind_blocks,
    fuse_for_blocks,
    in_memory,
    loops_in_memory,
    vector_of,
)
from schedule.state import BlockRef, LoopRef, chain_below
from tensorir import (
    Access,
    Analyzer,
    Architecture,
    Buffer,
    Expr,
    Gpu,
    IterKind,
    Load,
    Var,
    const,
    dtype,
    int_value,
    slope,
    substitute,
)

if TYPE_CHECKING:
    from schedule.schedule import Schedule

REGISTERS = 64
"""Elements of a row that a thread keeps at the most."""
SUMS = Gpu.warp * Gpu.warp * Gpu.bank_bytes
"""Bytes of shared memory that are left for sums of threads and results of rows."""
KEEP = ("registers", "shared", "nothing")
WAYS = ("block", "warp", "lanes")


class Rows(NamedTuple):
    """The parts of the schedule, for steps that follow.

    loop    the loop over rows that is bound to blocks of threads
    blocks  the blocks that are computed in it, in order, copies of what is read among them
    keep    where a row is kept between them
    """

    loop: LoopRef
    blocks: tuple[BlockRef, ...]
    keep: str


def rows(
    sch: Schedule,
    block: str,
    *,
    by: str = "block",
    warps: int = 8,
    turns: int = 1,
    keep: str | None = None,
    sectors: bool = False,
    shared: int = Architecture.shared_default,
    stages: Collection[str] | None = None,
) -> Rows:
    """Schedule a reduction along the last axes, or what is computed of the elements of a row and of
    reductions of that row, for a GPU; `block` is the last one of them.

    Threads that share a row have elements side by side, 16 bytes each where rows begin at multiples
    of that. All that is computed of a row is computed by the same threads in one kernel: `block`
    and the blocks that it alone uses, directly or not. Each array is read once, each result
    written once, if the row is kept. Extents need not divide.

    What all rows read, such as the scale of a norm, is read once for the rows that a block of
    threads computes, if there is room for it: it stays in registers, or in shared memory where
    several rows are computed at once.

    by     "block": all threads of a block share a row; "warp": each warp has its own; "lanes":
           lanes of a warp have rows side by side, for rows that are columns in memory, and warps
           of a block share their elements
    warps  of a block
    turns  rows that the same threads compute, one after the other
    keep   "registers": each thread keeps its elements of the row; "shared": they are in shared
           memory; "nothing": they are read, and computed, again. None is the first of these for
           which there is room; what is read is kept, and what is computed of it is computed again
           where there is room for that alone
    sectors whether lanes begin where sectors of memory do, in rows that begin within one. Threads
           that reduce have other elements than those that read or write, so that rows are in
           shared memory, or read again
    shared bytes of shared memory that a block may have, for None and for what all rows read
    stages the blocks before it that are computed with it; None is all that it alone uses

    Raises ScheduleError where the blocks reduce along different numbers of axes, or along none.
    """
    with all_or_nothing(sch, f"gpu.rows({str(block)!r})"):
        require(by in WAYS, block, f"by={by!r} is not one of {', '.join(WAYS)}")
        few = f"{warps} warps with {turns} rows each are too few"
        require(warps > 0 and turns > 0, block, few)
        known = keep is None or keep in KEEP
        require(known, block, f"keep={keep!r} is not one of {', '.join(KEEP)}")
        chain = chain_of(sch, block, stages)
        kinds = [[it.kind for it in sch.state.block(b).iters] for b in chain]
        forms = {(k.count(IterKind.SPATIAL), k.count(IterKind.REDUCE)) for k in kinds}
        found = {form for form in forms if form[1]}
        none = f"block {block!r} and what it alone uses reduce in {len(found)} ways"
        require(len(found) == 1, block, none, "all reductions are to be along the same last axes")
        outer, axes = found.pop()
        odd = [str(n) for n, k in zip(chain, kinds) if len(k) not in (outer, outer + axes)]
        other = f"block {(odd or [''])[0]!r} is computed neither of rows nor of their elements"
        require(not odd, block, other)
        todo = _Rows(sch, block, outer, axes, by, warps, turns, sectors, shared)
        return todo.schedule(chain, keep)
    raise AssertionError


def chain_of(sch: Schedule, block: str, among: Collection[str] | None = None) -> list[BlockRef]:
    """The block and those, `among` some if given, that nothing else uses the results of, in the
    order of the program."""
    found: list[str] = [block]
    for name in reversed(sch.get_blocks()):
        if among is not None and name not in among:
            continue
        users = sch.get_consumers(name)
        if users and name not in found and all(user in found for user in users):
            found.append(name)
    return [sch.get_block(name) for name in found[::-1]]


class _Rows(NamedTuple):
    """What is to be scheduled: `outer` loops run over rows, and `axes` loops inside along one."""

    sch: Schedule
    block: str
    outer: int
    axes: int
    by: str
    warps: int
    turns: int
    sectors: bool
    shared: int

    @property
    def threads(self) -> int:
        """Those that share a row."""
        return {"warp": Gpu.warp, "lanes": self.warps}.get(self.by, Gpu.warp * self.warps)

    @property
    def at_once(self) -> int:
        """Rows of a block."""
        return {"warp": self.warps, "lanes": Gpu.warp}.get(self.by, 1)

    def schedule(self, chain: list[BlockRef], keep: str | None) -> Rows:
        sch, apart = self.sch, "rows in registers are reduced by the threads that read them"
        by_others = self.sectors and keep == "registers"
        require(not by_others, self.block, apart, "leave keep or sectors out")
        chain = self._inlined(chain, self._is_number)
        length = self._length(chain)
        if length == 1:
            return self._of_one(chain)
        buffers = self._along(chain)
        made = {buffer for name in chain[:-1] for buffer in written(sch.state.block(name))}
        lanes = min([vector_of(buffer) for buffer in buffers if buffer not in made], default=1)
        lanes = lanes if self._lie_in_rows(chain) else 1
        again = keep == "nothing"
        if keep is None:
            keep, again = self._place(length, self._kept(chain, buffers), lanes)
        if again:
            chain = self._inlined(chain, lambda name: not self._is_sum(name))
            buffers = self._along(chain)
        copies = [] if keep == "nothing" else self._copies(chain, buffers, keep_scope(keep))
        common = self._common(chain)
        place = self._common_place(length, lanes, *self._kept(chain, buffers), common, keep)
        once = self._copies(chain, common, place) if place else []
        loops, group, row = self._loops_over_rows(self.at_once, self.turns)
        for name in [*chain[-2::-1], *copies]:
            sch.compute_at(name, row)
        for name in once:
            sch.compute_at(name, loops[-1] if place == "shared" else group)
        for name in chain[:-1]:
            for at in range(len(written(sch.state.block(name)))):
                sch.set_scope(name, at, "local" if self._is_sum(name) else keep_scope(keep))
        blocks = [name for name in sch.get_blocks() if name in chain or name in copies]
        within = dict.fromkeys(blocks, row)
        if place == "local":
            within |= dict.fromkeys(once, group)
        self._share(within, lanes, keep)
        bound = bind_blocks(sch, loops)
        if group not in loops:
            sch.bind(group, "lane" if self.by == "lanes" else "warp")
        for name in once if place == "shared" else ():
            sch.cooperative_fetch(name, vector=lanes)
        return Rows(bound, tuple(blocks), keep)

    def _inlined(self, chain: list[BlockRef], which: Callable[[str], bool]) -> list[BlockRef]:
        """Compute some stages but the last one where they are used; returns the others."""
        gone = [name for name in chain[:-1] if which(name)]
        for name in gone:
            self.sch.compute_inline(name)
        return [name for name in chain if name not in gone]

    def _is_sum(self, name: str) -> bool:
        return any(it.kind is IterKind.REDUCE for it in self.sch.state.block(name).iters)

    def _is_number(self, name: str) -> bool:
        """Whether it is a number of a row, computed of other such numbers."""
        return len(self.sch.state.block(name).iters) == self.outer and not self._is_sum(name)

    def _along(self, chain: Sequence[str]) -> dict[Buffer, list[str]]:
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

    def _lie_in_rows(self, chain: Sequence[str]) -> bool:
        """Whether neighbours in memory are of one row, in all that has elements of rows."""
        for name in chain:
            node = self.sch.state.block(name)
            own = [it.var for it in node.iters]
            places = map(in_memory, accesses(node)) if len(own) > self.outer else ()
            if any(place[-1] in own[: self.outer] for place in places if len(place) == len(own)):
                return False
        return True

    def _length(self, chain: Sequence[str]) -> int | None:
        """The elements of a row; None where they are not known."""
        sch = self.sch
        full = next(n for n in chain if len(sch.state.block(n).iters) > self.outer)
        extents = [int_value(it.extent) for it in sch.state.block(full).iters[self.outer :]]
        return None if None in extents else prod(n or 0 for n in extents)

    def _of_one(self, chain: list[BlockRef]) -> Rows:
        """Rows of one element each, which threads do not share: each thread has its own."""
        sch = self.sch
        loops, _, row = self._loops_over_rows(Gpu.warp * self.warps)
        for name in chain[-2::-1]:
            sch.compute_at(name, row)
            sch.set_scope(name, 0, "local")
        bound = bind_blocks(sch, loops)
        sch.bind(row, "threadIdx.x")
        return Rows(bound, tuple(chain), "registers")

    def _kept(
        self, chain: Sequence[str], buffers: dict[Buffer, list[str]]
    ) -> tuple[list[Buffer], list[Buffer]]:
        """What is kept of a row: what is read, and what is computed of that."""
        made = [written(self.sch.state.block(name)) for name in chain]
        inner = {buffer for some in made[:-1] for buffer in some}
        every = {buffer for some in made for buffer in some}
        return [b for b in buffers if b not in every], [b for b in buffers if b in inner]

    def _each(self, length: int, lanes: int) -> int:
        """The elements of a row that a thread has."""
        return -(-length // (self.threads * lanes)) * lanes

    @property
    def _registers(self) -> int:
        """Elements that a thread may keep: half of its registers at the most."""
        return min(REGISTERS, Architecture.registers // (Gpu.warp * self.warps) // 2)

    def _place(
        self, length: int | None, kept: tuple[list[Buffer], list[Buffer]], lanes: int
    ) -> tuple[str, bool]:
        """Where there is room for a row, and whether what is computed of it has none."""
        read, made = kept
        for place in KEEP[:2] if length is not None else ():
            for some in [[*read, *made], read] if made else [read]:
                if place == "registers":
                    fits = self._each(length or 0, lanes) * len(some) <= self._registers
                    fits = fits and self.axes == 1 and not self.sectors
                else:
                    size = sum((length or 0) * dtype.itemsize(buffer.dtype) for buffer in some)
                    fits = size * self.at_once <= self.shared - SUMS
                if fits:
                    return place, len(some) < len(read) + len(made)
        return "nothing", True

    def _common(self, chain: Sequence[str]) -> dict[Buffer, list[str]]:
        """What has an element for each element of a row, the same for all rows, and its users."""
        found: dict[Buffer, list[str]] = {}
        for name in chain:
            node = self.sch.state.block(name)
            own = [it.var for it in node.iters[self.outer :]]
            for access in accesses(node):
                if len(own) == self.axes and in_memory(access) == own:
                    found.setdefault(access.buffer, []).append(name)
        return found

    def _common_place(
        self, length: int | None, lanes: int, read: Sequence[Buffer], made: Sequence[Buffer],
        common: dict[Buffer, list[str]], keep: str,
    ) -> str:  # fmt: skip
        """Where there is room for what all rows read, beside the arrays that are kept of each row;
        "" is nowhere, or that it would be read once anyway."""
        if not common or length is None or self.at_once * self.turns == 1 or self.by == "lanes":
            return ""
        kept = [*read, *made]
        each = self._each(length, lanes) * (len(kept) + len(common))
        if self.at_once == 1 and keep == "registers" and each <= self._registers:
            return "local"
        rows = self.at_once if keep == "shared" else 0
        size = sum(length * dtype.itemsize(buffer.dtype) for buffer in common)
        size += sum(length * rows * dtype.itemsize(buffer.dtype) for buffer in kept)
        return "shared" if size <= self.shared - SUMS else ""

    def _copies(
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

    def _loops_over_rows(
        self, at_once: int, turns: int = 1
    ) -> tuple[list[LoopRef], LoopRef, LoopRef]:
        """The loops for blocks of threads that compute `turns` times so many rows, the one over
        those at once, and the one in which one is computed."""
        sch = self.sch
        around = sch.get_loops(self.block)
        over = around[: self.outer] or [sch.add_unit_loop(around[0] if around else self.block)]
        loops = fuse_for_blocks(sch, over)
        if at_once * turns == 1:
            return loops, loops[-1], loops[-1]
        parts = [n for n in (turns, at_once) if n > 1]
        last, *inner = sch.split(loops[-1], [None, *parts])
        loops = [*loops[:-1], last]
        if len(inner) == 2:
            sch.reorder(inner[1], inner[0])
            return loops, inner[1], inner[0]
        return (loops, inner[0], inner[0]) if turns == 1 else (loops, last, inner[0])

    def _share(self, within: dict[BlockRef, LoopRef], lanes: int, keep: str) -> None:
        """Give the elements of a row, in some loop of each block, to threads, `lanes` side by side,
        in all blocks alike where they are in registers; else sums take one at a time, so that a
        warp reads neighbours."""
        sch = self.sch
        bound: list[LoopRef] = []
        for name, loop in within.items():
            around = sch.get_loops(name)
            along = around[around.index(loop) + 1 :]
            if not along:
                continue
            if self._is_sum(name):
                along = loops_in_memory(sch, name, along)
            element = sch.fuse(*along) if len(along) > 1 else along[0]
            each = 1 if self._is_sum(name) and keep != "registers" else lanes
            begun, length = element, sch.state.loop(element).const_extent
            if self.sectors and not self._is_sum(name):
                begun = from_sectors(sch, name, element)
            parts = sch.split(begun, [None, self.threads, each])[:1]
            if begun != element and length is not None:
                parts = ends_apart(sch, parts[0], length // (self.threads * each))
            for part in parts:
                thread, lane = [LoopRef(x.name) for x in chain_below(sch.state.loop(part))]
                bound.append(thread)
                count = sch.state.loop(part).const_extent
                if count is not None and count * each <= REGISTERS:
                    sch.unroll(part)
                (sch.unroll if self._is_sum(name) else sch.vectorize)(lane)
        axis = {"warp": "lane", "lanes": "warp"}.get(self.by, "threadIdx.x")
        bind_all(sch, bound, axis)


def keep_scope(keep: str) -> str:
    return "shared" if keep == "shared" else "local"
