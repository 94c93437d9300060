"""The lines that nests move between caches and memory, and what they ask for ahead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from autotune.device import Cpu
from autotune.estimate.nests import Alike, packs_of
from autotune.estimate.varied import varied
from autotune.streams import FOLLOWED, GAPLESS, LINE, PAGE, WAYS, Column, Stream, pieces_of, stays
from schedule import library
from tensorir import dtype

AHEAD = 8192
"""Bytes that memory is asked for ahead: the processor's own prefetching ends with a page."""

PIECES = 0.02
"""Share by which pieces of one page come later, each time they double: of nests that take as long
otherwise, which reads whole rows takes 0.7 to 0.9 of the time."""

BEYOND = 4
"""Times the second cache from which on what is read in its order is asked for ahead."""

SHARE = 0.1
"""Of the time of a tile that its lines take in memory, from which on they are asked for ahead: a
product of 64 terms takes 0.9 of the time, one of 128 terms 0.93 to 0.98."""

ALONE = 0.8
"""The share of all lines from which on those of one panel come as if there were no others."""

TOGETHER = 0.1
"""Share by which lines come sooner each time that the rows which are read side by side, in their
order, double: column sums of eight rows at a time take 0.6 of the time."""

DOUBLED = 3
"""How often that is so; from there on they come later again."""

ADDED = 0.75
"""GAPLESS of lines from the last cache, where lanes are added up: row by row, not by columns."""

SHARED = 2
"""Times that what is read again within a call has to fit into the last cache: other cores and other
programs use it too. A product of 2048 that read 16 MB again, of 32, took 1.5 times as long as one
that read parts of 4 MB (a Zen 3 beside other programs)."""

LONG = 65536
"""Bytes from which on a single row comes sooner still, by one such share, if the first cache holds
what is summed up."""


