"""matmul: a matrix product in tiles for blocks, warps and registers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from schedule.analysis.uses import accesses, plain_store, read, written
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.places import own_loops
from schedule.library.gpu.cooperative_fetch import split_for_threads
from schedule.library.gpu.memory.fetch import run_ahead, through_registers
from schedule.library.gpu.product import Product, product_of
from schedule.library.gpu.steps import (
    bind_kernel,
    in_order_of_reads,
    vector_of,
    write_out,
)
from schedule.library.tensorized_roles import factors_of
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import Gpu, checked, variables


class Shape(NamedTuple):
    """How a tile of rows, or of columns, is shared: warps, parts, lanes and elements of a thread,
    outermost first. Lanes side by side have `elements` each, side by side; `parts` times that."""

    warps: int
    parts: int
    lanes: int
    elements: int

    @property
    def total(self) -> int:
        return prod(self)


@checked
def matmul(
    sch: Schedule,
    block: str,
    *,
    warps: tuple[int, int] = (4, 2),
    lanes: tuple[int, int] = (4, 8),
    registers: tuple[int, int] = (8, 8),
    depth: int = 8,
    ahead: int = 1,
    epilogue: str | None = None,
) -> LoopRef:
    """Schedule C[i, j] = sum of A[i, k] * B[k, j] for a GPU, axes of all three in any order.

    A block of threads computes a tile of C, warps x lanes x registers rows and columns of it, in
    steps of `depth` terms: all its threads copy tiles of A and B to shared memory, in accesses of
    16 bytes where rows begin at multiples of that; there both have the terms outermost, so that a
    thread reads rows and columns four at a time, neighbours in a warp from different banks. The
    result stays in registers. Extents need not divide, and rows may be symbolic: tiles are filled
    up with zeros, so that the loops over terms have no conditions. There may be batches and more
    loops of each kind, which are not tiled.

    warps      of a tile along rows and columns
    lanes      of a warp along rows and columns, 32 together
    registers  rows and columns of a thread
    ahead      steps that copies run ahead of the sum, in as many more versions of the tiles; from
               1 on threads load to registers before the sums of a step and store after them, so
               that they wait for each other once a step, else twice, and not for memory; all
               threads are then to copy alike, so tiles are multiples of what they copy at once
    epilogue   an elementwise block that alone reads C, to be computed from registers

    Returns the loop over steps of the sum, in which threads wait for each other.
    Raises ScheduleError where the block is no product of matrices of its own variables.
    """
    with all_or_nothing(sch, f"gpu.matmul({str(block)!r})"):
        product = product_of(sch, block)
        require(prod(lanes) == 32, block, f"{lanes[0]} x {lanes[1]} lanes are no warp of 32")
        given = [*warps, *lanes, *registers, depth]
        require(min(given) > 0, block, f"sizes {given} of a tile are not all positive")
        alone = epilogue is None or [str(n) for n in sch.get_consumers(block)] == [epilogue]
        require(alone, block, f"epilogue {epilogue!r} is not what alone reads block {block!r}")
        shapes = [_shape(*sizes) for sizes in zip(warps, lanes, registers)]
        require(ahead >= 0, block, f"ahead={ahead!r} is not a number of steps from 0 on")
        plan = _Matmul(sch, block, product, shapes[0], shapes[1], depth, ahead)
        return plan.schedule(epilogue)


def _shape(warps: int, lanes: int, registers: int) -> Shape:
    elements = next(n for n in (4, 2, 1) if registers % n == 0)
    return Shape(warps, registers // elements, lanes, elements)


class _Matmul(NamedTuple):
    """What is to be scheduled, and the sizes of its tiles."""

    sch: Schedule
    block: str
    product: Product
    rows: Shape
    columns: Shape
    depth: int
    ahead: int

    def schedule(self, epilogue: str | None) -> LoopRef:
        sch, block, loops = self.sch, self.block, self.product
        result, copies = self._pad(epilogue)
        vectors = [self._lay_out(copy) for copy in copies]
        i, j = self._split(loops.row, self.rows), self._split(loops.column, self.columns)
        step, term = sch.split(loops.depth, [None, self.depth])
        sch.reorder(
            *loops.outer, i[0], j[0], *loops.terms, step, i[1], j[1], i[3], j[3],
            term, i[2], i[4], j[2], j[4],
        )  # fmt: skip
        steps = [*map(LoopRef, loops.terms), step]
        sch.reverse_compute_at(result, j[0])
        stored = self._share(*self._result_loops(result))
        summed = self._share(i[1:], j[1:])
        init = sch.decompose_reduction(block, steps[0])
        cleared = sch.get_loops(init)[len(loops.outer) + 2 :]
        outer = [sch.fuse(*loops.outer)] if len(loops.outer) > 1 else [*map(LoopRef, loops.outer)]
        threads = [cleared[:2], summed, stored]  # tiles in one row of tiles side by side
        sch.unroll([term, i[2], i[4], j[2], j[4], *cleared[2:]])
        self._store(result, stored)
        for copy, vector in zip(copies, vectors):
            sch.compute_at(copy, step)
            in_order_of_reads(sch, copy)
            for block in through_registers(sch, copy) if self.ahead else (copy,):
                threads.append(self._fetch(block, vector))
        if self.ahead and sch.state.loop(step).const_extent != 1:
            run_ahead(sch, step, len(copies), self.ahead)
        warps, lanes = zip(*threads)
        bind_kernel(sch, [*outer, i[0], j[0]], {"warp": warps, "lane": lanes})
        return step

    def _fetch(self, block: BlockRef, vector: int) -> tuple[LoopRef, LoopRef]:
        """Warps and lanes that share a copy; what is on its way in registers is written out."""
        sch, warps = self.sch, self.rows.warps * self.columns.warps
        part, warp, lane, *near = split_for_threads(sch, block, [warps, Gpu.warp], vector)
        if self.ahead:
            sch.unroll(part)
        if vector > 1:
            sch.vectorize(near[0])
        return warp, lane

    def _pad(self, epilogue: str | None) -> tuple[BlockRef, list[BlockRef]]:
        """Pad the extents to whole tiles, and copy the operands and the result.

        Returns the block that writes the result, and those that fill tiles of the operands.
        """
        sch, block, loops = self.sch, self.block, self.product
        by = {loops.row: self.rows.total, loops.column: self.columns.total, loops.depth: self.depth}
        made = sch.pad_einsum(block, [by.get(name, 1) for name in loops.order])
        factors = factors_of(sch.state.block(block))
        assert factors is not None
        pads = {self._writes(name): name for name in made}
        copies = [
            pads.get(load.buffer.name) or sch.cache_read(block, load.buffer.name, "shared")
            for load in factors
        ]
        for copy in pads.values():
            if copy in copies:
                sch.set_scope(copy, 0, "shared")
        cut = [name for name in made if name not in copies]
        if not cut and epilogue is None:
            return sch.cache_write(block, 0, "local"), copies
        if cut and epilogue is not None:
            sch.compute_inline(cut[0])
        sch.set_scope(block, 0, "local")
        return (cut[0] if epilogue is None else BlockRef(epilogue)), copies

    def _writes(self, block: str) -> str:
        store = plain_store(self.sch.state.block(block))
        assert store is not None
        return store.buffer.name

    def _split(self, loop: str, shape: Shape) -> tuple[LoopRef, ...]:
        """The loop over tiles, and those inside of a tile."""
        return self.sch.split(loop, [None, *shape])

    def _share(
        self, rows: Sequence[LoopRef], columns: Sequence[LoopRef]
    ) -> tuple[LoopRef, LoopRef]:
        """Warps and lanes of a tile as one loop each."""
        warp = self.sch.fuse(rows[0], columns[0])
        return warp, self.sch.fuse(rows[2], columns[2])

    def _result_loops(self, result: str) -> tuple[list[LoopRef], list[LoopRef]]:
        """The loops over a tile of the result, split and in the order of the sum's."""
        sch = self.sch
        target = plain_store(sch.state.block(self.block))
        assert target is not None
        uses = [a for a in accesses(sch.state.block(result)) if a.buffer is target.buffer]
        used = [variables(index) for index in uses[0].in_loops()]
        own = {sch.state.loop(loop).var: loop for loop in own_loops(sch, result)}
        found: list[list[LoopRef]] = []
        for dim, shape in zip(self.product.dims, (self.rows, self.columns)):
            loops = [loop for var, loop in own.items() if var in used[dim]]
            loop = loops[0] if loops else sch.add_unit_loop(result)
            known = sch.state.loop(loop).const_extent is not None
            found.append(list(sch.split(loop, [shape[0] if known else None, *shape[1:]])))
        i, j = found
        sch.reorder(i[0], j[0], i[2], j[2], i[1], i[3], j[1], j[3])
        return i, j

    def _store(self, result: str, threads: Sequence[LoopRef]) -> None:
        """Registers to memory, in wide accesses where rows of the result allow them."""
        sch = self.sch
        store = plain_store(sch.state.block(result))
        assert store is not None
        *loops, last = own_loops(sch, result)[:]
        wide = vector_of(store.buffer) % self.columns.elements == 0
        write_out(sch, [loop for loop in loops if loop not in threads])
        (sch.vectorize if wide else sch.unroll)(last)

    def _lay_out(self, copy: BlockRef) -> int:
        """Make terms the last axis but one of a tile; returns how many elements to copy at once."""
        sch, loops = self.sch, self.product
        node, product = sch.state.block(copy), sch.state.block(self.block)
        (source,), (tile,) = read(node), written(node)
        depth = product.iters[loops.order.index(loops.depth)].var
        sides = [product.iters[loops.order.index(x)].var for x in (loops.row, loops.column)]
        load = next(x for x in factors_of(product) or () if x.buffer is tile)
        side = next(x for x in sides if x in load.indices)
        axes = [*(x for x in load.indices if x not in (depth, side)), depth, side]
        if axes != list(load.indices):
            names = {x: f"x{n}" for n, x in enumerate(load.indices)}
            text = f"{', '.join(names.values())}: {', '.join(names[x] for x in axes)}"
            sch.transform_layout(copy, tile.name, text)
        if load.indices[-1] is depth:
            offset = max(self.rows.elements, self.columns.elements, Gpu.banks // self.depth)
            sch.storage_align(copy, tile.name, tile.ndim - 2, Gpu.banks, offset)
        return vector_of(source) if load.indices[-1] in (depth, side) else 1
