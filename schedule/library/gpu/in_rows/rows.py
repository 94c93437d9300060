"""rows: what is computed of each row alone, such as sums, softmax and norms, reads it once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from schedule.analysis.uses import written
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.gpu.cooperative_fetch import ORDER, split_for_threads
from schedule.library.gpu.in_rows.stages import RowStages, axes_of_rows, chain_of, with_aside
from schedule.library.gpu.memory.sectors import ends_apart, from_sectors
from schedule.library.gpu.steps import (
    bind_kernel,
    fuse_for_blocks,
    loops_in_memory,
    vector_of,
)
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef, chain_below
from tensorir import Architecture, Buffer, Gpu, checked, dtype

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


@checked
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
    aside: Collection[str] = (),
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
    aside  blocks that store numbers of rows that are computed for it, such as a mean that is a
           result too: a thread of each row does

    Raises ScheduleError where the blocks reduce along different numbers of axes, or along none.
    """
    with all_or_nothing(sch, f"gpu.rows({str(block)!r})"):
        require(by in WAYS, block, f"by={by!r} is not one of {', '.join(WAYS)}")
        few = f"{warps} warps with {turns} rows each are too few"
        require(warps > 0 and turns > 0, block, few)
        known = keep is None or keep in KEEP
        require(known, block, f"keep={keep!r} is not one of {', '.join(KEEP)}")
        chain = chain_of(sch, block, stages, aside)
        outer, axes = axes_of_rows(sch, block, chain)
        todo = _Rows(sch, block, outer, axes, by, warps, turns, sectors, shared, tuple(aside))
        return todo.schedule(chain, keep)