class Traffic(Alike):
    """What comes from behind each cache, and how it is hidden: of plans that pack operands, and
    turn results, each in its own way."""

    def traffic(self) -> Column:
        """Cycles for the lines that come from behind each cache."""
        costs = [cost for _, cost in self.cpu.caches]
        costs.insert(0, self.cpu.costs.crowded)
        return np.asarray(sum(cost * lines for cost, lines in zip(costs, self.lines())))

    def lines(self) -> list[Column]:
        """How many come to the first cache again, as they share its sets with others, and how many
        from behind each cache."""
        places, streams, used = self.read_by_each()
        axes, times = self.loops()
        factors = np.ones((len(axes) + 1, len(self.tile), len(self.of.extents)))
        factors[_at(axes)] = times
        boxes = _running(factors[::-1])[::-1]  # below so many loops
        np.minimum(boxes, self.of.extents, out=boxes)  # tiles reach beyond the end of an axis
        gapless = [self.gapless(n, stream, axes, times) for n, stream in zip(places, streams)]
        reads = [*zip(streams, used, gapless)]
        tiles = len(axes) - len(self.plan.order)
        found = self.behind(reads, axes[:tiles], times[:tiles], boxes[: tiles + 1], inside=True)
        return found or self.behind(reads, axes, times, boxes, inside=False)

    def behind(
        self,
        reads: Sequence[tuple[Stream, npt.NDArray[np.bool_], Column]],
        axes: npt.NDArray[np.int64],
        times: Column,
        boxes: Column,
        inside: bool,
    ) -> list[Column]:
        """The same for these loops, with boxes of so many values below each. Where there are others
        `inside` of them, these are needed if the last boxes do not stay in all caches, as those of
        lanes that lie far apart: then there is no answer, and they nearly always do."""
        of, streams = self.of, [stream for stream, _, _ in reads]
        used = np.stack([each for _, each, _ in reads])
        count, depths = len(self.tile), len(axes) + 1
        counts = np.concatenate([np.ones((1, count)), times])
        around = np.concatenate([np.full((1, count), -1), axes])
        before = _running(counts)
        different = np.any(counts > 1, axis=1)  # below loops of one iteration boxes are the same
        different[0] = True
        own = np.cumsum(different) - 1
        few, shape = boxes[different], (len(streams), depths, count)
        pieces = pieces_of(streams, few.reshape(-1, few.shape[2]), len(few)).at(own, count)
        runs = pieces.run.reshape(shape)
        whole = np.concatenate([runs[:, :1], runs[:, :-1]], axis=1).reshape(len(streams), -1)
        lines = np.where(used, pieces.lines(whole).reshape(shape), 0.0)
        unasked = pieces.unasked().reshape(shape)
        unasked[:, 1:] = np.maximum(unasked[:, 1:], unasked[:, :-1])
        crowded = np.where(used, pieces.crowded().reshape(2, *shape), 0.0)
        rooms = [room for room, _ in self.cpu.caches[:2]]  # the first cache, and those behind it
        loops = around[different]
        sizes, fresh = few[_at(loops)], np.ones((2, *shape))
        new = np.stack([s.fresh(loops, few, sizes, rooms) for s in streams], axis=1)
        fresh[:, :, different] = np.maximum(new, 1 / counts[different])
        moving = np.array([[*map(s.moves, range(len(of.extents))), True] for s in streams])
        come = lines * before / np.where(moving[:, around], 1.0, counts)  # if boxes stay in a cache
        gapless = np.stack([gapless for _, _, gapless in reads])
        come *= gapless[:, None]
        tile = 2 * len(self.plan.order)  # below so many loops, or more of sums that wait
        beside = self.beside(streams, pieces.runs.reshape(shape)[:, tile])
        self.in_panels(lines[-1], come[-1], boxes)
        come[:, 0] = 0.0  # all of it is there
        come = come * fresh
        found, held, sudden = [], lines.sum(axis=0, keepdims=True) * LINE, 0.0
        filled = held, np.maximum(held, crowded[1]), self.held_by_all(lines, moving)
        for level, (there, (size, _)) in enumerate(zip(filled, self.cpu.caches)):
            kept = stays(there, size)
            if inside and (kept[:, -1] < 1.0).any():
                return []
            kept[:, -1] = 1.0
            each = _missed(kept) * kept * come[min(level, 1)]
            sudden = sudden if level else (each * unasked).sum(axis=(0, 1))
            each = each.sum(axis=1)
            each *= self.followed(streams, each, lines[:, 0]) if level else 1.0
            if level == len(self.cpu.caches) - 1:
                beside[-1] = 1.0  # what was written leaves as room is made
                if self.added:
                    each *= np.where(gapless < 1.0, GAPLESS / ADDED, 1.0)
            found.append((each * beside if level else each).sum(axis=0))
        terms = depths - 1 - (0 if inside else len(self.plan.order))
        return [self.again(held, crowded[0], come[0], terms) + sudden, *found]

    def held_by_all(self, lines: Column, moving: npt.NDArray[np.bool_]) -> Column:
        """Bytes that these lines of each stream take of the last cache, or leave to others: threads
        hold a part each of what moves along an axis that tasks cut. From one call to the next all
        is there or not, whatever the nest."""
        cut = (self.task < self.of.spatial).T & self.plan.threads
        apart = np.where(moving[:, : len(cut)] @ cut, self.cpu.threads, 1.0)[:, None]
        found: Column = (lines * apart).sum(axis=0, keepdims=True) * LINE * SHARED
        found[:, 0] = lines[:, 0].sum(axis=0) * LINE
        return found

    def followed(self, streams: Sequence[Stream], lines: Column, all_of_it: Column) -> Column:
        """The share of the time of lines that is left where nearly all are those of one panel of
        the lanes, which each thread reads again and again from one element to the next."""
        if self.added:
            return np.ones(lines.shape)
        panels = np.array([(self.lane == s.axis) & (s.panel is not None) for s in streams])
        most = lines >= np.maximum(ALONE * lines.sum(axis=0), self.cpu.threads * all_of_it)
        return np.where(panels & most, GAPLESS, 1.0)

    def again(self, held: Column, crowded: Column, come: Column, terms: int) -> Column:
        """The lines that terms find gone from the first cache though it has room for them: rows of
        a tile share its sets. One term of a tile, below so many loops, is in registers."""
        size, found = self.cpu.l1_bytes, []
        room = stays(held, size)
        crowds = stays(crowded, size, WAYS)
        if not np.any(crowds[:, :terms] < room[:, :terms]):
            return np.zeros(come.shape[-1])
        for kept in (room, np.minimum(room, crowds)):
            kept = np.where(np.arange(kept.shape[1])[:, None] < terms, kept, 1)
            found.append((_missed(kept) * kept * come).sum(axis=(0, 1)))
        return np.maximum(0.0, found[1] - found[0])

    def read_by_each(self) -> tuple[list[int], list[Stream], npt.NDArray[np.bool_]]:
        """What the plans read, and the result: places among the operands, each way in which some
        read one, and which of them do."""
        alike: dict[object, tuple[library.NestPlan, list[npt.NDArray[np.int64]]]] = {}
        for plan, rows in self.ways:
            read = packs_of(plan), plan.steps if plan.packs else ()
            alike.setdefault(read, (plan, []))[1].append(rows)
        ways: dict[tuple[object, ...], tuple[int, Stream, list[npt.NDArray[np.int64]]]] = {}
        for plan, places in alike.values():
            axes = dict(packs_of(plan))
            for n, stream in enumerate(self.read(plan)):
                key = (n, axes.get(n), plan.steps if n in axes else ())
                ways.setdefault(key, (n, stream, []))[2].extend(places)
        found = sorted(ways.values(), key=lambda way: way[0])
        used = np.zeros((len(found) + 1, 1, len(self.plans)), dtype=bool)
        for at, (_, _, places) in enumerate(found):
            used[at, 0, np.concatenate(places)] = True
        used[-1] = True
        streams = [*(stream for _, stream, _ in found), self.of.result]
        return [*(n for n, _, _ in found), len(self.c.operands)], streams, used

    def loops(self) -> tuple[npt.NDArray[np.int64], Column]:
        """The axes and iterations of all loops, outermost first: over tasks, tiles and steps, and
        in a tile; a column for each plan. Where results are turned, tiles of the same lanes follow
        each other."""
        of, plan = self.of, self.plan
        count = len(self.tile)
        axes = np.empty((3, len(plan.order), count), dtype=np.int64)
        terms = np.empty((len(plan.steps), count), dtype=np.int64)
        for first, places in self.ways:
            turned = of.c.result.strides[first.lane] not in (0, 1)
            tiles = sorted(first.order, key=lambda n: turned and n != first.lane)
            nested = (first.order_of_tasks(of.c), tiles, first.order)
            axes[:, :, places] = np.array(nested)[:, :, None]
            terms[:, places] = np.array(first.steps)[:, None]
        sizes = [of.spatial / self.task, self.task / self.tile, np.minimum(self.tile, of.spatial)]
        tasks, tiles_, inside = (
            np.ceil(size)[np.arange(count), order] for size, order in zip(sizes, axes)
        )
        steps = np.array(of.steps)[terms]
        middle, numbers = [axes[1], terms], [tiles_, steps]
        if plan.depth:
            few = np.array([[float(each.depth) for each in self.plans]])
            steps[-1:] = np.ceil(steps[-1:] / few)
            middle, numbers = [terms, axes[1], terms[-1:]], [steps, tiles_, few]
        return (
            np.concatenate([axes[0], *middle, axes[2]]), np.concatenate([tasks, *numbers, inside])
        )  # fmt: skip

    def in_panels(self, lines: Column, come: Column, boxes: Column) -> None:
        """The lines of results that are turned, by depth: their tiles are side by side in a panel
        of the lanes of one, of a task, and go to their places when all of them are there."""
        panel, strides = len(self.c.spatial) + 1, self.c.result.strides
        turned = np.flatnonzero(self.are(lambda plan: strides[plan.lane] not in (0, 1)))
        if not len(turned):
            return
        come[panel:, turned] = come[panel, turned]
        elements = boxes[panel + 1 :, turned][..., list(self.c.spatial)].prod(axis=2)
        lines[panel + 1 :, turned] = elements * self.of.result.item / LINE

    def gapless(
        self, operand: int, stream: Stream, axes: npt.NDArray[np.int64], times: Column
    ) -> Column:
        """The share of the time of lines that is left where loops, outermost first, read a stream
        from one element to the next, or it is asked for ahead. Sums in registers take their terms
        from apart, but for the lanes of one sum."""
        asked = np.where(self.asked(operand), 1.0 if self.added else GAPLESS, 1.0)
        if not (self.plan.depth or self.added) or np.all(asked < 1.0):
            return asked
        run, rows = self.rows_in_order(stream, axes, times)
        passing = self.task[np.arange(len(run)), self.lane] * (1 + len(self.streams))
        near = passing * self.of.result.item <= self.cpu.kept_bytes(1)
        long = near & (rows == 1) & (run * stream.item >= LONG)
        times_sooner = np.where(long, DOUBLED + 1, DOUBLED - np.abs(DOUBLED - np.log2(rows)))
        share = ADDED if self.added else GAPLESS * (1 - TOGETHER * times_sooner)
        sooner = np.where(run * stream.item >= PAGE, share, 1.0)
        return np.where(asked < 1.0, asked, sooner)

    def rows_in_order(
        self, stream: Stream, axes: npt.NDArray[np.int64], times: Column
    ) -> tuple[Column, Column]:
        """The elements of a stream that loops, outermost first, read from one to the next, and how
        many such rows they read side by side."""
        run, ends = np.ones(len(self.tile)), np.zeros(len(self.tile), dtype=bool)
        every = np.arange(len(run))
        boxes = np.ones((len(run), len(self.of.extents)))
        extents, strides = (
            np.array(each, dtype=np.float64)
            for each in (self.of.extents, [abs(step or 0) for step in stream.strides])
        )
        few, rows = np.ones(len(run)), np.ones(len(run))  # rows so far, and those that go on
        for at, (axis, count) in enumerate(zip(axes[::-1], times[::-1])):
            step, box = strides[axis], boxes[every, axis]
            moved, goes_on = (count > 1) & (step > 0), step * box == run
            apart = moved & ~goes_on
            ends |= apart & ((few > 1) | (count > FOLLOWED))
            if at >= len(self.plan.order):  # not in a tile: other rows of it read these again
                short = run * stream.item <= LINE
                ends |= ((count > 1) & (step == 0)) | (short & (not self.added))
            few = np.where(apart, count, few)
            boxes[every, axis] = box = np.minimum(box * count, extents[axis])
            longer = moved & goes_on & ~ends
            run, rows = np.where(longer, step * box, run), np.where(longer, few, rows)
        return run, rows

    def beside(self, streams: Sequence[Stream], pieces: Column) -> Column:
        """How much longer memory takes that the rows of a tile read side by side, for each stream:
        each is asked for ahead by itself. So are the `pieces` that a tile reads of rows in one page
        where its terms are written out, a little later."""
        along = np.stack([self.read_beside(stream) for stream in streams])
        asking, flat = self.asked(*range(len(streams))), self.are(lambda plan: bool(plan.flat))
        if asking.any():  # else by the plan, where other rows use them too
            along = np.where(asking & (self.rows() != along), 1.0, along)
        found: Column = 1.0 + self.cpu.costs.beside * np.log2(along)
        if flat.any():
            found += np.where(flat, PIECES * np.log2(np.clip(pieces / along, 1.0, FOLLOWED)), 0.0)
        return found

    def read_beside(self, stream: Stream) -> Column:
        """The rows of a tile that are read of a stream side by side."""
        if self.added:
            return self.rows(stream)
        axes = [n for n in range(self.tile.shape[1]) if stream.apart(n)]
        return self.tall[:, axes].prod(axis=1)

    def in_order(self) -> npt.NDArray[np.bool_]:
        """Whether what is read most is read in its order, and asked for ahead: by the plan, or by
        the processor, if each of its elements is used once in a tile."""
        spatial = range(len(self.c.axes))
        size = [prod(self.of.extents[n] for n in spatial if s.moves(n)) for s in self.of.plain]
        if not size:  # terms that read nothing
            return np.zeros(len(self.tile), dtype=bool)
        most = size.index(max(size))
        if not self.added:
            return self.asked(most) | (self.plan.depth > 0)
        return (self.rows() == self.rows(self.of.plain[most])) | self.asked(*range(len(size)))


