"""The schedule of ops.conv2d_winograd: transforms on lanes of channels around products of tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedule.library.copies import transpose_pixels, unroll_all
from schedule.library.lanes import (
    constant_size,
    lane_loops,
    loop_of,
    own_loops,
    put_in_lanes,
    read_by,
    split_at_most,
    stored_buffer,
    whole_vectors,
)
from schedule.library.winograd_plan import (
    WinogradPlan,
    image_axes,
    plan_winograd,
    result_axes,
    winograd_sizes,
)
from tensorir import Target, int_value

if TYPE_CHECKING:
    from schedule.schedule import Schedule
    from schedule.state import LoopRef

SPREAD = 256
"""Elements: strides are a multiple of these and one vector."""


def conv2d_winograd(
    sch: Schedule,
    target: Target,
    name: str = "conv2d_winograd",
    plan: WinogradPlan | None = None,
) -> WinogradPlan:
    """Schedule the stages of `ops.conv2d_winograd(..., name=name)`; returns what was chosen.

    Channels lie in the lanes of vectors from the first stage to the last. Where they are not the
    last dimension of x it is transposed in registers on its way in, and so is the result on its way
    out. Weights that are transformed or packed in the program are so in nests of their own, before
    all else. Sizes but the batch must be constants, and `target` resolved. Raises TensorIRError
    where the program has no such stages.
    """
    scheduler = _Winograd(sch, name, plan or plan_winograd(sch, target, name))
    scheduler.lay_out()
    scheduler.by_rows() if scheduler.plan.rows else scheduler.by_channels()
    return scheduler.plan


class _Winograd:
    """The steps. Stages are known by their names, loops by the variables of their blocks."""

    def __init__(self, sch: Schedule, name: str, plan: WinogradPlan) -> None:
        self.sch, self.name, self.plan = sch, name, plan
        self.sizes = winograd_sizes(sch, name)
        self.channels, self.filters = self.sizes.channels, self.sizes.filters
        self.strips, self.pad = f"{name}_strips", f"{name}_pad"
        self.columns, self.input = f"{name}_columns", f"{name}_input"
        self.products, self.rows = f"{name}_products", f"{name}_rows"
        self.outputs = constant_size(
            next(it for it in sch.state.block(name).iters if it.var.name == "vk"), name
        )
        self.panel = min(plan.vectors * plan.lanes, self.filters)
        self.image, self.result = image_axes(sch, self.strips), result_axes(sch, name)
        self.source = self.writer = ""
        self.out = name

    def lay_out(self) -> None:
        """Copies of x, of the products and of the result, and channels in the lanes everywhere."""
        sch, lanes = self.sch, self.plan.lanes
        self.lay_out_input()
        put_in_lanes(sch, self.pad, "n, c, ty, y, w", "c", lanes, self.channels)
        put_in_lanes(sch, self.columns, "n, c, ty, y, x", "c", lanes, self.channels)
        put_in_lanes(sch, self.input, "a, b, c, t", "c", lanes, self.channels)
        put_in_lanes(sch, self.rows, "n, k, ty, y, x, tx", "k", lanes, self.filters)
        at = -1 if self.plan.rows else 0
        put_in_lanes(sch, self.products, "a, b, k, t", "k", self.panel, self.filters, at)
        for stage in (self.input, self.products):
            self.spread(stage)
        self.pack_weights()
        self.writer = sch.cache_write(self.products, 0, "local")
        whole_vectors(sch, self.products, lanes)
        if self.result[-1] != "k":
            self.out = sch.cache_write(self.name, 0, "local")
            put_in_lanes(sch, self.name, ", ".join(self.result), "k", lanes, self.outputs)

    def lay_out_input(self) -> None:
        """A copy of x with channels in the lanes, unless they are there.

        Of rows for each row of tiles; or of the image as it is, which is one plane to transpose, if
        a task takes it whole and it has as many channels as its copy.
        """
        sch, lanes = self.sch, self.plan.lanes
        (x,) = read_by(sch, self.strips)
        if self.image[-1] == "c":
            sch.compute_inline(self.strips)
        elif self.plan.rows or int_value(x.buffer.shape[self.image.index("c")]) != self.channels:
            self.source = self.strips
            put_in_lanes(sch, self.strips, "n, c, ty, y, w", "c", lanes, self.channels)
        else:
            self.source = sch.cache_read(self.strips, x.buffer.name, "global")
            put_in_lanes(sch, self.source, ", ".join(self.image), "c", lanes, self.channels)
            sch.compute_inline(self.strips)

    def spread(self, stage: str) -> None:
        """Positions of a tile apart in memory, or they meet in the same lines of the cache."""
        panels = stage == self.products and not self.plan.rows and self.filters > self.panel
        axis = 2 if panels and self.filters % self.panel == 0 else 1
        self.sch.storage_align(stage, stored_buffer(self.sch, stage), axis, SPREAD, self.plan.lanes)

    def pack_weights(self) -> None:
        """Panels of output channels; in a copy where the transformed weights are a parameter."""
        sch, made = self.sch, f"{self.name}_weights"
        if made in sch.get_blocks():
            columns = f"{made}_columns"
            if columns in sch.get_blocks():
                sch.parallel(sch.get_loops(columns)[0])
        else:
            weights = read_by(sch, self.products)[-1].buffer
            if weights.ndim != 4:
                return  # packed by the caller
            made = sch.cache_read(self.products, weights.name, "global")
        put_in_lanes(sch, made, "a, b, k, c", "k", self.panel, self.filters, pad=True)
        loops = sch.get_loops(made)
        sch.parallel(sch.fuse(loops[0], loops[1]))

    def by_rows(self) -> None:
        """Each task takes some rows of tiles through all stages."""
        sch = self.sch
        n, k, h, w = self.result_loops()
        task, h = sch.split(h, [None, self.plan.side[0] * self.plan.rows])
        share, k = split_at_most(sch, k, -(-self.filters // self.plan.shares))
        kb, k = split_at_most(sch, k, self.plan.lanes)
        sch.reorder(n, task, share, kb, h, w, k)
        task = sch.fuse(n, task, share)
        self.transform_output(kb)
        if self.out != self.name:
            self.write_back(h, w, k)
        self.multiply(task)
        self.transform_input()
        sch.parallel(task)

    def by_channels(self) -> None:
        """Threads share the input channels, and after that the output channels."""
        sch = self.sch
        n, k, h, w = self.result_loops()
        task, k = split_at_most(sch, k, self.panel)
        kb, k = split_at_most(sch, k, self.plan.lanes)
        sch.reorder(task, n, kb, h, w, k)
        self.transform_output(kb)
        if self.out != self.name:
            self.write_back(h, w, k)
        self.multiply(task)
        sch.parallel(self.transform_input())
        sch.parallel(task)

    def result_loops(self) -> list[LoopRef]:
        """The loops of what writes the result over samples, channels, rows and columns."""
        loops = dict(zip(self.result, self.sch.get_loops(self.out)))
        return [loops[axis] for axis in "nkhw"]

    def transform_output(self, where: LoopRef) -> None:
        """A^T M A for the channels of one vector, tile by tile, half of it in registers."""
        sch, side = self.sch, self.plan.side
        if self.out != self.name:
            sch.compute_at(self.name, where)
        own = own_loops(sch, self.name)
        h = loop_of(sch, self.name, own, "h")
        w = loop_of(sch, self.name, own, "w")
        _, lane = lane_loops(sch, self.name, own, "k", self.plan.lanes)
        ty, y = split_at_most(sch, h, side[0])
        tx, x = split_at_most(sch, w, side[1])
        sch.reorder(ty, tx, y, x, lane)
        sch.compute_at(self.rows, tx)
        half = own_loops(sch, self.rows)
        _, half_lane = lane_loops(sch, self.rows, half, "k", self.plan.lanes)
        across, down = (loop_of(sch, self.rows, half, name) for name in ("x", "y"))
        sch.reorder(across, down, half_lane)
        unroll_all(sch, across, down, y, x)
        sch.vectorize(half_lane)
        sch.vectorize(lane)

    def write_back(self, h: LoopRef, w: LoopRef, k: LoopRef) -> None:
        """Pixels of the result, which are neighbours in memory, against channels."""
        sch, lanes = self.sch, self.plan.lanes
        rows, columns = (sch.state.loop(loop).const_extent or 0 for loop in (h, w))
        if not self.plan.rows or rows * columns % lanes == 0:
            w = sch.fuse(h, w)  # else a vector would reach into rows of the next task
        transpose_pixels(sch, w, k, lanes, "pixel")

    def multiply(self, where: LoopRef) -> None:
        """The products of all tiles in `where`, a register tile at a time."""
        sch, plan, products = self.sch, self.plan, self.products
        sch.compute_at(self.writer, where)
        sch.compute_at(products, where)
        if plan.rows:
            sch.compute_at(self.input, where)  # before tiles are cut, that may reach too far
        own = own_loops(sch, products)
        tile = loop_of(sch, products, own, "t")
        step = loop_of(sch, products, own, "c")
        columns, lane = lane_loops(sch, products, own, "k", self.panel)
        outer = [own["a"], own["b"]] if columns == lane else [own["a"], own["b"], columns]
        if not plan.rows and self.sizes.samples is None:
            sample, tile = sch.split(tile, [None, self.sizes.rows * self.sizes.across])
            outer.append(sample)
        block, tile = split_at_most(sch, tile, plan.tiles)
        steps = split_at_most(sch, step, plan.lanes)
        sch.reorder(*outer, block, *steps, tile, lane)
        sch.reverse_compute_at(self.writer, block)
        copied = own_loops(sch, self.writer)
        rank = len(sch.state.block(self.writer).iters)
        tile_copy = loop_of(sch, self.writer, copied, f"ax{rank - 2}")
        lane_copy = loop_of(sch, self.writer, copied, f"ax{rank - 1}")
        sch.reorder(tile_copy, lane_copy)
        unroll_all(sch, tile, tile_copy)
        sch.vectorize(lane)
        sch.vectorize(lane_copy)

    def transform_input(self) -> LoopRef:
        """B^T d B, a vector of channels at a time; returns the loop over those."""
        sch, lanes = self.sch, self.plan.lanes
        own = own_loops(sch, self.input)
        block, lane = lane_loops(sch, self.input, own, "c", lanes)
        tile = loop_of(sch, self.input, own, "t")
        ty, tx = split_at_most(sch, tile, self.plan.across)
        sch.reorder(block, ty, tx, own["a"], own["b"], lane)
        sch.compute_at(self.columns, ty)
        half = own_loops(sch, self.columns)
        _, half_lane = lane_loops(sch, self.columns, half, "c", lanes)
        sch.reorder(half["x"], half["y"], half_lane)
        sch.compute_at(self.pad, half["x"])
        pad = own_loops(sch, self.pad)
        _, pad_lane = lane_loops(sch, self.pad, pad, "c", lanes)
        unroll_all(sch, pad["y"])
        if self.source:
            self.copy_input(block)
        unroll_all(sch, own["a"], own["b"], half["y"])
        for loop in (pad_lane, half_lane, lane):
            sch.vectorize(loop)
        return block

    def copy_input(self, where: LoopRef) -> None:
        """Channels against pixels of x, which are neighbours in memory."""
        sch, source = self.sch, self.source
        sch.compute_at(source, where)
        own = own_loops(sch, source)
        if source == self.strips:
            _, lane = lane_loops(sch, source, own, "c", self.plan.lanes)
            w = loop_of(sch, source, own, "w")
        else:
            at = {axis: f"ax{place}" for place, axis in enumerate(self.image)}
            _, lane = lane_loops(sch, source, own, at["c"], self.plan.lanes)
            h, w = (loop_of(sch, source, own, at[axis]) for axis in "hw")
            sch.reorder(h, w, lane)
            w = sch.fuse(h, w)
        transpose_pixels(sch, w, lane, self.plan.lanes, "channel")
