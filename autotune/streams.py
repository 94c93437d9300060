"""What a nest reads or writes of one buffer, and the lines of cache that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.float64]
"""A number for each plan."""

np.empty(3 << 17)
"""Freed at once: the C library of Linux keeps what is freed up to twice the largest array that ever
was. Else it returns the memory of columns to the system after each few operations, and asks for
pages of it again."""

LINE = 64
"""Bytes of a line of the caches."""

SETS = 64
"""Lines of a page: where addresses are those of the first cache, the lines of each of its ways."""

PAGE = SETS * LINE
"""Bytes of memory that are asked for ahead, if they are read in order."""

GAPLESS = 0.5
"""The share of a line's time that is left, where all lines of some pages are read one by one."""

WAY = 32 * PAGE
"""Bytes of each way of a second-level cache, of 1 MiB with 8 ways or 2 MiB with 16."""

HUGE = 4 << 20
"""Bytes from which on arrays of NumPy and intermediates are in pages of 2 MiB: only there do
addresses tell where in that cache they are."""

RUN = 150
"""Bytes: pieces of memory of so many take twice as long a line as whole ones."""

FOLLOWED = 32
"""Runs of lines that processors follow at once, and ask ahead for."""

FILL, CROWDED = 0.5, 1.1
"""The share of a cache up to which a working set stays in it, and from which on nothing of it does:
caches also hold what passes through, and others use them."""

WAYS = 0.9
"""The same as FILL of rows in one set of the first cache: all but one of its ways, about."""


@dataclass(frozen=True)
class Stream:
    """What is read or written of an array of so many bytes: elements between neighbours of each
    axis. Panels of `panel` values of an axis, if there are any, lie `far` elements apart. `dims`
    are the steps of each axis in the dimensions of what lies as it was written."""

    strides: tuple[int | None, ...]
    item: int
    bytes: int
    axis: int = -1
    panel: Column | None = None
    far: int = 0
    dims: tuple[tuple[int | None, ...], ...] = ()

    def moves(self, axis: int) -> bool:
        return self.strides[axis] != 0

    def fresh(
        self, axes: npt.NDArray[np.int64], boxes: Column, sizes: Column, rooms: Sequence[int]
    ) -> Column:
        """The share of lines that are new from one value of an axis to the next, for each of `axes`
        (-1: of none) with a box of so many values of each axis, of which `sizes` are those of its
        own: neighbours are in the same lines, and windows overlap, where these stay in a cache of
        so many bytes, the first one or the second, a row of the answer for each: rows at distances
        of large powers of two share few of its ways."""
        shape = len(rooms), *axes.shape
        if self.panel is not None:
            return np.ones(shape)
        steps = np.array([*(abs(step or 0) for step in self.strides), 0], dtype=np.float64)
        moved = (steps * self.item / LINE)[axes]
        near = np.where(moved > 0, np.minimum(1.0, moved * sizes), 1.0)
        for own, moved_by in self.overlapping:
            beyond = own[axes]
            reach = 1 + sum(step * (boxes[..., n] - 1) for n, step in moved_by)
            near = np.where(beyond > 0, np.minimum(near, beyond * sizes / reach), near)
        found = np.empty(shape)
        found[:] = near
        for n, step in enumerate(self.strides):
            if step and abs(step) * self.item >= LINE:
                longest = boxes[..., n].max()
                for level, room in enumerate(rooms):
                    most = self.rows_in(room, level, abs(step))
                    if longest > most:
                        found[level][(axes != n) & (boxes[..., n] > most)] = 1.0
        return found

    @cached_property
    def overlapping(self) -> list[tuple[Column, list[tuple[int, int]]]]:
        """Of each dimension that several axes move in, the steps of those that move in no other (of
        the last one, no axis, none), and the axes with their steps."""
        found = []
        for row in self.dims:
            if sum(step != 0 for step in row) > 1:
                alone = [sum(bool(other[n]) for other in self.dims) == 1 for n in range(len(row))]
                own = [abs(step or 0) if one else 0 for step, one in zip(row, alone)]
                moved = [(n, abs(step)) for n, step in enumerate(row) if step]
                found.append((np.array([*own, 0], dtype=np.float64), moved))
        return found

    def rows_in(self, room: int, level: int, step: int) -> float:
        """How many rows so many elements apart the first or the second cache can hold."""
        if level:
            return self.places(step)[level] * room / WAY
        return SETS // gcd(SETS, step * self.item // LINE) * (room // PAGE)

    def apart(self, axis: int) -> bool:
        """Whether neighbours along an axis are in different pages of memory."""
        step = self.strides[axis]
        return self.panel is None and (step is None or abs(step) * self.item >= PAGE)

    def aligned(self, lanes: int) -> bool:
        """Whether vectors begin at multiples of their length: panels do, if filled up."""
        return all(s in (0, 1) or s is not None and s % lanes == 0 for s in self.strides)

    def steps(
        self, box: Column, axes: Sequence[int], depths: int
    ) -> list[tuple[float, Column | float, Column]]:
        """Of boxes with so many values of each axis, more than one of some `axes`, a row for each
        axis and `depths` columns of each plan: the elements between neighbours, nearest first, in
        panels those of each plan, and how many neighbours there are."""
        panel = None if self.panel is None else np.tile(self.panel, depths)
        found: list[tuple[float, Column | float, Column]] = []
        for n in axes:
            stride, size = self.strides[n], box[n]
            if stride == 0:
                continue
            if n == self.axis and panel is not None:
                found.append((1, 1.0, np.minimum(size, panel)))
                found.append((self.far, self.far * panel, np.ceil(size / panel)))
            else:
                far = 1 << 30 if stride is None else abs(stride)
                found.append((far, far if panel is None else far * panel, size))
        return sorted(found, key=lambda item: item[0])

    def places(self, step: float) -> tuple[float, float]:
        """The places in a way of the first and of the second cache that elements so far apart begin
        at."""
        if self.panel is not None:
            return float(PAGE), float(WAY)
        return places_of_rows(int(step) * self.item, self.bytes)


