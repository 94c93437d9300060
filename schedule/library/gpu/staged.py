"""Tiles of operands in shared memory: their layout, what moves them, which banks they meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import gcd, prod
from typing import NamedTuple

from schedule.errors import Refusal
from schedule.library.contraction.axes import FAR, Contraction, Digit, Operand
from schedule.library.gpu.memory.pitches import FREE, Pitched, TileLayout, tile_pitches
from schedule.library.gpu.tile_plan import TilePlan
from tensorir import Gpu, dtype

OPERANDS = 64
"""Operands of which is kept how they are moved: it is the same for all tiles of them."""

IDLE = 2
"""Lanes that copy a tile row by row for each that has an element, at most."""


class TileDim(NamedTuple):
    """A dimension of a tile.

    source  the dimension of the operand, or the axis whose digits several of them are
    axis    whether it is an axis
    steps   how far its index moves along each axis of the contraction
    extent  of the tile
    stride  elements between its neighbours in the operand; None where that is not known
    last    the last of the dimensions of the operand that it is, from `source` on; -1 for an axis
    """

    source: int
    axis: bool
    steps: tuple[int | None, ...]
    extent: int
    stride: int | None
    last: int = -1


@dataclass(frozen=True)
class StagedTile:
    """What a block of threads holds of one operand during one step of the sum."""

    c: Contraction
    plan: TilePlan
    operand: int

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The axes whose digits are dimensions of what is copied by themselves."""
        return _own_axes(self.c.operands[self.operand], self.operand in self.plan.gathered)

    @cached_property
    def in_memory(self) -> tuple[TileDim, ...]:
        """Its dimensions in the order of the operand."""
        o, c = self.c.operands[self.operand], self.c
        found = []
        for n in self.axes:
            steps = _step_of(n, len(c.axes))
            found.append(TileDim(n, True, steps, self._extent(steps), o.strides[n]))
        alone = self.operand in self.plan.gathered  # a copy of axes has no other dimensions
        for first, last, moved, stride in () if alone else _taken_as_one(o, self.axes):
            extent, sizes = self._extent(moved), o.shape[first : last + 1]
            if set(sizes) == {1}:
                continue
            if None not in sizes:
                extent = min(extent, prod(size or 0 for size in sizes))
            found.append(TileDim(first, False, moved, extent, stride, last))
        return tuple(sorted(found, key=lambda dim: -(dim.stride or 1 << 62)))

    def _extent(self, steps: Sequence[int | None]) -> int:
        reach = 1
        for step, size, axis in zip(steps, self.plan.totals, self.c.axes):
            if step == 0:
                continue
            size = size if axis.extent is None else min(size, axis.extent)
            if step is None and size > 1:
                return axis.extent or size
            reach += abs(step or 0) * (size - 1)
        return reach

    @cached_property
    def dims(self) -> tuple[TileDim, ...]:
        """As it lies in shared memory: what only terms move first, then what elements of the result
        move, that which lanes of a warp differ in most last."""
        return tuple(sorted(self.in_memory, key=self._place))

    def _place(self, dim: TileDim) -> tuple[int, int]:
        cuts = self.plan.cuts
        lanes = [
            cuts[n].lanes * cuts[n].elements
            for n, axis in enumerate(self.c.axes)
            if dim.steps[n] != 0 and (cuts[n].lanes if axis.reduce else cuts[n].total) > 1
        ]
        return (1, max(lanes)) if lanes else (0, 0)

    @property
    def turn(self) -> int | None:
        """The dimension whose pitch keeps banks apart: the last one that is not adjacent; None
        where there is none."""
        return len(self.dims) - 2 if len(self.dims) > 1 else None

    @cached_property
    def item(self) -> int:
        return dtype.itemsize(self.c.operands[self.operand].dtype)

    @cached_property
    def apart(self) -> int:
        """Dimension at which the pitch is to be aligned: the innermost one outside of which lanes
        differ, when the operand is read or when it is copied."""
        inner = [n for n, dim in enumerate(self.dims) if self._place(dim)[0] == 1]
        first = inner[0] if inner else len(self.dims) - 1
        for n in range(len(self.dims) - 2, first - 1, -1):
            steps = self.dims[n].steps
            if any(cut.lanes > 1 and step for cut, step in zip(self.plan.cuts, steps)):
                return n
        return max(0, first - 1)

    @property
    def pitch(self) -> tuple[int, int]:
        """Factor and offset for storage_align, in elements, with the fewest conflicts of banks."""
        return self._pitched[0].pitch

    @property
    def met(self) -> tuple[int, int]:
        """How many times a warp has to ask with this pitch, for one read of the sums and for one
        write of the copy: 1 without conflicts."""
        return self._pitched[0].met

    @cached_property
    def _pitched(self) -> tuple[Pitched, tuple[int, int]]:
        """With `_rows_beside` where lanes meet in no bank then."""
        beside = self._rows_beside
        (found,) = tile_pitches([self.layout])
        if beside[1] and sum(found.met) > FREE:
            beside = (1, 0)
            (found,) = tile_pitches([self._layout(self.dims, self.apart)])
        return found, beside

    @property
    def beside(self) -> tuple[int, int]:
        """The last dimensions that lanes copy as one row, and elements of it that they take side by
        side, while others take those of the next rows; 0 for whole rows."""
        return self._pitched[1]

    @cached_property
    def _rows_beside(self) -> tuple[int, int]:
        """How lanes copy a tile that is turned on its way in, and whose rows begin and end with
        sectors: its last dimensions, which are one row, and elements of it that lanes take side by
        side while others take those of the next rows. So stores meet in no bank if rows in shared
        memory begin where sums can read several neighbours together. (1, 0) for whole rows."""
        o, sector, run, dims = self.c.operands[self.operand], Gpu.sector_bytes // self.item, 1, 0
        if self.straight or self.vector > 1 or o.pad is not None or self.from_sectors:
            return (1, 0)
        for dim in reversed(self.in_memory):
            if dim.stride != run or self._filled_up(dim) != dim.extent:
                break
            run, dims = run * dim.extent, dims + 1
        rows = self.in_memory[: len(self.in_memory) - dims]
        apart = [run, *(dim.stride or 1 for dim in rows), *self._begins]
        if not rows or not dims or any(n % sector for n in apart):
            return (1, 0)
        return (dims, sector)

    @property
    def pitched_as_in_memory(self) -> Pitched:
        """That of what lies in the order of memory."""
        return tile_pitches([self.layout_as_in_memory])[0]

    @cached_property
    def layout(self) -> TileLayout:
        """What its banks depend on."""
        return self._layout(self.dims, self.apart, self._rows_beside)

    @cached_property
    def layout_as_in_memory(self) -> TileLayout:
        """The same of what lies in the order of memory."""
        return self._layout(self.in_memory, len(self.in_memory) - 2)

    def _layout(
        self, dims: Sequence[TileDim], apart: int, beside: tuple[int, int] = (1, 0)
    ) -> TileLayout:
        lanes = [(n, cut) for n, cut in enumerate(self.plan.cuts) if cut.lanes > 1]
        moved = [[(dim.steps[n] or 0) * cut.elements for dim in dims] for n, cut in lanes]
        alone = [0] * len(dims)  # where a warp has one lane
        return TileLayout(
            tuple([dim.extent for dim in dims]), tuple([dims.index(dim) for dim in self.in_memory]),
            apart, self.item, self.vector, dims[-1] == self.in_memory[-1],
            tuple([cut.lanes for _, cut in lanes]) or (1,), tuple(map(tuple, moved or [alone])),
            beside,
        )  # fmt: skip

    @cached_property
    def straight(self) -> bool:
        """Whether neighbours in memory are neighbours in shared memory, and move together."""
        return bool(self.dims) and self.dims[-1] == self.in_memory[-1]

    @cached_property
    def vector(self) -> int:
        """Elements that one copy moves: neighbours in memory, from places that are aligned."""
        o = self.c.operands[self.operand]
        lanes = max(1, Gpu.access_bytes // self.item)
        if not self.in_memory or self.in_memory[-1].stride != 1:
            return 1
        last = self.in_memory[-1]
        if o.pad is not None and (not o.filled or self._is_in_padding(last)):  # computed, or masked
            return 1
        if None in o.strides or self.operand in self.plan.gathered and not last.axis:
            return 1
        starts = [s * self.plan.cuts[n].total if last.steps[n] else s for n, s in self._moves]
        if any(last.steps[n] not in (0, 1) for n, _ in self._moves):
            return 1
        while lanes > 1 and any(x % lanes for x in (last.extent, *starts)):
            lanes //= 2
        return lanes

    def _is_in_padding(self, dim: TileDim) -> bool:
        """Whether neighbours along a dimension may be in the padding one by one."""
        o = self.c.operands[self.operand]
        if dim.axis:
            return any(o.dims[row][dim.source] != 0 for row in o.filled)
        return any(dim.source <= row <= dim.last for row in o.filled)

    @property
    def from_sectors(self) -> bool:
        """Whether each row is fetched from where its sector begins: an access of a warp more of a
        row would touch another one."""
        if not (self.plan.sectors and self.in_memory) or self.vector > 1:
            return False
        row = self.in_memory[-1]
        return row.stride == 1 and 2 * row.extent > Gpu.warp and Gpu.warp % row.extent != 0

    def by_rows(self, warps: int) -> tuple[int, int] | None:
        """Rows of each warp and parts of one, where lanes copy neighbours of one row each, from
        where its sectors begin: the place of an element is told once for a row then. None where
        more lanes would have nothing to do than something."""
        if not self.from_sectors:
            return None
        row = self.in_memory[-1].extent
        rows, parts = self.elements // row, -(-self.asked * row // self.elements // Gpu.warp)
        turns = -(-rows // warps)
        idle = turns * warps * parts * Gpu.warp > IDLE * self.asked
        return None if idle or rows < 2 else (turns, parts)

    @property
    def asked(self) -> int:
        """Elements that threads ask for: with those between a row and where its sectors begin and
        end."""
        if not self.from_sectors:
            return self.elements
        row, sector = self.in_memory[-1].extent, Gpu.sector_bytes // self.item
        return self.elements // row * -(-(row + sector - 1) // sector) * sector

    @property
    def filled(self) -> int:
        """Elements that threads ask for where axes are filled up to whole tiles."""
        if self.from_sectors:
            return self.asked
        return prod(map(self._filled_up, self.in_memory))

    def _filled_up(self, dim: TileDim) -> int:
        """The extent of a dimension that one axis moves after it was filled up to whole tiles."""
        moved = _moved_by(dim.steps)
        return max(dim.extent, self.plan.totals[moved[0]] if len(moved) == 1 else 0)

    @property
    def _moves(self) -> list[tuple[int, int]]:
        """The axes that move the operand, with their strides."""
        return [(n, s) for n, s in enumerate(self.c.operands[self.operand].strides) if s]

    @property
    def _begins(self) -> list[int]:
        """Elements between tiles that are neighbours along an axis of which there are several."""
        totals, axes = self.plan.totals, self.c.axes
        return [s * totals[n] for n, s in self._moves if totals[n] < (axes[n].extent or FAR)]

    @cached_property
    def wide(self) -> int:
        """Elements that a thread reads at once for the sums, its neighbours lying side by side."""
        if not self.dims:
            return 1
        last = self.dims[-1]
        near = [cut.elements for n, cut in enumerate(self.plan.cuts) if last.steps[n] == 1]
        return max((n for n in near if self.pitch[1] % n == 0), default=1)

    @cached_property
    def elements(self) -> int:
        """Of the tile."""
        return prod([dim.extent for dim in self.in_memory])

    @cached_property
    def bytes(self) -> int:
        """Of shared memory, padding of its pitch included."""
        return self._pitched[0].elements * self.item

    @cached_property
    def sectors(self) -> float:
        """Transactions that fetch the tile, on average over where its rows begin: each access of a
        warp touches a sector more if it begins within one."""
        o, run, step, rows, together = self.c.operands[self.operand], 1, 1, 1, True
        asked = 1
        for dim in reversed(self.in_memory):
            together = together and dim.stride == step
            if not together:
                rows *= dim.extent
                continue
            run, step, asked = run * dim.extent, step * dim.extent, asked * self._filled_up(dim)
            together = self._whole(dim) and o.pad is None and asked == run  # not what fills it up
        known = [s for dim in self.in_memory if (s := dim.stride or 1) >= step]
        near = gcd(Gpu.sector_bytes, *(self.item * s for s in (*known, *self._begins)))
        if o.pad is not None and _is_window(self.in_memory[-1]):  # rows begin behind their padding
            near = self.item
        warp = Gpu.warp * self.vector  # rows are copied one after the other, by warps in turn
        turned = max(0, run - gcd(asked, warp)) / warp
        accesses = 1.0 if self.from_sectors else 1.0 + turned
        more = accesses * (Gpu.sector_bytes - near)
        return rows * (run * self.item + more) / Gpu.sector_bytes

    def _whole(self, dim: TileDim) -> bool:
        """Whether the tile has all of a dimension."""
        o = self.c.operands[self.operand]
        if dim.axis:
            size = self.c.axes[dim.source].extent
            return size is not None and dim.extent >= size
        sizes = o.shape[dim.source : dim.last + 1]
        return None not in sizes and dim.extent >= prod(size or 0 for size in sizes)


def staged_results(c: Contraction, plan: TilePlan) -> StagedTile:
    """What a block of threads has of the result, as if it were an operand."""
    o = c.result
    alone = Operand(o.buffer, o.dtype, o.shape, o.dims, o.strides)
    return StagedTile(replace(c, operands=(alone,)), replace(plan, gathered=()), 0)


def _is_window(dim: TileDim) -> bool:
    """Whether several axes move along it."""
    return sum(step != 0 for step in dim.steps) > 1


@lru_cache(maxsize=OPERANDS)
def _step_of(axis: int, axes: int) -> tuple[int, ...]:
    """How far an index that is one of some axes moves along each."""
    return tuple([int(n == axis) for n in range(axes)])


@lru_cache(maxsize=OPERANDS)
def _own_axes(o: Operand, gathered: bool) -> tuple[int, ...]:
    """`axes` of each tile of an operand."""
    moving = [n for n, step in enumerate(o.strides) if step != 0]
    if gathered:
        return tuple(moving)
    rows = {n: [row for row in o.dims if row[n] != 0] for n in moving}
    return tuple(
        [
            n
            for n in moving
            if all([row[n] in (1, None) and _moved_by(row) == [n] for row in rows[n]])
        ]
    )


@lru_cache(maxsize=OPERANDS)
def _taken_as_one(
    o: Operand, axes: tuple[int, ...]
) -> tuple[tuple[int, int, tuple[int | None, ...], int | None], ...]:
    """Dimensions that are fetched as one, but those that `axes` move: the first and the last, how
    far each axis moves them, and the elements between their neighbours."""
    weights: list[int | None] = [1]
    for size in reversed(o.shape[1:]):
        weights.insert(0, None if weights[0] is None or size is None else weights[0] * size)
    found = []
    for first, last in _groups(o):
        rows = o.dims[first : last + 1]
        moved = [any([row[n] != 0 for row in rows]) for n in range(len(o.strides))]
        if any([moved[n] for n in axes]):
            continue
        weight = weights[last] or 1
        steps = o.dims[first] if first == last else tuple(
            [None if s is None else s // weight if m else 0 for s, m in zip(o.strides, moved)]
        )  # fmt: skip
        found.append((first, last, steps, weights[last]))
    return tuple(found)


def _groups(o: Operand) -> list[tuple[int, int]]:
    """Dimensions that are fetched as one, first and last: those that one axis moves, or that the
    same axis moves beside others."""
    found: list[tuple[int, int]] = []
    before: set[int] = set()
    for at, row in enumerate(o.dims):
        mine = {n for n, step in enumerate(row) if step != 0}
        if found and mine & before:
            found[-1] = (found[-1][0], at)
            before |= mine
        else:
            found.append((at, at))
            before = mine
    return found


def _moved_by(row: Sequence[int | None]) -> list[int]:
    return [n for n, step in enumerate(row) if step != 0]


def _joined(tile: StagedTile, dim: TileDim) -> str:
    """Dimensions of an operand as one."""
    shape = tile.c.operands[tile.operand].shape
    text = f"d{dim.source}"
    for at in range(dim.source + 1, dim.last + 1):
        text = f"({text}) * {shape[at]} + d{at}"
    return text


def _axis(tile: StagedTile, axis: int, own: Mapping[Digit, Digit]) -> str:
    """An axis of the contraction, of the dimensions of an operand: of the digits that these are,
    or the one that moves with it, as in `x[k + 1]`."""
    from schedule.library.contraction.places import digits_text

    o, digits = tile.c.operands[tile.operand], tile.c.axes[axis].digits
    if all(digit in own for digit in digits):
        parts = [own[digit] for digit in digits]
        return digits_text(parts, {part.place: f"d{part.place}" for part in parts})
    moved = [f"d{at}" for at, row in enumerate(o.dims) if row[axis] != 0]
    if len(moved) > 1:
        block = tile.c.block
        raise Refusal(f"no dimension of {o.buffer!r} is axis {axis} of block {block!r}")
    return moved[0]


def index_map(tile: StagedTile, own: Mapping[Digit, Digit], rank: int) -> str:
    """The layout of a tile as an index map from the dimensions of the operand."""
    names = ", ".join(f"d{n}" for n in range(rank))
    parts = [_axis(tile, dim.source, own) if dim.axis else _joined(tile, dim) for dim in tile.dims]
    return f"{names}: {', '.join(parts)}"
