"""The schedule of Winograd's algorithm: transforms on lanes of channels around the products."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from schedule.library.contraction.axes import FAR, Contraction
from schedule.library.contraction.copies import turn
from schedule.library.contraction.find import find_contraction
from schedule.library.contraction.laid_out import LaidOut
from schedule.library.contraction.nest import Nest
from schedule.library.contraction.places import store_of
from schedule.library.contraction.plan import NestPlan
from schedule.library.tile import split_at_most
from schedule.library.winograd.stages import Winograd, stages_of
from schedule.schedule import Schedule
from schedule.state import LoopRef
from tensorir import TensorIRError, Var, body_loads

SPREAD = 256
"""Elements: strides are a multiple of these and one vector."""

MOST_UNROLLED = 2
"""Windows of which all points of a tile are written out; of more, those that are combined."""


@dataclass(frozen=True)
class WinogradPlan:
    """What is chosen for the stages of Winograd's algorithm.

    The register tile of the products is `tiles` x `panel` sums: so many filters, in vectors of
    `lanes`. A task takes `rows` rows of tiles, along the first window, through all stages; where
    that is 0, threads share the channels, and after that the filters. `shares` tasks take the same
    rows, each for a part of the filters.
    """

    lanes: int
    tiles: int
    panel: int
    rows: int
    shares: int = 1


def make_winograd(sch: Schedule, found: Winograd, plan: WinogradPlan) -> None:
    """Schedule the stages that `find_winograd` found, in a program where nothing was done to them.

    Channels lie in the lanes of vectors from the first stage to the last. Where they are not the
    last dimension of the image it is transposed in registers on its way in, and so is the result on
    its way out. Weights that are transformed or packed in the program are so in nests of their own,
    before all else. TensorIRError for a plan that does not fit, ScheduleError if refused.
    """
    _check(found, plan)
    scheduler = _Winograd(sch, found, plan)
    scheduler.lay_out()
    scheduler.make()


def _check(found: Winograd, plan: WinogradPlan) -> None:
    for what in ("lanes", "tiles", "panel", "shares"):
        if getattr(plan, what) < 1:
            raise TensorIRError(f"{what}={getattr(plan, what)} is no positive integer in {plan}")
    if plan.rows < 0:
        raise TensorIRError(f"rows={plan.rows} is no integer from 0 on in {plan}")
    if plan.panel % min(plan.panel, plan.lanes):
        raise TensorIRError(
            f"a panel of {plan.panel} filters is no whole number of vectors of {plan.lanes}"
        )
    if found.period < found.filters and found.period % plan.panel:
        raise TensorIRError(
            f"a panel of {plan.panel} filters does not divide the {found.period} that have the "
            "same channels"
        )


class _Winograd:
    """The steps."""

    def __init__(self, sch: Schedule, found: Winograd, plan: WinogradPlan) -> None:
        self.sch, self.found, self.plan = sch, found, plan
        self.windows = range(len(found.outputs))
        self.filter_lanes = min(plan.lanes, plan.panel)
        self.strips, self.pad, inputs, self.products, results = stages_of(sch, found)
        (*self.halves, self.input), (*self.rows, self.out) = inputs, results
        self.last = self.out
        self.writer = ""

    # layouts

    def lay_out(self) -> None:
        """Copies of the image, of the products and of the result, and channels in the lanes."""
        sch, found, plan = self.sch, self.found, self.plan
        self.lay_out_image()
        self.pad.put_in_lanes("c", plan.lanes)
        for stage in self.halves:
            stage.put_in_lanes("c", plan.lanes)
        self.input.put_in_lanes("c", plan.lanes, at=len(self.windows))
        for stage in self.rows:
            stage.put_in_lanes("f", self.filter_lanes)
        self.products.put_in_lanes("f", plan.panel, at=len(self.windows) if plan.rows else 0)
        for stage in (self.input, self.products):
            stage.symbolic_first()
        axis = self.input.labels.index(f"p{self.windows[-1]}")
        self.spread(self.input.name, self.input.buffer, axis)
        self.pack_weights()
        self.writer = str(sch.cache_write(self.products.name, 0, "local"))
        if found.result[-1] != "f":
            name = str(sch.cache_write(self.out.name, 0, "local"))
            self.last = LaidOut(sch, name, list(found.result))
            self.out.put_in_lanes("f", self.filter_lanes)
        c = find_contraction(sch, self.products.name, self.writer)
        self.sums, self.points = self.nest(c)
        for name in (self.writer, self.products.name):
            self.sums.lay_out(name, units=False)

    def lay_out_image(self) -> None:
        """A copy of the rows of each row of tiles with channels in the lanes, unless they are."""
        if self.found.channels_last:
            self.sch.compute_inline(self.found.strips)
        else:
            self.strips.put_in_lanes("c", self.plan.lanes)

    def spread(self, block: str, buffer: str, axis: int) -> None:
        """Positions of a tile apart in memory, or they meet in the same lines of the cache."""
        self.sch.storage_align(block, buffer, axis, SPREAD, self.plan.lanes)

    def pack_weights(self) -> None:
        """Panels of filters; in a copy where the transformed weights are a parameter."""
        sch, found = self.sch, self.found
        for stage in found.weights[:-1]:
            sch.parallel(sch.get_loops(stage)[0])
        load = next(
            n for n in body_loads(sch.state.block(found.products)) if n.buffer.name == found.operand
        )
        labels = [f"e{n}" for n in range(load.buffer.ndim)]
        labels[found.filter_dim] = "f"
        made = found.weights[-1] if found.weights else ""
        if not made:
            made = str(sch.cache_read(found.products, load.buffer.name, "global"))
        packed = LaidOut(sch, made, labels)
        packed.put_in_lanes("f", self.plan.panel, pad=True)
        loops = sch.get_loops(made)[: len(self.windows)]
        sch.parallel(sch.fuse(*loops) if len(loops) > 1 else loops[0])

    # nests

    def make(self) -> None:
        """Each task takes some rows of tiles through all stages; or threads share the channels, and
        after that the filters."""
        sch, found, plan = self.sch, self.found, self.plan
        others, windows, k = self.result_loops()
        if plan.rows:
            task, windows[0] = sch.split(windows[0], [None, found.outputs[0] * plan.rows])
            share, k = split_at_most(sch, k, -(-found.filters // plan.shares))
            tasks, inside = [*others, task, share], list[LoopRef]()
        else:
            task, k = split_at_most(sch, k, plan.panel)
            tasks, inside = [task], others
        kb, k = split_at_most(sch, k, self.filter_lanes)
        sch.reorder(*tasks, *inside, kb, *windows, k)
        task = sch.fuse(*tasks) if plan.rows else task
        sch.parallel(task)
        self.transform_output(kb)
        if self.last is not self.out:
            self.write_back(windows, k)
        self.multiply(task)
        channels = self.transform_input()
        if not plan.rows:
            sch.parallel(channels)
        self.sums.sums_in_tiles(self.writer)

    def result_loops(self) -> tuple[list[LoopRef], list[LoopRef], LoopRef]:
        """The loops of what writes the result: over what is neither window nor filter, over the
        windows, and over the filters."""
        loops = self.last.loops()
        windows = [f"h{w}" for w in self.windows]
        others = [loops[n] for n in self.last.labels if n in loops and n not in (*windows, "f")]
        return others, [self.last.loop(n) for n in windows], self.last.loop("f")

    def transform_output(self, where: LoopRef) -> None:
        """A^T M A for the channels of one vector, tile by tile, half of it in registers."""
        sch, found = self.sch, self.found
        if self.last is not self.out:
            sch.compute_at(self.out.name, where)
        loops = [self.out.loop(f"h{w}") for w in self.windows]
        lane = self.out.lane("f", self.filter_lanes)
        cut = [split_at_most(sch, *each) for each in zip(loops, found.outputs)]
        tiles, inner = [t for t, _ in cut], [y for _, y in cut]
        sch.reorder(*tiles, *inner, lane)
        for stage in reversed(self.rows):
            sch.compute_at(stage.name, tiles[-1])
            own = stage.loops()
            half_lane = stage.lane("f", self.filter_lanes)
            points = [own[n] for n in stage.labels if n[0] == "p" and n in own]
            done = [own[n] for n in stage.labels if n[0] == "y" and n in own]
            sch.reorder(*points, *done, half_lane)
            self.unroll([*points, *done])
            sch.vectorize(half_lane)
        self.unroll(inner)
        sch.vectorize(lane)

    def unroll(self, loops: list[LoopRef]) -> None:
        """Of a tile: what is combined is known then."""
        first = 0 if len(self.windows) <= MOST_UNROLLED else len(loops) - 1
        for loop in loops[first:]:
            self.sch.unroll(loop)

    def write_back(self, windows: list[LoopRef], k: LoopRef) -> None:
        """Pixels of the result, which are neighbours in memory, against channels."""
        sch, lanes = self.sch, self.plan.lanes
        plane = windows[-2:]
        count = prod(sch.state.loop(loop).const_extent or 0 for loop in plane)
        row = windows[-1]
        if len(plane) > 1 and (plane != windows or not self.plan.rows or count % lanes == 0):
            row = sch.fuse(*plane)  # else a vector would reach into rows of the next task
        turn(sch, row, k, lanes)

    def multiply(self, where: LoopRef) -> None:
        """The products of all tiles in `where`, which are still to be cut into tiles, with what
        makes the image of some rows."""
        makers = [self.input.name] if self.plan.rows else []
        for name in (self.writer, self.products.name, *makers):
            self.sch.compute_at(name, where)
        buffer = store_of(self.sch, self.writer).buffer.name
        self.spread(self.writer, str(buffer), self.points)

    def nest(self, c: Contraction) -> tuple[Nest, int]:
        """The products, their nest, and where in its order the points of a tile are."""
        node = self.sch.state.block(c.block)
        indices = store_of(self.sch, c.block).indices
        places = {it.var: n for n, it in enumerate(node.iters)}
        own = {n: i for n, i in zip(self.products.labels, indices) if isinstance(i, Var)}
        of = {d.place: n for n in c.spatial for d in c.axes[n].digits}
        axes = {n: of[places[i]] for n, i in own.items() if places[i] in of}
        lane = next(n for n in c.spatial if c.result.strides[n] == 1)
        tiles = [axes[n] for n in self.products.labels if n[0] in "ts" and n in axes]
        points = axes[f"p{self.windows[-1]}"]
        size = [1] * len(c.spatial)
        size[lane] = self.plan.panel
        if tiles:
            size[tiles[-1]] = self.plan.tiles
        order = (*(n for n in c.spatial if n != lane), lane)
        whole = tuple(c.axes[n].extent or FAR for n in c.spatial)
        steps = c.written  # the sums keep their order
        plan = NestPlan(lane, self.plan.lanes, tuple(size), whole, steps, order, threads=False)
        return Nest(self.sch, c, plan), order.index(points)

    def transform_input(self) -> LoopRef:
        """B^T d B, a vector of channels at a time; returns the loop over those."""
        sch, stage, lanes = self.sch, self.input, self.plan.lanes
        block, lane = stage.lane_loops("c", lanes)
        own = stage.loops()
        others = [own[n] for n in stage.labels if n[0] == "d" and n in own]
        tiles = [own.get(f"t{w}") for w in self.windows]
        points = [own[f"p{w}"] for w in self.windows]
        sch.reorder(block, *others, *(t for t in tiles if t is not None), *points, lane)
        where = others[-1] if others else block
        places: list[LoopRef] = []  # by window, the innermost loop around its points
        for tile in tiles:
            where = tile or where
            places.append(where)
        inside = places[0]
        for w in reversed(range(len(self.halves))):
            inside = self.transform_half(w, places[w])
        sch.compute_at(self.pad.name, inside)
        pad_lane = self.pad.lane("c", lanes)
        sch.unroll(self.pad.loops()["y0"])
        sch.vectorize(pad_lane)
        if not self.found.channels_last:
            self.copy_image(block)
        self.unroll(points)
        sch.vectorize(lane)
        return block

    def transform_half(self, window: int, where: LoopRef) -> LoopRef:
        """B^T d along a window that is not the last; returns the innermost loop over the others."""
        sch, stage = self.sch, self.halves[window]
        sch.compute_at(stage.name, where)
        lane = stage.lane("c", self.plan.lanes)
        own = stage.loops()
        done = [own[f"p{w}"] for w in range(window)]
        raw = [own[n] for n in stage.labels if n[0] == "x" and n in own]
        sch.reorder(*done, *raw, own[f"p{window}"], lane)
        sch.unroll(own[f"p{window}"])
        sch.vectorize(lane)
        return raw[-1] if raw else where

    def copy_image(self, where: LoopRef) -> None:
        """Channels against pixels of the image, which are neighbours in memory."""
        sch, strips = self.sch, self.strips
        sch.compute_at(strips.name, where)
        lane = strips.lane("c", self.plan.lanes)
        own = strips.loops()
        pixels = [own[n] for n in strips.labels if n[0] == "x" and n in own]
        row = pixels[-1] if pixels else sch.add_unit_loop(lane)
        turn(sch, row, lane, self.plan.lanes, along_rows=False)
