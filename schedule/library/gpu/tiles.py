"""tiles: any contraction in tiles for blocks of threads, warps, lanes and registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, prod

from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.again import with_own_buffer
from schedule.library.contraction.axes import Contraction
from schedule.library.contraction.digits import digits_read
from schedule.library.contraction.find import find_contraction
from schedule.library.contraction.partial import partial_sums
from schedule.library.contraction.places import (
    axis_loops,
    followers,
    lay_out,
    layout,
    loops_by_dimension,
    loops_by_place,
    own_loops,
    reduce_loops,
    store_of,
)
from schedule.library.contraction.plan import Partial
from schedule.library.gpu.filled import copy_ahead, fill, in_whole_sectors, laid_out
from schedule.library.gpu.memory.fetch import (
    room_for_fetched,
    run_ahead,
    share,
    through_registers,
)
from schedule.library.gpu.memory.sectors import from_sectors, write_from_sectors
from schedule.library.gpu.staged import StagedTile, index_map, staged_results
from schedule.library.gpu.steps import (
    bind_kernel,
    fuse_for_blocks,
    in_order_of_reads,
    last_axis,
    vector_of,
    write_out,
)
from schedule.library.gpu.thread_sums import operands_of, shared_terms, thread_sums
from schedule.library.gpu.tile_plan import Cut, TilePlan
from schedule.schedule import Schedule
from schedule.state import LoopRef
from tensorir import Gpu, IterKind, body_loads, dtype

WRITTEN_OUT = 1024
"""Operations of a thread in one step that are written out, at most."""

FOLDED = 3
"""Times the size of a tile that lowering keeps of it, at the most: of what is copied ahead it makes
a dimension a power of two, and rows are as far apart as before."""

KINDS = ("warps", "parts", "lanes", "elements")

Threads = dict[str, LoopRef]
"""The loop over warps and that over lanes, as far as there are any."""


def make_tiles(sch: Schedule, c: Contraction, plan: TilePlan) -> int | None:
    """Schedule a contraction, its elementwise user and its padding for a GPU.

    A block of threads computes a tile of the result in registers, a step of the terms at a time,
    for which all its threads together fetch the tiles of operands that are `shared`: what is read
    along windows once with its surroundings, padding computed on the way. Extents need not divide.
    Where warps or lanes share terms, they combine their parts in the end. Returns the bytes of
    shared memory that a block of threads has at the most; None where a step fetches more than the
    plan says, or threads share terms. ScheduleError if refused, and then the schedule is as it was.
    """
    with all_or_nothing(sch, f"make_tiles({c.block!r})"):
        if plan.split < 2:
            return _Tiles.of(sch, c, plan).run()
        step = plan.cuts[plan.along].total  # parts of whole steps are alike but for the last one
        part = partial_sums(sch, c, Partial(plan.along, plan.split, "parts", step))
        in_whole_sectors(sch, part.block)
        most = _Tiles.of(sch, part, _of_parts(c, part, plan)).run()
        adding = find_contraction(sch, c.block, c.last)
        _Tiles.of(sch, adding, adding_plan(adding)).run()
        return most


def adding_plan(c: Contraction) -> TilePlan:
    """The plan for what adds few terms up: each thread has an element, neighbours in a warp."""
    near = c.spatial[-1]
    cuts = [Cut()] * len(c.axes)
    cuts[near] = Cut(warps=4, lanes=Gpu.warp)
    for n in c.reduced:
        cuts[n] = Cut(parts=min(8, c.axes[n].extent or 8))
    return TilePlan(tuple(cuts), (), c.written)


def _of_parts(c: Contraction, part: Contraction, plan: TilePlan) -> TilePlan:
    """The plan of a contraction for its partial sums, of which there is an axis more."""
    places = {(c.sums.strides[n], c.axes[n].extent): plan.cuts[n] for n in c.spatial}
    terms = dict(zip(part.written, c.written))
    cuts = [
        plan.cuts[terms[n]]
        if n in terms
        else places.get((part.sums.strides[n], axis.extent), Cut())
        for n, axis in enumerate(part.axes)
    ]
    after = {old: new for new, old in terms.items()}
    return replace(
        operands_of(plan, c, part), cuts=tuple(cuts), split=1,
        steps=tuple(after[n] for n in plan.steps),
    )  # fmt: skip


def words(kind: str) -> int:
    """Registers of 32 bits for an element."""
    return max(1, dtype.itemsize(kind) // 4)


class _Tiles:
    """The steps, in order."""

    def __init__(
        self, sch: Schedule, c: Contraction, plan: TilePlan, adds: str | None = None
    ) -> None:
        self.sch, self.c, self.plan = sch, c, plan
        self.adds = adds
        """The block that adds up the sums of threads that share terms."""
        self.plain = 0
        """Loops over blocks of threads that are one variable of the result each."""
        self.as_planned = adds is None
        """Whether no step fetches more than the plan says, as far as is known."""

    @classmethod
    def of(cls, sch: Schedule, c: Contraction, plan: TilePlan) -> _Tiles:
        """With sums of threads where these share terms."""
        if not shared_terms(c, plan):
            return cls(sch, c, plan)
        return cls(sch, *thread_sums(sch, c, plan), adds=c.block)

    @property
    def stored(self) -> list[int]:
        """The axes of the result, which all spatial ones are but that of threads' sums."""
        c = self.c
        return [n for n in c.spatial if self.adds is None or c.result.strides[n] != 0]

    @property
    def through(self) -> list[str]:
        """The block between the sums and what reads them, if there is one."""
        return [] if self.adds is None else [self.adds]

    def run(self) -> int | None:
        """The bytes of shared memory of a block at the most, where they are as planned."""
        sch, plan = self.sch, self.plan
        read = laid_out(self.c, plan.laid).operands
        alone = self.with_own_buffers()
        c = self.c = fill(sch, alone, plan, self.adds is None)
        plain = replace(c, operands=read)  # what pads it is no reason to copy single elements
        tiles = [StagedTile(plain, plan, n) for n in plan.shared]
        copies = [self.staged(tile) for tile in tiles]
        near = [] if self.adds is None else [store_of(sch, copy).buffer.name for copy in copies]
        held = [str(sch.cache_read(c.block, name, "local")) for name in (*self.held(), *near)]
        ahead = [str(c.operands[n].pad) for n in plan.laid]
        makers = (o.pad for o in (*read, *c.operands, *alone.operands) if o.pad is not None)
        for pad in dict.fromkeys(makers):
            if pad not in ahead:
                sch.compute_inline(pad)
        stored = c.last if c.last != c.block else str(sch.cache_write(c.block, 0, "local"))
        out = self.results_apart(stored) if plan.results else None
        inner = [name for name in (c.block, *self.through) if name != stored]
        for name in inner:
            sch.set_scope(name, 0, "local")
        whole = self.loops_of(stored)
        self.lay_out(inner)
        grid, inside = self.cut_blocks(stored, whole)
        for name in reversed(inner):  # before they are one: quotients of it are harder to read
            sch.compute_at(name, grid[-1])
        nests = [self.cut_result(stored, inside)]
        for name in inner[1:]:
            own = loops_by_dimension(sch, name)
            nests.append(self.cut_result(name, dict(zip(self.stored, own))))
        begin, step, add = self.cut_sums()
        init = sch.decompose_reduction(c.block, begin)
        around = sch.get_loops(init)
        nests += [add, dict(zip(add, around[around.index(grid[-1]) + 1 :]))]
        for copy in held:
            self.hold(copy, add)
        for copy, tile in zip(copies, tiles):
            nests += self.fetch(copy, tile, step, add)
        if out is not None:
            nests.append(self.write_back(out, grid[-1]))
        grid = self.as_axes(grid)
        if plan.ahead and sch.state.loop(step).const_extent != 1:
            run_ahead(sch, step, len(copies), plan.ahead)
        for pad in ahead:
            copy_ahead(sch, pad)
        threads = {k[:-1]: [nest[k] for nest in nests if k in nest] for k in ("warps", "lanes")}
        bind_kernel(sch, grid, threads)  # last: each step after it is asked what threads allow
        return self.most_shared(tiles) if self.as_planned else None

    def most_shared(self, tiles: Sequence[StagedTile]) -> int:
        """Bytes of shared memory of a block, at the most, of tiles of operands and of results."""
        found = FOLDED * (1 + self.plan.ahead) * sum(tile.bytes for tile in tiles)
        if self.plan.results:
            tile = staged_results(self.c, self.plan)
            found += tile.pitched_as_in_memory.elements * tile.item
        return found

    def staged(self, tile: StagedTile) -> str:
        """A copy of an operand in shared memory, laid out for those who read it."""
        sch, block = self.sch, self.c.block
        name = self.c.operands[tile.operand].buffer
        if tile.operand in self.plan.gathered:
            copy = str(sch.reindex(block, name, "shared"))
        else:
            copy = str(sch.cache_read(block, name, "shared"))
        buffer = store_of(sch, copy).buffer
        node = sch.state.block(block)
        (load,) = [x for x in body_loads(node) if x.buffer is buffer]
        text = index_map(tile, digits_read(node, self.c, load, sch.state.analyzer()), buffer.ndim)
        lay_out(sch, copy, text)
        factor, offset = tile.pitch
        if len(tile.dims) > 1:
            sch.storage_align(copy, buffer.name, tile.apart, factor, offset)
        return copy

    def with_own_buffers(self) -> Contraction:
        """The contraction with a buffer for each operand of one that is read in several places and
        fetched in each: they are copied apart, from where they are."""
        operands = list(self.c.operands)
        names = [o.buffer for o in operands]
        for n in self.plan.shared:
            if names.count(names[n]) > 1:
                operands[n] = with_own_buffer(self.sch, self.c, n)
        return replace(self.c, operands=tuple(operands))

    def held(self) -> list[str]:
        """The buffers of which a thread keeps what it reads of them in a step in registers: used
        for several sums, or neighbours in memory. What is read in several places is not."""
        c, cuts = self.c, self.plan.cuts
        names = [o.buffer for o in c.operands]
        found = []
        for n, o in enumerate(c.operands):
            own = prod(cut.own for cut, step in zip(cuts, o.strides) if step != 0)
            again = prod(cuts[n].own for n in c.spatial if o.strides[n] == 0)
            near = any(cut.own > 1 for cut, step in zip(cuts, o.strides) if step == 1)
            if n in self.plan.shared or names.count(o.buffer) > 1 or None in o.strides:
                continue
            if 1 < own <= Gpu.most_held and (again > 1 or near):
                found.append(o.buffer)
        return found

    def hold(self, copy: str, threads: Threads) -> None:
        """Copy to registers what a thread reads in a step, neighbours at once."""
        sch = self.sch
        where = threads.get("lanes") or threads["warps"]
        sch.compute_at(copy, where)
        in_order_of_reads(sch, copy)
        own = own_loops(sch, copy)
        write_out(sch, own[:-1])
        if own:
            sch.vectorize(own[-1])

    def fetch(
        self, copy: str, tile: StagedTile, step: LoopRef, threads: Threads
    ) -> list[Threads]:
        """The loops of a copy that all threads of a block share, in a step; of one that runs ahead
        those that load, and those that store."""
        sch = self.sch
        sch.compute_at(copy, step)
        in_order_of_reads(sch, copy)
        sizes = [sch.state.loop(loop).const_extent for loop in own_loops(sch, copy)]
        self.as_planned &= prod([size or inf for size in sizes]) <= tile.elements
        kinds = {k: sch.state.loop(threads[k]).const_extent or 1 for k in threads}
        ahead = self.plan.ahead > 0
        first, *alike = through_registers(sch, copy) if ahead else (copy,)
        row = own_loops(sch, first)[-1:]
        shifted = tile.from_sectors and [from_sectors(sch, first, row[0], alike)] != row
        room = None if ahead else self.room_for_fetched
        return [share(sch, part, tile, kinds, shifted, room) for part in (first, *alike)]

    def results_apart(self, stored: str) -> str:
        """The copy of a tile of results from shared memory, where rows are as far apart as lanes
        that store to several meet in the fewest banks; those of one each lie as they are."""
        sch, tile = self.sch, staged_results(self.c, self.plan)
        copy = str(sch.cache_write(stored, 0, "shared"))
        if len(tile.in_memory) > 1 and self.in_several_rows:
            made, pitch = store_of(sch, stored).buffer, tile.pitched_as_in_memory.pitch
            sch.storage_align(stored, made.name, last_axis(made) - 1, *pitch)
        return copy

    def write_back(self, out: str, block: LoopRef) -> Threads:
        """The loops over threads of the copy of a tile of results from shared memory."""
        self.sch.reverse_compute_at(out, block)
        warps = prod(cut.warps for cut in self.plan.cuts)
        warp, lane = write_from_sectors(self.sch, out, warps, self.in_several_rows)
        return {"warps": warp, "lanes": lane} if warps > 1 else {"lanes": lane}

    @property
    def in_several_rows(self) -> bool:
        """Whether lanes of a warp store to several rows."""
        return not self.plan.fills_warps(self.stored[-1])

    @property
    def room_for_fetched(self) -> int:
        """Elements of each copy for which a thread has room."""
        c, cuts = self.c, self.plan.cuts
        sums = words(c.sums.dtype) * prod(cuts[n].own for n in c.spatial)
        return room_for_fetched(sums, sum(words(c.operands[n].dtype) for n in self.plan.shared))

    def loops_of(self, stage: str) -> dict[int, LoopRef]:
        """The loop of each axis of the result, of the block that stores it."""
        sch, c = self.sch, self.c
        vars_of = followers(sch, c, *self.through, stage)
        places = {it.var: n for n, it in enumerate(sch.state.block(stage).iters)}
        loops = loops_by_place(sch, stage)
        own = {p: loops[places[v]] for p, v in vars_of.items() if places.get(v) in loops}
        return dict(zip(self.stored, axis_loops(sch, [c.axes[n] for n in self.stored], own)))

    def lay_out(self, inner: Sequence[str]) -> None:
        """A dimension for each axis of what is in registers: the sums, and threads' sums before."""
        sch, c = self.sch, self.c
        for name in inner:
            axes = c.spatial if name == c.block else self.stored
            lay_out(sch, name, layout(sch, c, [c.block, name], axes, None))

    def added(self, stage: str) -> LoopRef | None:
        """The loop over the sums of threads, if a stage adds these up."""
        if stage != self.adds:
            return None
        iters = self.sch.state.block(stage).iters
        place = next(n for n, it in enumerate(iters) if it.kind is IterKind.REDUCE)
        return loops_by_place(self.sch, stage)[place]

    def split(self, loop: LoopRef | None, cut: Cut, around: bool) -> dict[str, LoopRef]:
        """The loops of one axis by the part that they play, as far as there are several values;
        with one `around` them."""
        kept = [kind for kind in KINDS if getattr(cut, kind) > 1]
        sizes = [getattr(cut, kind) for kind in kept]
        if loop is None or not (kept or around):
            return {}
        if around:
            made = self.sch.split(loop, [None, *sizes]) if kept else (loop,)
            return dict(zip(["around", *kept], made))
        return dict(zip(kept, self.sch.split(loop, sizes)))

    def threads(self, cuts: Sequence[dict[str, LoopRef]]) -> Threads:
        """Loops over warps as one, and those over lanes."""
        found = {kind: [cut[kind] for cut in cuts if kind in cut] for kind in ("warps", "lanes")}
        return {
            kind: self.sch.fuse(*loops) if len(loops) > 1 else loops[0]
            for kind, loops in found.items()
            if loops
        }

    def cut_blocks(
        self, stage: str, loops: dict[int, LoopRef]
    ) -> tuple[list[LoopRef], dict[int, LoopRef]]:
        """The loops over blocks of threads, and for each axis that inside of a tile, of the stage
        that stores."""
        sch, plan = self.sch, self.plan
        added = self.added(stage)
        known = [*loops.values(), added]
        units = [loop for loop in own_loops(sch, stage) if loop not in known]
        grid, inside = dict.fromkeys(units, True), {}
        for n, loop in loops.items():
            around = loop
            if plan.cuts[n].total > 1:
                around, inside[n] = sch.split(loop, [None, plan.cuts[n].total])
            grid[around] = len(self.c.axes[n].digits) == 1
        ordered = sorted(grid, key=lambda loop: not grid[loop])
        order = [*ordered, *inside.values(), *([] if added is None else [added])]
        if len(order) > 1:
            sch.reorder(*order)
        self.plain = sum(grid.values())
        return ordered, inside

    def as_axes(self, grid: list[LoopRef]) -> list[LoopRef]:
        """The loops over tiles as those over blocks of threads. Loops over axes that are several
        variables stay alone, so that what they index can be told from quotients of one loop."""
        sch, plain, rest = self.sch, grid[: self.plain], grid[self.plain :]
        first = fuse_for_blocks(sch, plain) if plain else []
        if len(first) + len(rest) > 3:
            return fuse_for_blocks(sch, [*first, *rest])
        return [*first, *rest]

    def cut_result(self, stage: str, inside: Mapping[int, LoopRef | None]) -> Threads:
        """The loops over threads of the stage that stores, or that adds up what threads have."""
        sch, plan, added = self.sch, self.plan, self.added(stage)
        cuts = [self.split(inside.get(n), plan.cuts[n], False) for n in self.stored]
        inner = [cut[k] for cut in cuts for k in ("parts", "elements") if k in cut]
        near = cuts[-1].get("elements")
        if near is not None:
            inner.remove(near)
            inner.append(near)
        threads = [cut[k] for k in ("warps", "lanes") for cut in cuts if k in cut]
        sums = {} if added is None else self.split(added, plan.cuts[self.threads_axis], False)
        if len(threads) + len(inner) + len(sums) > 1:
            sch.reorder(*threads, *inner, *sums.values())
        wide = near is not None and added is None and self.is_wide()
        if wide:
            sch.vectorize(inner.pop())
        write_out(sch, inner)
        return self.threads([*cuts, sums])

    @property
    def threads_axis(self) -> int:
        """That of threads' sums."""
        return next(n for n in self.c.spatial if n not in self.stored)

    def is_wide(self) -> bool:
        """Whether neighbours of a thread can be stored together."""
        c, sch = self.c, self.sch
        near = self.stored[-1]
        target = store_of(sch, c.last).buffer
        return (
            c.result.strides[near] == 1 and vector_of(target) % self.plan.cuts[near].elements == 0
        )

    def cut_sums(self) -> tuple[LoopRef, LoopRef, Threads]:
        """The loop outside of all steps of the sums, that over steps, and those over threads in
        it."""
        sch, c, plan = self.sch, self.c, self.plan
        found = loops_by_dimension(sch, c.block)
        cuts = [self.split(x, plan.cuts[n], False) for n, x in zip(c.spatial, found)]
        terms = [
            self.split(x, plan.cuts[n], True)
            for n, x in zip(plan.steps, reduce_loops(sch, c, plan.steps))
        ]
        steps = [term["around"] for term in terms]
        inner = [term[k] for term in terms for k in ("parts", "elements") if k in term]
        kept = [n for n in c.spatial if any(n in axes for axes in c.moving)]  # else innermost
        ordered = sorted(zip(c.spatial, cuts), key=lambda each: each[0] not in kept)
        own = [cut[k] for _, cut in ordered for k in ("parts", "elements") if k in cut]
        shared = [x[k] for k in ("warps", "lanes") for x in (*cuts, *terms) if k in x]
        sch.reorder(*steps, *shared, *inner, *own)
        threads = self.threads([*cuts, *terms])
        count = prod(plan.cuts[n].own for n in c.spatial)
        for loop in reversed(inner):
            count *= sch.state.loop(loop).const_extent or WRITTEN_OUT
            if count > WRITTEN_OUT:
                break
            own.append(loop)
        write_out(sch, own)
        *around, step = self.in_steps(steps)
        return (*around, step)[0], step, threads

    def in_steps(self, loops: Sequence[LoopRef]) -> list[LoopRef]:
        """The loops over steps as one. What is copied ahead is a part of one axis: the last one of
        which there are several steps stays alone, and copies begin again with each of the others.
        """
        sch, several = self.sch, [x for x in loops if self.sch.state.loop(x).const_extent != 1]
        last = loops.index(several[-1]) if self.plan.ahead and len(several) > 1 else 0
        parts = [loops[:last], loops[last:]]
        return [sch.fuse(*part) if len(part) > 1 else part[0] for part in parts if part]
