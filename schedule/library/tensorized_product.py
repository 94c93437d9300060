"""What products by intrinsics are made of: padding, panels, rows of tasks, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from schedule.errors import require
from schedule.library.contraction.copies import copy_ahead
from schedule.library.contraction.places import store_of
from schedule.library.tensorized_pack import finish_packing, packed_copy
from schedule.library.tensorized_roles import Roles, factors_of
from schedule.library.tensorized_tile import STRIP
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from tensorir import INTRINS, Const, Costs, Var

PACK = ("root", "panel", "block")
"""Where the second matrix can be packed; the last one is for dot products alone."""

SYMBOLIC = 1 << 16
"""What a symbolic extent is taken for."""


class Product(NamedTuple):
    """A product of two matrices, in register tiles of so many rows and columns, the second matrix
    in panels of as many columns; for the rest see `tensorized_matmul`."""

    sch: Schedule
    block: str
    intrinsic: str
    roles: Roles
    rows: int
    columns: int
    tiles: int | None
    panels: int | None
    pack: str
    copy: str | None
    turned: bool
    epilogue: str | None
    parallel: bool

    @property
    def high(self) -> int:
        """Rows of a tile, which are no more than there are where they are not padded."""
        roles = self.roles
        return self.rows if roles.by_tiles else min(self.rows, max(1, roles.rows or self.rows))

    def check(self) -> None:
        """Refuse what no schedule of a product can have."""
        places, epilogue = PACK[: 2 if self.roles.by_tiles else 3], self.epilogue
        block, users = self.block, [str(name) for name in self.sch.get_consumers(self.block)]
        (high, wide), shape = self[4:6], self.roles.at_once
        fits = high > 0 and wide > 0 and wide % STRIP == 0 and wide % shape.columns == 0
        reason = f"{high} rows and {wide} columns are no tile: columns come by {STRIP}"
        require(fits, block, reason)
        own = not self.roles.by_tiles or (high, wide) == shape[:2]
        reason = f"a tile of {self.intrinsic!r} has {shape.rows} rows and {shape.columns} columns"
        require(own, block, reason)
        known = self.tiles is None or self.tiles > 0
        require(known, block, f"{self.tiles} tiles are no block of rows; use 1 or more")
        alone = epilogue is None or users == [epilogue]
        require(alone, block, f"epilogue {epilogue!r} is not what alone reads block {block!r}")
        reason = f"pack={self.pack!r} is not one of {', '.join(places)}"
        require(self.pack in places, block, reason)

    def padded(self) -> tuple[BlockRef, list[BlockRef]]:
        """Pad extents to what is computed at once; returns the block that writes the result, whose
        sums are local from now on, and those that pad operands."""
        sch, block, roles, epilogue = self.sch, self.block, self.roles, self.epilogue
        by = {roles.column: self.columns, roles.depth: roles.at_once.terms}
        if roles.by_tiles:
            by[roles.row] = self.rows
        made: Sequence[BlockRef] = ()
        if roles.plain:
            made = sch.pad_einsum(block, [by.get(name, 1) for name in roles.order])
        else:
            sizes = zip(by, (roles.columns, roles.terms, roles.rows))
            for name, size in sizes:
                reason = f"loop {name!r} has {size} iterations, no multiple of {by[name]}"
                hint = "its operands are read at sums of variables and cannot be padded"
                require((size or 1) % by[name] == 0, block, reason, hint)
        cut = [name for name in made if sch.get_producers(name) == [block]]
        pads = [name for name in made if name not in cut]
        if not cut and epilogue is None:
            return sch.cache_write(block, 0), pads
        if cut and epilogue is not None:
            sch.compute_inline(cut[0])
        sch.set_scope(block, 0, "local")
        return (cut[0] if epilogue is None else BlockRef(epilogue)), pads

    def copied_rows(self, pads: Sequence[BlockRef]) -> BlockRef | None:
        """The block that copies rows for each task, if one does: what pads the first matrix for
        tiles, the `copy` that makes it, or a new one for rows that are `turned`."""
        if not (self.roles.by_tiles or self.copy or self.turned):
            return None
        sch, copy, node = self.sch, self.copy, self.sch.state.block(self.block)
        factors = factors_of(node) or ()
        first = next(x for x in factors if x.indices != self.roles.weight.indices)
        pad = next((name for name in pads if store_of(sch, name).buffer is first.buffer), None)
        if pad is not None and copy is not None:
            sch.compute_inline(copy)
        copier = pad or (BlockRef(copy) if copy else None)
        if self.turned:
            row = next(it.var for it in node.iters if it.binding is Var(self.roles.row))
            reason = f"the rows of {first.buffer.name!r} are no dimension of it"
            require(row in first.indices, self.block, reason)
            copier = copier or sch.cache_read(self.block, first.buffer.name, "global")
            self.turn(copier, first.indices.index(row))
        return copier

    def turn(self, copier: BlockRef, row: int) -> None:
        """Lay the first matrix out in whole tiles; `row` is its dimension of rows."""
        store, shape = store_of(self.sch, copier), self.roles.at_once
        *names, k = [f"d{n}" for n in range(len(store.indices))]
        parts = [f"{name} // {shape.rows}" if at == row else name for at, name in enumerate(names)]
        parts += [f"{k} // {shape.terms}", f"{names[row]} % {shape.rows}", f"{k} % {shape.terms}"]
        text = f"{', '.join([*names, k])}: {', '.join(parts)}"
        self.sch.transform_layout(copier, store.buffer.name, text)

    def copy_at(self, copier: BlockRef, place: LoopRef) -> None:
        """Copy the rows of a task in it."""
        self.sch.compute_at(copier, place)
        last = self.sch.get_loops(copier)[-1]
        self.sch.vectorize(self.sch.split(last, [None, self.roles.at_once.terms])[1])

    def in_panels(self) -> BlockRef:
        """The copy of the second matrix, which is finished here where it is packed ahead."""
        packed = packed_copy(self.sch, self.block, self.roles, self.columns)
        if self.pack == "root":
            finish_packing(self.sch, packed, self.roles, self.parallel)
        return packed

    def pack_at(self, packed: BlockRef, place: LoopRef) -> None:
        """Pack in a loop what that needs."""
        self.sch.compute_at(packed, place)
        finish_packing(self.sch, packed, self.roles, False, inside=place)

    def begin(self, init: BlockRef) -> None:
        """Sums begin with zeros: in tiles, if there is an intrinsic for these."""
        sch, mine = self.sch, INTRINS[self.intrinsic].tiles
        zeros = (
            name
            for name, each in INTRINS.items()
            if mine and each.tiles == mine and isinstance(each.nest.store.value, Const)
        )
        name, loops = next(zeros, None), sch.get_loops(init)
        if name is None:
            sch.vectorize(loops[-1])
        else:
            sch.tensorize(loops[-2], name)

    def finish(self, result: BlockRef, pads: Sequence[BlockRef], loop: LoopRef) -> None:
        """Vectors of results, rows that are padded, and threads."""
        sch, costs = self.sch, Costs()
        sch.vectorize(sch.get_loops(result)[-1])
        for pad in pads:
            extents = [sch.state.loop(each).const_extent for each in sch.get_loops(pad)]
            cycles = prod(extent or SYMBOLIC for extent in extents) * costs.copy
            copy_ahead(sch, [pad], self.parallel and cycles >= 4 * costs.start)
        if self.parallel:
            sch.parallel(loop)
