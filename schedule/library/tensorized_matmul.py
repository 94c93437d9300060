"""tensorized_matmul: a matrix product by a dot-product intrinsic, in tiles that fill registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from schedule.einsum import einsum_of
from schedule.errors import Illegal, ScheduleError, require
from tensorir import INTRINS, Expr, IterKind, TensorIntrin, Var, dtype, find_intrin, int_value

if TYPE_CHECKING:
    from schedule.schedule import Schedule
    from schedule.state import BlockRef, LoopRef

STRIP = 16
"""Columns that a packing intrinsic moves at once; tiles have whole strips."""
ACCUMULATORS = 24
"""Vectors of 512 bits in a tile, which leaves a few of 32 registers for the operands."""
BLOCK_ROWS = (64, 144)
"""Rows of the first matrix that are used with one panel of the second before the next one."""


class TensorizedMatmul(NamedTuple):
    """The parts of the schedule, for steps that follow.

    packed  the block that packs the second matrix
    result  the block that writes the result, one register tile at a time
    loop    the parallel loop over blocks of rows and panels of columns
    """

    packed: BlockRef
    result: BlockRef
    loop: LoopRef


class _Roles(NamedTuple):
    """The loops of a matrix product by role, and what the intrinsic does at once."""

    i: str
    j: str
    k: str
    order: tuple[str, ...]
    rows: int | None
    columns: int | None
    weight: tuple[Expr, Expr]
    lanes: int
    group: int


def tensorized_matmul(
    sch: Schedule,
    block: str,
    intrinsic: str,
    rows: int | None = None,
    columns: int | None = None,
) -> TensorizedMatmul:
    """Schedule C[i, j] = sum of A[i, k] * B[k, j], or of A[i, k] * B[j, k], for `intrinsic`.

    The intrinsic is one like "u8i8.dot_16x4": C[j] += sum of A[k] * B[j, k], for `lanes` columns
    and `group` terms. B is packed into panels of [k / group][columns][group] elements, in which
    tiles of `rows` x `columns` of C, kept in registers, move along k (Goto and van de Geijn 2008,
    without their blocking of k). Extents need not divide: j and k are padded with zeros, and the
    last rows have a shorter tile.

    columns  of a tile, a multiple of 16; None is what needs the least padding, up to 64
    rows     of a tile; None is 24 vectors of 16 lanes, and 6 rows for shorter vectors

    Raises ScheduleError where the block is no such product or the intrinsic none of that kind.
    """
    call = f"tensorized_matmul({str(block)!r}, {intrinsic!r})"
    steps = len(sch.trace)
    try:
        roles = _roles(sch, block, _dot_product(block, intrinsic))
        high, wide = tile_size(roles.lanes, roles.columns, rows, columns)
        fits = high > 0 and wide > 0 and wide % STRIP == 0 and wide % roles.lanes == 0
        require(fits, block, f"{high} rows and {wide} columns are no tile: columns come by {STRIP}")
        return _apply(sch, block, intrinsic, roles, high, wide)
    except (Illegal, ScheduleError) as refusal:
        sch.undo(len(sch.trace) - steps)
        if isinstance(refusal, ScheduleError):
            raise
        where, reason, hint = refusal.where, refusal.reason, refusal.hint
        raise ScheduleError(call, where, reason, hint, sch.state, sch.trace) from None


def _dot_product(block: str, name: str) -> TensorIntrin:
    """The intrinsic, which has to be a dot product."""
    intrin = find_intrin(name)
    dots = ", ".join(n for n in INTRINS if ".dot_" in n)
    require(intrin is not None, block, f"intrinsic {name!r} is not known; dot products are {dots}")
    assert intrin is not None
    sizes = [loop.const_extent for loop in intrin.nest.loops]
    shapes = [param.const_shape for param in intrin.func.params]
    dot = len(sizes) == 2 and shapes == [(sizes[1],), tuple(sizes), (sizes[0],)]
    require(dot, block, f"intrinsic {name!r} is no dot product; those are {dots}")
    return intrin


def _roles(sch: Schedule, block: str, intrin: TensorIntrin) -> _Roles:
    node = sch.state.block(block)
    form = einsum_of(node)
    spatial = [it for it in node.iters if it.kind is IterKind.SPATIAL]
    reduced = [it for it in node.iters if it.kind is IterKind.REDUCE]
    shape = form.op == "+" and len(spatial) == 2 and len(reduced) == 1 and len(form.loads) == 2
    require(shape, block, f"block {block!r} is no product of two matrices")
    i, j = form.store.indices
    k = reduced[0].var
    data = [load for load in form.loads if set(load.indices) == {i, k}]
    weight = [load for load in form.loads if set(load.indices) == {j, k}]
    require(bool(data and weight), block, f"block {block!r} is no product of two matrices")
    require(
        data[0].buffer is not weight[0].buffer,
        block,
        f"block {block!r} multiplies {data[0].buffer.name!r} with itself",
        "compute a copy of it for one of the two",
    )
    mine = [load[0].buffer.dtype for load in (data, weight)] + [form.store.buffer.dtype]
    wanted = [param.dtype for param in intrin.func.params]
    require(
        mine == wanted,
        block,
        f"intrinsic {intrin.name!r} multiplies {wanted[0]} and {wanted[1]} into {wanted[2]}, and "
        f"block {block!r} {mine[0]} and {mine[1]} into {mine[2]}",
    )
    names = {it.var: it.binding.name for it in node.iters if isinstance(it.binding, Var)}
    require(
        len(names) == len(node.iters),
        block,
        f"the loops of block {block!r} were changed before",
        "tensorized_matmul comes first",
    )
    extents = {it.var: int_value(it.extent) for it in node.iters}
    empty = next((names[var] for var, extent in extents.items() if extent == 0), None)
    require(
        empty is None, block, f"loop {empty!r} has no iterations", "leave the loops as they are"
    )
    lanes, group = (loop.const_extent or 0 for loop in intrin.nest.loops)
    assert isinstance(i, Var) and isinstance(j, Var)
    return _Roles(
        i=names[i],
        j=names[j],
        k=names[k],
        order=tuple(names[it.var] for it in node.iters),
        rows=extents[i],
        columns=extents[j],
        weight=(weight[0].indices[0], weight[0].indices[1]),
        lanes=lanes,
        group=group,
    )


def tile_size(
    lanes: int, total: int | None, rows: int | None = None, columns: int | None = None
) -> tuple[int, int]:
    """Rows and columns of a tile of a matrix with `total` columns, as far as they are not given."""
    if columns is None:
        strips = -(-(total or ACCUMULATORS * STRIP) // STRIP)
        choices = range(4, 0, -1) if lanes == STRIP else (1,)
        columns = STRIP * min(choices, key=lambda count: -(-strips // count) * count)
    if rows is None:
        rows = ACCUMULATORS * STRIP // max(1, columns) if lanes == STRIP else 6
    return rows, columns


def _apply(
    sch: Schedule, block: str, intrinsic: str, roles: _Roles, rows: int, columns: int
) -> TensorizedMatmul:
    i, j, k, lanes, group = roles.i, roles.j, roles.k, roles.lanes, roles.group
    by = {i: 1, j: columns, k: group}
    made = sch.pad_einsum(block, [by[name] for name in roles.order])
    cut = [name for name in made if sch.get_producers(name) == [block]]
    for padded in (name for name in made if name not in cut):
        around = sch.get_loops(padded)
        sch.vectorize(around[-1])
        if len(around) > 1:
            sch.parallel(around[0])
    packed = _pack(sch, block, roles, columns)
    result = cut[0] if cut else sch.cache_write(block, 0)
    if cut:
        sch.set_scope(block, 0, "local")
    rows = min(rows, max(1, roles.rows or rows))
    i0, i1, i2 = sch.split(i, [None, block_tiles(roles.rows, rows), rows])
    j0, strip = sch.split(j, [None, columns])
    sch.reorder(i0, j0, i1, k, i2, strip)
    sch.reverse_compute_at(result, i1)
    j1, j2 = sch.split(strip, [None, lanes])
    k0, k1 = sch.split(k, [None, group])
    sch.reorder(k0, i2, j1, j2, k1)
    init = sch.decompose_reduction(block, k0)
    sch.tensorize(j2, intrinsic)
    for name in (init, result):
        sch.vectorize(sch.get_loops(name)[-1])
    loop = sch.fuse(i0, j0)
    sch.parallel(loop)
    return TensorizedMatmul(packed, result, loop)


def block_tiles(rows: int | None, tile: int) -> int:
    """How many register tiles make a block of rows, so that the last one is not much smaller."""
    low, high = (-(-size // tile) for size in BLOCK_ROWS)
    if rows is None:
        return high
    tiles = -(-rows // tile)
    if tiles <= high:
        return max(1, tiles)
    return min(range(low, high + 1), key=lambda count: (-tiles % count, -count))


def _pack(sch: Schedule, block: str, roles: _Roles, width: int) -> BlockRef:
    """Copy the second matrix, padded or not, into panels of `width` columns."""
    group, node = roles.group, sch.state.block(block)
    source = next(load.buffer for load in einsum_of(node).loads if load.indices == roles.weight)
    terms = {it.var for it in node.iters if it.kind is IterKind.REDUCE}
    by_rows = roles.weight[0] in terms
    packed = sch.cache_read(block, source.name, "global")
    dims = "k, j" if by_rows else "j, k"
    layout = f"{dims}: j // {width}, k // {group}, j % {width}, k % {group}"
    sch.transform_layout(block, packed, layout)
    loops = sch.get_loops(packed)
    k, j = loops if by_rows else loops[::-1]
    k0, k1 = sch.split(k, [None, group])
    j0, j1, j2 = sch.split(j, [None, width // STRIP, STRIP])
    sch.reorder(j0, k0, j1, j2, k1)
    kind = dtype.SHORT[source.dtype]
    shape = f"pack_{group}x{STRIP}" if by_rows else f"copy_{STRIP}x{group}"
    if find_intrin(f"{kind}.{shape}") is not None:
        sch.tensorize(j2, f"{kind}.{shape}")
    sch.parallel(j0)
    return packed
