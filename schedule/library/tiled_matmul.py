"""tiled_matmul: a matrix product by products of tiles, whose sums stay in tile registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from schedule.analysis.uses import plain_store
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.tensorized_pack import finish_packing, packed_copy, vectorize_padding
from schedule.library.tensorized_roles import Roles, factors_of, roles_of, tile_product
from schedule.library.tile import fusible
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import INTRINS, Const, Load, Var

PACK = ("root", "panel")
"""Where the second matrix can be packed: ahead of the product, or by the task that uses a panel."""


class TiledMatmul(NamedTuple):
    """The parts of the schedule, for steps that follow.

    rows    the block that copies the first matrix in tiles, if there is one
    packed  the block that packs the second matrix
    result  the block that writes the result, one tile of sums at a time
    loop    the loop over tasks: blocks of rows and of panels, parallel if asked for
    """

    rows: BlockRef | None
    packed: BlockRef
    result: BlockRef
    loop: LoopRef


def tiled_matmul(
    sch: Schedule,
    block: str,
    intrinsic: str,
    *,
    tiles: int = 4,
    panels: int | None = None,
    pack: str = "root",
    copy: str | None = None,
    turned: bool = False,
    epilogue: str | None = None,
    parallel: bool = True,
) -> TiledMatmul:
    """Schedule C[i, j] = sum of A[i, k] * B[k, j], or of A[i, k] * B[j, k], for `intrinsic`.

    The intrinsic is one like "u8i8.tile_32x32x64": C[i, j] += sum of A[i, k, g] * B[k, j, g]. B is
    packed into panels of [k / g][columns][g] elements, as wide as the intrinsic; tiles of rows move
    along k in a panel, with their sums in registers. Extents need not divide: i, j and k are padded
    with zeros. All operands may have more dimensions, those of a batch, and A and C more rows.

    tiles     of sums below each other that make a block of rows, used with one panel before the
              next one
    panels    that one task computes for its block of rows; None for all
    pack      "root": B ahead of the product; "panel": each task its own panels
    copy      the block that alone makes A, if each task is to compute its rows of it
    turned    whether A is copied in tiles: each of them lies in one piece of memory
    epilogue  an elementwise block that alone reads C, to be computed tile by tile
    parallel  whether tasks and packing run in parallel

    Raises ScheduleError where the block is no such product or the intrinsic none of that kind.
    """
    with all_or_nothing(sch, f"tiled_matmul({str(block)!r}, {intrinsic!r})"):
        roles = roles_of(sch, block, tile_product(block, intrinsic))
        reason = f"the operands of block {block!r} are read at sums of variables"
        require(roles.plain, block, reason, "give it a plain form first (library.plain_form)")
        alone = epilogue is None or [str(name) for name in sch.get_consumers(block)] == [epilogue]
        require(alone, block, f"epilogue {epilogue!r} is not what alone reads block {block!r}")
        require(pack in PACK, block, f"pack={pack!r} is not one of {', '.join(PACK)}")
        require(tiles > 0, block, f"{tiles} tiles are no block of rows; use 1 or more")
        product = _Product(sch, block, intrinsic, roles, parallel)
        return product.schedule(tiles, panels, pack, copy, turned, epilogue)


class _Product(NamedTuple):
    sch: Schedule
    block: str
    intrinsic: str
    roles: Roles
    parallel: bool

    def schedule(
        self,
        tiles: int,
        panels: int | None,
        pack: str,
        copy: str | None,
        turned: bool,
        epilogue: str | None,
    ) -> TiledMatmul:
        sch, block, roles, shape = self.sch, self.block, self.roles, self.roles.at_once
        row = self._dimension_of_rows()
        result, pads, copied = self._pad(epilogue, copy)
        if turned and copied is None:
            copied = sch.cache_read(block, self._data().buffer.name, "global")
        packed = packed_copy(sch, block, roles, shape.columns)
        if pack == "root":
            finish_packing(sch, packed, roles, self.parallel)
        i0, i1, i2 = sch.split(roles.row, [None, tiles, shape.rows])
        j0, strip = sch.split(roles.column, [None, shape.columns])
        k0, k1, k2 = sch.split(roles.depth, [None, shape.steps, shape.group])
        outer, inner = sch.split(j0, [None, panels]) if panels else (None, j0)
        tasks = [*roles.batch, *roles.outer, i0, *([outer] if outer else [])]
        shared, rest = fusible(sch, list(map(LoopRef, tasks)))
        sch.reorder(*shared, *rest, inner, i1, *roles.windows, k0, i2, strip, k1, k2)
        loop = sch.fuse(*shared) if len(shared) > 1 else shared[0]
        sch.reverse_compute_at(result, i1)
        if copied is not None:
            self._copy_rows(copied, row if turned else None, rest[-1] if rest else loop)
        if pack == "panel":
            sch.compute_at(packed, LoopRef(inner))
            finish_packing(sch, packed, roles, False, inside=LoopRef(inner))
        init = sch.decompose_reduction(block, [*roles.windows, k0][0])
        sch.tensorize(i2, self.intrinsic)
        self._begin(init)
        sch.vectorize(sch.get_loops(result)[-1])
        for pad in pads:
            vectorize_padding(sch, pad, self.parallel)
        if self.parallel:
            sch.parallel(loop)
        return TiledMatmul(copied, packed, result, loop)

    def _pad(
        self, epilogue: str | None, copy: str | None
    ) -> tuple[BlockRef, list[BlockRef], BlockRef | None]:
        """Pad the extents to whole tiles.

        Returns the block that writes the result, those that pad the second matrix, and the one that
        makes the rows of the first, if there is one.
        """
        sch, block, roles, shape = self.sch, self.block, self.roles, self.roles.at_once
        terms = shape.steps * shape.group
        by = {roles.row: shape.rows, roles.column: shape.columns, roles.depth: terms}
        made: Sequence[BlockRef] = sch.pad_einsum(block, [by.get(name, 1) for name in roles.order])
        cut = [name for name in made if sch.get_producers(name) == [block]]
        data = [n for n in made if n not in cut and self._makes(n) == self._data().buffer.name]
        pads = [name for name in made if name not in (*cut, *data)]
        if copy is not None and data:
            sch.compute_inline(copy)
        copied = data[0] if data else None if copy is None else BlockRef(copy)
        if not cut and epilogue is None:
            return sch.cache_write(block, 0), pads, copied
        if cut and epilogue is not None:
            sch.compute_inline(cut[0])
        sch.set_scope(block, 0, "local")
        return (cut[0] if epilogue is None else BlockRef(epilogue)), pads, copied

    def _makes(self, block: str) -> str:
        store = plain_store(self.sch.state.block(block))
        assert store is not None
        return store.buffer.name

    def _data(self) -> Load:
        """What the block reads of the first matrix now."""
        factors = factors_of(self.sch.state.block(self.block)) or ()
        return next(x for x in factors if x.indices != self.roles.weight.indices)

    def _copy_rows(self, copied: BlockRef, row: int | None, place: LoopRef) -> None:
        """Each task copies its rows; in whole tiles, if it is said in which dimension they are."""
        sch, shape = self.sch, self.roles.at_once
        wide = shape.steps * shape.group
        if row is not None:
            store = plain_store(sch.state.block(copied))
            assert store is not None
            names = [f"d{n}" for n in range(len(store.indices))]
            parts = [f"{n} // {shape.rows}" if at == row else n for at, n in enumerate(names[:-1])]
            k = names[-1]
            parts += [f"{k} // {wide}", f"{names[row]} % {shape.rows}", f"{k} % {wide}"]
            layout = f"{', '.join(names)}: {', '.join(parts)}"
            sch.transform_layout(copied, store.buffer.name, layout)
        sch.compute_at(copied, place)
        last = sch.get_loops(copied)[-1]
        sch.vectorize(sch.split(last, [None, wide])[1])

    def _dimension_of_rows(self) -> int:
        """The dimension of the first matrix along which rows are below each other."""
        node = self.sch.state.block(self.block)
        bound = {it.binding.name: it.var for it in node.iters if isinstance(it.binding, Var)}
        return self._data().indices.index(bound[self.roles.row])

    def _begin(self, init: BlockRef) -> None:
        """Sums begin with zeros: in tiles, if there is an intrinsic for these."""
        sch = self.sch
        *_, i2, strip = sch.get_loops(init)
        mine = tile_product(self.block, self.intrinsic).tiles
        zeros = (
            name
            for name, each in INTRINS.items()
            if mine and each.tiles == mine and isinstance(each.nest.store.value, Const)
        )
        name = next(zeros, None)
        if name is None:
            sch.vectorize(strip)
        else:
            sch.tensorize(i2, name)
