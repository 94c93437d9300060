"""What schedules of products by intrinsics share: padding, panels, tasks and the result."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import NamedTuple

from schedule.errors import require
from schedule.library.contraction.copies import copy_ahead
from schedule.library.tensorized_pack import finish_packing, packed_copy
from schedule.library.tensorized_roles import Roles
from schedule.library.tile import fusible
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import Costs

SYMBOLIC = 1 << 16
"""What a symbolic extent is taken for."""


class Product(NamedTuple):
    """A product of two matrices, the second one in panels of so many columns."""

    sch: Schedule
    block: str
    intrinsic: str
    roles: Roles
    columns: int
    parallel: bool

    def check(
        self, tiles: int | None, pack: str, places: Collection[str], epilogue: str | None
    ) -> None:
        """Refuse what no schedule of a product can have."""
        block, users = self.block, [str(name) for name in self.sch.get_consumers(self.block)]
        known = tiles is None or tiles > 0
        require(known, block, f"{tiles} tiles are no block of rows; use 1 or more")
        alone = epilogue is None or users == [epilogue]
        require(alone, block, f"epilogue {epilogue!r} is not what alone reads block {block!r}")
        require(pack in places, block, f"pack={pack!r} is not one of {', '.join(places)}")

    def padded(
        self, by: Mapping[str, int], epilogue: str | None
    ) -> tuple[BlockRef, list[BlockRef]]:
        """Pad the extents of loops to multiples; returns the block that writes the result, whose
        sums are local from now on, and those that pad operands."""
        sch, block = self.sch, self.block
        made: Sequence[BlockRef] = ()
        if self.roles.plain:
            made = sch.pad_einsum(block, [by.get(name, 1) for name in self.roles.order])
        cut = [name for name in made if sch.get_producers(name) == [block]]
        pads = [name for name in made if name not in cut]
        if not cut and epilogue is None:
            return sch.cache_write(block, 0), pads
        if cut and epilogue is not None:
            sch.compute_inline(cut[0])
        sch.set_scope(block, 0, "local")
        return (cut[0] if epilogue is None else BlockRef(epilogue)), pads

    def in_panels(self, pack: str) -> BlockRef:
        """The copy of the second matrix, which is finished here where it is packed ahead."""
        packed = packed_copy(self.sch, self.block, self.roles, self.columns)
        if pack == "root":
            finish_packing(self.sch, packed, self.roles, self.parallel)
        return packed

    def pack_at(self, packed: BlockRef, place: LoopRef) -> None:
        """Pack in a loop what that needs."""
        self.sch.compute_at(packed, place)
        finish_packing(self.sch, packed, self.roles, False, inside=place)

    def in_tasks(
        self, tasks: Sequence[str], inner: Sequence[str]
    ) -> tuple[LoopRef, list[LoopRef]]:
        """One loop over tasks, as far as these are of known extents, and those that stay in it."""
        sch = self.sch
        shared, rest = fusible(sch, list(map(LoopRef, tasks)))
        sch.reorder(*shared, *rest, *inner)
        return (sch.fuse(*shared) if len(shared) > 1 else shared[0]), rest

    def finish(self, result: BlockRef, pads: Sequence[BlockRef], loop: LoopRef) -> None:
        """Vectors of results, rows that are padded, and threads."""
        sch, costs = self.sch, Costs()
        sch.vectorize(sch.get_loops(result)[-1])
        for pad in pads:
            extents = [sch.state.loop(each).const_extent for each in sch.get_loops(pad)]
            cycles = prod(extent or SYMBOLIC for extent in extents) * costs.copy
            copy_ahead(sch, pad, self.parallel and cycles >= 4 * costs.start)
        if self.parallel:
            sch.parallel(loop)