@dataclass(frozen=True)
class _Rows(RowStages):
    """What is to be scheduled, and how."""

    by: str
    warps: int
    turns: int
    sectors: bool
    shared: int
    aside: tuple[str, ...]

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
        chain = self.inlined(chain, self.is_number)
        length = self.length(chain)
        if length == 1:
            return self._of_one(chain)
        buffers = self.along(chain)
        made = {buffer for name in chain[:-1] for buffer in written(sch.state.block(name))}
        lanes = min([vector_of(buffer) for buffer in buffers if buffer not in made], default=1)
        lanes = lanes if self.lie_in_rows(chain) else 1
        again = keep == "nothing"
        if keep is None:
            keep, again = self._place(length, self._kept(chain, buffers), lanes)
        if again:
            chain = self.inlined(chain, lambda name: not self.is_sum(name))
            buffers = self.along(chain)
        copies = [] if keep == "nothing" else self.copies(chain, buffers, keep_scope(keep))
        common = self.common(chain)
        place = self._common_place(length, lanes, *self._kept(chain, buffers), common, keep)
        once = self.copies(chain, common, place) if place else []
        loops, group, row = self._loops_over_rows(self.at_once, self.turns)
        for name in [*chain[-2::-1], *copies]:
            sch.compute_at(name, row)
        for name in once:
            sch.compute_at(name, loops[-1] if place == "shared" else group)
        for name in chain[:-1]:
            for at in range(len(written(sch.state.block(name)))):
                sch.set_scope(name, at, "local" if self.is_sum(name) else keep_scope(keep))
        blocks = [name for name in sch.get_blocks() if name in chain or name in copies]
        within = dict.fromkeys(blocks, row)
        if place == "local":
            within |= dict.fromkeys(once, group)
        threads = self._share(within, lanes, keep)
        if group not in loops:
            threads["lane" if self.by == "lanes" else "warp"] = [group]
        for name in once if place == "shared" else ():
            self._fetch(name, lanes, threads)
        return Rows(bind_kernel(sch, loops, threads), tuple(blocks), keep)

    def _fetch(self, copy: str, lanes: int, threads: dict[str, list[LoopRef]]) -> None:
        """Let all threads of a block copy together what all rows read: their loops are to be bound
        with those of `threads`."""
        sch, axes = self.sch, [axis for axis in ORDER if threads.get(axis)]
        sizes = [sch.state.loop(threads[axis][0]).const_extent or 1 for axis in axes]
        _, *shared = split_for_threads(sch, copy, sizes, lanes)
        for axis, loop in zip(axes, shared):
            threads[axis].append(loop)
        if lanes > 1:
            sch.vectorize(shared[-1])

    def _of_one(self, chain: list[BlockRef]) -> Rows:
        """Rows of one element each, which threads do not share: each thread has its own."""
        sch = self.sch
        loops, _, row = self._loops_over_rows(Gpu.warp * self.warps)
        for name in chain[-2::-1]:
            sch.compute_at(name, row)
            sch.set_scope(name, 0, "local")
        bound = bind_kernel(sch, loops, {"threadIdx.x": [row]})
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

    def _has_registers(self, length: int, lanes: int, kept: Sequence[Buffer]) -> bool:
        """Whether a thread may keep its elements of some arrays: in half of its registers at the
        most, of which one holds 4 bytes."""
        each = self._each(length, lanes)
        words = sum(max(1, dtype.itemsize(buffer.dtype) // Gpu.bank_bytes) for buffer in kept)
        most = Architecture.registers // (Gpu.warp * self.warps) // 2
        return each * len(kept) <= REGISTERS and each * words <= most

    def _place(
        self, length: int | None, kept: tuple[list[Buffer], list[Buffer]], lanes: int
    ) -> tuple[str, bool]:
        """Where there is room for a row, and whether what is computed of it has none."""
        read, made = kept
        for place in KEEP[:2] if length is not None else ():
            for some in [[*read, *made], read] if made else [read]:
                if place == "registers":
                    fits = self._has_registers(length or 0, lanes, some)
                    fits = fits and self.axes == 1 and not self.sectors
                else:
                    size = sum((length or 0) * dtype.itemsize(buffer.dtype) for buffer in some)
                    fits = size * self.at_once <= self.shared - SUMS
                if fits:
                    return place, len(some) < len(read) + len(made)
        return "nothing", True

    def _common_place(
        self, length: int | None, lanes: int, read: Sequence[Buffer], made: Sequence[Buffer],
        common: dict[Buffer, list[str]], keep: str,
    ) -> str:  # fmt: skip
        """Where there is room for what all rows read, beside the arrays that are kept of each row;
        "" is nowhere, or that it would be read once anyway."""
        if not common or length is None or self.at_once * self.turns == 1 or self.by == "lanes":
            return ""
        kept = [*read, *made]
        fits = self._has_registers(length, lanes, [*kept, *common])
        if self.at_once == 1 and keep == "registers" and fits:
            return "local"
        rows = self.at_once if keep == "shared" else 0
        size = sum(length * dtype.itemsize(buffer.dtype) for buffer in common)
        size += sum(length * rows * dtype.itemsize(buffer.dtype) for buffer in kept)
        return "shared" if size <= self.shared - SUMS else ""

    def _loops_over_rows(
        self, at_once: int, turns: int = 1
    ) -> tuple[list[LoopRef], LoopRef, LoopRef]:
        """The loops for blocks of threads that compute `turns` times so many rows, the one over
        those at once, and the one in which one is computed."""
        sch = self.sch
        around = sch.get_loops(self.block)
        over = around[: self.outer] or [sch.add_unit_loop(around[0] if around else self.block)]
        *loops, last = fuse_for_blocks(sch, over)
        loops = [*loops, with_aside(sch, self.block, last, self.aside)]
        if at_once * turns == 1:
            return loops, loops[-1], loops[-1]
        parts = [n for n in (turns, at_once) if n > 1]
        last, *inner = sch.split(loops[-1], [None, *parts])
        loops = [*loops[:-1], last]
        if len(inner) == 2:
            sch.reorder(inner[1], inner[0])
            return loops, inner[1], inner[0]
        return (loops, inner[0], inner[0]) if turns == 1 else (loops, last, inner[0])

    def _share(
        self, within: dict[BlockRef, LoopRef], lanes: int, keep: str
    ) -> dict[str, list[LoopRef]]:
        """The loops that give the elements of a row, in some loop of each block, to threads along
        an axis, `lanes` side by side, in all blocks alike where they are in registers; else sums
        take one at a time, so that a warp reads neighbours."""
        sch = self.sch
        bound: list[LoopRef] = []
        for name, loop in within.items():
            around = sch.get_loops(name)
            along = around[around.index(loop) + 1 :]
            if not along:
                continue
            if self.is_sum(name):
                along = loops_in_memory(sch, name, along)
            element = sch.fuse(*along) if len(along) > 1 else along[0]
            each = 1 if self.is_sum(name) and keep != "registers" else lanes
            begun, length = element, sch.state.loop(element).const_extent
            if self.sectors and not self.is_sum(name):
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
                (sch.unroll if self.is_sum(name) else sch.vectorize)(lane)
        axis = {"warp": "lane", "lanes": "warp"}.get(self.by, "threadIdx.x")
        return {axis: bound}


def keep_scope(keep: str) -> str:
    return "shared" if keep == "shared" else "local"
