"""tensorized_matmul: a matrix product by an intrinsic, in tiles whose sums stay in registers."""

from __future__ import annotations

from typing import NamedTuple

from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.places import store_of
from schedule.library.tensorized_product import Product
from schedule.library.tensorized_roles import known_intrinsic, roles_of
from schedule.library.tensorized_tile import STRIP
from schedule.library.tile import one_loop
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef

STRIP_BYTES = 4
"""Bytes of the terms that a lane takes at once."""
BLOCK_BYTES = 12 << 10
"""Bytes of a panel that a register tile packs at a time."""
LEAST_STEPS = 8
"""The same in steps of the loop over the terms, below which whole panels are better."""


class TensorizedMatmul(NamedTuple):
    """The parts of the schedule, for steps that follow.

    rows    the block that copies the first matrix for each task, if there is one
    packed  the block that packs the second matrix
    result  the block that writes the result, one register tile at a time
    loop    the loop over tasks: blocks of rows and panels of columns, parallel if asked for
    """

    rows: BlockRef | None
    packed: BlockRef
    result: BlockRef
    loop: LoopRef


def tensorized_matmul(
    sch: Schedule,
    block: str,
    intrinsic: str,
    rows: int | None = None,
    columns: int | None = None,
    *,
    tiles: int | None = None,
    panels: int | None = None,
    pack: str = "root",
    copy: str | None = None,
    turned: bool = False,
    epilogue: str | None = None,
    parallel: bool = True,
    ahead: int = 0,
) -> TensorizedMatmul:
    """Schedule C[i, j] = sum of A[i, k] * B[k, j], or of A[i, k] * B[j, k], for `intrinsic`.

    The intrinsic is a dot product like "u8i8.dot_16x4", C[j] += sum of A[k] * B[j, k], or a product
    of tiles like "u8i8.tile_32x32x64", C[i, j] += sum of A[i, k, g] * B[k, j, g]. B is packed into
    panels of [k / group][columns][group] elements, in which tiles of `rows` x `columns` of C, kept
    in registers, move along k (Goto and van de Geijn 2008, without their blocking of k). Extents
    need not divide: they are padded with zeros, but for the rows of dot products, of which the last
    tile is shorter.

    A and C may have more rows, as in A[n, i, k], all operands those of a batch, and A and B more
    terms, as in the sum of A[n, y + r, x + s, k] * B[r, s, k, j], a convolution; where A is not
    read at plain variables, what would be padded has to divide.

    rows, columns  of a tile, columns by 16; None is what takes the least steps, up to 24 vectors of
              16 lanes in a tile. A product of tiles has its own
    tiles     that make a block of rows, used with one panel before the next one; None is some 100
              rows
    panels    of a task that does products of tiles for a block of rows; None for all
    pack      "root": B ahead of the product; "panel": each task its own panels, which is best where
              one block of rows uses them and B is no constant; "block": each tile its own, for as
              few rows as one tile of dot products has
    copy      the block that alone makes A, if each task is to compute its rows of it
    turned    whether A is copied in tiles: each of them lies in one piece of memory
    epilogue  an elementwise block that alone reads C, to be computed tile by tile
    parallel  whether tasks, packing and padding run in parallel
    ahead     bytes before they are used that panels of "root" are asked for, if at all

    Raises ScheduleError where the block is no such product or the intrinsic computes none.
    """
    with all_or_nothing(sch, f"tensorized_matmul({str(block)!r}, {intrinsic!r})"):
        roles = roles_of(sch, block, known_intrinsic(block, intrinsic))
        tile = roles.tile(columns, rows, epilogue is not None)
        product = Product(
            sch, block, intrinsic, roles, *tile, tiles, panels, pack, copy, turned, epilogue,
            parallel,
        )  # fmt: skip
        product.check()
        return _schedule(product, ahead)


def _schedule(product: Product, ahead: int) -> TensorizedMatmul:
    sch, roles, pack = product.sch, product.roles, product.pack
    result, pads = product.padded()
    rows = product.copied_rows(pads)
    packed = product.in_panels()
    count = product.tiles or roles.block(product.rows)
    i0, i1, i2 = sch.split(roles.row, [None, count, product.high])
    j0, strip = sch.split(roles.column, [None, product.columns])
    steps, tile, first = _in_tile(product, i2, strip)
    tasks, inside = _in_tasks(product, i0, j0)
    inside += [i1, *map(LoopRef, roles.windows), *steps, *tile]
    loop, innermost = one_loop(sch, [*map(LoopRef, roles.batch), *tasks], inside)
    sch.reverse_compute_at(result, i1)
    if rows is not None:
        product.copy_at(rows, innermost)
    if pack != "root":
        block_of_terms = steps[0] if steps[1:] else loop
        product.pack_at(packed, inside[0] if roles.by_tiles else block_of_terms)
    init = sch.decompose_reduction(product.block, [*roles.windows, *steps][0])
    if ahead and pack == "root":
        source, step = store_of(sch, packed).buffer.name, product.columns * STRIP_BYTES
        sch.prefetch(product.block, source, steps[-1], max(1, ahead // step))
    sch.tensorize(first, product.intrinsic)
    product.begin(init)
    for row in tile[: tile.index(first)]:
        sch.unroll(row)
    product.finish(result, [name for name in pads if name != rows], loop)
    return TensorizedMatmul(rows, packed, result, loop)


def _in_tile(
    product: Product, i2: LoopRef, strip: LoopRef
) -> tuple[list[LoopRef], list[LoopRef], LoopRef]:
    """The loops over terms, those in a register tile, and which of these the intrinsic begins at:
    a tile of rows and columns, or columns of one row, of which several are written out."""
    sch, roles = product.sch, product.roles
    if roles.by_tiles:
        k0, k1, k2 = sch.split(roles.depth, [None, roles.at_once.steps, roles.group])
        return [k0], [i2, strip, k1, k2], i2
    j1, j2 = sch.split(strip, [None, roles.lanes])
    *steps, k1 = sch.split(roles.depth, _depths(product))
    return steps, [i2, j1, j2, k1], j2


def _in_tasks(
    product: Product, i0: LoopRef, j0: LoopRef
) -> tuple[list[LoopRef], list[LoopRef]]:
    """The loops over tasks, and those over blocks of rows, or panels, that one task has: dot
    products are of one panel, with all of its rows where the task packs it."""
    outer = list(map(LoopRef, product.roles.outer))
    if not product.roles.by_tiles:
        return ([*outer, i0, j0], []) if product.pack == "root" else ([j0], [*outer, i0])
    if not product.panels:
        return [*outer, i0], [j0]
    task, panel = product.sch.split(j0, [None, product.panels])
    return [*outer, i0, task], [panel]


def _depths(product: Product) -> list[int | None]:
    """Factors of the loop over the terms: blocks that divide it, if any; of what is transposed in
    whole squares, as to move terms one by one takes longer than what whole panels do to caches."""
    roles, steps = product.roles, -(-(product.roles.terms or 0) // product.roles.group)
    whole, step = (LEAST_STEPS, 1) if roles.by_rows else (STRIP, STRIP)
    most = max(whole, BLOCK_BYTES // (product.columns * STRIP_BYTES))
    fits = [n for n in range(whole, most + 1, step) if steps % n == 0]
    if product.pack != "block" or steps <= most or not fits:
        return [None, roles.group]
    return [None, max(fits, key=lambda n: (n % whole == 0, n)), roles.group]
