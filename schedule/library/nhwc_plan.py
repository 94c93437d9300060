"""Register tiles and tasks for convolutions with channels last, by a model of the cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, prod

from schedule.library.channels_last_find import ChannelsLast
from schedule.library.lanes import COLUMNS, SHY, tile_cost
from tensorir import Cpu, Target

TASKS = (1, 2, 4, 8, 16, 32)
"""Parts, for each thread, that a long row of pixels may be cut into."""


WAY_BYTES = 4096
"""Bytes of a way of the first-level cache: addresses so far apart are in the same set."""

FRESH = 4.0
"""Multiply-adds that a vector of weights from beyond the second-level cache takes as long as."""


@dataclass(frozen=True)
class NhwcPlan:
    """What is chosen from the sizes.

    The register tile is `down` rows x `pixels` x `vectors` of `lanes` output channels. A task takes
    `rows` rows of a picture, with `flat` or in one dimension so many pixels, and all channels;
    where that is 0, threads share the output channels. With `flat`, the one picture is one row.
    Weights are `packed` into panels of the tile's channels, or read where they are. Where it is not
    `parallel`, one thread does all.
    """

    lanes: int
    pixels: int
    vectors: int
    rows: int
    down: int = 1
    flat: bool = False
    packed: bool = True
    parallel: bool = True


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
    """Pictures."""
    item: int
    steps: int
    streamed: bool
    """Whether the weights come from beyond the second-level cache."""


def choose_nhwc(conv: ChannelsLast, target: Target) -> NhwcPlan:
    """The plan of the least time of the busiest thread."""
    work = _work(conv, target)
    lanes, threads = target.lanes(conv.dtype), 1 if conv.small else target.thread_count
    if conv.groups > 1:
        lanes = min(lanes, conv.filters // conv.groups)
    best: list[tuple[float, NhwcPlan]] = []
    for pixels, down, columns, cost in _tiles(work, conv, target):
        for rows in _rows(work, pixels, down, threads):
            plan = NhwcPlan(lanes, pixels, columns, rows, down, work.flat, parallel=not conv.small)
            best.append((cost * _overhead(conv, work, plan, threads, target.l2_bytes), plan))
    return min(best, key=lambda found: found[0])[1]


def _work(conv: ChannelsLast, target: Target) -> _Work:
    # Which pixel of which picture a tile has is hard to prove where tiles lie across pictures.
    flat = conv.pad is None and prod(conv.taps) == prod(conv.step) == conv.samples == 1
    single = flat or len(conv.sizes) == 1
    repeats = 1 if flat else (conv.samples or 1) * prod(conv.sizes[:-2])
    width = prod(conv.sizes) if flat else conv.width
    item, steps = 8 if conv.dtype == "float64" else 4, conv.depth * prod(conv.taps)
    return _Work(
        height=1 if single else conv.height,
        width=width,
        vectors=-(-conv.filters // conv.groups // target.lanes(conv.dtype)),
        flat=flat,
        single=single,
        repeats=repeats,
        item=item,
        steps=steps,
        streamed=item * steps * conv.filters > target.l2_bytes,
    )


def _tiles(
    work: _Work, conv: ChannelsLast, target: Target
) -> Iterator[tuple[int, int, int, float]]:
    """Pixels, rows and vectors of register tiles, and the cost of one picture's sums with them.

    Several rows make a tile only where it holds whole ones.
    """
    registers = Cpu(target).registers
    fetch = 1.5 if work.streamed else 0.5
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
                cost *= _conflicts(conv, work, target, down * pixels, columns)
                cost *= 1.03 ** (len(widths) + len(heights) - 2)  # further pieces of code
                yield pixels, down, columns, cost


def _conflicts(conv: ChannelsLast, work: _Work, target: Target, pixels: int, columns: int) -> float:
    """What it costs that pixels of a tile lie in the same sets of the first-level cache.

    Each is in a line of its own, some power of two apart, and the weights want two lines of a set.
    """
    apart = work.item * conv.depth * conv.groups * conv.step[-1]
    lines = pixels * gcd(apart, WAY_BYTES) / WAY_BYTES
    return 1 + 0.05 * max(0.0, lines - target.l1d_bytes / WAY_BYTES + 2) / columns


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


def _overhead(
    conv: ChannelsLast, work: _Work, plan: NhwcPlan, threads: int, l2_bytes: int
) -> float:
    """By how much the busiest thread's time is more than its share of the sums."""
    lanes, rows = plan.lanes, plan.rows
    whole = work.width if work.single else work.height
    each = conv.filters // conv.groups
    parts = -(-whole // rows) if rows else conv.groups * -(-work.vectors // plan.vectors)
    tasks = work.repeats * parts
    idle = -(-tasks // threads) * threads / tasks
    if rows:
        idle *= parts * rows / whole
    elif conv.groups == 1:
        idle *= parts * plan.vectors / work.vectors  # as if the last panel were a whole one
    held = rows or whole
    step = conv.step[-1 if work.single else -2]
    reach = held * step + conv.taps[-1 if work.single else -2] - step
    copied = 0.0
    if conv.pad is not None:
        # Rows that two tasks copy; without tasks, all of it is copied beforehand.
        again = reach / (held * step) if rows else 1.5
        copied = again * lanes / (prod(conv.taps) * each)
    passes = -(-tasks // threads) if rows else 1 / threads
    pixels = work.repeats * work.height * work.width / threads
    weights = work.item * work.steps * conv.filters / l2_bytes
    fresh = FRESH * passes / pixels * min(1.0, max(0.0, 2 * weights - 1))
    # The image and the weights of a panel are read over and over; long panels pass in any case.
    read = reach * (1 if work.single else conv.width * conv.step[-1])
    panel = work.item * work.steps * min(plan.vectors * lanes, each)
    image = work.item * conv.depth * conv.groups * read
    crowded = min(0.6, 2 * max(0.0, (image + min(panel, l2_bytes // 4)) / (0.75 * l2_bytes) - 1))
    crowded += 0.05 * min(1.0, 4 * image / l2_bytes) if work.vectors > plan.vectors else 0.0
    # Code for tasks at the edges is apart, and the compiler does worse with some of it.
    edges = 0.02 * min(1.0, 2 * rows / whole) if conv.pad is not None else 0.0
    return idle * (1 + copied + fresh + crowded + (edges if rows else 0.05))
