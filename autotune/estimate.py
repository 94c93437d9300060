"""The time that nests of a contraction take on a CPU, in cycles, from strides and extents alone.

Every term is a function of what a nest is after all moves: of its loops, and of the elements that
each of them moves each operand by. Nothing asks what was chosen to get there, so that no choice can
switch a term off. Plans are estimated as columns of numbers, all that differ in sizes only at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from autotune.device import Cpu
from autotune.streams import LINE, PAGE, Column, Stream, stays
from schedule import library
from tensorir import copies_of_body, dtype, masked_bits

SYMBOLIC = 256
"""The extent assumed for a symbolic axis."""

BESIDE = 8
"""Steps of a tile that go on beside the end of the one before, where it can be; and of its
beginning and ending, the share that is left."""

OVERLAPPED = 0.25

IN_ORDER = 0.9
"""What is hidden of arithmetic and traffic beside each other, where rows are read in order."""

LAST = 4
"""Lanes that are read together where those of one vector are added up."""

GAPLESS = 0.5
"""The share of a line's time that is left, where all lines of some pages are read one by one."""

SINGLE = 0.5
"""Of an instruction on a vector, what one on a single element takes, which fills half a pipe."""

SHARING = 150
"""Multiply-adds of vectors in a tile that is written out, up to which compilers share loads."""


class Estimate:
    """Of one contraction, for one processor; `constants` are packed ahead of all calls."""

    def __init__(self, c: library.Contraction, cpu: Cpu, constants: Collection[str] = ()) -> None:
        self.c, self.cpu, self.constants = c, cpu, constants
        self.extents = tuple(axis.extent or SYMBOLIC for axis in c.axes)
        self.spatial = np.array([self.extents[n] for n in c.spatial], dtype=np.float64)
        self.plain = [Stream(o.strides, dtype.itemsize(o.dtype)) for o in c.operands]
        self.result = Stream(c.result.strides, dtype.itemsize(c.result.dtype))
        self.terms = prod(self.extents[n] for n in c.reduced)
        self.steps = [float(e) for e in self.extents]
        """The extents; of an axis whose last step lacks terms, as many as there are."""
        for n in c.reduced if c.missing else ():
            lane = c.spatial[-1]
            if all(o.strides[n] == self.extents[lane] * (o.strides[lane] or 0) for o in c.operands):
                self.steps[n] -= c.missing / self.extents[lane]
        self.work = max(1, c.operations)
        self.vector = cpu.vector(c.sums.dtype)
        self.masked = masked_bits(cpu.target)

    def cycles(self, plans: Sequence[library.NestPlan]) -> Column:
        """Of the busiest thread, from call to return; one number for each plan."""
        moved = self._each(plans, _moving, lambda alike, _: alike.traffic())
        work = self.arithmetic(plans)
        return self._each(plans, _around, lambda alike, at: alike.cycles(work[at], moved[at]))

    def arithmetic(self, plans: Sequence[library.NestPlan]) -> Column:
        """The same without memory: the register tiles, one after the other, of one thread."""
        return self._each(plans, self._computing, lambda alike, _: alike.arithmetic())

    def _computing(self, plan: library.NestPlan) -> Hashable:
        """What arithmetic depends on besides sizes: the order of loops is none of it, unless it has
        to ask for padding; and the rows of a tile count by what they share, not by their number."""
        shared = plan.shared_steps(self.c) if plan.flat == "shifts" else ()
        order = plan.order if plan.pad == "inline" else ()
        tile = (plan.lane, plan.lanes, plan.pad, plan.flat, plan.apart, plan.depth)
        return tile, _packs(plan), plan.steps, order, shared

    def shared_terms(self, plan: library.NestPlan) -> int:
        """The terms of a sum among which rows of a tile find the same elements."""
        if plan.flat != "shifts":
            return self.terms
        return prod(self.extents[n] for n in plan.shared_steps(self.c))

    def is_constant(self, operand: int) -> bool:
        """Whether an operand is known when the kernel is built: it is packed ahead of all calls."""
        return self.c.operands[operand].buffer in self.constants

    def _each(
        self,
        plans: Sequence[library.NestPlan],
        key: Callable[[library.NestPlan], Hashable],
        of: Callable[[_Alike, list[int]], Column],
    ) -> Column:
        """A number for each plan, of all with one `key` at once; `of` gets their places too."""
        groups: dict[Hashable, list[int]] = {}
        for at, plan in enumerate(plans):
            groups.setdefault(key(plan), []).append(at)
        found = np.zeros(len(plans))
        for places in groups.values():
            tile = np.array([plans[at].tile for at in places], dtype=np.float64)
            task = np.array([plans[at].task for at in places], dtype=np.float64)
            found[places] = of(_Alike(self, plans[places[0]], tile, task), places)
        return found


