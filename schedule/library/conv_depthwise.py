"""Depthwise convolutions in layout NCHW: neighbouring pixels of one channel in a vector."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from schedule.library.conv_find import elementwise_user, padding_of, stride_of
from schedule.library.copies import copy_rows, unroll_all
from schedule.library.lanes import (
    constant_size,
    loop_of,
    own_loops,
    read_by,
    split_at_most,
    whole_vectors,
)
from tensorir import Cpu, IterKind, Load, Target, TensorIRError, int_value, masked_bits, variables

if TYPE_CHECKING:
    from schedule.schedule import Schedule

STRIP_BYTES = 12 << 10
"""What the padded rows of a strip may take, so that they stay in the first-level cache."""

ROWS = 4
"""Rows of sums in registers: rows of the image are loaded once for all of these."""

MOST_ROWS = 14
"""Rows of sums where a row is one vector, and the image is read where it is."""

MOST_TAPS = 49
"""Kernels with more elements than this stay loops."""


@dataclass(frozen=True)
class DepthwisePlan:
    """What is chosen from the sizes.

    Vectors have `lanes` pixels of a row; sums of `rows` rows are in registers at a time. The image
    is padded `strip` output rows at a time; where that is 0, it is read where it is, with masks.
    Columns of vectors are computed one after the other; with `across`, rows of vectors are, and the
    sums of a vector one after the other.
    """

    lanes: int
    rows: int
    strip: int
    across: bool = False


@dataclass(frozen=True)
class _Depthwise:
    sums: str
    last: str | None
    pad: str | None
    image: Load
    height: int
    width: int
    taps: tuple[int, int]
    step: int


def conv2d_depthwise(
    sch: Schedule, target: Target, block: str = "conv", plan: DepthwisePlan | None = None
) -> DepthwisePlan:
    """Schedule a convolution of ops.depthwise_conv2d in layout NCHW; returns what was chosen.

    `block` has the sums; the stage that pads before it, if any, and the elementwise stage after it
    go with it. Threads share the channels. Any sizes, strides and dilations will do; all but the
    batch must be constants. Raises TensorIRError where `block` is no such convolution.
    """
    conv = _find(sch, block)
    chosen = plan or _choose(conv, target)
    if conv.pad is not None and not chosen.strip:
        sch.compute_inline(conv.pad)
        conv = replace(conv, pad=None)
    writer = conv.last or str(sch.cache_write(conv.sums, 0, "local"))
    whole_vectors(sch, conv.sums, chosen.lanes)
    own = own_loops(sch, conv.sums)
    n, o, h, w, r, s = (loop_of(sch, conv.sums, own, name) for name in "nohwrs")
    strip, h = split_at_most(sch, h, chosen.strip or conv.height)
    h, row = split_at_most(sch, h, chosen.rows)
    w, pixel = split_at_most(sch, w, chosen.lanes)
    if chosen.across:
        sch.reorder(n, o, strip, h, w, row, r, s, pixel)
    else:
        sch.reorder(n, o, strip, w, h, s, row, r, pixel)
    task = sch.fuse(n, o)
    sch.reverse_compute_at(writer, w if chosen.across else h)
    if conv.pad is not None:
        # A row of whole vectors reaches beyond the last one that is read: there must be room.
        room = conv.width // chosen.lanes * chosen.lanes * conv.step + conv.taps[1] - 1
        sch.storage_align(conv.pad, conv.image.buffer.name, -2, chosen.lanes, room % chosen.lanes)
        sch.compute_at(conv.pad, strip)
        copy_rows(sch, conv.pad, own_loops(sch, conv.pad).get("w"), padded=True)
    if conv.taps[0] * conv.taps[1] <= MOST_TAPS:
        unroll_all(sch, s, r)
    sch.unroll(row)
    sch.vectorize(pixel)
    copied = list(own_loops(sch, writer).values())
    if copied:
        unroll_all(sch, *copied[:-1])
        sch.vectorize(copied[-1])
    sch.parallel(task)
    return chosen


def _find(sch: Schedule, block: str) -> _Depthwise:
    node = sch.state.block(block)
    spatial = [it for it in node.iters if it.kind is IterKind.SPATIAL]
    taps = [it for it in node.iters if it.kind is IterKind.REDUCE]
    sizes = [constant_size(it, block) for it in (*spatial[1:], *taps)]
    names = [it.var.name for it in node.iters]
    images = [load for load in read_by(sch, block) if load.buffer.ndim == 4]
    out = spatial[1].var if len(spatial) > 1 else None
    weights = [load for load in images if load.indices[0] is out]
    images = [load for load in images if load not in weights]
    fits = names == ["vn", "vo", "vh", "vw", "vr", "vs"] and len(images) == len(weights) == 1
    if not fits or out not in variables(images[0].indices[1]):
        raise TensorIRError(
            f"block {block!r} is no sum over (row, column) of image[n, channel, ..] times "
            "weight[channel, 0, row, column]; make it with ops.depthwise_conv2d in layout NCHW, "
            "and schedule it before all else"
        )
    if not all(sizes) or int_value(spatial[0].extent) == 0:
        raise TensorIRError(f"block {block!r} is empty; there is nothing to schedule")
    image = images[0]
    step = stride_of(sch, image.indices[2], spatial[2])
    return _Depthwise(
        block, elementwise_user(sch, block), padding_of(sch, block, image), image, sizes[1],
        sizes[2], (sizes[3], sizes[4]), step,
    )  # fmt: skip


def _choose(conv: _Depthwise, target: Target) -> DepthwisePlan:
    lanes = target.lanes()
    few = conv.taps[0] * conv.taps[1] <= MOST_TAPS and conv.step <= 2
    if conv.pad is None or (few and 32 in masked_bits(target)):
        narrow = conv.width <= lanes
        # With steps of 2, rows of sums share few rows of the image, unless the kernel is high.
        across = conv.step == 2 and conv.taps[0] <= 3 and not narrow
        most = 2 if across else MOST_ROWS if narrow and conv.step == 1 else 8
        if Cpu(target).registers < 32:
            most = min(most, ROWS)
        rows = -(-conv.height // -(-conv.height // most))
        return DepthwisePlan(lanes, rows, 0, across)
    return _copied(conv, lanes)


def _copied(conv: _Depthwise, lanes: int) -> DepthwisePlan:
    """Strips just so high that few rows are padded twice: what they hold should stay in cache."""
    rows = min(ROWS, conv.height)
    width = int_value(conv.image.buffer.shape[3]) or 1
    fits = max(1, (STRIP_BYTES // (4 * width) - conv.taps[0]) // conv.step + 1)
    wanted = -(-8 * max(0, conv.taps[0] - conv.step) // conv.step)  # an eighth of the rows
    strip = max(rows, -(-wanted // rows) * rows)
    if 3 * strip > 2 * conv.height:
        strip = conv.height
    strip = min(strip, fits)
    most = 2 * ROWS - 1 if conv.width < lanes else ROWS
    rows = max(n for n in range(1, most + 1) if strip % n == 0)
    return DepthwisePlan(lanes, rows, strip)
