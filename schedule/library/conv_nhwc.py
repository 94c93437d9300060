"""Convolutions with channels last: output channels in the lanes, pixels in the rows of a tile.

Pixels are read where they are, or in a padded copy of the same order; results are written as they
come out of the register tile.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from schedule.library.channels_last_find import ChannelsLast, find_channels_last
from schedule.library.channels_last_image import copy_pictures
from schedule.library.copies import unroll_all
from schedule.library.lanes import (
    loop_of,
    own_loops,
    put_in_lanes,
    relayout,
    split_at_most,
    whole_vectors,
)
from schedule.library.nhwc_plan import NhwcPlan, choose_nhwc
from tensorir import Target, TensorIRError

if TYPE_CHECKING:
    from schedule.schedule import Schedule
    from schedule.state import LoopRef


LEAST = 4
"""Output channels of a group, with fewer of which vectors are nearly empty."""

ROWS = 16
"""Most rows of the weights that are packed together."""

WIDEST = 4
"""Vectors that a register tile may have to hold, if a group is no multiple of one."""


def conv2d_nhwc(
    sch: Schedule, target: Target, block: str = "conv", plan: NhwcPlan | None = None
) -> NhwcPlan:
    """Schedule a convolution of one, two or three dimensions with channels last, such as NHWC.

    `block` has the sums; the stage that pads before it, if any, and the elementwise stage after it
    go with it. Weights, in any order, are packed into panels of output channels in a nest of its
    own, unless they are one panel. Any strides, dilations, sizes and groups will do; all sizes but
    the batch must be constants. Returns what was chosen. Raises TensorIRError where `block` is no
    such convolution, or has fewer outputs in a group than a vector has lanes.
    """
    conv = find_channels_last(sch, block)
    each, lanes = conv.filters // conv.groups, target.lanes(conv.dtype)
    if conv.groups > 1 and (each < LEAST or each > WIDEST * lanes and each % lanes):
        raise TensorIRError(
            f"block {block!r} has {each} output channels in each of {conv.groups} groups, which "
            f"are no whole vectors of {lanes}; schedule it by a rule of the tuner"
        )
    chosen = plan or choose_nhwc(conv, target)
    _Nhwc(sch, conv, chosen).run()
    return chosen


def plan_nhwc(sch: Schedule, target: Target, block: str = "conv") -> NhwcPlan:
    """The register tile and the split of the work that suit the sizes, by a model of the cost."""
    return choose_nhwc(find_channels_last(sch, block), target)


class _Nhwc:
    """The steps, in order."""

    def __init__(self, sch: Schedule, conv: ChannelsLast, plan: NhwcPlan) -> None:
        self.sch, self.conv, self.plan = sch, conv, plan
        self.panel = conv.panel(plan.vectors * plan.lanes)

    def run(self) -> None:
        sch, conv, plan = self.sch, self.conv, self.plan
        if conv.filters > self.panel and plan.packed:
            self.pack_weights()
        writer = conv.last
        if writer == conv.sums:
            writer = str(sch.cache_write(conv.sums, 0, "local"))
        if plan.flat:
            self.flatten()
        whole_vectors(sch, conv.sums, plan.lanes)
        task, block, inner = self.split(writer)
        self.tile(block)
        unroll_all(sch, *inner[:-1])
        sch.vectorize(inner[-1])
        if conv.pad is not None:
            copy_pictures(sch, conv.pad, task if plan.rows else None, plan.parallel)
        if plan.parallel:
            sch.parallel(task)

    def pack_weights(self) -> None:
        """Panels of output channels, in each the filter's elements in the order of the sums."""
        sch, conv = self.sch, self.conv
        packed = sch.cache_read(conv.sums, conv.weight.buffer.name, "global")
        names = [f"d{n}" for n in range(len(conv.places))]
        place = dict(zip(conv.places, names))
        filters = place[conv.filter]
        taps = [place[name] for name in (*conv.windows, conv.channel) if name in place]
        rest = [name for name in names if name != filters and name not in taps]
        layout = f"{', '.join(names)}: {', '.join([*rest, *taps, filters])}"
        size = conv.filters
        put_in_lanes(sch, packed, layout, filters, self.panel, size, at=0, pad=True)
        loops = sch.get_loops(packed)
        if conv.places[-1] != conv.filter or size % self.panel:
            sch.parallel(sch.fuse(*loops[:-1]))
            return
        # Rows of weights a few at a time: panels are so far apart that they share cache sets.
        rows = conv.depth * prod(conv.taps)
        together = max(n for n in range(1, ROWS + 1) if rows % n == 0)
        task, few = split_at_most(sch, sch.fuse(*loops[:-1]), together)
        panel, lanes = split_at_most(sch, loops[-1], self.panel)
        sch.reorder(task, panel, few, lanes)
        sch.vectorize(lanes)
        sch.parallel(task)

    def flatten(self) -> None:
        """The pixels of a picture's sums as one dimension."""
        names = [f"s{n}" for n in range(len(self.conv.sizes))]
        pixel = names[0]
        for name, size in zip(names[1:], self.conv.sizes[1:]):
            pixel = f"({pixel}) * {size} + {name}"
        relayout(self.sch, self.conv.sums, f"b, {', '.join(names)}, k: b, {pixel}, k")

    def split(self, writer: str) -> tuple[LoopRef, LoopRef, list[LoopRef]]:
        """The loop over tasks, the one around register tiles, and those inside of them."""
        sch, conv, plan = self.sch, self.conv, self.plan
        n, *spaces, k = sch.get_loops(writer)
        panel, k = split_at_most(sch, k, self.panel)
        outer = [n, *spaces[:-2]]
        if plan.flat:
            outer, spaces = [n], [sch.fuse(*spaces)]
        *rows, w = spaces[-2:]
        if rows:
            part, h = sch.split(rows[0], [None, plan.rows or conv.height])
        else:
            pixels = -(-plan.rows // plan.pixels) * plan.pixels  # whole tiles
            part, w = sch.split(w, [None, pixels] if pixels else [1, None])
            h = sch.add_unit_loop(writer)
        h, down = split_at_most(sch, h, plan.down)
        block, pixel = split_at_most(sch, w, plan.pixels)
        # Threads that share the output channels keep a panel of weights for all pictures.
        shared = [*outer, part] if plan.rows else [panel, *outer, part]
        sch.reorder(*shared, *(loop for loop in (panel,) if plan.rows), h, block, down, pixel, k)
        return sch.fuse(*shared), block, [down, pixel, k]

    def tile(self, where: LoopRef) -> None:
        """The sums of a register tile; neighbours of a row and their channels are one loop."""
        sch, conv = self.sch, self.conv
        sch.compute_at(conv.sums, where)
        own = own_loops(sch, conv.sums)
        lane = loop_of(sch, conv.sums, own, conv.filter)
        steps = [own[name] for name in (*conv.windows, conv.channel) if name in own]
        rows = [loop for loop in dict.fromkeys(own.values()) if loop not in (lane, *steps)]
        sch.reorder(*steps, *rows, lane)
        if len(steps) > 1:
            sch.fuse(*steps[-2:])
        unroll_all(sch, *rows)
        sch.vectorize(lane)
