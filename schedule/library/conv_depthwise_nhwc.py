"""Depthwise convolutions with channels last: channels in the lanes, a tile of pixels at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from schedule.library.channels_last_find import ChannelsLast, find_channels_last
from schedule.library.channels_last_image import copy_pictures, moved_rows
from schedule.library.copies import unroll_all
from schedule.library.lanes import loop_of, own_loops, split_at_most, whole_vectors
from tensorir import Cpu, Target, TensorIRError

if TYPE_CHECKING:
    from schedule.schedule import Schedule
    from schedule.state import LoopRef

FEW_TAPS = 9
"""Kernels with at most so many elements are written out, others row by row."""

SUMS = 10
"""Most vectors of sums in a tile of a kernel that is written out."""

LONG_SUMS = 14
"""The same for kernels that are not."""

STATEMENTS = 100
"""Most multiply-adds in the code of a tile; edges of a picture repeat it."""


@dataclass(frozen=True)
class DepthwiseNhwcPlan:
    """What is chosen from the sizes.

    The register tile is `down` rows x `pixels` of a vector of `lanes` channels. A task takes `rows`
    rows of a picture with all channels; where that is 0, threads share the channels. Where it is
    not `parallel`, one thread does all.
    """

    lanes: int
    pixels: int
    down: int
    rows: int
    parallel: bool = True


def conv2d_depthwise_nhwc(
    sch: Schedule, target: Target, block: str = "conv", plan: DepthwiseNhwcPlan | None = None
) -> DepthwiseNhwcPlan:
    """Schedule a depthwise convolution of one, two or three dimensions with channels last.

    `block` has the sums; the stage that pads before it, if any, and the elementwise stage after it
    go with it. The image is read where it is: tiles at its edges are code of their own. Any strides
    and dilations will do; all sizes but the batch must be constants, and each channel makes one
    output. Returns what was chosen. Raises TensorIRError where `block` is no such convolution.
    """
    conv = find_channels_last(sch, block)
    if not conv.depthwise:
        raise TensorIRError(
            f"block {block!r} does not make one output of each channel; conv2d_nhwc takes "
            "convolutions over several channels"
        )
    chosen = plan or choose_depthwise_nhwc(conv, target)
    writer = conv.last
    pad = conv.pad
    if pad is not None and moved_rows(sch, pad) != (0, 0):
        sch.compute_inline(pad)
        pad = None
    if writer == conv.sums:
        writer = str(sch.cache_write(conv.sums, 0, "local"))
    whole_vectors(sch, conv.sums, chosen.lanes)
    task, where, inner = _split(sch, conv, chosen, writer)
    _tile(sch, conv, where)
    unroll_all(sch, *inner[:-1])
    sch.vectorize(inner[-1])
    if pad is not None:
        copy_pictures(sch, pad, task if chosen.rows else None, chosen.parallel)
    if chosen.parallel:
        sch.parallel(task)
    return chosen


def choose_depthwise_nhwc(conv: ChannelsLast, target: Target) -> DepthwiseNhwcPlan:
    """The tile with the fewest loads for its sums, and rows as tasks where pictures are large.

    Rows of all channels are read in the order of the memory; where a picture stays in the
    second-level cache, channels at a time keep the weights in registers.
    """
    lanes, threads = target.lanes(conv.dtype), target.thread_count
    cost, pixels, down = min(_tiles(conv, target))
    item = 8 if conv.dtype == "float64" else 4
    held = item * conv.filters * prod(conv.sizes[-2:]) * prod(conv.step[-2:])
    repeats = (conv.samples or 1) * prod(conv.sizes[:-2])
    small = held <= target.l2_bytes and -(-conv.filters // lanes) >= 4 * threads
    if small or repeats * -(-conv.height // down) < threads:
        return DepthwiseNhwcPlan(lanes, pixels, down, 0, not conv.small)
    wanted = conv.height * repeats // (4 * threads) // down * down
    rows = min(conv.height, max(down, min(wanted, 8)))
    return DepthwiseNhwcPlan(lanes, pixels, down, rows, not conv.small)


def _tiles(conv: ChannelsLast, target: Target) -> Iterator[tuple[float, int, int]]:
    """Cost, pixels and rows of register tiles: vectors that are loaded, and multiply-adds."""
    few = prod(conv.taps) <= FEW_TAPS
    written = prod(conv.taps) if few else conv.taps[-1]
    most = SUMS if few else LONG_SUMS
    most = max(1, min(most, Cpu(target).registers // 2, STATEMENTS // written))
    for down in range(1, min(conv.height, 2 if few else 1) + 1):
        for pixels in range(1, min(conv.width, most // down) + 1):
            cost = sum(
                a * b * _tile_cost(conv, x, y)
                for x, a in _parts(conv.height, down)
                for y, b in _parts(conv.width, pixels)
            )
            yield cost, pixels, down


def _tile_cost(conv: ChannelsLast, down: int, pixels: int) -> float:
    rows, columns = (
        (count - 1) * min(step, taps) + taps
        for count, step, taps in zip((down, pixels), (1, *conv.step)[-2:], (1, *conv.taps)[-2:])
    )
    taps = prod(conv.taps)
    loads = prod(conv.taps[:-2]) * rows * columns + taps
    return max(down * pixels * taps, 8) + loads + down * pixels


def _parts(extent: int, size: int) -> list[tuple[int, int]]:
    """The sizes of pieces and how many there are of each."""
    whole, rest = divmod(extent, size)
    return [(size, whole)] * (whole > 0) + [(rest, 1)] * (rest > 0)


def _split(
    sch: Schedule, conv: ChannelsLast, plan: DepthwiseNhwcPlan, writer: str
) -> tuple[LoopRef, LoopRef, list[LoopRef]]:
    """The loop over tasks, the one around tiles, and those inside of them."""
    n, *spaces, k = sch.get_loops(writer)
    vector, k = split_at_most(sch, k, plan.lanes)
    *outer, w = spaces
    h = outer.pop() if outer else sch.add_unit_loop(writer)
    part, h = split_at_most(sch, h, plan.rows or conv.height)
    h, down = split_at_most(sch, h, plan.down)
    block, pixel = split_at_most(sch, w, plan.pixels)
    if plan.rows:
        sch.reorder(n, *outer, part, h, block, vector, down, pixel, k)
        return sch.fuse(n, *outer, part), vector, [down, pixel, k]
    sch.reorder(n, *outer, part, vector, h, block, down, pixel, k)
    return sch.fuse(n, *outer, part, vector), block, [down, pixel, k]


def _tile(sch: Schedule, conv: ChannelsLast, where: LoopRef) -> None:
    """The sums of a tile, with the filter or its rows written out."""
    sch.compute_at(conv.sums, where)
    own = own_loops(sch, conv.sums)
    lane = loop_of(sch, conv.sums, own, conv.filter)
    rows = [own[name] for name in conv.spaces if name in own]
    rows = list(dict.fromkeys(loop for loop in rows if loop != lane))
    steps = [own[name] for name in conv.windows if name in own]
    sch.reorder(*steps, *rows, lane)
    unroll_all(sch, *rows)
    if prod(conv.taps) <= FEW_TAPS:
        unroll_all(sch, *steps)
    elif conv.windows[-1] in own and conv.taps[-1] <= STATEMENTS:
        sch.unroll(own[conv.windows[-1]])
    sch.vectorize(lane)
