"""Convolutions in layout NCHW: pixels in the lanes of vectors, output channels in rows of tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from schedule.library.conv_find import Conv, find_conv
from schedule.library.copies import copy_rows, unroll_all
from schedule.library.lanes import (
    loop_of,
    own_loops,
    put_in_lanes,
    relayout,
    split_at_most,
    tile_cost,
    whole_vectors,
)
from tensorir import Cpu, Target, masked_bits

if TYPE_CHECKING:
    from schedule.schedule import Schedule
    from schedule.state import LoopRef

COLUMNS = 3
"""Most vectors of pixels in a register tile."""

COPY = 5.0
"""Copying a vector of the image into rows with padding costs as much as so many multiply-adds."""


@dataclass(frozen=True)
class PixelsPlan:
    """What is chosen from the sizes.

    The register tile is `filters` x `down` rows x `vectors` of `lanes` pixels. A task takes `rows`
    rows of the image; with `flat`, where the image counts as one row of all its pixels, as many
    pixels as the tile. `shares` tasks take the same, each for a part of the output channels.
    """

    lanes: int
    filters: int
    vectors: int
    down: int = 1
    rows: int = 1
    shares: int = 1
    flat: bool = False


def conv2d_pixels(
    sch: Schedule, target: Target, block: str = "conv", plan: PixelsPlan | None = None
) -> PixelsPlan:
    """Schedule a convolution of ops.conv2d in layout NCHW; returns what was chosen.

    `block` has the sums; the stage that pads before it, if any, and the elementwise stage after it
    go with it. Weights are packed in a nest of its own, before all else. An image without padding
    is read where it is, and results are written without a detour: this suits 1x1 filters, few
    output channels and groups of channels. All sizes but the batch must be constants.
    Raises TensorIRError where `block` is no such convolution.
    """
    conv = find_conv(sch, block)
    chosen = plan or choose_pixels(conv, target)[1]
    _Pixels(sch, conv, chosen).run()
    return chosen


def plan_pixels(sch: Schedule, target: Target, block: str = "conv") -> PixelsPlan:
    """The register tile and the split of the work that suit the sizes, by a model of the cost."""
    return choose_pixels(find_conv(sch, block), target)[1]


def choose_pixels(conv: Conv, target: Target) -> tuple[float, PixelsPlan]:
    """The plan, and its cost: multiply-adds of vectors for each step of one sample's sums."""
    lanes, threads = target.lanes(), target.thread_count
    flat = conv.pad is None and prod(conv.taps) == 1 and conv.step == (1, 1)
    height, row = (1, conv.height * conv.width) if flat else (conv.height, conv.width)
    vectors, rest = divmod(row, lanes)
    masked = 32 in masked_bits(target) and conv.step[1] == 1
    vectors += (rest > 0) if masked else rest.bit_count()
    best: list[tuple[float, PixelsPlan]] = []
    for tile in _tiles(conv, target, vectors, 1 if flat else conv.height):
        tile = replace(tile, lanes=lanes, flat=flat)
        cost = _cost(conv, tile, vectors, Cpu(target).registers) * -(-height // tile.down)
        strips = -(-vectors // tile.vectors)
        rows = [r for r in range(1, height + 1) if height % r == 0 and r % tile.down == 0]
        for high in rows or [height]:
            tasks = strips if flat else height // high
            tasks *= (conv.samples or 1) * conv.groups
            reach = high * conv.step[0] + conv.taps[0] - conv.step[0]
            copied = conv.depth * conv.groups * reach * (height // high) * conv.width
            again = COPY * copied * conv.step[1] / lanes / conv.depth / prod(conv.taps)
            held = 8 * conv.depth * reach * conv.width * conv.step[1]
            crowded = max(0.0, held / target.l2_bytes - 1)
            halves = conv.groups == 1 and conv.filters % (2 * tile.filters) == 0
            for shares in (1, 2) if halves else (1,):
                idle = -(-tasks * shares // threads) * threads / (tasks * shares)
                more = 1 + (0 if flat else 0.1 * min(2.0, crowded)) + 0.01 * (shares - 1)
                total = cost * idle * more + (again * shares if conv.pad else 0.0)
                best.append((total, replace(tile, rows=high, shares=shares)))
    return min(best, key=lambda found: found[0])


def _tiles(conv: Conv, target: Target, vectors: int, height: int) -> Iterator[PixelsPlan]:
    """Register tiles; of filters that divide a group, where there are several groups."""
    registers = Cpu(target).registers
    each = conv.filters // conv.groups
    sizes = [n for n in range(1, min(each, 17) + 1) if conv.groups == 1 or each % n == 0]
    for filters in sizes:
        for down in (1, 2, 4):
            for width in range(1, min(COLUMNS, vectors) + 1):
                small = down == 1 or (filters * down * width <= 16 and height % down == 0)
                if small and (filters * down + 1) * width < registers:
                    yield PixelsPlan(1, filters, width, down)


def _cost(conv: Conv, tile: PixelsPlan, vectors: int, registers: int) -> float:
    """Of one row of all output channels, for each reduction step."""
    each = conv.filters // conv.groups
    window = prod(conv.taps) > 1
    fetch = {1: 1.0 if window else 0.5, 2: 2.5}.get(conv.step[1], float(tile.lanes))

    def cost(filters: int, width: int) -> float:
        return tile_cost(filters, tile.down * width, registers, fetch)

    panels, few = divmod(each, tile.filters)
    blocks, last = divmod(vectors, tile.vectors)
    total = blocks * (panels * cost(tile.filters, tile.vectors) + cost(few, tile.vectors))
    total += panels * cost(tile.filters, last) + cost(few, last)
    return conv.groups * total * (1.03 if last or few else 1.0)


class _Pixels:
    """The steps, in order."""

    def __init__(self, sch: Schedule, conv: Conv, plan: PixelsPlan) -> None:
        self.sch, self.conv, self.plan = sch, conv, plan

    def run(self) -> None:
        sch, conv, plan = self.sch, self.conv, self.plan
        packed = sch.cache_read(conv.sums, conv.weight.buffer.name, "global")
        layout = "k, c, r, s: k, r, s, c"
        put_in_lanes(sch, packed, layout, "k", plan.filters, conv.filters, pad=True)
        sch.parallel(sch.get_loops(packed)[0])
        last = conv.last
        if last == conv.sums:
            last = str(sch.cache_write(conv.sums, 0, "local"))
        if plan.flat:
            relayout(sch, conv.sums, f"n, k, h, w: n, k, h * {conv.width} + w")
        whole_vectors(sch, conv.sums, plan.lanes)
        task, panel, inner = self.split(last)
        self.tiles(panel)
        unroll_all(sch, *inner[:-1])
        sch.vectorize(inner[-1])
        if conv.pad is not None:
            sch.compute_at(conv.pad, task)
            copy_rows(sch, conv.pad, own_loops(sch, conv.pad).get("w"), padded=True)
        sch.parallel(task)

    def split(self, last: str) -> tuple[LoopRef, LoopRef, list[LoopRef]]:
        """The loop over tasks, the one around register tiles, and those inside of them."""
        sch, conv, plan = self.sch, self.conv, self.plan
        n, k, h, w = sch.get_loops(last)
        group, k = split_at_most(sch, k, conv.filters // conv.groups)
        each = conv.filters // conv.groups
        share, k = split_at_most(sch, k, _whole(-(-each // plan.shares), plan.filters))
        panel, k = split_at_most(sch, k, plan.filters)
        width = plan.lanes * plan.vectors
        if plan.flat:
            strip, w = split_at_most(sch, sch.fuse(h, w), width)
            sch.reorder(n, group, strip, share, panel, k, w)
            return sch.fuse(n, group, strip, share), panel, [k, w]
        strip, h = split_at_most(sch, h, plan.rows)
        h, down = split_at_most(sch, h, plan.down)
        column, w = split_at_most(sch, w, width)
        sch.reorder(n, group, strip, share, h, column, panel, k, down, w)
        return sch.fuse(n, group, strip, share), panel, [k, down, w]

    def tiles(self, where: LoopRef) -> None:
        """The sums of a register tile."""
        sch, sums = self.sch, self.conv.sums
        sch.compute_at(sums, where)
        own = own_loops(sch, sums)
        lane = loop_of(sch, sums, own, "h_0", "w")
        rows = [own[name] for name in ("o", "h") if name in own]
        steps = [own[name] for name in ("r", "s", "c") if name in own]
        sch.reorder(*steps, *rows, lane)
        unroll_all(sch, *rows)
        sch.vectorize(lane)


def _whole(count: int, part: int) -> int:
    return -(-count // part) * part