def places_of_rows(apart: int, size: int) -> tuple[float, float]:
    """The places in a way of the first and of the second cache that rows begin at which lie so many
    bytes apart, of an array of `size` bytes."""
    near = PAGE // gcd(PAGE, apart)
    pages_lie_anywhere = size < HUGE
    far = near * (WAY // PAGE) if pages_lie_anywhere else WAY // gcd(WAY, apart)
    return float(near), float(far)


class Pieces:
    """Boxes of memory, a row for each of some streams: the bytes of an element, how many runs they
    are, of how many elements each, and at how many places in a way of the first and of the second
    cache these begin."""

    def __init__(self, item: Column, run: Column, runs: Column, places: Column) -> None:
        self.item, self.run, self.runs, self.places = item, run, runs, places

    def at(self, rows: npt.NDArray[np.int64], each: int) -> Pieces:
        """Some of the boxes, `each` of which are alike in what they are for, maybe repeated."""
        if len(rows) * each == self.run.shape[1]:
            return self
        places = (rows[:, None] * each + np.arange(each)).reshape(-1)
        own = (values[..., places] for values in (self.run, self.runs, self.places))
        return Pieces(self.item, *own)

    def lines(self, whole: Column) -> Column:
        """The lines of cache, in times of one that is whole. Where the boxes that follow go on with
        their few runs, up to `whole` elements, lines come as those of such runs."""
        lines, one = self.run * self.item / LINE, self.run <= 1
        whole = np.where(self.runs <= FOLLOWED, whole, self.run)
        part = np.where(lines == np.floor(lines), lines, lines + 0.5)
        slower = np.where(self.runs > 1, 1 + np.minimum(0.6, RUN / (whole * self.item)), 1.0)
        return self.runs * slower * np.where(one, 1.0, part)

    def unasked(self) -> Column:
        """The share of lines that nothing asks the second cache for ahead: the first one of each
        short run, where there are more runs than are followed at once."""
        short = (self.runs > FOLLOWED) & (self.run * self.item < PAGE)
        return np.where(short, np.minimum(1.0, LINE / (self.run * self.item)), 0.0)

    def crowded(self) -> Column:
        """Bytes of the first and of the second cache that hold so much in each of their sets as the
        fullest of these boxes: rows at distances of large powers of two share sets."""
        size = np.maximum(self.run * self.item, LINE)
        ways = np.array([[[PAGE]], [[WAY]]])
        return self.runs * size * np.maximum(1.0, ways / (self.places * size))


def pieces_of(streams: Sequence[Stream], boxes: Column, depths: int) -> Pieces:
    """What boxes are in memory for each stream: of so many values of each axis, a row for each box,
    `depths` of each plan. All streams go together, step by step: one that has no more steps is as
    one of which there is a single neighbour."""
    box, shape, steps, common = boxes.T.copy(), (len(streams), len(boxes)), [], []
    moved = [n for n, most in enumerate(box.max(axis=1).tolist()) if most > 1]
    first = np.ones(shape)
    for n, stream in enumerate(streams):
        own = stream.steps(box, moved, depths)
        common.append(stream.places(gcd(*(int(step) for step, _, _ in own))))
        if own and own[0][0] == 1:  # neighbours are a run, whatever their number
            first[n] = np.maximum(1.0, own.pop(0)[2])
        steps.append(own)
    order = sorted(range(len(streams)), key=lambda n: -len(steps[n]))
    run, runs, places = first[order], np.ones(shape), np.ones((2, *shape))
    pitch, count = np.ones(shape), np.ones(shape)  # of the runs along the last axis
    close = np.array([[LINE / 4 / streams[n].item] for n in order])
    for at in range(len(steps[order[0]]) if order else 0):
        live = [n for n in order if at < len(steps[n])]  # the others are at their end
        some = slice(len(live))
        _further(
            [steps[n][at] for n in live],
            _by_stream([streams[n].places(steps[n][at][0]) for n in live]),
            close[some], run[some], runs[some], places[:, some], pitch[some], count[some],
        )  # fmt: skip
    back = np.argsort(order)
    item = np.array([[stream.item] for stream in streams])
    found = np.minimum(places[:, back], _by_stream(common))
    return Pieces(item, run[back], runs[back], found)


def _further(
    steps: Sequence[tuple[float, Column | float, Column]], most: Column, close: Column, run: Column,
    runs: Column, places: Column, pitch: Column, count: Column,
) -> None:  # fmt: skip
    """One more step for each of some streams: runs become longer if it is next to them, or as
    `close` where there is one, or there are more of them, at `most` so many places."""
    apart, size = np.empty_like(run), np.empty_like(run)
    for n, own in enumerate(steps):
        _, apart[n], size[n] = own
    joined, several = apart <= run, size > 1
    on = joined | ((apart <= close) & (runs == 1))
    longer = np.where(joined, run + apart * (size - 1), apart * size)
    pitches = apart / pitch
    again = (count > 1) & (pitches <= count)
    reach = more = size
    if again.any():
        again &= pitches == np.floor(pitches)
        reach = np.where(again, count + pitches * (size - 1), size)  # windows overlap
        more = np.where(again, reach / count, size)
    more = np.where(on, 1.0, more)
    places *= np.minimum(more, most)
    runs *= more
    on &= several
    np.copyto(run, longer, where=on)
    others = several > on
    np.copyto(count, reach, where=others)
    np.copyto(pitch, apart, where=others > again)


def _by_stream(places: Sequence[tuple[float, float]]) -> Column:
    """A number for each cache and stream, whatever the box."""
    return np.array(places).T[..., None]


def stays(used: Column, room: int, fill: float = FILL) -> Column:
    """The share of so many bytes that stays in a cache."""
    share = (CROWDED - used / room) / (CROWDED - fill)
    return np.minimum(np.maximum(share, 0.0), 1.0)
