"""tensorized_matmul: a matrix product by a dot-product intrinsic, in tiles that fill registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.tensorized_pack import finish_packing, packed_copy, vectorize_padding
from schedule.library.tensorized_roles import Roles, dot_product, roles_of
from schedule.library.tensorized_tile import STRIP
from schedule.library.tile import fusible
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

    Raises ScheduleError where the block is no such product or the intrinsic none of that kind.
    """
    with all_or_nothing(sch, f"tensorized_matmul({str(block)!r}, {intrinsic!r})"):
        roles = roles_of(sch, block, dot_product(block, intrinsic))
        high, wide = roles.tile(columns, rows, epilogue is not None)
        fits = high > 0 and wide > 0 and wide % STRIP == 0 and wide % roles.lanes == 0
        require(fits, block, f"{high} rows and {wide} columns are no tile: columns come by {STRIP}")
        known = tiles is None or tiles > 0
        require(known, block, f"{tiles} tiles are no block of rows; use 1 or more")
        alone = epilogue is None or [str(name) for name in sch.get_consumers(block)] == [epilogue]
        require(alone, block, f"epilogue {epilogue!r} is not what alone reads block {block!r}")
        require(pack in PACK, block, f"pack={pack!r} is not one of {', '.join(PACK)}")
        product = _Product(sch, block, intrinsic, roles, high, wide, parallel)
        return product.schedule(tiles or roles.block(high), pack, epilogue)


class _Product(NamedTuple):
    """What is to be scheduled, and the sizes of its tiles."""

    sch: Schedule
    block: str
    intrinsic: str
    roles: Roles
    rows: int
    columns: int
    parallel: bool

    def schedule(self, tiles: int, pack: str, epilogue: str | None) -> TensorizedMatmul:
        sch, block, roles = self.sch, self.block, self.roles
        result, pads = self._pad(epilogue)
        packed = packed_copy(sch, block, roles, self.columns)
        if pack == "root":
            finish_packing(sch, packed, roles, self.parallel)
        rows = min(self.rows, max(1, roles.rows or self.rows))
        i0, i1, i2 = sch.split(roles.row, [None, tiles, rows])
        j0, strip = sch.split(roles.column, [None, self.columns])
        tasks, alone = [*roles.batch, *roles.outer, i0, j0], []
        if pack != "root":
            tasks, alone = [*roles.batch, j0], [*roles.outer, i0]
        shared, rest = fusible(sch, list(map(LoopRef, tasks)))
        sch.reorder(*shared, *rest, *alone, i1, *roles.windows, roles.depth, i2, strip)
        loop = sch.fuse(*shared) if len(shared) > 1 else shared[0]
        sch.reverse_compute_at(result, i1)
        j1, j2 = sch.split(strip, [None, roles.lanes])
        *blocks, k0, k1 = sch.split(roles.depth, self._depths(pack))
        sch.reorder(*blocks, k0, i2, j1, j2, k1)
        if pack != "root":
            place = LoopRef(blocks[0] if blocks else loop)
            sch.compute_at(packed, place)
            finish_packing(sch, packed, roles, False, inside=place)
        init = sch.decompose_reduction(block, [*roles.windows, *blocks, k0][0])
        sch.tensorize(j2, self.intrinsic)
        for name in (init, result):
            sch.vectorize(sch.get_loops(name)[-1])
        sch.unroll(i2)
        sch.unroll(j1)
        for pad in pads:
            vectorize_padding(sch, pad, self.parallel)
        if self.parallel:
            sch.parallel(loop)
        return TensorizedMatmul(packed, result, loop)

    def _pad(self, epilogue: str | None) -> tuple[BlockRef, list[BlockRef]]:
        """Pad the extents to whole groups and panels.

        Returns the block that writes the result, and those that pad.
        """
        sch, block, roles = self.sch, self.block, self.roles
        by = {roles.column: self.columns, roles.depth: roles.group}
        made: Sequence[BlockRef] = ()
        if roles.plain:
            made = sch.pad_einsum(block, [by.get(name, 1) for name in roles.order])
        else:
            sizes = {roles.column: roles.columns, roles.depth: roles.terms}
            odd = next((n for n in by if (sizes[n] or 1) % by[n]), None)
            reason = f"loop {odd!r} has {sizes.get(odd or '')} iterations, no multiple of "
            hint = "its operands are read at sums of variables and cannot be padded"
            require(odd is None, block, f"{reason}{by.get(odd or '')}", hint)
        cut = [name for name in made if sch.get_producers(name) == [block]]
        pads = [name for name in made if name not in cut]
        if not cut and epilogue is None:
            return sch.cache_write(block, 0), pads
        if cut and epilogue is not None:
            sch.compute_inline(cut[0])
        sch.set_scope(block, 0, "local")
        return (cut[0] if epilogue is None else BlockRef(epilogue)), pads

    def _depths(self, pack: str) -> list[int | None]:
        """Factors of the loop over the terms: blocks that divide it, of whole transposes if any."""
        group = self.roles.group
        steps = (self.roles.terms or 0) // group + ((self.roles.terms or 0) % group > 0)
        whole = LEAST_STEPS if self.roles.by_rows else STRIP  # terms that are moved together
        most = max(whole, BLOCK_BYTES // (self.columns * STRIP_BYTES))
        fits = [n for n in range(LEAST_STEPS, most + 1) if steps % n == 0]
        if pack != "block" or steps <= most or not fits:
            return [None, group]
        return [None, max(fits, key=lambda n: (n % whole == 0, n)), group]
