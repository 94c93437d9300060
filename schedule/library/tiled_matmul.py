"""tiled_matmul: a matrix product by products of tiles, whose sums stay in tile registers."""

from __future__ import annotations

from typing import NamedTuple

from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.places import store_of
from schedule.library.tensorized_product import Product
from schedule.library.tensorized_roles import TILES, factors_of, known_intrinsic, roles_of
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
        roles = roles_of(sch, block, known_intrinsic(block, intrinsic, TILES))
        reason = f"the operands of block {block!r} are read at sums of variables"
        require(roles.plain, block, reason, "give it a plain form first (library.plain_form)")
        product = Product(sch, block, intrinsic, roles, roles.at_once.columns, parallel)
        product.check(tiles, pack, PACK, epilogue)
        return _schedule(product, tiles, panels, pack, copy, turned, epilogue)


def _schedule(
    product: Product,
    tiles: int,
    panels: int | None,
    pack: str,
    copy: str | None,
    turned: bool,
    epilogue: str | None,
) -> TiledMatmul:
    sch, block, roles = product.sch, product.block, product.roles
    shape, row = roles.at_once, _dimension_of_rows(product)
    wide = shape.steps * shape.group
    by = {roles.row: shape.rows, roles.column: shape.columns, roles.depth: wide}
    result, pads = product.padded(by, epilogue)
    first = _first(product).buffer
    rows = next((name for name in pads if store_of(sch, name).buffer is first), None)
    if rows is not None and copy is not None:
        sch.compute_inline(copy)
    copied = rows or (BlockRef(copy) if copy else None)
    if turned and copied is None:
        copied = sch.cache_read(block, first.name, "global")
    packed = product.in_panels(pack)
    i0, i1, i2 = sch.split(roles.row, [None, tiles, shape.rows])
    j0, strip = sch.split(roles.column, [None, shape.columns])
    k0, k1, k2 = sch.split(roles.depth, [None, shape.steps, shape.group])
    outer, inner = sch.split(j0, [None, panels]) if panels else (None, j0)
    tasks = [*roles.batch, *roles.outer, i0, *([outer] if outer else [])]
    inside = [inner, i1, *roles.windows, k0, i2, strip, k1, k2]
    loop, rest = product.in_tasks(tasks, inside)
    sch.reverse_compute_at(result, i1)
    if copied is not None:
        _copy_rows(product, copied, row if turned else None, rest[-1] if rest else loop)
    if pack == "panel":
        product.pack_at(packed, LoopRef(inner))
    init = sch.decompose_reduction(block, [*roles.windows, k0][0])
    sch.tensorize(i2, product.intrinsic)
    _begin(product, init)
    product.finish(result, [name for name in pads if name != rows], loop)
    return TiledMatmul(copied, packed, result, loop)


def _first(product: Product) -> Load:
    """What the block reads of the first matrix now."""
    factors = factors_of(product.sch.state.block(product.block)) or ()
    return next(x for x in factors if x.indices != product.roles.weight.indices)


def _copy_rows(product: Product, copied: BlockRef, row: int | None, place: LoopRef) -> None:
    """Each task copies its rows; in whole tiles, if it is said in which dimension they are."""
    sch, shape = product.sch, product.roles.at_once
    wide = shape.steps * shape.group
    if row is not None:
        store = store_of(sch, copied)
        names = [f"d{n}" for n in range(len(store.indices))]
        parts = [f"{n} // {shape.rows}" if at == row else n for at, n in enumerate(names[:-1])]
        k = names[-1]
        parts += [f"{k} // {wide}", f"{names[row]} % {shape.rows}", f"{k} % {wide}"]
        layout = f"{', '.join(names)}: {', '.join(parts)}"
        sch.transform_layout(copied, store.buffer.name, layout)
    sch.compute_at(copied, place)
    last = sch.get_loops(copied)[-1]
    sch.vectorize(sch.split(last, [None, wide])[1])


def _dimension_of_rows(product: Product) -> int:
    """The dimension of the first matrix along which rows are below each other."""
    node = product.sch.state.block(product.block)
    bound = {it.binding.name: it.var for it in node.iters if isinstance(it.binding, Var)}
    return _first(product).indices.index(bound[product.roles.row])


def _begin(product: Product, init: BlockRef) -> None:
    """Sums begin with zeros: in tiles, if there is an intrinsic for these."""
    sch = product.sch
    *_, i2, strip = sch.get_loops(init)
    mine = INTRINS[product.intrinsic].tiles
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
