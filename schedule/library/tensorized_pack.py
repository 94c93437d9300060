"""The second matrix of a tensorized product in panels."""

from __future__ import annotations

from schedule.library.contraction.places import store_of
from schedule.library.tensorized_roles import Roles, factors_of
from schedule.library.tensorized_tile import STRIP
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import dtype, find_intrin, int_value


def packed_copy(sch: Schedule, block: str, roles: Roles, width: int) -> BlockRef:
    """Make `block` read B through a copy in panels of `width` columns.

    The copy is laid out as [batch][panel][window][depth / group][column of the panel][group].
    """
    node = sch.state.block(block)
    names = {loop: f"x{at}" for at, loop in enumerate(roles.weight_order)}
    source = next(x.buffer for x in factors_of(node) or () if x.indices == roles.weight.indices)
    packed = sch.cache_read(block, source.name, "global")
    j, k = names[roles.column], names[roles.depth]
    parts = [
        *(names[loop] for loop in roles.batch),
        f"{j} // {width}",
        *(names[loop] for loop in roles.windows if loop in names),
        f"{k} // {roles.group}, {j} % {width}, {k} % {roles.group}",
    ]
    sch.transform_layout(block, packed, f"{', '.join(names.values())}: {', '.join(parts)}")
    return packed


def finish_packing(
    sch: Schedule, packed: BlockRef, roles: Roles, parallel: bool, inside: LoopRef | None = None
) -> None:
    """The loops of the copy: strips of columns by an intrinsic, where there is one.

    `inside` is the loop at which the copy was placed, if it was; its own loops then follow the
    layout, without those of a single iteration.
    """
    around = sch.get_loops(packed)
    tasks: list[LoopRef] = []
    if inside is not None:
        own = around[around.index(inside) + 1 :]
        *_, j1, k1 = own
        k0 = own[-3] if len(own) > 2 else sch.add_unit_loop(j1)
        strip, j2 = sch.split(j1, [None, STRIP])
    else:
        loops = dict(zip(roles.weight_order, around))
        k0, k1 = sch.split(loops[roles.depth], [None, roles.group])
        width = int_value(store_of(sch, packed).buffer.shape[-2]) or STRIP
        j0, strip, j2 = sch.split(loops[roles.column], [None, width // STRIP, STRIP])
        tasks = [*(loops[name] for name in roles.batch), j0]
        windows = [loops[name] for name in roles.windows if name in loops]
        sch.reorder(*tasks, *windows, k0, strip, j2, k1)
    _by_intrinsics(sch, roles, packed, k0)
    if tasks and parallel:
        sch.parallel(sch.fuse(*tasks) if len(tasks) > 1 else tasks[0])


def _by_intrinsics(sch: Schedule, roles: Roles, packed: BlockRef, k0: LoopRef) -> None:
    """Move strips of columns by intrinsics; loops (k0, strip, 16, group) are inside of `k0`.

    Terms of a column that are contiguous are transposed many at a time, and the last few apart.
    """
    kind = dtype.SHORT[store_of(sch, packed).buffer.dtype]
    shape = f"pack_{roles.group}x{STRIP}" if roles.by_rows else f"copy_{STRIP}x{roles.group}"
    few, many = f"{kind}.{shape}", f"{kind}.transpose_{STRIP}x{STRIP}x{roles.group}"
    count = sch.state.loop(k0).const_extent or 0
    whole = count - count % STRIP
    parts: list[LoopRef] = [k0]
    if not roles.by_rows and roles.lanes == STRIP and whole and find_intrin(many) is not None:
        parts = list(sch.partition(k0, [whole, count - whole])) if whole < count else [k0]
        first = parts.pop(0)
        _, terms = sch.split(first, [None, STRIP])
        strip, j2 = sch.get_loops(packed)[-3:-1]
        sch.reorder(strip, j2, terms)
        sch.tensorize(j2, many)
    for part in parts:
        (block,) = sch.get_child_blocks(part)
        if find_intrin(few) is not None:
            sch.tensorize(sch.get_loops(block)[-2], few)
