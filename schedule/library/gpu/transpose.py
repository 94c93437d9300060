"""transpose: what is read along another axis than it is written goes through shared memory; so do
the results of rows that lie across, in `turned_rows`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from schedule.analysis.uses import accesses, plain_stores, written
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.places import lay_out, own_loops
from schedule.library.gpu.cooperative_fetch import cooperative_fetch, split_for_threads
from schedule.library.gpu.elementwise import axes_of
from schedule.library.gpu.in_rows.rows import Rows, rows
from schedule.library.gpu.in_rows.stages import chain_of
from schedule.library.gpu.memory.sectors import before_rows, from_sectors
from schedule.library.gpu.steps import (
    bind_kernel,
    dimension_of,
    fuse_for_blocks,
    in_memory,
    in_order_of_reads,
    order_of_reads,
    shared_copy,
    turned_reads,
)
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import Architecture, Expr, Gpu, IterKind, Var, checked, dtype, int_value, variables


@checked
def transpose(
    sch: Schedule,
    block: str,
    *,
    warps: int = 8,
    tile: int = Gpu.warp,
    results: bool = False,
    sectors: bool = False,
) -> LoopRef:
    """Schedule B[.., j, .., i] = f(A[.., i, .., j]) for a GPU, any permutation of any axes in which
    the last one changes, however their indices are written: axes are those of memory.

    A block of threads moves a tile of `tile` x `tile` elements: lanes of a warp read neighbours
    along the last axis of A, and write neighbours along the last axis of B. Rows of the tile in
    shared memory begin in different banks. Extents need not divide. Of other arrays that the block
    reads, those with the last axis of A are copied in the same way, those with that of B are read
    where they are needed.

    warps  of a block of threads
    tile   its rows and columns, a multiple of 32 if it is to be fast
    results whether tiles have what is computed, in the order of what is read, and not that itself:
           whatever it is computed of, and whether or not each element is read
    sectors whether lanes begin where sectors of memory do, in rows that begin within one: rows of
           results are divided there, and of what a tile reads for them a sector at each end is in
           another one too. Tiles are to be many sectors long

    Returns the loop over tiles, bound to blocks of threads.
    Raises ScheduleError where the block reads nothing along another axis than it writes.
    """
    with all_or_nothing(sch, f"gpu.transpose({str(block)!r})"):
        require(warps > 0 and tile > 0, block, f"{warps} warps and tiles of {tile} are too small")
        alone = f"tiles of results of block {block!r} begin where the elements do"
        require(not (results and sectors), block, alone, "leave sectors out")
        made = block if results else None
        last = _apart(sch, block) if results else block
        return _Transpose(sch, last, made, *_turned(sch, last), warps, tile, sectors).schedule()


def _apart(sch: Schedule, block: str) -> str:
    """Let a block store in the order in which it reads; returns the one that takes its results to
    their place."""
    node = sch.state.block(block)
    stores, order = plain_stores(node), order_of_reads(node)
    where = f"block {block!r} does not store at its own variables"
    require(stores is not None and node.init is None, block, where)
    assert stores is not None
    indices = stores[1]
    plain = all(i in order or int_value(i) is not None for i in indices)
    require(plain and len(set(indices)) == len(indices), block, where)
    last = sch.cache_write(block, 0, "global")
    places = sorted(range(len(indices)), key=lambda n: _place(indices[n], order))
    names, dims = (", ".join(f"d{n}" for n in each) for each in (range(len(indices)), places))
    lay_out(sch, block, f"{names}: {dims}")
    bound = {it.var: it.binding for it in node.iters}
    loops = [LoopRef(b.name) for b in map(bound.__getitem__, order) if isinstance(b, Var)]
    if len(loops) > 1:
        sch.reorder(*loops)
    return last


def _place(index: Expr, order: Sequence[Var]) -> int:
    return order.index(index) if isinstance(index, Var) and index in order else -1


def _turned(sch: Schedule, block: str) -> tuple[str, str, tuple[str, ...], Var]:
    """The loops over the last axis of what is read and of what is written, the arrays that are read
    along the first one, and the variable of the second."""
    node = sch.state.block(block)
    none = f"block {block!r} is no transpose"
    stored, turned = turned_reads(node)
    if not turned:
        stored, turned = turned_reads(node, units=True)
    writes = [a for a in accesses(node) if a.is_write]
    require(len(writes) == 1 and bool(stored) and node.init is None, block, none)
    rows = {order[-1] for order in turned.values()}
    hint = "one other axis is to be the last one of what it reads"
    require(len(rows) == 1, block, none, hint)
    (row,) = rows
    names = {it.var: it.binding.name for it in node.iters if isinstance(it.binding, Var)}
    changed = f"the loops of block {block!r} were changed before"
    require(len(names) == len(node.iters), block, changed, "transpose comes first")
    return names[row], names[stored[-1]], tuple({a.buffer.name: a for a in turned}), stored[-1]


class _Transpose(NamedTuple):
    """What is to be scheduled: `row` is the loop over the last axis of what is read, `column` that
    over the last axis of what is written, `last` the variable of it, `turned` are the arrays that
    are read along the first; `made` is the block that computes these, None where they are given."""

    sch: Schedule
    block: str
    made: str | None
    row: str
    column: str
    turned: tuple[str, ...]
    last: Var
    warps: int
    tile: int
    sectors: bool

    def schedule(self) -> LoopRef:
        sch, block = self.sch, self.block
        others = [x for x in sch.get_loops(block) if x not in (self.row, self.column)]
        rows, row = sch.split(self.row, [None, self.read_at_once])
        column = LoopRef(self.column)
        if self.sectors:
            sch.reorder(*others, rows, row, column)
            column = from_sectors(sch, block, column)
        columns, column = sch.split(column, [None, self.tile])
        sch.reorder(*others, rows, columns, row, column)
        if self.made is not None:
            copies = [self._moved_in(self.made, columns)]
        else:
            copies = [self._copied(name) for name in self.turned]
            for copy in copies:
                sch.compute_at(copy, columns)
                in_order_of_reads(sch, copy)
        row_part, warp = sch.split(row, [None, self.warps])
        column_part, lane = sch.split(column, [None, Gpu.warp])
        sch.reorder(warp, lane, row_part, column_part)
        if self.sectors:
            shared = [self._rows_of(copy) for copy in copies]
        else:
            parts = [split_for_threads(sch, copy, [self.warps, Gpu.warp], 1) for copy in copies]
            sch.unroll([row_part, *(part for part, *_ in parts)])  # with sectors there are too many
            shared = [(loops[1], loops[2]) for loops in parts]
        sch.unroll(column_part)
        warps, lanes = zip((warp, lane), *shared)
        grid = fuse_for_blocks(sch, [*others, rows, columns])
        return bind_kernel(sch, grid, {"warp": warps, "lane": lanes})

    def _copied(self, name: str) -> BlockRef:
        """A copy of an array whose rows begin in other banks."""
        copy, read = shared_copy(self.sch, self.block, name)
        word = max(1, Gpu.bank_bytes // dtype.itemsize(read.buffer.dtype))
        moved = any(self.last in variables(index) for index in read.indices)
        require(moved, self.block, f"an axis of one value turns nothing of {name!r}")
        every = 2 if self.sectors else Gpu.banks  # any odd pitch will do, and room is short
        at = dimension_of(read, self.last)
        self.sch.storage_align(copy, read.buffer.name, at, every * word, word)
        return copy

    @property
    def read_at_once(self) -> int:
        """Neighbours of what is read that a tile has: those before them in their first sector are
        read too, so that these together fill warps."""
        if not self.sectors:
            return self.tile
        reads = [a for a in accesses(self.sch.state.block(self.block)) if not a.is_write]
        return max(1, self.tile - max(map(before_rows, reads)))

    def _rows_of(self, copy: BlockRef) -> tuple[LoopRef, LoopRef]:
        """Let warps copy a row each, from where its sector begins; returns the loops over warps and
        over the lanes of one."""
        sch = self.sch
        *others, rows, row = own_loops(sch, copy)
        part, lane = sch.split(from_sectors(sch, copy, row), [None, Gpu.warp])
        turn, warp = sch.split(rows, [None, self.warps])
        sch.reorder(*others, warp, lane, turn, part)
        sch.unroll(part)
        return warp, lane

    def _moved_in(self, made: str, loop: LoopRef) -> BlockRef:
        """Compute what makes a tile for it alone, in shared memory."""
        sch = self.sch
        sch.compute_at(made, loop)
        sch.set_scope(made, 0, "shared")
        (buffer,) = written(sch.state.block(made))
        word = max(1, Gpu.bank_bytes // dtype.itemsize(buffer.dtype))
        sch.storage_align(made, buffer.name, max(0, buffer.ndim - 2), Gpu.banks * word, word)
        return sch.get_block(made)


@checked
def turned_rows(
    sch: Schedule,
    block: str,
    *,
    by: str = "warp",
    warps: int = 8,
    turns: int = 1,
    keep: str | None = None,
    shared: int = Architecture.shared_default,
    stages: Collection[str] | None = None,
) -> Rows:
    """`rows`, of which `block` is the last one that computes, and one that takes its results to
    their place follows: neighbours there are of different rows.

    Results of all rows that a block of threads has are in shared memory, from where they are
    written in the order of their place: as many rows as fill a sector of memory, or more.

    Arguments are those of `rows`, and `shared` is what is left beside these results. Raises
    ScheduleError where several blocks use the results, or one that is no copy, and as `rows` does.
    """
    with all_or_nothing(sch, f"gpu.turned_rows({str(block)!r})"):
        users = sch.get_consumers(block)
        alone = f"the results of block {block!r} are not taken to their place by one block alone"
        require(len(users) == 1, block, alone, "cache_write it first")
        results, *others = written(sch.state.block(block))
        require(not others, block, f"block {block!r} has results in {1 + len(others)} arrays")
        axes_of(sch, users[0])
        _rows_as_written(sch, block, users[0], stages)
        made = rows(
            sch, block, by=by, warps=warps, turns=turns, keep=keep, shared=shared, stages=stages
        )
        sch.reverse_compute_at(users[0], made.loop)
        sch.set_scope(block, 0, "shared")
        (results,) = written(sch.state.block(block))
        word = max(1, Gpu.bank_bytes // dtype.itemsize(results.dtype))
        at_once = {"warp": warps, "lanes": Gpu.warp}.get(by, 1) * turns
        apart = max(1, Gpu.banks // at_once) * word
        sch.storage_align(block, results.name, results.ndim - 2, Gpu.banks * word, apart)
        if len(own := own_loops(sch, users[0])) > 1:
            sch.reorder(*own)
        cooperative_fetch(sch, users[0])
        return made


def _rows_as_written(
    sch: Schedule, block: str, user: str, stages: Collection[str] | None
) -> None:
    """Bring the loops over rows in the order in which the results of rows lie where `user` writes
    them, so that rows which follow each other are neighbours there."""
    chain = [sch.state.block(name) for name in chain_of(sch, block, stages)]
    sums = [[it.kind for it in node.iters] for node in chain if node.is_reduction]
    outer = min((kinds.count(IterKind.SPATIAL) for kinds in sums), default=0)
    loops = sch.get_loops(block)[:outer]
    store = next(a for a in accesses(chain[-1]) if a.is_write)
    taken = accesses(sch.state.block(user))
    read = next(a for a in taken if a.buffer is store.buffer)
    order = next(in_memory(a) for a in taken if a.is_write)  # that of the first result
    place = {index: store.in_loops()[dim] for dim, index in enumerate(read.indices)}
    own = {sch.state.loop(loop).var: loop for loop in loops}
    moved = [own[v] for var in order if var in place for v in variables(place[var]) if v in own]
    if len(set(moved)) == len(moved) > 1:
        sch.reorder(*(loop for loop in loops if loop not in moved), *moved)
