"""The lines that nests move between caches and memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from autotune.estimate.nests import Alike
from autotune.streams import LINE, PAGE, Column, Stream, stays

GAPLESS = 0.5
"""The share of a line's time that is left, where all lines of some pages are read one by one."""


class Traffic(Alike):
    """What comes from behind each cache, and how it is hidden."""

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
        loops = [(n, np.ceil(of.spatial[n] / self.task[:, n])) for n in plan.order_of_tasks(of.c)]
        tiles = [(n, np.ceil(self.task[:, n] / self.tile[:, n])) for n in plan.order]
        loops += [*steps, *tiles, *few] if plan.depth else [*tiles, *steps]
        loops += [(n, np.minimum(self.tile[:, n], of.spatial[n])) for n in plan.order]
        count, depths = len(self.tile), len(loops) + 1
        boxes = np.ones((depths, count, len(of.extents)))  # below so many loops
        for depth, (axis, times) in reversed(list(enumerate(loops))):
            boxes[: depth + 1, :, axis] *= times
        boxes = np.minimum(boxes, of.extents)  # tiles reach beyond the end of an axis
        rows = boxes.reshape(depths * count, -1)
        pieces = [s.pieces(rows, depths) for s in streams]
        shape = len(streams), depths, count
        runs = np.stack([p.run for p in pieces]).reshape(shape)
        whole = np.concatenate([runs[:, :1], runs[:, :-1]], axis=1).reshape(len(streams), -1)
        each = [p.lines(s.item, run) for p, s, run in zip(pieces, streams, whole)]
        lines = np.stack(each).reshape(shape)
        crowded = np.stack([p.crowded(s.item) for p, s in zip(pieces, streams)]).reshape(shape)
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
        come = np.zeros((len(streams), depths, count))  # if boxes below stay in a cache
        beside = np.ones((len(streams), 1, count))
        for n, stream in enumerate(streams):
            moved = np.array([axis < 0 or stream.moves(axis) for axis in axes])
            come[n] = lines[n] * before / np.where(moved[:, None], 1.0, counts) * fresh[n]
            come[n] *= self.gapless(stream, loops)
            beside[n] = self.beside(stream)
        come[:, 0] = 0.0  # all of it is there
        found, used = [], np.broadcast_to(lines.sum(axis=0) * LINE, come.shape)
        for level, (size, _) in enumerate(self.cpu.caches):
            kept = stays(np.maximum(used, crowded) if level == 1 else used, size)
            kept[:, -1] = 1.0
            missed = np.cumprod(1 - kept, axis=1)
            missed = np.concatenate([np.ones_like(missed[:, :1]), missed[:, :-1]], axis=1)
            far = 1.0 if level == 0 else beside
            if level == len(self.cpu.caches) - 1:
                far = beside.copy()
                far[-1] = 1.0  # what was written leaves as room is made
            found.append((missed * kept * come * far).sum(axis=(0, 1)))
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

    def in_order(self) -> npt.NDArray[np.bool_]:
        """Whether what is read most is read in its order, and asked for ahead: by the plan, or by
        the processor, if each of its elements is used once in a tile."""
        if not self.added:
            return np.full(len(self.tile), self.plan.depth > 0)
        spatial = range(len(self.c.axes))
        size = [prod(self.of.extents[n] for n in spatial if s.moves(n)) for s in self.of.plain]
        most = self.of.plain[size.index(max(size))]
        return (self.rows() == self.rows(most)) | bool(self.plan.ahead)
