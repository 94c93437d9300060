"""Convolutions in layout NCHW: output channels in the lanes of vectors, pixels in rows of tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, prod
from typing import TYPE_CHECKING

from schedule.library.conv_find import Conv, find_conv
from schedule.library.copies import copy_rows, transpose_pixels, unroll_all
from schedule.library.lanes import (
    SHY_ALONE,
    loop_of,
    own_loops,
    put_in_lanes,
    register_tile,
    split_at_most,
    tile_cost,
    whole_vectors,
)
from tensorir import Cpu, Target, TensorIRError

if TYPE_CHECKING:
    from schedule.schedule import Schedule
    from schedule.state import LoopRef


TURN = 11
"""Turning a vector of results, from channels to pixels, takes as long as so many multiply-adds."""

MEASURED = 0.9
"""Register tiles of this schedule take less than `register_tile` has it, on AVX-512."""


CROWDED = {False: 0.6, True: 0.06}
"""Most that tiles take longer where what belongs to a panel fills the second-level cache; with a
flat image, which is read in the order of memory, little."""


GAIN = 0.98
"""Tiles with pixels of several rows need more code: they should take less time by so much."""


@dataclass(frozen=True)
class DirectPlan:
    """What is chosen from the sizes.

    The register tile is `pixels` x `vectors` of output channels. A task takes `rows` rows of the
    image with all their channels; where that is 0, threads share the output channels. With `flat`,
    the image counts as one row of all its pixels; else a register tile has pixels of `down` rows,
    as many of each.
    """

    lanes: int
    pixels: int
    vectors: int
    rows: int
    flat: bool = False
    down: int = 1


def conv2d_direct(
    sch: Schedule, target: Target, block: str = "conv", plan: DirectPlan | None = None
) -> DirectPlan:
    """Schedule a convolution of ops.conv2d in layout NCHW; returns what was chosen.

    `block` has the sums; the stage that pads before it, if any, and the elementwise stage after it
    go with it. Weights are packed into panels of output channels in a nest of its own, before all
    else. What a task reads of the image lies in a copy, and its result is transposed in registers
    on the way out. Any sizes, strides and dilations will do; all but the batch must be constants.
    Raises TensorIRError where `block` is no such convolution, or where the output channels of each
    of several groups are no multiple of a vector.
    """
    conv = find_conv(sch, block)
    if conv.groups > 1 and conv.filters // conv.groups % target.lanes():
        raise TensorIRError(
            f"block {block!r} has groups of {conv.filters // conv.groups} output channels, and "
            f"vectors of {target.lanes()}; conv2d_pixels takes these"
        )
    scheduler = _Direct(sch, conv, plan or choose_direct(conv, target)[1])
    scheduler.run()
    return scheduler.plan


def plan_direct(sch: Schedule, target: Target, block: str = "conv") -> DirectPlan:
    """The register tile and the split of the work that suit the sizes, by a model of the cost."""
    return choose_direct(find_conv(sch, block), target)[1]


def choose_direct(conv: Conv, target: Target) -> tuple[float, DirectPlan]:
    """The plan, and its cost: multiply-adds of vectors for each step of one sample's sums.

    The cost is infinite where groups of output channels fill no whole vectors.
    """
    lanes, threads = target.lanes(), target.thread_count
    each = conv.filters // conv.groups
    vectors = -(-each // lanes)
    if conv.groups > 1 and each % lanes:
        return inf, DirectPlan(lanes, 1, 1, 0)
    steps = conv.depth * prod(conv.taps)
    streamed = 4 * steps * conv.filters > target.l2_bytes
    flat = conv.pad is None and prod(conv.taps) == 1 and conv.step == (1, 1)
    best: list[tuple[float, float, DirectPlan]] = []
    for rows in [r for r in range(conv.height + 1) if not r or conv.height % r == 0]:
        high = rows or conv.height
        tile, cost = _tile(conv, high, flat, streamed, target)
        width = tile.vectors
        panels = conv.groups * -(-vectors // width)
        tasks = (conv.samples or 1) * (conv.height // rows if rows else panels)
        idle = -(-tasks // threads) * threads / tasks
        reach = high * conv.step[0] + conv.taps[0] - conv.step[0]
        # Rows of the image that two tasks copy; without tasks, all of it is copied beforehand.
        again = reach / (rows * conv.step[0]) - 1 if rows else 0.5
        copies = (1 + again) / max(1, prod(conv.taps) * each) * lanes
        fresh = 0.005 * streamed * (conv.height // rows if rows else 1)
        # The image, the weights and the results that belong to a panel are read over and over.
        panel = min(width * lanes, each)
        held = conv.depth * reach * conv.width * conv.step[1] + steps * panel
        held += high * conv.width * panel
        crowded = min(CROWDED[flat], 2 * max(0.0, 4 * held / Cpu(target).kept_bytes(2) - 1))
        # Code for tasks at the edges is apart, and the compiler does worse with some of it.
        edges = 0.1 * min(1.0, 2 * rows / conv.height)
        more = fresh + crowded + (edges if rows else 0.04)
        total = cost * idle * (1 + copies + more)
        whole = total * (1 + copies / 2 + more + TURN / steps) / (1 + copies + more)
        whole *= MEASURED * vectors * conv.groups * conv.height * conv.width
        best.append((total, whole, replace(tile, rows=rows)))
    return min(best, key=lambda found: found[0])[1:]


def _tile(
    conv: Conv, high: int, flat: bool, streamed: bool, target: Target
) -> tuple[DirectPlan, float]:
    """The register tile for tasks of `high` rows, and its cost for each pixel and vector."""
    lanes, registers = target.lanes(), Cpu(target).registers
    vectors = -(-conv.filters // conv.groups // lanes)
    row = conv.width * high if flat else conv.width
    nested = prod(conv.taps) > 1
    tile, width, least = register_tile(
        row, vectors, registers, streamed, nested, whole=conv.groups > 1
    )
    best = DirectPlan(lanes, tile, width, 0, flat), least / row
    fetch = 1.5 if streamed else 0.5

    def cost(rows: int, width: int) -> float:
        return tile_cost(row * rows, width, registers, fetch)

    for down in range(2, 1 if flat else min(high, registers // row) + 1):
        for width in (1, 2):
            panels, last = divmod(vectors, width)
            pixels = row * down
            if last and conv.groups > 1 or pixels * width in SHY_ALONE[0]:
                continue
            if not panels or pixels * width > registers - 4:
                continue
            whole, rest = divmod(high, down)
            total = panels * (whole * cost(down, width) + cost(rest, width))
            total += whole * cost(down, last) + cost(rest, last)
            total *= (1.03 if last else 1.0) / (high * row * vectors)
            if total < GAIN * best[1]:
                best = DirectPlan(lanes, pixels, width, 0, down=down), total
    return best


class _Direct:
    """The steps, in order."""

    def __init__(self, sch: Schedule, conv: Conv, plan: DirectPlan) -> None:
        self.sch, self.conv, self.plan = sch, conv, plan
        self.panel = min(plan.vectors * plan.lanes, conv.filters)

    def run(self) -> None:
        sch, conv, plan = self.sch, self.conv, self.plan
        self.pack_weights()
        source = conv.pad or str(sch.cache_read(conv.sums, conv.image.buffer.name, "global"))
        out = sch.cache_write(conv.last, 0, "local")
        tile = conv.last
        if tile == conv.sums:
            tile = str(sch.cache_write(conv.sums, 0, "local"))
        for stage in (tile, conv.sums):
            layout = f"n, k, h, w: n, k, h * {conv.width} + w" if plan.flat else "n, k, h, w"
            put_in_lanes(sch, stage, layout, "k", self.panel, conv.filters)
        whole_vectors(sch, conv.sums, plan.lanes)
        n, k, h, w = sch.get_loops(out)
        kb, k = split_at_most(sch, k, self.panel)
        kv, k = split_at_most(sch, k, plan.lanes)
        task, h = sch.split(h, [None, plan.rows or conv.height])
        sch.reorder(n, task, kb, kv, h, w, k)
        if not plan.rows:
            task = kb
        self.tiles(tile, kb)
        self.write_back(h, w, k)
        if plan.rows:
            task = sch.fuse(n, task)
            self.copy_image(source, task)
        else:
            task = sch.fuse(n, task, kb) if task != kb else kb
            self.copy_image(source, None)
        sch.parallel(task)

    def pack_weights(self) -> None:
        sch, weight = self.sch, self.conv.weight.buffer
        packed = sch.cache_read(self.conv.sums, weight.name, "global")
        layout = "k, c, r, s: k, r, s, c"
        put_in_lanes(sch, packed, layout, "k", self.panel, self.conv.filters, pad=True)
        loops = sch.get_loops(packed)
        sch.parallel(loops[0])

    def write_back(self, h: LoopRef, w: LoopRef, k: LoopRef) -> None:
        """Pixels of the result, which are neighbours in memory, against channels."""
        sch, lanes = self.sch, self.plan.lanes
        pixels = (self.plan.rows or self.conv.height) * self.conv.width
        if not self.plan.rows or pixels % lanes == 0:
            w = sch.fuse(h, w)  # else a vector would reach into rows of the next task
        transpose_pixels(sch, w, k, lanes, "pixel")

    def tiles(self, tile: str, where: LoopRef) -> None:
        """The sums of a register tile, and the stage after them."""
        sch, sums = self.sch, self.conv.sums
        sch.compute_at(tile, where)
        sch.compute_at(sums, where)
        own = own_loops(sch, sums)
        lane = loop_of(sch, sums, own, "o_1", "o")
        steps = [loop_of(sch, sums, own, name) for name in ("r", "s", "c")]
        rows = [] if self.plan.flat else [loop_of(sch, sums, own, "h")]
        w = loop_of(sch, sums, own, "h_0", "w")
        block, pixel = split_at_most(sch, w, self.plan.pixels // self.plan.down)
        across = [pixel]
        if self.plan.down > 1:
            rows[0], down = split_at_most(sch, rows[0], self.plan.down)
            across = [down, pixel]
        sch.reorder(*rows, block, *steps, *across, lane)
        sch.reverse_compute_at(tile, block)
        unroll_all(sch, *across)
        sch.vectorize(lane)
        mine = own_loops(sch, tile)
        lane = loop_of(sch, tile, mine, "o_1", "o", "ax1_1", "ax1")
        unroll_all(sch, *(loop for loop in mine.values() if loop != lane))
        sch.vectorize(lane)

    def copy_image(self, source: str, where: LoopRef | None) -> None:
        """The padded image, or what a task reads of it, row by row."""
        sch = self.sch
        if where is not None:
            sch.compute_at(source, where)
        loops = [loop for loop in sch.get_loops(source) if loop != where]
        copy_rows(sch, source, loops[-1] if loops else None, source == self.conv.pad)
        if where is None:
            sch.parallel(loops[1] if self.conv.samples == 1 else loops[0])
