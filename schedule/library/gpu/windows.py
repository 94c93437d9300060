"""windows: what reads its surroundings, fetched to shared memory once with what lies around it."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from schedule.analysis.uses import accesses, written
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.find import flat_index
from schedule.library.contraction.places import own_loops
from schedule.library.gpu.cooperative_fetch import split_for_threads
from schedule.library.gpu.elementwise import axes_of
from schedule.library.gpu.memory.banks import pitch_of_boxes
from schedule.library.gpu.memory.sectors import from_sectors, write_from_sectors
from schedule.library.gpu.steps import (
    bind_kernel,
    fuse_for_blocks,
    in_memory,
    in_order_of_reads,
    write_out,
)
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import (
    Analyzer,
    Block,
    Buffer,
    Expr,
    Gpu,
    IterKind,
    Load,
    checked,
    dtype,
    int_value,
    slope,
    variables,
)

WRITTEN_OUT = 64
"""Terms of a thread that are written out, at most."""


@checked
def windows(
    sch: Schedule,
    block: str,
    threads: Sequence[int],
    own: Sequence[int],
    *,
    sectors: bool = False,
    results: bool = False,
    epilogue: str | None = None,
    padding: Sequence[str] = (),
) -> LoopRef:
    """Schedule B[i, j] = f(A[i, j], A[i, j + 1], A[i + 1, j], ...) for a GPU: stencils, pooling,
    depthwise convolutions, each element with all of its terms.

    A block of threads computes a box of the result. What the box reads of an array that its
    elements share is copied to shared memory once, padding computed on the way; lanes that are some
    elements apart in a row find them side by side there. Extents need not divide. Sums keep the
    order of the text.

    threads   side by side along each axis of the result, in the order of memory, 32 or a multiple
              in all
    own       elements of each thread along each axis: neighbours, but along the last one
    sectors   whether warps that copy rows longer than they are begin where sectors of memory do, in
              rows that begin within one
    results   whether results go through shared memory, from where warps write them from one sector
              to the next: boxes are to have whole rows, which lie side by side
    epilogue  an elementwise block that alone reads what a reduction makes, computed with it
    padding   blocks that pad what `block` reads, for it alone

    Returns the loop over boxes, bound to blocks of threads.
    Raises ScheduleError where the block stores elsewhere than at its own variables, its loops were
    changed before, no array is read in several places, or no whole warps write results.
    """
    with all_or_nothing(sch, f"gpu.windows({str(block)!r})"):
        return _Windows(sch, block, threads, own, sectors, results).schedule(epilogue, padding)


class _Windows:
    def __init__(
        self, sch: Schedule, block: str, threads: Sequence[int], own: Sequence[int],
        sectors: bool, results: bool,
    ) -> None:  # fmt: skip
        self.sch, self.block, self.threads, self.own = sch, block, threads, own
        self.sectors, self.results = sectors, results
        self.read: dict[str, tuple[int, int, list[list[int]]]] = {}
        """Of each copy the dimension that neighbours in the result read along, and how far apart,
        and `steps`."""
        self.asked: dict[str, int] = {}
        """Elements of each copy that a thread reads."""

    def schedule(self, epilogue: str | None, padding: Sequence[str]) -> LoopRef:
        sch, block = self.sch, self.block
        names = shared_reads(sch.state.block(block))
        require(bool(names), block, f"block {block!r} reads no array in several places")
        ragged = self.results and self.threads_at_once % Gpu.warp > 0
        reason = f"{self.threads_at_once} threads are no whole warps of {Gpu.warp}, which write"
        require(not ragged, block, f"{reason} the results of block {block!r}")
        reduces = any(it.kind is IterKind.REDUCE for it in sch.state.block(block).iters)
        copies = [self.staged(name) for name in names]
        for pad in padding:
            sch.compute_inline(pad)
        last = epilogue or (str(sch.cache_write(block, 0, "local")) if reduces else block)
        if last != block:
            sch.set_scope(block, 0, "local")
        out = str(sch.cache_write(last, 0, "shared")) if self.results else None
        grid, threads, own = self.cut(last)
        if last != block:
            self.sum_up((own or threads)[-1])
        for copy in copies:
            sch.compute_at(copy, grid[-1])
        pieces = int(self.own[-1] > 1)  # of a row, which are far apart
        around, inner = [threads[-1], *own[:pieces]], own[pieces:]
        for copy in copies:
            self.hold(copy, around, inner)
        write_out(sch, [*around[1:], *inner])
        thread = sch.fuse(*threads) if len(threads) > 1 else threads[0]
        shared = [self.fetch(copy) for copy in copies]
        if out is not None:
            sch.reverse_compute_at(out, grid[-1])
            shared.append(sch.fuse(*write_from_sectors(sch, out, self.threads_at_once // Gpu.warp)))
        grid = fuse_for_blocks(sch, grid)
        return bind_kernel(sch, grid, {"threadIdx.x": [thread, *shared]})

    @property
    def threads_at_once(self) -> int:
        """Those of a block."""
        return prod(self.threads)

    def staged(self, name: str) -> BlockRef:
        """A copy in shared memory of what the block reads of an array, neighbours side by side that
        neighbours in the result read: of what these skip each part is a row. Rows begin where lanes
        that copy or read several meet in no bank."""
        sch, block = self.sch, self.block
        copy = sch.cache_read(block, name, "shared")
        (made,) = written(sch.state.block(copy))
        dims = [f"d{n}" for n in range(made.ndim)]
        at, step = self.near(made)
        self.read[copy] = at, step, self.steps(made)
        last = dims.pop(at)
        parts = [last] if step == 1 else [f"{last} % {step}", f"{last} // {step}"]
        if at < made.ndim - 1 or step > 1:
            names = ", ".join(f"d{n}" for n in range(made.ndim))
            index_map = f"{names}: {', '.join([*dims, *parts])}"
            sch.transform_layout(copy, made.name, index_map, None if step == 1 else 0)
        return copy

    def near(self, made: Buffer) -> tuple[int, int]:
        """The dimension of an array that neighbours in the result read along, and how far apart;
        the last one if they read one element."""
        node = self.sch.state.block(self.block)
        near = next(in_memory(a) for a in accesses(node) if a.is_write)[-1]
        analyzer = Analyzer({it.var: it.extent for it in node.iters})
        for access in accesses(node):
            for at, index in enumerate(access.indices if access.buffer is made else ()):
                if near in variables(index):
                    return at, abs(slope(index, near, analyzer) or 1)
        return made.ndim - 1, 1

    def steps(self, made: Buffer) -> list[list[int]]:
        """How far apart threads read that are neighbours along each axis of the result, in each
        dimension of an array."""
        node = self.sch.state.block(self.block)
        order = next(in_memory(a) for a in accesses(node) if a.is_write)
        indices = next(a.indices for a in accesses(node) if a.buffer is made)
        analyzer = Analyzer({it.var: it.extent for it in node.iters})
        own = [*self.own[:-1], 1]  # pieces of a row are far apart
        return [
            [
                abs(slope(i, v, analyzer) or 0) * n if v in variables(i) else 0
                for v, n in zip(order, own)
            ]
            for i in indices
        ]

    def keep_apart(self, copy: str, rows: Sequence[LoopRef]) -> None:
        """Lay rows of a copy out, by loops over it in the order of memory, so far apart that lanes
        which read or copy several meet in few banks."""
        if not rows:  # a single element
            return
        sch, (at, step, steps) = self.sch, self.read[copy]
        stored = next(a for a in accesses(sch.state.block(copy)) if a.is_write)
        made, dims = stored.buffer, [variables(index) for index in stored.in_loops()]
        places = [
            next((n for n, used in enumerate(dims) if sch.state.loop(x).var in used), 0)
            for x in rows
        ]
        extents = [1] * made.ndim
        for loop, dim in zip(rows, places):
            extents[dim] *= self.length([loop])
        often = self.asked[copy] * self.threads_at_once / prod(extents)
        pitch = pitch_of_boxes(
            tuple(extents), tuple(places), tuple(self.threads), tuple(map(tuple, steps)),
            (at, step), dtype.itemsize(made.dtype), often,
        )  # fmt: skip
        if pitch is not None:
            sch.storage_align(copy, made.name, *pitch)

    def cut(self, last: str) -> tuple[list[LoopRef], list[LoopRef], list[LoopRef]]:
        """The loops over boxes, over threads and over the elements of a thread, those of a row
        outermost."""
        sch = self.sch
        axes = axes_of(sch, last)
        sizes = (*self.threads, *self.own)
        given = f"{sizes} are no threads and elements of {len(axes)} axes of block {self.block!r}"
        fits = len(self.threads) == len(self.own) == len(axes) and min(sizes) > 0
        require(fits, self.block, given, "give both for each")
        found: dict[str, list[LoopRef]] = {"grid": [], "threads": [], "own": []}
        for n, axis in enumerate(axes):
            inner = {"threads": self.threads[n], "own": self.own[n]}
            kinds = [kind for kind in (inner if n < len(axes) - 1 else reversed(inner))
                     if inner[kind] > 1]  # fmt: skip
            parts = sch.split(axis, [None, *(inner[kind] for kind in kinds)]) if kinds else (axis,)
            for kind, loop in zip(("grid", *kinds), parts):
                found[kind].append(loop)
        grid, threads, own = found.values()
        own = own[-1:] + own[:-1] if self.own[-1] > 1 else own
        require(bool(threads), self.block, "a block of one thread is none", "give more threads")
        sch.reorder(*grid, *threads, *own)
        return grid, threads, own

    def sum_up(self, where: LoopRef) -> None:
        """Compute the terms of an element in a register, written out if they are few."""
        sch = self.sch
        sch.compute_at(self.block, where)
        count, few = 1, list[LoopRef]()
        for loop in reversed(own_loops(sch, self.block)):
            count *= sch.state.loop(loop).const_extent or WRITTEN_OUT + 1
            if count > WRITTEN_OUT:
                break
            few.append(loop)
        write_out(sch, few)

    def hold(self, copy: str, around: list[LoopRef], own: list[LoopRef]) -> None:
        """Keep what a thread reads of a copy several times in the loops `own` of those `around` in
        registers, of half as many elements of the outermost axis until there are enough."""
        sch, start = self.sch, len(self.sch.trace)
        (made,) = written(sch.state.block(copy))
        near = str(sch.cache_read(self.block, made.name, "local"))
        sch.compute_at(near, around[-1])
        loops = own_loops(sch, near)
        used = self.length([*own, *own_loops(sch, self.block)])
        count = self.length(loops)
        if count <= min(Gpu.most_held, used - 1):
            self.asked[copy] = count * self.length(around[1:])
            write_out(sch, loops)
            return
        sch.undo(len(sch.trace) - start)
        if count < used and self.length(own[:1]) > 1:
            outer, own[0] = sch.split(own[0], [None, ceil(self.length(own[:1]) / 2)])
            around.append(outer)
            self.hold(copy, around, own)
            return
        self.asked[copy] = used * self.length(around[1:])

    def fetch(self, copy: str) -> LoopRef:
        """The loop over threads of a copy: warps take rows, or what fills a warp of several, so
        that no two of them meet in the banks; else threads take elements as they come."""
        sch, warps = self.sch, self.threads_at_once // Gpu.warp
        in_order_of_reads(sch, copy)
        self.keep_apart(copy, own_loops(sch, copy))
        every = own_loops(sch, copy)
        rows = self.side_by_side(copy, every)
        begun = self.sectors and len(rows) == len(every)
        if self.sectors and not begun and 2 * self.length(rows[-1:]) >= self.threads_at_once:
            row = from_sectors(sch, copy, rows.pop())  # which all threads share
            part, thread = sch.split(row, [None, self.threads_at_once])
            write_out(sch, [*rows, part])
            return thread
        side = max(1, Gpu.warp // self.length(rows[-1:]))
        whole = side == 1 or self.length(rows[-1:]) * side == Gpu.warp
        if not whole or self.length(rows[: -min(side, 2)]) < warps or len(rows) <= min(side, 2):
            part, thread = split_for_threads(sch, copy, [self.threads_at_once], 1)
            sch.unroll(part)
            return thread
        lanes = [rows.pop()] if side > 1 else []
        row = rows.pop()
        near = side if lanes else Gpu.warp
        if begun and self.length([row]) > near:  # else each row would take a turn more
            row = from_sectors(sch, copy, row)
        part, lane = sch.split(row, [None, near])
        serial, shared = list[LoopRef](), list[LoopRef]()
        for loop, count in zip(rows[-2:], self.of_rows(rows[-2:], warps)):
            turn, warp = sch.split(loop, [None, count])
            serial.append(turn)
            shared.append(warp)
        serial = [*rows[:-2], *serial, part]
        sch.reorder(*serial, *shared, lane, *lanes)
        write_out(sch, serial)
        return sch.fuse(*shared, lane, *lanes)

    def side_by_side(self, copy: str, rows: Sequence[LoopRef]) -> list[LoopRef]:
        """The loops of a copy, as one for two whole dimensions side by side in memory of which the
        last one fills no warps, such as all channels of all pixels of a row."""
        sch, rows = self.sch, [*rows]
        use = max(
            (a for a in accesses(sch.state.block(copy)) if not a.is_write),
            key=lambda a: len({v for i in a.indices for v in variables(i)}), default=None,
        )  # fmt: skip
        at, step, steps = self.read[copy]
        if use is None or (step > 1 and at == len(steps) - 1):
            return rows  # of parts that lie apart lanes are to have as many each
        flat = flat_index(Load(use.buffer, use.in_loops()))
        analyzer = sch.state.analyzer(sch.state.loops_around(copy))
        along = [slope(flat, sch.state.loop(loop).var, analyzer) for loop in rows]
        length, beside = self.length(rows[-1:]), len(use.buffer.shape) - 2
        whole = beside >= 0 and self.length(rows[-2:-1]) >= (
            int_value(use.buffer.shape[beside]) or 1
        )
        if length % Gpu.warp and along[-2:] == [length, 1] and whole:
            rows[-2:] = [sch.fuse(*rows[-2:])]
        return rows

    def of_rows(self, rows: Sequence[LoopRef], warps: int) -> list[int]:
        """How many warps share each of one or two loops, so that few are idle."""
        if len(rows) == 1:
            return [warps]
        outer, inner = (self.length([loop]) for loop in rows)
        sides = [n for n in range(1, warps + 1) if warps % n == 0]

        def steps(n: int) -> int:
            return -(-inner // n) * -(-outer // (warps // n))

        best = min(sides, key=steps)
        return [warps // best, best]

    def length(self, loops: Sequence[LoopRef]) -> int:
        """The iterations of some loops; of symbolic ones many."""
        known = [self.sch.state.loop(loop).const_extent for loop in loops]
        return prod(1 << 20 if extent is None else extent for extent in known)


def shared_reads(node: Block) -> list[str]:
    """The arrays of which elements of a block's result may read the same elements: those that it
    reads in several places, and all that a reduction reads."""
    places: dict[Buffer, set[tuple[Expr, ...]]] = {}
    own = set(written(node))
    for access in accesses(node):
        if access.buffer not in own:
            places.setdefault(access.buffer, set()).add(access.indices)
    reduces = any(it.kind is IterKind.REDUCE for it in node.iters)
    return [
        buffer.name
        for buffer, found in places.items()
        if buffer.ndim and (reduces or len(found) > 1)
    ]
