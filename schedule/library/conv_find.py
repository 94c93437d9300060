"""What a program with a convolution in layout NCHW is made of: its blocks and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from schedule.library.lanes import constant_size, read_by, stored_buffer
from tensorir import (
    Block,
    Expr,
    IterKind,
    IterVar,
    Load,
    Store,
    TensorIRError,
    const,
    int_value,
    slope,
    variables,
)

if TYPE_CHECKING:
    from schedule.schedule import Schedule


@dataclass(frozen=True)
class Conv:
    """The blocks of a convolution, and its sizes. `last` follows the sums, if it is not they.

    `samples` is None for a symbolic batch; `depth` are the input channels of one of the `groups`.
    """

    sums: str
    last: str
    pad: str | None
    image: Load
    weight: Load
    samples: int | None
    filters: int
    height: int
    width: int
    depth: int
    groups: int
    taps: tuple[int, ...]
    step: tuple[int, int]


def find_conv(sch: Schedule, block: str) -> Conv:
    """The convolution whose sums `block` computes; TensorIRError where it computes something else.

    All sizes but the batch must be constants.
    """
    node = sch.state.block(block)
    spatial = [it for it in node.iters if it.kind is IterKind.SPATIAL]
    reduced = [it for it in node.iters if it.kind is IterKind.REDUCE]
    loads = read_by(sch, block)
    _require(node, len(spatial) == 4 and len(reduced) in (2, 3) and len(loads) == 2)
    samples = int_value(spatial[0].extent)
    sizes = [constant_size(it, block) for it in (*spatial[1:], *reduced)]
    out = spatial[1].var
    weights = [load for load in loads if load.indices[0] is out]
    images = [load for load in loads if load not in weights and load.buffer.ndim == 4]
    _require(node, len(weights) == len(images) == 1)
    channel = reduced[0].var if len(reduced) == 3 else const(0)
    wanted = (out, channel, *(it.var for it in reduced[-2:]))
    _require(node, all(a is b for a, b in zip(weights[0].indices, wanted)))
    image = images[0]
    _require(node, image.indices[0] is spatial[0].var)
    filters, height, width = sizes[:3]
    depth = prod(sizes[3:-2])
    groups = group_count(sch, image, 1, channel, depth, out, filters)
    _require(node, groups > 0)
    _require(node, all(it.var in variables(i) for it, i in zip(spatial[2:], image.indices[2:])))
    if not all(sizes) or samples == 0:
        raise TensorIRError(f"block {block!r} is empty; there is nothing to schedule")
    step = tuple(stride_of(sch, i, it) for i, it in zip(image.indices[2:], spatial[2:]))
    last = elementwise_user(sch, block) or block
    pad = padding_of(sch, block, image)
    return Conv(
        block, last, pad, image, weights[0], samples, filters, height, width, depth, groups,
        tuple(sizes[-2:]), (step[0], step[1]),
    )  # fmt: skip


def _require(node: Block, condition: bool) -> None:
    if not condition:
        raise TensorIRError(
            f"block {node.name!r} is no sum over (channel, row, column) of image[n, channel, ..] "
            "times weight[o, channel, row, column]; make it with ops.conv2d in layout NCHW, and "
            "schedule it before all else"
        )


def group_count(
    sch: Schedule, image: Load, at: int, channel: Expr, depth: int, out: Expr, filters: int
) -> int:
    """How many groups the channels are in, which dimension `at` of the image has; 0 if in none.

    Each of the groups has `depth` of them, which `channel` runs over, and as many of the `filters`.
    """
    index = image.indices[at]
    if index is channel:
        return 1
    groups = (int_value(image.buffer.shape[at]) or 0) // max(1, depth)
    each = filters // max(1, groups)
    first = (out if each == 1 else out // max(1, each)) * depth
    difference = sch.state.analyzer().simplify(index - (first + channel))
    return groups if groups > 1 and int_value(difference) == 0 else 0


def elementwise_user(sch: Schedule, block: str) -> str | None:
    """The one stage that uses what `block` makes, if it reads each element once, at its own."""
    made = sch.state.block(block).body
    users = sch.get_consumers(block)
    if len(users) != 1 or not isinstance(made, Store) or made.buffer in sch.func.params:
        return None
    user = sch.state.block(users[0])
    if user.is_reduction or not isinstance(user.body, Store):
        return None
    found = [load for load in read_by(sch, user.name) if load.buffer is made.buffer]
    same = [_at_own(user, load.indices) and _at_own(user, user.body.indices) for load in found]
    return user.name if same == [True] else None


def _at_own(block: Block, indices: tuple[Expr, ...]) -> bool:
    """Whether these are the variables of `block`, in order, or their only value."""
    return len(indices) == len(block.iters) and all(
        i is it.var or int_value(i) == 0 and int_value(it.extent) == 1
        for i, it in zip(indices, block.iters)
    )


def merge_epilogue(sch: Schedule, block: str) -> None:
    """Write the elementwise stages after `block` into the last of them."""
    user = elementwise_user(sch, block)
    while user is not None and elementwise_user(sch, user) is not None:
        sch.compute_inline(user)
        user = elementwise_user(sch, block)


def stride_of(sch: Schedule, index: Expr, it: IterVar) -> int:
    """How far apart the windows of neighbouring outputs are; 1 for an index that is not linear."""
    return slope(index, it.var, sch.state.analyzer()) or 1


def padding_of(sch: Schedule, block: str, image: Load) -> str | None:
    """The stage that makes the image of a convolution, for it alone."""
    makers = [str(maker) for maker in sch.get_producers(block)]
    pads = [maker for maker in makers if stored_buffer(sch, maker) == image.buffer.name]
    return pads[0] if pads and sch.get_consumers(pads[0]) == [block] else None
