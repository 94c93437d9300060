"""tensorized_matmul: a matrix product by a dot-product intrinsic, in tiles that fill registers."""

from __future__ import annotations

from typing import NamedTuple

from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.places import store_of
from schedule.library.tensorized_product import Product
from schedule.library.tensorized_roles import DOT, Roles, known_intrinsic, roles_of
from schedule.library.tensorized_tile import STRIP
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef

PACK = ("root", "panel", "block")
"""Where the second matrix can be packed: ahead of the product, by the task that uses a panel, or by
each register tile, as many terms at a time as stay in the first-level cache."""
STRIP_BYTES = 4
"""Bytes of the terms that a lane takes at once."""
BLOCK_BYTES = 12 << 10
"""Bytes of a panel that a register tile packs at a time."""
LEAST_STEPS = 8
"""The same in steps of the loop over the terms, below which whole panels are better."""


class TensorizedMatmul(NamedTuple):
    """The parts of the schedule, for steps that follow.

    packed  the block that packs the second matrix
    result  the block that writes the result, one register tile at a time
    loop    the loop over tasks: blocks of rows and panels of columns, parallel if asked for
    """

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
    pack: str = "root",
    epilogue: str | None = None,
    parallel: bool = True,
    ahead: int = 0,
) -> TensorizedMatmul:
    """Schedule C[i, j] = sum of A[i, k] * B[k, j], or of A[i, k] * B[j, k], for `intrinsic`.

    The intrinsic is one like "u8i8.dot_16x4": C[j] += sum of A[k] * B[j, k], for `lanes` columns
    and `group` terms. B is packed into panels of [k / group][columns][group] elements, in which
    tiles of `rows` x `columns` of C, kept in registers, move along k (Goto and van de Geijn 2008,
    without their blocking of k). Extents need not divide: j and k are padded with zeros, and the
    last rows have a shorter tile.

    A and C may have more rows, as in A[n, i, k], all operands those of a batch, and A and B more
    terms, as in the sum of A[n, y + r, x + s, k] * B[r, s, k, j], a convolution; where A is not
    read at plain variables, `group` has to divide k and `columns` j.

    columns   of a tile, a multiple of 16; None is what takes the least steps
    rows      of a tile; None is what takes the least steps, up to 24 vectors of 16 lanes in a tile
    tiles     that make a block of rows, used with one panel before the next one; None is some 100
              rows
    pack      "root": B ahead of the product; "panel": each task its own panel, which is best where
              one block of rows uses it and B is no constant; "block": each tile its own, for as
              few rows as one tile has
    epilogue  an elementwise block that alone reads C, to be computed tile by tile
    parallel  whether tasks, packing and padding run in parallel
    ahead     bytes before they are used that panels of "root" are asked for, if at all

    Raises ScheduleError where the block is no such product or the intrinsic none of that kind.
    """
    with all_or_nothing(sch, f"tensorized_matmul({str(block)!r}, {intrinsic!r})"):
        roles = roles_of(sch, block, known_intrinsic(block, intrinsic, DOT))
        high, wide = roles.tile(columns, rows, epilogue is not None)
        fits = high > 0 and wide > 0 and wide % STRIP == 0 and wide % roles.lanes == 0
        require(fits, block, f"{high} rows and {wide} columns are no tile: columns come by {STRIP}")
        product = Product(sch, block, intrinsic, roles, wide, parallel)
        product.check(tiles, pack, PACK, epilogue)
        return _schedule(product, high, tiles or roles.block(high), pack, epilogue, ahead)


def _schedule(
    product: Product, high: int, tiles: int, pack: str, epilogue: str | None, ahead: int
) -> TensorizedMatmul:
    sch, block, roles, columns = product.sch, product.block, product.roles, product.columns
    by = {roles.column: columns, roles.depth: roles.group}
    if not roles.plain:
        for name, size in {roles.column: roles.columns, roles.depth: roles.terms}.items():
            reason = f"loop {name!r} has {size} iterations, no multiple of {by[name]}"
            hint = "its operands are read at sums of variables and cannot be padded"
            require((size or 1) % by[name] == 0, block, reason, hint)
    result, pads = product.padded(by, epilogue)
    packed = product.in_panels(pack)
    i0, i1, i2 = sch.split(roles.row, [None, tiles, min(high, max(1, roles.rows or high))])
    j0, strip = sch.split(roles.column, [None, columns])
    tasks, alone = [*roles.batch, *roles.outer, i0, j0], list[str]()
    if pack != "root":
        tasks, alone = [*roles.batch, j0], [*roles.outer, i0]
    inner = [*alone, i1, *roles.windows, roles.depth, i2, strip]
    loop, _ = product.in_tasks(tasks, inner)
    sch.reverse_compute_at(result, i1)
    j1, j2 = sch.split(strip, [None, roles.lanes])
    *blocks, k0, k1 = sch.split(roles.depth, _depths(roles, columns, pack))
    sch.reorder(*blocks, k0, i2, j1, j2, k1)
    if pack != "root":
        product.pack_at(packed, LoopRef(blocks[0] if blocks else loop))
    init = sch.decompose_reduction(block, [*roles.windows, *blocks, k0][0])
    if ahead and pack == "root":
        source, step = store_of(sch, packed).buffer.name, columns * STRIP_BYTES
        sch.prefetch(block, source, k0, max(1, ahead // step))
    sch.tensorize(j2, product.intrinsic)
    sch.vectorize(sch.get_loops(init)[-1])
    sch.unroll(i2)
    sch.unroll(j1)
    product.finish(result, pads, loop)
    return TensorizedMatmul(packed, result, loop)


def _depths(roles: Roles, columns: int, pack: str) -> list[int | None]:
    """Factors of the loop over the terms: blocks that divide it, of whole transposes if any."""
    steps = -(-(roles.terms or 0) // roles.group)
    whole = LEAST_STEPS if roles.by_rows else STRIP  # terms that are moved together
    most = max(whole, BLOCK_BYTES // (columns * STRIP_BYTES))
    fits = [n for n in range(LEAST_STEPS, most + 1) if steps % n == 0]
    if pack != "block" or steps <= most or not fits:
        return [None, roles.group]
    return [None, max(fits, key=lambda n: (n % whole == 0, n)), roles.group]