def _at(axes: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], ...]:
    """Indices of the value of an axis in rows of values of all, for each depth and plan."""
    depths, plans = axes.shape
    return np.arange(depths)[:, None], np.arange(plans), axes


def _missed(kept: Column) -> Column:
    """The share of what is kept of boxes that is not in those inside of them, outermost first."""
    left = np.ones((kept.shape[1], len(kept), kept.shape[2]))
    left[1:] -= kept[:, :-1].swapaxes(0, 1)
    return _running(left).swapaxes(0, 1)


def _running(factors: Column) -> Column:
    """Products of each row and all before it: by NumPy's own function, which goes column by column,
    in ten times the time."""
    found = factors.copy()
    for at in range(1, len(found)):
        found[at] *= found[at - 1]
    return found


def far_operands(c: library.Contraction, cpu: Cpu, times: int = 1) -> list[int]:
    """The operands that the second cache, or so many of them, does not hold."""
    held = [prod(size or 0 for size in o.shape) * dtype.itemsize(o.dtype) for o in c.operands]
    room = cpu.l2_bytes * times
    return [n for n, size in enumerate(held) if size > room]


def with_requests(
    c: library.Contraction, cpu: Cpu, plans: Iterable[library.NestPlan]
) -> list[library.NestPlan]:
    """The nests, each as it asks ahead for operands that the second cache does not hold."""
    far = far_operands(c, cpu)
    in_time = far_operands(c, cpu, BEYOND) if far else []
    asked = [(p, _requests(c, cpu, p, far, in_time) if far else ()) for p in plans]
    return [varied(p, ahead=ahead) if ahead != p.ahead else p for p, ahead in asked]


