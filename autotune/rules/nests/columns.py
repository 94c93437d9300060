"""The time of many decisions at once, by the draft of searches: no program is built for them.

Loops are columns of numbers (`autotune/features/columns.py`): what decisions come to is found for
all at once that inline the same stages. Of what a stage computes in a loop of its user, that reads
as much as is needed there; what slides computes the share of each iteration in what all need.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from autotune.cost_model.roofline import CLOCK, seconds
from autotune.features.columns import Columns, Flags, Loops, Places, last, pick, product
from autotune.features.nest import Access, BlockNest, Form, nests
from autotune.rules.nest import loops_by_variable
from autotune.rules.nests.decide import Decision, Refusals
from autotune.rules.nests.places import INLINE
from autotune.rules.nests.stage import Stage
from autotune.streams import Column
from schedule import Schedule
from tensorir import Buffer, Cpu, dtype

LEVELS = ("s0", "s1", "s2", "r0", "r1", "r2")

UNROLLED = ("none", "rows", "rows and terms")

ROW = 4
"""Vectors of the innermost loop of what slides, which has no tiles of its own."""

Decisions = Mapping[str, Decision]


class Formula:
    """Of the stages of a plan, in a program that nothing was done to but inlining."""

    def __init__(
        self, base: Schedule, stages: Sequence[Stage], refusals: Refusals, cpu: Cpu
    ) -> None:
        self._base, self._stages, self._refusals, self._cpu = base, stages, refusals, cpu
        self._blocks: dict[frozenset[str], dict[str, BlockNest]] = {}

    def cycles(self, rows: Sequence[Decisions]) -> Column:
        """Of one call with each of these decisions."""
        groups: dict[Any, list[int]] = {}
        for at, decisions in enumerate(rows):
            groups.setdefault(tuple(self._homes(decisions).items()), []).append(at)
        found = np.zeros(len(rows))
        for places in groups.values():
            for _, table in self.tables([rows[at] for at in places]):
                found[places] += seconds(table, self._cpu)
        return found * CLOCK

    def _homes(self, decisions: Decisions) -> dict[str, str]:
        """The stages that are not inlined, with the user in whose loops each may be computed."""
        kept = [name for name, d in decisions.items() if d.place != INLINE]
        return {name: self._refusals.home(name, decisions) for name in kept}

    def tables(self, rows: Sequence[Decisions]) -> list[tuple[str, dict[str, Column]]]:
        """What the draft reads of each stage that is not inlined, the last one first; of decisions
        that inline the same stages, and where each of the others may be in the same nest."""
        homes = self._homes(rows[0])
        blocks = self._of_blocks(homes)
        made: dict[str, _Nests] = {}
        kept: dict[Buffer, Places] = {}
        for stage in reversed(self._stages):
            name = stage.block
            if name in homes:
                decided = [row[name] for row in rows]
                home = made.get(homes[name])
                made[name] = _Nests(stage, blocks[name], decided, home, kept, self._cpu)
        return [(name, nest.table(kept)) for name, nest in made.items()]

    def _of_blocks(self, kept: Collection[str]) -> dict[str, BlockNest]:
        """What stages do with the others inlined."""
        key = frozenset(kept)
        if key not in self._blocks:
            sch = self._base.copy()
            for stage in self._stages:
                if stage.block not in kept:
                    sch.compute_inline(stage.block)
            found = {nest.name: nest for nest in nests(sch.func)}
            self._blocks[key] = {
                stage.block: _on_axes(found[stage.block], stage, sch)
                for stage in self._stages
                if stage.block in kept
            }
        return self._blocks[key]


def _on_axes(nest: BlockNest, stage: Stage, sch: Schedule) -> BlockNest:
    """A block with a loop for each axis of its stage, in their order, then those around it."""
    loops = loops_by_variable(sch, stage.block)
    depth = {loop.name: at for at, loop in enumerate(nest.loops)}
    own = [depth[loops[axis.var]] for axis in stage.axes]
    number = {d: n for n, d in enumerate(own)}

    def moved(form: Form) -> Form:
        terms = {number[d]: term for d, term in form.terms.items() if d in number}
        return Form(terms, form.const, form.unknown)

    return replace(
        nest,
        loops=tuple(nest.loops[d] for d in [*own, *(set(depth.values()) - set(own))]),
        reduce=frozenset(number[d] for d in nest.reduce if d in number),
        accesses=[Access(a.buffer, tuple(map(moved, a.forms)), a.store) for a in nest.accesses],
    )


class _Nests:
    """A stage in many nests. Its places are those of its `home` first, the user that it may be
    computed in; what is around all of them is the first of all.

    spot    the place of the loop that it is computed in, 0 at the root
    begin   the first of its own places, and `level` those levels of tiles that these are of
    kept    how many loops are outside of what stages are kept in that others read
    """

    loops: Loops

    def __init__(
        self,
        stage: Stage,
        block: BlockNest,
        decided: Sequence[Decision],
        home: _Nests | None,
        kept: dict[Buffer, Places],
        cpu: Cpu,
    ) -> None:
        self.stage, self.block, self.decided, self.cpu = stage, block, decided, cpu
        self.out = next(access for access in block.accesses if access.store)
        count, own = len(decided), len(stage.axes)
        full = np.tile([float(axis.extent) for axis in stage.axes], (count, 1, 1))
        if home is None:
            self.spot = np.zeros(count, dtype=np.int64)
            extent = np.full((count, 1), float(prod(x.extent for x in block.loops[own:])))
            needed, shared = full, np.zeros((count, 1), dtype=bool)
        else:
            self.spot = home.spots([d.spot for d in decided])
            inside = np.arange(home.loops.places) > self.spot[:, None]
            extent = np.where(inside, 1.0, home.loops.extent)
            shared = home.loops.parallel & ~inside
            needed = self._needed(full, home)
            kept[self.out.buffer] = np.where(self.spot > 0, self.spot + 1, 0)
        self.begin = extent.shape[1]
        self.loops = self._loops(needed, extent, shared)

    def _needed(self, full: Column, home: _Nests) -> Column:
        """How many values of each axis are computed below each place of the user's nest."""
        uses = [a for a in home.block.accesses if a.buffer is self.out.buffer and not a.store]
        found = np.repeat(full, home.loops.places + 1, axis=1)
        columns = Columns(home.block, home.loops, self.cpu, {})
        for dim, form in enumerate(self.out.forms):
            for axis in form.terms if uses else ():
                hull, _ = columns.span(uses, dim, int(full[0, 0, axis]))
                found[:, :, axis] = np.minimum(found[:, :, axis], hull)
        at = np.minimum(np.arange(found.shape[1]), self.spot[:, None] + 1)
        found = np.take_along_axis(found, at[:, :, None], axis=1)
        return np.where((self.spot > 0)[:, None, None], found, full)

    def _loops(self, needed: Column, around: Column, shared: Flags) -> Loops:
        """All loops: own ones after those that are `around` them."""
        count, begin = len(self.decided), self.begin
        sizes, slides = self._sizes(needed, around)
        self.level, axis = self._order()
        cut = self._cut(sizes, slides)
        row = np.arange(count)[:, None]
        extent = cut[row, axis, self.level % 3] if cut.size else np.ones((count, 0))
        box = np.ones((count, extent.shape[1] + 1, len(self.stage.axes)))
        guarded = np.zeros(extent.shape, dtype=bool)
        for n in range(box.shape[2]):
            size = sizes[:, n : n + 1]
            parts = np.cumprod(np.where(axis == n, extent, 1.0)[:, ::-1], axis=1)[:, ::-1]
            box[:, :-1, n] = np.minimum(parts, size)
            guarded |= (axis == n) & (parts[:, :1] > size) & (size % parts != 0)
        extent, box, tasks = self._threaded(extent, box)
        vectors, written = self._written(axis, slides)
        before = np.zeros((count, begin), dtype=bool)

        def all_(outer: Any, own: Any) -> Any:
            return np.concatenate([outer, own], axis=1)

        return Loops(
            all_(np.full((count, begin), -1), axis), all_(around, extent),
            all_(needed[:, :begin], box), all_(before, vectors), all_(before, written),
            all_(shared, tasks), all_(before, guarded),
        )  # fmt: skip

    def _sizes(self, needed: Column, around: Column) -> tuple[Column, Flags]:
        """How many values of each axis are computed each time, and what slides: that computes only
        what iterations before did not."""
        sizes = needed[:, -1]
        slides = np.array([d.slides for d in self.decided]) & (self.spot > 0)
        if slides.any():
            wide = np.take_along_axis(needed, self.spot[:, None, None], axis=1)[:, 0]
            new = np.ceil(wide / pick(around, self.spot)[:, None])
            sizes = np.where(slides[:, None] & (wide > sizes), new, sizes)
        return sizes, slides

    def _order(self) -> tuple[Places, Places]:
        """The levels and the axes of own places, outermost first."""
        number = {axis.var: n for n, axis in enumerate(self.stage.axes)}
        known: dict[Any, list[tuple[int, int]]] = {}
        rows = []
        for d in self.decided:
            key = (d.levels, *d.orders.values())
            if key not in known:
                known[key] = [
                    (LEVELS.index(level), number[var])
                    for level in d.levels
                    for var in d.orders["r" if level[0] == "r" else level]
                ]
            rows.append(known[key])
        found = np.array(rows, dtype=np.int64).reshape(len(rows), -1, 2)
        return found[:, :, 0], found[:, :, 1]

    def _cut(self, sizes: Column, slides: Flags) -> Column:
        """Iterations of each axis in outer, middle and inner tiles (see `pieces`)."""
        axes, stage = [axis.var for axis in self.stage.axes], self.stage
        tiles = np.array([[d.tiles[var] for var in axes] for d in self.decided], dtype=float)
        tiles = tiles.reshape(*sizes.shape, 2)
        plain = [(1, ROW * stage.lanes if var == stage.lane else 1) for var in axes]
        tiles[slides] = np.array(plain, dtype=float).reshape(len(axes), 2)
        inner = np.minimum(tiles[:, :, 1], sizes)
        middle = np.minimum(tiles[:, :, 0], np.ceil(sizes / inner))
        return np.stack([np.ceil(sizes / (inner * middle)), middle, inner], axis=2)

    def _threaded(self, extent: Column, box: Column) -> tuple[Column, Column, Flags]:
        """The loops that threads share as one, in the place of the first of them."""
        threads = np.array([0 if d.spot else d.threads for d in self.decided])[:, None]
        tasks = (self.level == 0) & (extent > 1)
        shared = tasks & (np.cumsum(tasks, axis=1) <= threads)
        if not shared.any():
            return extent, box, shared
        first, end = np.argmax(shared, axis=1)[:, None], last(shared)[:, None]
        at = np.arange(box.shape[1])
        together = product(np.where(shared, extent, 1.0))[:, None]
        fused = np.where(at[:-1] == first, together, 1.0)
        below = np.where((at > first) & (at <= end), end + 1, at)
        box = np.take_along_axis(box, below[:, :, None], axis=1)
        return np.where(shared, fused, extent), box, shared

    def _written(self, axis: Places, slides: Flags) -> tuple[Flags, Flags]:
        """Own places of vectors, and of what is written out besides."""
        stage = self.stage
        lane = [a.var for a in stage.axes].index(stage.lane) if stage.lane else -1
        vector = np.array([d.vector for d in self.decided]) | (slides & (lane >= 0))
        unroll = np.array([UNROLLED.index(d.unroll) for d in self.decided])
        unroll = np.where(slides, 0, unroll)[:, None]
        vectors = vector[:, None] & (self.level == 2) & (axis == lane)
        rows, terms = (self.level == 2) & (unroll > 0), (self.level == 5) & (unroll > 1)
        return vectors, (rows | terms) & ~vectors

    def spots(self, names: Sequence[str]) -> Places:
        """The places of the loops that are called so, 0 for none (see `Nest.spot`)."""
        outer = np.full((len(names), self.begin), -1)
        level = np.concatenate([outer, self.level], axis=1)
        exists = (level >= 0) & (self.loops.extent > 1)
        tasks = exists & ((level == 0) | ((level == 1) & (self.spot > 0)[:, None]))
        tasks = np.where(tasks.any(axis=1)[:, None], tasks, exists)
        first = np.argmax(tasks, axis=1)
        ways = {"": 0 * first, "beside": self.spot, "first": first, "task": last(tasks),
                "tile": last(exists & (level == 1))}  # fmt: skip
        rows = np.stack([np.maximum(ways[name], 0) for name in dict.fromkeys(names)])
        number = {name: n for n, name in enumerate(dict.fromkeys(names))}
        found: Places = rows[[number[name] for name in names], np.arange(len(names))]
        return found

    def table(self, kept: Mapping[Buffer, Places]) -> dict[str, Column]:
        """What the draft reads. Where it is computed in a loop of another stage, threads were
        started for that; sums in registers are copied to the result."""
        root = self.spot == 0
        cached = np.array([d.cached for d in self.decided])
        terms = np.concatenate([np.zeros((len(root), self.begin), bool), self.level >= 3], axis=1)
        inside = (terms | self.loops.vector | self.loops.unrolled) & (self.loops.extent > 1)
        own = np.where(cached & root, (np.cumsum(inside, axis=1) == 0).sum(axis=1), 0)
        kept = {**kept, self.out.buffer: np.maximum(own, kept.get(self.out.buffer, 0))}
        columns = Columns(self.block, self.loops, self.cpu, kept)
        found = columns.table()
        results = self.block.useful / prod(self.block.loops[n].extent for n in self.block.reduce)
        touched = columns.touched[:, 0]
        copied = (cached & root) * results * dtype.itemsize(self.out.buffer.dtype)
        return found | {
            "intensity": found["flops"] - np.log2(touched),
            "copied": np.log2(1 + copied / touched),
            "result_local": cached.astype(float),
            "tasks": np.where(root, found["tasks"], -found["cores"]),
        }