def _moving(plan: library.NestPlan) -> Hashable:
    """What traffic depends on besides sizes: many plans that compute otherwise move the same."""
    return plan.lane, _packs(plan), plan.steps, plan.order, plan.depth, plan.ahead


def _around(plan: library.NestPlan) -> Hashable:
    """What the rest depends on besides sizes: threads, and what is copied ahead."""
    return plan.lane, plan.lanes, _packs(plan), plan.pad, plan.threads, plan.depth, plan.ahead


def _packs(plan: library.NestPlan) -> tuple[tuple[int, int], ...]:
    return tuple((p.operand, p.axis) for p in plan.packs)


class _Alike:
    """Plans that differ in sizes of tiles and tasks only, as far as what is asked of them goes."""

    def __init__(self, of: Estimate, plan: library.NestPlan, tile: Column, task: Column) -> None:
        self.of, self.plan, self.c, self.cpu = of, plan, of.c, of.cpu
        self.tile = tile
        self.task = np.minimum(task, of.spatial)
        self.added = of.c.result.strides[plan.lane] == 0  # lanes are sums of one result
        self.streams = self.read()

    def cycles(self, work: Column, moved: Column) -> Column:
        """Of what is computed and what is moved."""
        costs = self.cpu.costs
        share = np.where(self.in_order(), IN_ORDER, costs.hidden)
        hidden = share * np.minimum(work, moved)
        time = (work + moved - hidden + self.stalls()) * self.share()
        return time + self.copies() + self.starts()

    def starts(self) -> float:
        """Of threads: for the nest, and for each copy that is made ahead of it."""
        if not self.plan.threads or self.cpu.threads == 1:
            return 0.0
        packed = [p for p in self.plan.packs if not self.of.is_constant(p.operand)]
        padded = [o for o in self.c.operands if o.pad] if self.plan.pad == "root" else []
        return self.cpu.costs.start * (1 + len(packed) + len(padded))

    def share(self) -> Column:
        """The part of the work that the busiest thread has."""
        if not self.plan.threads:
            return np.ones(len(self.tile))
        tasks = np.prod(np.ceil(self.of.spatial / self.task), axis=1)
        whole = np.prod(self.task / self.of.spatial, axis=1)
        return np.minimum(1.0, np.ceil(tasks / self.cpu.threads) * whole)

    def read(self) -> list[Stream]:
        """The operands as the nests read them."""
        found, extents = list(self.of.plain), self.of.extents
        for pack in self.plan.packs:
            old = found[pack.operand]
            strides: list[int | None] = [0] * len(extents)
            strides[pack.axis] = step = 1
            for n in reversed(self.plan.steps):
                if old.moves(n):
                    strides[n] = step
                    step *= extents[n]
            far = step
            step *= extents[pack.axis]
            for n in reversed(self.c.spatial):
                if old.moves(n) and n != pack.axis:
                    strides[n] = step
                    step *= extents[n]
            found[pack.operand] = Stream(
                tuple(strides), old.item, pack.axis, self.tile[:, pack.axis], far
            )
        return found

    # arithmetic

    def arithmetic(self) -> Column:
        """All tiles, one after the other; what is left at the end of an axis counts as it runs."""
        sizes, spatial = self.tile, self.of.spatial
        whole = np.floor(spatial / sizes)
        rest = spatial - whole * sizes
        total = np.zeros(len(sizes))
        axes = [n for n in range(sizes.shape[1]) if np.any(rest[:, n])]
        for choice in product((False, True), repeat=len(axes)):
            ends = [axis for axis, end in zip(axes, choice) if end]
            count, part = whole.copy(), sizes.copy()
            for n in ends:
                count[:, n] = rest[:, n] > 0
                part[:, n] = np.maximum(rest[:, n], 1)
            times = np.prod(count, axis=1)
            total += times * self.one_tile(part)
        return total + self.writing()

    def one_tile(self, sizes: Column) -> Column:
        """All terms of the sums of register tiles of these sizes."""
        costs, plan, of = self.cpu.costs, self.plan, self.of
        lanes, lane, terms = plan.lanes, plan.lane, of.terms
        others = [n for n in range(sizes.shape[1]) if n != lane]
        vectors = np.ceil(sizes[:, lane] / lanes)
        rows = np.prod(sizes[:, others], axis=1)
        sums = rows * vectors
        near = sums * self.of.shared_terms(plan)  # that a compiler sees side by side
        shared = (near <= SHARING) if plan.flat else np.zeros(len(sizes), dtype=bool)
        loads, held = np.zeros(len(sizes)), np.zeros(len(sizes))
        for n, stream in enumerate(self.streams):
            mine = np.prod(sizes[:, [m for m in others if stream.moves(m)]], axis=1)
            step = stream.strides[lane]
            each = np.ones(len(sizes))
            if step != 0:
                near = self.c.is_read_in_vectors(n, lane)
                apart = costs.strided * (step or 0) / 2 if near else float(lanes)
                whole = 1.0 if stream.aligned(lanes) and not self.added else costs.unaligned
                each = vectors * (whole if step == 1 else apart)
            if self.c.operands[n].pad and plan.pad == "inline":
                if not self.c.is_window(lane, n):  # all lanes are padding, or none
                    each = each * (1.0 if plan.flat else costs.masked)
                else:
                    kind = self.c.operands[n].dtype
                    can = bool(plan.flat) and dtype.bits(kind) in self.of.masked
                    known = self.decided(n) & can
                    each = each * np.where(known, 1.0, costs.asked)
            count = mine * terms
            if plan.flat:
                count = np.where(shared, self.distinct(n, sizes), count)
            loads += count * each
            kept = vectors * (near / sums if plan.flat in ("rows", "shifts") else 1)
            held += 1 if step == 0 else np.where(mine == 1, kept, 1)
        adds = of.vector * self.operations(sizes, sums, shared) * terms / costs.units
        reads = of.vector * loads / costs.ports
        time = np.maximum(adds, reads) + costs.both * np.minimum(adds, reads)
        if plan.depth:  # sums are loaded and stored again; those of other tiles go on meanwhile
            return time + terms / plan.depth * (2 * sums / costs.ports + costs.turn / 2)
        if plan.flat == "single":
            time = np.maximum(time, terms * costs.latency * rows / 4)
        else:
            operands = held if plan.flat else self.live(sizes)
            spilled = np.maximum(0, np.minimum(sums, sums + operands - self.cpu.registers))
            time = np.maximum(time, self.waits(terms)) + costs.spill * spilled * terms
        if plan.flat:
            time = np.where(shared, time, 2 * time)
        else:
            time += terms / (of.extents[plan.steps[-1]] if plan.steps else 1) * costs.turn
        return time + (OVERLAPPED if self.added else 1.0) * costs.tile + costs.sum_ * sums

    def operations(self, sizes: Column, sums: Column, near: npt.NDArray[np.bool_]) -> Column:
        """Instructions for a term of each sum of a tile. What a part of a product gives is computed
        once for all rows that it stands still along, and for all lanes."""
        total: Column = self.of.work * sums
        for operands in library.shared_parts(self.c, self.plan.apart):
            moves = [any(self.streams[o].moves(n) for o in operands) for n in self.c.spatial]
            own = np.full(len(sizes), 1.0 if moves[self.plan.lane] else SINGLE)
            for n, moved in enumerate(moves):
                lane = n == self.plan.lane
                if moved:
                    own = own * (np.ceil(sizes[:, n] / self.plan.lanes) if lane else sizes[:, n])
            total = total - np.where(near | (not self.plan.flat), sums - own, 0.0)
        return total

    def live(self, sizes: Column) -> Column:
        """Vectors of operands that are at hand together, as rows of a tile follow each other: what
        rows after the next read again stays. Of those along the lanes the most of one operand: an
        operation reads another one from memory."""
        plan, single, lanes = self.plan, np.zeros(len(sizes)), np.zeros(len(sizes))
        order = sorted(range(sizes.shape[1]), key=lambda n: n == plan.lane)
        for stream in self.streams:
            count, again = np.ones(len(sizes)), np.zeros(len(sizes), dtype=bool)
            for n in order:
                size = np.ceil(sizes[:, n] / plan.lanes) if n == plan.lane else sizes[:, n]
                if stream.moves(n):
                    count = np.where(again, count * size, count)
                else:
                    again |= size > 1
            if stream.moves(plan.lane):
                lanes = np.maximum(lanes, count)
            else:
                single += count
        return single + lanes

    def waits(self, terms: int) -> float:
        """The chain of additions of one sum. Tiles whose lanes are added up wait for nothing that
        others do: their first steps go on beside the last ones of the tile before."""
        return self.cpu.costs.latency * (max(0, terms - BESIDE) if self.added else terms)

    def decided(self, operand: int) -> npt.NDArray[np.bool_]:
        """Whether compilers write a tile out for each way in which its lanes can reach into the
        padding, so that what is padding is known there. Lanes look for themselves where there are
        too many ways to get to their loop."""
        plan, ways = self.plan, np.ones(len(self.tile))
        around = plan.order[: plan.order.index(plan.lane) + 1]
        for n in self.c.spatial:
            if not self.c.is_window(n, operand):
                continue
            near = any(row[n] in (1, -1) for row in self.c.operands[operand].dims)
            rest = self.of.spatial[n] % self.tile[:, n] > 0
            ends = np.where(rest | near, 3.0, 2.0)  # else only the first tile reaches beyond
            ways *= np.minimum(np.ceil(self.of.spatial[n] / self.task[:, n]), 3.0)
            if n in around:
                ways *= np.minimum(np.ceil(self.task[:, n] / self.tile[:, n]), ends)
        body = 2 * np.prod(self.tile, axis=1) / self.tile[:, plan.lane]
        body *= self.of.terms if plan.flat else 1
        return ways <= np.array([copies_of_body(int(statements)) for statements in body])

    def distinct(self, operand: int, sizes: Column) -> Column:
        """The different places that the rows of a tile read, of all terms of their sums."""
        count = np.ones(len(sizes))
        for row in self.c.operands[operand].dims:
            most, reach = np.ones(len(sizes)), np.ones(len(sizes))
            for n, step in enumerate(row):
                if not step or n == self.plan.lane:
                    continue
                size = sizes[:, n] if n < sizes.shape[1] else float(self.of.extents[n])
                most = most * size
                reach = reach + abs(step) * (size - 1)
            count *= np.minimum(most, reach)
        return count

    # memory

    def traffic(self) -> Column:
        """Cycles for the lines that come from behind each cache."""
        costs = [cost for _, cost in self.cpu.caches]
        return np.asarray(sum(cost * lines for cost, lines in zip(costs, self.lines())))

    def lines(self) -> list[Column]:
        """How many come from behind each cache."""
        of, plan = self.of, self.plan
        streams = [*self.streams, of.result]
        steps = [(n, np.full(len(self.tile), of.steps[n])) for n in plan.steps]
        few: list[tuple[int, Column]] = []
        if plan.depth:
            last, terms = steps.pop()
            steps.append((last, np.ceil(terms / plan.depth)))
            few = [(last, np.full(len(self.tile), float(plan.depth)))]
        loops = [(n, np.ceil(of.spatial[n] / self.task[:, n])) for n in plan.order]
        tiles = [(n, np.ceil(self.task[:, n] / self.tile[:, n])) for n in plan.order]
        loops += [*steps, *tiles, *few] if plan.depth else [*tiles, *steps]
        loops += [(n, np.minimum(self.tile[:, n], of.spatial[n])) for n in plan.order]
        count, depths = len(self.tile), len(loops) + 1
        boxes = np.ones((depths, count, len(of.extents)))  # below so many loops
        for depth, (axis, times) in reversed(list(enumerate(loops))):
            boxes[: depth + 1, :, axis] *= times
        boxes = np.minimum(boxes, of.extents)  # tiles reach beyond the end of an axis
        rows = boxes.reshape(depths * count, -1)
        lines = np.stack([s.lines(rows, depths).reshape(depths, count) for s in streams], axis=1)
        counts = np.array([np.ones(len(self.tile)), *(count for _, count in loops)])
        before = np.cumprod(counts, axis=0)
        axes = np.array([-1, *(axis for axis, _ in loops)])
        ways = self.cpu.caches[0][0] // PAGE
        places = {n: np.flatnonzero(axes == n) for n in (*plan.steps, *plan.order)}
        fresh = np.ones((len(streams), depths, count))
        for n, stream in enumerate(streams):
            for axis, at in places.items():
                if stream.moves(axis):
                    new = stream.fresh(axis, boxes[at], ways)
                    fresh[n, at] = np.maximum(new, 1 / counts[at])
        near = np.zeros((depths, count))  # lines, if boxes below so many loops stay in a cache
        far = np.zeros((depths, count))  # and of caches that are further away
        back = np.zeros((depths, count))  # and of the last: what was written leaves as room is made
        for n, stream in enumerate(streams):
            moved = np.array([axis < 0 or stream.moves(axis) for axis in axes])
            come = lines[:, n] * before / np.where(moved[:, None], 1.0, counts) * fresh[n]
            come = come * self.gapless(stream, loops)
            near += come
            beside = come * self.beside(stream)
            far += beside
            back += come if stream is of.result else beside
        found, used = [], lines.sum(axis=1) * LINE
        first, last = self.cpu.caches[0][0], self.cpu.caches[-1][0]
        for size, _ in self.cpu.caches:
            kept = stays(used, size)
            kept[-1] = 1.0
            missed = np.cumprod(np.vstack([np.ones(count), 1 - kept[:-1]]), axis=0)
            come = near if size == first else back if size == last else far
            come = np.where(np.arange(depths)[:, None] > 0, come, 0.0)  # else all of it is there
            found.append((missed * kept * come).sum(axis=0))
        return found

    def gapless(self, stream: Stream, loops: Sequence[tuple[int, Column]]) -> Column:
        """The share of the time of lines that is left where loops, outermost first, read a stream
        from one element to the next. Sums in registers take their terms from apart."""
        run, ends = np.ones(len(self.tile)), np.zeros(len(self.tile), dtype=bool)
        if not self.plan.depth:
            return run
        boxes = np.ones((len(self.of.extents), len(self.tile)))
        for axis, times in reversed(loops):
            step = abs(stream.strides[axis] or 0)
            goes_on = step * boxes[axis] == run
            ends |= (times > 1) & ~goes_on
            boxes[axis] = np.minimum(boxes[axis] * times, self.of.extents[axis])
            run = np.where(ends | ~goes_on, run, step * boxes[axis])
        return np.where(run * stream.item >= PAGE, GAPLESS, 1.0)

    def beside(self, stream: Stream) -> Column:
        """How much longer memory takes that the rows of a tile read side by side: each is asked for
        ahead by itself."""
        axes = [n for n in range(self.tile.shape[1]) if n != self.plan.lane and stream.apart(n)]
        along = self.rows(stream) if self.added else np.prod(self.tile[:, axes], axis=1)
        if self.plan.ahead:  # else by the plan, where other rows use them too
            along = np.where(self.rows() == along, along, 1.0)
        return 1.0 + self.cpu.costs.beside * np.log2(along)

    def rows(self, stream: Stream | None = None) -> Column:
        """The rows of a register tile, or those that a stream is not the same for."""
        axes = [n for n in range(self.tile.shape[1]) if n != self.plan.lane]
        return np.prod(self.tile[:, [n for n in axes if stream is None or stream.moves(n)]], axis=1)

    def in_order(self) -> npt.NDArray[np.bool_]:
        """Whether what is read most is read in its order, and asked for ahead: by the plan, or by
        the processor, if each of its elements is used once in a tile."""
        if not self.added:
            return np.full(len(self.tile), self.plan.depth > 0)
        spatial = range(len(self.c.axes))
        size = [prod(self.of.extents[n] for n in spatial if s.moves(n)) for s in self.of.plain]
        most = self.of.plain[size.index(max(size))]
        return (self.rows() == self.rows(most)) | bool(self.plan.ahead)

    def adding(self) -> float:
        """The lanes of each result are added up."""
        costs, count, lanes = self.cpu.costs, self.of.extents[self.plan.lane], self.plan.lanes
        return float(np.prod(self.of.spatial)) / count * (costs.add + -(-count // lanes) - 1)

    def stalls(self) -> Column | float:
        """Where the last lanes are narrower vectors, which are then read as a part of wide ones."""
        count, lanes = self.of.extents[self.plan.lane], self.plan.lanes
        last = (count - self.c.missing) % lanes if self.added and self.c.missing else 0
        first = lanes if count > lanes else min(lanes, LAST)
        if last == 0 or last & (last - 1) or last >= first:
            return 0.0
        return self.cpu.costs.stall * float(np.prod(self.of.spatial)) / count / self.rows()

    def writing(self) -> Column | float:
        """Results that are turned on the way out, or sums that are added up."""
        if self.added:
            return self.adding()
        if self.c.result.strides[self.plan.lane] == 1:
            return 0.0
        turned = self.cpu.costs.transpose * float(np.prod(self.of.spatial)) / self.plan.lanes
        return turned + self.kept()

    def kept(self) -> Column:
        """Panels of what a task makes that leave a cache before they are turned, and come back."""
        item, lane = self.of.result.item, self.plan.lane
        panel = np.prod(self.task, axis=1) / self.task[:, lane] * self.tile[:, lane] * item
        lines = 2 * float(np.prod(self.of.spatial)) * item / LINE
        costs = [cost * (1 - stays(panel, room)) for room, cost in self.cpu.caches[1:]]
        return lines * np.sum(costs, axis=0)

    # copies

    def copies(self) -> Column:
        """Operands that are packed in the call, and padding."""
        costs, plan, extents = self.cpu.costs, self.plan, self.of.extents
        threads = self.cpu.threads if plan.threads else 1
        total = np.zeros(len(self.tile))
        for pack in plan.packs:
            operand = self.c.operands[pack.operand]
            if self.of.is_constant(pack.operand):
                continue
            stream = self.of.plain[pack.operand]
            elements = prod(e for n, e in enumerate(extents) if stream.moves(n))
            each = costs.copy if operand.strides[pack.axis] == 1 else costs.copy_turned
            total += elements * each / threads
        for n, operand in enumerate(self.c.operands):
            if operand.pad is None or plan.pad == "inline":
                continue
            elements = prod(size or SYMBOLIC for size in operand.shape)
            if plan.pad == "task":
                total += costs.fill * elements * self.overlap(n) / threads
                continue
            used = elements * dtype.itemsize(operand.dtype)
            written = sum(2 * cost * used / LINE for size, cost in self.cpu.caches if used > size)
            total += (costs.fill * elements + written) / threads
        return total

    def overlap(self, operand: int) -> Column:
        """How often an element of an operand is copied by tasks, on average."""
        o = self.c.operands[operand]
        part = np.ones(len(self.tile))
        for row, size in zip(o.dims, o.shape):
            reach = np.ones(len(self.tile))
            for n, step in enumerate(row):
                box = self.task[:, n] if n < self.task.shape[1] else float(self.of.extents[n])
                reach = reach + abs(step or 0) * (box - 1)
            part *= np.minimum(size or SYMBOLIC, reach)
        tasks = np.prod(np.ceil(self.of.spatial / self.task), axis=1)
        return np.maximum(1.0, part * tasks / prod(size or SYMBOLIC for size in o.shape))