def _requests(
    c: library.Contraction,
    cpu: Cpu,
    plan: library.NestPlan,
    far: Sequence[int],
    in_time: Sequence[int],
) -> tuple[tuple[int, int], ...]:
    """What a nest asks ahead for of operands that are `far`, if that pays; and by far where the
    processor is `in_time`: it is late where elements are converted or rows of a tile share them."""
    found, asked = [], set()
    for n in far:
        o = c.operands[n]
        if None in o.shape or o.buffer in asked or not _can_ask(c, plan, n):
            continue
        rows = (m for m in c.spatial if m != plan.lane and o.strides[m] == 0)
        uses = prod(plan.tile[m] for m in rows)
        vectors = uses * LINE / dtype.itemsize(o.dtype) / plan.lanes
        if not cpu.asks_ahead(vectors / cpu.costs.units, 1):
            continue
        if uses > 1 or o.converted or n in in_time:
            asked.add(o.buffer)  # once, however many of its elements a term reads
            found.append((n, AHEAD if uses == 1 else AHEAD // 2))
    return tuple(found)


def with_results(c: library.Contraction, nest: library.NestPlan, cpu: Cpu) -> library.NestPlan:
    """The nest as it asks for the lines that its tiles are written to: of results that the second
    cache does not hold, where few terms are summed up in loops, and lanes are neighbours."""
    sizes = [axis.extent for axis in c.axes]
    terms, results = (prod(sizes[n] or 0 for n in axes) for axes in (c.reduced, c.spatial))
    rests = terms * SHARE <= cpu.costs.memory * cpu.costs.units * cpu.vector
    far = results * dtype.itemsize(c.result.dtype) > cpu.l2_bytes
    summed = len(nest.steps) > 0 and not (nest.flat or nest.depth or c.repeated)
    known = None not in sizes and c.result.param and c.result.strides[nest.lane] == 1
    few = prod(nest.tile) <= terms // nest.written * (LINE // dtype.itemsize(c.result.dtype))
    return varied(nest, asks=bool(known and summed and rests and far and few))


def asking(
    c: library.Contraction, plan: library.NestPlan, ahead: Sequence[tuple[int, int]]
) -> library.NestPlan:
    """The nest with those of some requests that it can make."""
    return varied(plan, ahead=tuple(each for each in ahead if _can_ask(c, plan, each[0])))


def _can_ask(c: library.Contraction, plan: library.NestPlan, operand: int) -> bool:
    """Whether a nest can ask for an operand: for vectors that follow each other term by term, as
    in panels, for sums in registers with their terms in a loop. Lines that lie apart come no sooner
    for it. Rows of a tile are in dimensions of their own, and so few lines."""
    o = c.operands[operand]
    written = plan.flat or plan.written > 1
    if not plan.steps or written or plan.depth or o.pad or not o.strides[plan.lane]:
        return False
    moved = plan.stride_of_terms(c, operand)
    if moved is None or not 0 < abs(moved) <= plan.tile[plan.lane]:
        return False
    if all(pack.operand != operand for pack in plan.packs):  # else it has a buffer of its own
        if any(other.buffer == o.buffer and other.dims != o.dims for other in c.operands):
            return False
    rows = [(n,) for n in c.spatial if plan.tile[n] > 1 and n != plan.lane]
    near = [(plan.lane, plan.steps[-1]), *rows]
    return all(sum(any(row[n] != 0 for n in axes) for axes in near) <= 1 for row in o.dims)
