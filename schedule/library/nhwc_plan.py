"""Register tiles and tasks for convolutions with channels last, by a model of the cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from schedule.library.channels_last_find import ChannelsLast
from schedule.library.lanes import COLUMNS, SHY, tile_cost
from tensorir import Target

TASKS = (1, 2, 4, 8)
"""Parts, for each thread, that a long row of pixels may be cut into."""


@dataclass(frozen=True)
class NhwcPlan:
    """What is chosen from the sizes.

    The register tile is `down` rows x `pixels` x `vectors` of `lanes` output channels. A task takes
    `rows` rows of a picture, with `flat` or in one dimension so many pixels, and all channels;
    where that is 0, threads share the output channels. With `flat`, a picture is one row, and all
    pictures are if the batch is a number.
    """

    lanes: int
    pixels: int
    vectors: int
    rows: int
    down: int = 1
    flat: bool = False


@dataclass(frozen=True)
class _Work:
    """The sizes as the tiles see them: rows of pixels, and vectors of one group's outputs."""

    height: int
    width: int
    vectors: int
    flat: bool
    single: bool
    """Whether there is one row, which is cut into tasks."""
    repeats: int
    """Pictures; 1 where they are all one row."""
    item: int
    steps: int


def choose_nhwc(conv: ChannelsLast, target: Target) -> NhwcPlan:
    """The plan of the least time of the busiest thread."""
    work = _work(conv, target)
    lanes = min(target.lanes(conv.dtype), conv.filters // conv.groups)
    best: list[tuple[float, NhwcPlan]] = []
    for pixels, down, columns, cost in _tiles(work, conv, target):
        for rows in _rows(work, pixels, down, target.thread_count):
            plan = NhwcPlan(lanes, pixels, columns, rows, down, work.flat)
            best.append((cost * _overhead(conv, work, plan, target), plan))
    return min(best, key=lambda found: found[0])[1]


def _work(conv: ChannelsLast, target: Target) -> _Work:
    flat = conv.pad is None and prod(conv.taps) == prod(conv.step) == 1
    single = flat or len(conv.sizes) == 1
    repeats = (conv.samples or 1) * prod(conv.sizes[:-2])
    width = prod(conv.sizes) * (conv.samples or 1) if flat else conv.width
    return _Work(
        height=1 if single else conv.height,
        width=width,
        vectors=-(-conv.filters // conv.groups // target.lanes(conv.dtype)),
        flat=flat,
        single=single,
        repeats=1 if flat else repeats,
        item=8 if conv.dtype == "float64" else 4,
        steps=conv.depth * prod(conv.taps),
    )


def _tiles(
    work: _Work, conv: ChannelsLast, target: Target
) -> Iterator[tuple[int, int, int, float]]:
    """Pixels, rows and vectors of register tiles, and the cost of one picture's sums with them.

    Several rows make a tile only where it holds whole ones.
    """
    registers = target.vector_registers
    each = work.item * work.steps * conv.filters // conv.groups
    fetch = 1.5 if each > target.l2_bytes else 0.5
    nested = sum(tap > 1 for tap in conv.taps) > 1
    for columns in _columns(conv, work, target.lanes(conv.dtype)):
        most = (registers if registers >= 32 else registers - 1 - columns) // columns
        for down in range(1, min(work.height, most) + 1):
            for pixels in range(1, min(work.width, most // down) + 1):
                if down > 1 and pixels != work.width:
                    continue
                heights = _parts(work.height, down)
                widths = _parts(work.width, pixels)
                cost = sum(
                    a * b * c * tile_cost(x * y, z, registers, fetch)
                    for x, a in heights
                    for y, b in widths
                    for z, c in _parts(work.vectors, columns)
                )
                shy = nested and registers >= 32 and down * pixels * columns in SHY[0]
                if shy and (work.width > pixels or work.height > down):
                    cost *= SHY[1]
                cost *= 1.03 ** (len(widths) + len(heights) - 2)  # further pieces of code
                yield pixels, down, columns, cost


def _columns(conv: ChannelsLast, work: _Work, lanes: int) -> list[int]:
    """Vectors in a row of a tile; panels of them must not lie across two groups."""
    each = conv.filters // conv.groups
    if conv.groups == 1:
        return list(range(1, min(COLUMNS, work.vectors) + 1))
    even = [n for n in range(1, COLUMNS + 1) if each % (n * lanes) == 0]
    return even or [work.vectors]


def _parts(extent: int, size: int) -> list[tuple[int, int]]:
    """The sizes of pieces and how many there are of each."""
    whole, rest = divmod(extent, size)
    return [(size, whole)] * (whole > 0) + [(rest, 1)] * (rest > 0)


def _rows(work: _Work, pixels: int, down: int, threads: int) -> list[int]:
    """Rows of a task, or pixels of the one row; 0 where threads share the output channels."""
    if work.single:
        parts = (-(-work.width // (threads * tasks)) for tasks in TASKS)
        cut = [-(-part // pixels) * pixels for part in parts]
        return list(dict.fromkeys([0, *cut, work.width]))
    even = [r for r in range(1, work.height + 1) if work.height % r == 0]
    half = -(-work.height // threads)
    return [0, *(r for r in even if r % down == 0 or r == work.height), -(-half // down) * down]


def _overhead(conv: ChannelsLast, work: _Work, plan: NhwcPlan, target: Target) -> float:
    """By how much the busiest thread's time is more than its share of the sums."""
    threads, lanes, rows = target.thread_count, plan.lanes, plan.rows
    whole = work.width if work.single else work.height
    each = conv.filters // conv.groups
    parts = -(-whole // rows) if rows else conv.groups * -(-work.vectors // plan.vectors)
    tasks = work.repeats * parts
    idle = -(-tasks // threads) * threads / tasks * (parts * rows / whole if rows else 1)
    held = rows or whole
    step = conv.step[-1 if work.single else -2]
    reach = held * step + conv.taps[-1 if work.single else -2] - step
    copied = 0.0
    if conv.pad is not None:
        # Rows that two tasks copy; without tasks, all of it is copied beforehand.
        again = reach / (held * step) if rows else 1.5
        copied = again * lanes / (prod(conv.taps) * each)
    streamed = work.item * work.steps * conv.filters > target.l2_bytes
    fresh = 0.005 * streamed * (parts if rows else 1)
    # The image and the weights of a panel are read over and over.
    pixels = reach * (1 if work.single else conv.width * conv.step[-1])
    panel = min(plan.vectors * lanes, each)
    bytes_held = work.item * (conv.depth * conv.groups * pixels + work.steps * panel)
    crowded = min(0.6, 2 * max(0.0, bytes_held / (target.l2_bytes // 2) - 1))
    # Code for tasks at the edges is apart, and the compiler does worse with some of it.
    edges = 0.05 * min(1.0, 2 * rows / whole) if conv.pad is not None else 0.0
    return idle * (1 + copied + fresh + crowded + (edges if rows else 0.04))
