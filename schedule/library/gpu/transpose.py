"""A transpose through a tile in shared memory, without bank conflicts."""

from __future__ import annotations

from schedule.analysis import read_by_others
from schedule.schedule import Schedule


def transpose(sch: Schedule, block: str, tile: int = 32, rows: int = 8) -> None:
    """Schedule `block`, C[i, j] = f(A[j, i]), for a GPU: tiles of `tile` by `tile` elements.

    `tile` * `rows` threads read a tile along its rows and write it along its columns, both in the
    order of memory; rows of the tile lie tile + 1 elements apart, so that a column of it is in
    different banks. Extents need not divide.
    """
    i, j = sch.get_loops(block)[-2:]
    (source,) = [buffer.name for buffer in read_by_others(sch.state.block(block))]
    by, ti = sch.split(i, [None, tile])
    bx, tj = sch.split(j, [None, tile])
    sch.reorder(by, bx, ti, tj)
    sch.bind(by, "blockIdx.y")
    sch.bind(bx, "blockIdx.x")
    copy = sch.cache_read(block, source, "shared")
    sch.compute_at(copy, bx, preserve_unit_loops=True)
    sch.storage_align(copy, f"{source}_shared", 0, 2 * tile, tile + 1)
    for name in (copy, block):
        row, column = sch.get_loops(name)[2:]
        _, thread = sch.split(row, [None, rows])
        _, lane = sch.split(column, [None, tile])
        sch.bind(thread, "threadIdx.y")
        sch.bind(lane, "threadIdx.x")
