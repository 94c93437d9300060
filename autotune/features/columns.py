"""What the draft asks of a block, of many nests of loops around it at once: columns of numbers.

Each is what `features.py` and `footprint.py` say of a program with such loops, where tiles divide
axes: `tests/autotune/test_nest_columns.py` compares. None has to be built for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from autotune.features.features import PAGE
from autotune.features.footprint import FILL, LINE, places_between, rows_held
from autotune.features.lanes import lane_loads, stride_class
from autotune.features.nest import SYMBOLIC, Access, BlockNest
from autotune.streams import Column
from tensorir import Buffer, Cpu, dtype, int_value

Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]
T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Loops:
    """The loops around a block in many nests, outermost first: a row for each nest, in it a place
    for each loop that some nest has. Loops of one iteration are none.

    axis      the axis of the block that a loop is a part of, -1 for another block's loops
    extent    iterations
    box       values of each axis below each place, and innermost: nests x (places + 1) x axes
    guarded   whether a predicate depends on them
    """

    axis: Places
    extent: Column
    box: Column
    vector: Flags
    unrolled: Flags
    parallel: Flags
    guarded: Flags

    @property
    def places(self) -> int:
        return self.extent.shape[1]


@dataclass(frozen=True, eq=False)
class _Reach:
    """What a block touches of one buffer below each place: see `footprint.Reach`."""

    below: Column
    changes: Flags
    rows: Column
    distance: Column
    places: tuple[float, float]
    store: bool


class Columns:
    """One block in many nests. `block` has a loop for each axis first, and `kept` says of buffers
    how many of the loops are outside of what is allocated for them."""

    def __init__(
        self, block: BlockNest, loops: Loops, cpu: Cpu, kept: Mapping[Buffer, Places]
    ) -> None:
        self.block, self.loops, self.cpu, self.kept = block, loops, cpu, kept
        widest = max((access.buffer.dtype for access in block.accesses), key=dtype.itemsize)
        self.lanes = cpu.target.lanes(widest)
        exists = loops.extent > 1
        self.vector = loops.vector & exists
        self.written = loops.vector | loops.unrolled
        self.serial = ~self.written & exists
        reduces = [n in block.reduce for n in range(loops.box.shape[2])]
        self.reduces = np.array([*reduces, False])[loops.axis] & exists
        inner = last(self.serial & self.reduces)
        self.tile = np.where(inner >= 0, inner, last(self.serial)) + 1
        at = np.arange(loops.places)
        self.inside = at >= self.tile[:, None]
        # Reductions that run without leaving the register tile.
        self.run = self.reduces & (at > last(exists & ~self.inside & ~self.reduces)[:, None])

    def table(self) -> dict[str, Column]:
        """The columns that the draft reads of one block, by the names of features."""
        block, loops, cpu = self.block, self.loops, self.cpu
        zero: Column = np.zeros(len(loops.extent))
        flops = float(block.flops)
        chunks, use = self._lanes()
        sums = self._vectors(self.written & self.inside & ~self.reduces)
        total = self._vectors(self.written & self.inside)
        live = sums + np.minimum(chunks, sums / chunks) + 1
        in_memory = self.inside & self.serial & ~self.reduces & bool(block.reduce)
        load = self._iterations(loops.parallel) / cpu.threads
        strided = zero
        for access in block.accesses:
            if not access.store:
                gathers = pick(self._moves(access), self._lane_place) == 2
                strided = strided + gathers * self._lane_loads(access)
        code = self._vectors(self.written) * max(block.ops, 1)
        logarithms = {
            "flops": flops + zero,
            "waste": product(loops.extent) / block.useful,
            "lanes": self.lanes + zero,
            "cores": cpu.threads + zero,
            "vector_use": use,
            "vector_extent": self._iterations(self.vector),
            "accumulators": sums,
            "register_pressure": live / cpu.registers,
            "loads_per_op": self._loads() / total,
            "memory_accumulators": self._iterations(in_memory),
            "reduce_run": self._iterations(self.run),
            "reduce_total": self._iterations(self.reduces),
            "conflicts": self._conflicts(),
            "code_size": code,
            "tasks": load,
            "imbalance": np.ceil(load) / load,
            "regions": self._regions(),
            **{f"traffic_l{n}": fetched / flops for n, fetched in enumerate(self._traffic(), 1)},
        }
        found: dict[str, Column] = {
            name: np.log2(np.where(column > 0, column, 1.0)) for name, column in logarithms.items()
        }
        return found | {
            "vector_strided": strided / self._iterations(self.vector),
            "vector_reduction": (self.vector & self.reduces).any(axis=1).astype(float),
            "guard_inside": (loops.guarded & self.inside).any(axis=1).astype(float),
            "selects": np.full_like(zero, block.selects),
            "other_time": zero,
            "copied_strided": zero,
        }

    def _iterations(self, which: Flags) -> Column:
        """Those of some loops, multiplied."""
        return product(np.where(which, self.loops.extent, 1.0))

    @cached_property
    def _lane_place(self) -> Places:
        """The place of the vectorized loop; the innermost stands for it where there is none."""
        place = last(self.vector)
        return np.maximum(np.where(place >= 0, place, last(self.loops.extent > 1)), 0)

    def _lanes(self) -> tuple[Column, Column]:
        """Registers that the vectorized loop fills, and the share of the lanes that do work."""
        extent = self._iterations(self.vector)
        chunks = np.ceil(extent / self.lanes)
        return chunks, extent / (chunks * self.lanes)

    def _vectors(self, which: Flags, access: Access | None = None) -> Column:
        """Vector registers of some loops that are written out, or the loads of an access."""
        loads, moves = self._lanes()[0], which
        if access is not None:
            loads, moves = self._lane_loads(access), which & (self._moves(access) > 0)
        each = np.where(self.vector, loads[:, None], self.loops.extent)
        return product(np.where(moves, each, 1.0))

    def _lane_loads(self, access: Access) -> Column:
        """The loads that fill the vectors of the vectorized loop; one without such a loop."""
        size = self._iterations(self.vector)
        found, axis = size.copy(), pick(self.loops.axis, self._lane_place)
        for n in set(axis[size > 1]) - {-1}:
            some = (axis == n) & (size > 1)
            extent = self.block.loops[n].extent
            found[some] = lane_loads(access, n, extent, size[some], self.lanes)
        return found

    def _loads(self) -> Column:
        """Vector loads of the register tile."""
        stored = {access.buffer for access in self.block.accesses if access.store}
        which = self.written & self.inside
        loads = [a for a in self.block.accesses if a.buffer not in stored]
        counts = (self._vectors(which, access) for access in loads)
        return sum(counts, np.zeros(len(which)))

    def _moves(self, access: Access) -> Places:
        """How an access moves with each loop (see `stride_class`): not at all where an index is a
        quotient that stays the same."""
        known = [stride_class(access, n) for n in range(self.loops.box.shape[2])]
        moves = np.zeros(self.loops.extent.shape, dtype=bool)
        for dim in range(len(access.forms)):
            if access.forms[dim].terms or access.forms[dim].unknown:
                reach, _ = self.span([access], dim, 1)
                moves |= (reach[:, :-1] != reach[:, 1:]) | access.forms[dim].unknown
        return np.where(moves, np.array([*known, 2])[self.loops.axis], 0)

    def _regions(self) -> Column:
        """How often the parallel loop is entered."""
        shared = self.loops.parallel & (self.loops.extent > 1)
        before: Flags = np.cumsum(shared, axis=1) == 0
        return self._iterations(before & (last(shared) >= 0)[:, None])

    @cached_property
    def reaches(self) -> list[_Reach]:
        """What is touched of each buffer."""
        uses: dict[Buffer, list[Access]] = {}
        for access in self.block.accesses:
            uses.setdefault(access.buffer, []).append(access)
        return [self._reach(*item) for item in uses.items()]

    @cached_property
    def touched(self) -> Column:
        """Bytes of all buffers below each place."""
        return np.sum([reach.below for reach in self.reaches], axis=0)

    def _reach(self, buffer: Buffer, uses: list[Access]) -> _Reach:
        shape, item = self.loops.box.shape[:2], dtype.itemsize(buffer.dtype)
        rows, below = np.ones(shape), np.full(shape, float(item))
        changes = np.zeros(self.loops.extent.shape, dtype=bool)
        extent = 1
        for dim, size in enumerate(buffer.shape):
            known = int_value(size)
            extent = SYMBOLIC if known is None else max(known, 1)
            hull, distinct = self.span(uses, dim, extent)
            changes |= hull[:, :-1] != hull[:, 1:]
            reach = np.minimum(hull, extent)
            if dim < len(buffer.shape) - 1:
                rows = rows * np.minimum(reach, distinct)
                continue
            width = np.minimum(reach * item, distinct * LINE)
            whole = np.where((rows > 1) & (reach < extent), np.ceil(width / LINE) * LINE, width)
            below = whole * rows
        kept = self.kept.get(buffer, np.zeros(len(rows), dtype=np.int64))
        if kept.any():
            at = np.maximum(np.arange(shape[1]), kept[:, None])
            below, rows = (np.take_along_axis(each, at, axis=1) for each in (below, rows))
            changes &= at[:, :-1] == np.arange(shape[1] - 1)
        apart = extent * item * (len(buffer.shape) > 1)
        distance, places = np.where(kept > 0, 0, apart), places_between(buffer, apart)
        return _Reach(below, changes, rows, distance, places, any(use.store for use in uses))

    def span(self, uses: Sequence[Access], dim: int, extent: int) -> tuple[Column, Column]:
        """The reach of an index below each place, and the number of its values."""
        box, forms = self.loops.box, [use.forms[dim] for use in uses]
        if any(form.unknown for form in forms):
            whole = np.full(box.shape[:2], float(extent))
            return whole, whole
        consts, terms = {form.const for form in forms}, dict[int, tuple[int, int]]()
        for form in forms:
            for axis, (coef, steps) in form.terms.items():
                before = terms.get(axis, (0, 0))
                terms[axis] = max(abs(coef), before[0]), max(steps, before[1])
        hull = np.full(box.shape[:2], float(max(consts) - min(consts) + 1))
        distinct = np.full(box.shape[:2], float(len(consts)))
        for axis, (coef, steps) in terms.items():
            most, moved = self.block.loops[axis].extent - 1, box[:, :, axis] - 1
            if steps != most:  # a quotient or a remainder
                moved = np.floor(moved * (steps / most))
            hull = hull + coef * moved
            distinct = distinct * (moved + 1)
        return hull, distinct

    def _traffic(self) -> list[Column]:
        """Bytes fetched into each cache, twice for what is stored (see `footprint.traffic`)."""
        machine, places, total = self.cpu.target, np.arange(self.loops.places), []
        around = np.cumprod(self.loops.extent, axis=1) / self.loops.extent
        for number, size in enumerate((machine.l1d_bytes, machine.l2_bytes, machine.l3_bytes), 1):
            fits = self.touched <= FILL * size
            for reach in self.reaches:
                crowded = reach.rows > rows_held(reach.places, number, size)
                fits &= ~crowded | (reach.distance == 0)[:, None]
            level = np.where(fits.any(axis=1), np.argmax(fits, axis=1), self.loops.places)
            fetched = np.zeros(len(level))
            for reach in self.reaches:
                moved = last(reach.changes & (places < level[:, None]))
                times = np.where(moved < 0, 1.0, pick(around, moved))
                once = pick(reach.below, np.where(moved < 0, level, moved))
                fetched += once * times * (2 if reach.store else 1)
            total.append(fetched)
        return total

    def _conflicts(self) -> Column:
        """Rows of the tile that lie a multiple of a page apart."""
        level = np.where(self.run.any(axis=1), np.argmax(self.run, axis=1), self.tile)
        found = np.ones(len(level))
        for reach in self.reaches:
            apart = (reach.distance > 0) & (reach.distance % PAGE == 0)
            found = np.maximum(found, np.where(apart, pick(reach.rows, level), 1.0))
        return found


def last(flags: Flags) -> Places:
    """The last place of each row that is set, -1 for none."""
    found: Places = (flags * np.arange(1, flags.shape[1] + 1)).max(axis=1) - 1
    return found


def product(values: Column) -> Column:
    """Of the numbers of each row."""
    found: Column = np.prod(values, axis=1)
    return found


def pick(values: npt.NDArray[T], at: Places) -> npt.NDArray[T]:
    """The number of each row at its place."""
    return values[np.arange(len(at)), at]
