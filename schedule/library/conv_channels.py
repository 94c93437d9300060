"""Convolutions of any rank, and transposed ones, with channels first: channels in the lanes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from schedule.library.conv_channels_find import Channels, find_channels, var_name
from schedule.library.copies import copy_rows, transpose_pixels, unroll_all
from schedule.library.lanes import (
    loop_of,
    own_loops,
    put_in_lanes,
    register_tile,
    split_at_most,
    whole_vectors,
)
from tensorir import Cpu, IterKind, Target, int_value

if TYPE_CHECKING:
    from schedule.schedule import Schedule
    from schedule.state import LoopRef

FETCH = 8.0
"""A panel of weights that comes for a task takes as long as its sums of so many pixels."""

TASK_BYTES = 64 << 10
"""What the results of a task may take in memory of its own."""


LANES = ("o_1", "o", "ax1_1", "ax1")
"""Names that the variable of output channels has after put_in_lanes."""


@dataclass(frozen=True)
class ChannelsPlan:
    """What is chosen from the sizes.

    The register tile is `pixels` of a row x `vectors` of output channels. A task takes `rows` rows
    of the result, or as many elements where there is one dimension (whole vectors, or
    all), of one panel of channels; with `panels_first`, tasks of the same panel follow each other.
    """

    lanes: int
    pixels: int
    vectors: int
    rows: int
    panels_first: bool


def conv_channels(
    sch: Schedule, target: Target, block: str = "conv", plan: ChannelsPlan | None = None
) -> ChannelsPlan:
    """Schedule a convolution of ops.conv1d, conv2d, conv3d or a transposed one; returns the plan.

    In layouts with channels first, and in one group. `block` has the sums; stages that pad before
    it, and those that put in order and finish what it makes go with it. Weights are packed into
    panels of output channels in a nest of its own, before all else, and so is the padded image.
    Tasks share rows and output channels. All sizes but the batch must be constants. Raises
    TensorIRError where `block` is no such convolution.
    """
    conv = find_channels(sch, block)
    chosen = plan or _choose(conv, target)
    _Scheduler(sch, conv, chosen).run()
    return chosen


def _choose(conv: Channels, target: Target) -> ChannelsPlan:
    """The tile of the least cost, and tasks that keep all threads busy and read weights rarely."""
    lanes, threads = target.lanes(), target.thread_count
    vectors = -(-conv.filters // lanes)
    weights = prod(int_value(size) or 1 for size in conv.weight.buffer.shape)
    streamed = 4 * weights > target.l2_bytes
    pixels, width, _ = register_tile(
        conv.run, vectors, Cpu(target).registers, streamed, nested=True
    )
    panels = -(-vectors // width)
    *outer, high = conv.size[:-1] if len(conv.size) > 1 else conv.size
    across = conv.size[-1] if len(conv.size) > 1 else 1
    best: list[tuple[float, int]] = []
    for rows in range(1, high + 1):
        if len(conv.size) == 1 and rows % lanes and rows < high:
            continue
        blocks = -(-high // rows)
        tasks = (conv.samples or 1) * prod(outer) * blocks * (panels if streamed else 1)
        idle = -(-tasks // threads) * threads / tasks * blocks * rows / high
        held = 4 * rows * across * width * lanes / TASK_BYTES
        uneven = 0.05 if high % rows else 0.0
        if len(conv.size) == 1:
            uneven += 0.5 * (-(-rows // pixels) * pixels / rows - 1)
        if conv.phases and rows < high:
            uneven += 0.2 * (rows % 2) + 2 / rows  # sums at the edges of tasks are made twice
        cost = idle * (1 + FETCH / (rows * across) + max(0.0, held - 1) + uneven)
        best.append((cost, rows))
    rows = min(best)[1]
    return ChannelsPlan(lanes, pixels, width, rows, panels_first=streamed)


class _Scheduler:
    """The steps, in order."""

    def __init__(self, sch: Schedule, conv: Channels, plan: ChannelsPlan) -> None:
        self.sch, self.conv, self.plan = sch, conv, plan
        self.panel = min(plan.vectors * plan.lanes, conv.filters)

    def run(self) -> None:
        sch, conv = self.sch, self.conv
        self.pack_weights()
        if conv.turn is not None and conv.turn != conv.last:
            sch.compute_inline(conv.turn)
        out = str(sch.cache_write(conv.last, 0, "local"))
        finish = tile = conv.last
        if tile == conv.sums or conv.turn is not None:  # else sums would be no local ones
            tile = str(sch.cache_write(conv.sums, 0, "local"))
        if finish == conv.sums:
            finish = tile
        names = ["n", "k", *(f"x{d}" for d in range(len(conv.size)))]
        put_in_lanes(sch, finish, ", ".join(names), "k", self.panel, conv.filters)
        order = self.order()
        for stage in (conv.sums,) if finish == tile else (tile, conv.sums):
            put_in_lanes(sch, stage, order, "k", self.panel, conv.filters)
        whole_vectors(sch, conv.sums, self.plan.lanes)
        task, panel = self.tasks(out)
        sch.compute_at(finish, panel)
        if finish == tile:
            sch.compute_at(conv.sums, panel)
            self.tiles(tile)
        else:
            sch.compute_at(tile, panel)
            self.turned_tiles(tile)
            sch.vectorize(loop_of(sch, finish, own_loops(sch, finish), *LANES))
        self.copy_image(task)
        sch.parallel(task)

    def copy_image(self, task: LoopRef) -> None:
        """The padded image, before all else; what a task reads of it where panels come last."""
        sch, conv = self.sch, self.conv
        source = conv.pad
        if source is None:
            return
        if not self.plan.panels_first:
            sch.compute_at(source, task)
        loops = [loop for loop in sch.get_loops(source) if loop != task]
        copy_rows(sch, source, loops[-1] if loops else None, padded=True)
        if self.plan.panels_first:
            sch.parallel(loops[1] if conv.samples == 1 else loops[0])

    def pack_weights(self) -> None:
        sch, conv = self.sch, self.conv
        weight = conv.weight
        packed = conv.packed or str(sch.cache_read(conv.sums, weight.buffer.name, "global"))
        out = sch.state.block(conv.sums).iters[1].var
        names = [
            "k" if index is out else "c" if var_name(index) == conv.channel else f"t{d}"
            for d, index in enumerate(weight.indices)
        ]
        kept = ["k", *(name for name in names if name not in "kc"), "c"]
        layout = f"{', '.join(names)}: {', '.join(kept)}"
        put_in_lanes(sch, packed, layout, "k", self.panel, conv.filters, pad=True)
        sch.parallel(sch.get_loops(packed)[0])

    def order(self) -> str:
        """The dimensions of the sums: phases before the pixels."""
        sch, conv = self.sch, self.conv
        spatial = [it for it in sch.state.block(conv.sums).iters if it.kind is IterKind.SPATIAL]
        names = ["n", "k", *(f"x{d}" for d in range(len(spatial) - 2))]
        phases = [n for n, it in zip(names, spatial) if var_name(it.var) in conv.phases]
        rest = [n for n in names[2:] if n not in phases]
        return f"{', '.join(names)}: {', '.join(['n', 'k', *phases, *rest])}"

    def tasks(self, out: str) -> tuple[LoopRef, LoopRef]:
        """Split the loops of the result; the one over tasks, and the one over their panels."""
        sch, conv, plan = self.sch, self.conv, self.plan
        n, k, *spatial = sch.get_loops(out)
        panel, k = split_at_most(sch, k, self.panel)
        vector, k = split_at_most(sch, k, plan.lanes)
        *outer, row = spatial[:-1] if len(spatial) > 1 else spatial
        task, row = split_at_most(sch, row, plan.rows)
        last = [row, spatial[-1]] if len(spatial) > 1 else [row]
        around = [n, panel, *outer, task] if plan.panels_first else [n, *outer, task, panel]
        sch.reorder(*around, vector, *last, k)
        whole = len(last) > 1 and conv.size[-2] % plan.rows == 0
        if whole and plan.rows * conv.size[-1] % plan.lanes == 0:
            last = [sch.fuse(*last)]
        transpose_pixels(sch, last[-1], k, plan.lanes, "pixel")
        if plan.panels_first:
            task = sch.fuse(*around)
            return task, task
        return sch.fuse(n, *outer, task), panel

    def tiles(self, tile: str) -> None:
        """The sums of a register tile, and the stage that reads them."""
        sch, conv, plan = self.sch, self.conv, self.plan
        own = own_loops(sch, conv.sums)
        lane = loop_of(sch, conv.sums, own, *LANES)
        steps = [loop_of(sch, conv.sums, own, name) for name in (*conv.taps, conv.channel)]
        rows = [own[name] for name in conv.spatial[:-1] if name in own]
        w = loop_of(sch, conv.sums, own, conv.spatial[-1])
        block, pixel = split_at_most(sch, w, plan.pixels)
        sch.reorder(*rows, block, *steps, pixel, lane)
        sch.reverse_compute_at(tile, block)
        sch.unroll(pixel)
        sch.vectorize(lane)
        mine = own_loops(sch, tile)
        lane = loop_of(sch, tile, mine, *LANES)
        unroll_all(sch, *(loop for loop in mine.values() if loop != lane))
        sch.vectorize(lane)

    def turned_tiles(self, tile: str) -> None:
        """The same where tasks share sums at their edges, which each of them makes."""
        sch, conv = self.sch, self.conv
        own = own_loops(sch, tile)
        lane = loop_of(sch, tile, own, *LANES)
        w = loop_of(sch, tile, own, var_name(sch.state.block(tile).iters[-2].var))
        block, pixel = split_at_most(sch, w, self.plan.pixels)
        sch.compute_at(conv.sums, block)
        sch.unroll(pixel)
        sch.vectorize(lane)
        own = own_loops(sch, conv.sums)
        lane = loop_of(sch, conv.sums, own, *LANES)
        steps = [loop_of(sch, conv.sums, own, name) for name in (*conv.taps, conv.channel)]
        pixel = loop_of(sch, conv.sums, own, conv.spatial[-1])
        sch.reorder(*steps, pixel, lane)
        sch.unroll(pixel)
        sch.vectorize(lane)
