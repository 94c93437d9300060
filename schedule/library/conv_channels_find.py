"""What a program with a convolution of any rank, or a transposed one, is made of."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from schedule.library.conv_find import elementwise_user, padding_of
from schedule.library.lanes import constant_size, read_by
from tensorir import (
    Block,
    Expr,
    IterKind,
    Load,
    Store,
    TensorIRError,
    int_value,
    variables,
)

if TYPE_CHECKING:
    from schedule.schedule import Schedule


@dataclass(frozen=True)
class Channels:
    """The blocks of a convolution and its sizes; names are those of variables, without the v.

    `turn` brings the sums of a transposed convolution in the order of the result; `phases` are the
    variables that only weights depend on. `size` are the spatial dimensions of the result.
    """

    sums: str
    turn: str | None
    last: str
    pad: str | None
    weight: Load
    packed: str | None
    samples: int | None
    filters: int
    steps: int
    size: tuple[int, ...]
    spatial: tuple[str, ...]
    phases: tuple[str, ...]
    taps: tuple[str, ...]
    channel: str
    run: int


def fits_channels(sch: Schedule, block: str, lanes: int) -> bool:
    """Whether `block` is for conv_channels, and for none of the schedules of pictures.

    Where neighbouring results are sums of the same weights, pixels may as well be in the lanes, and
    are where output channels do not fill half of them.
    """
    node = sch.state.block(block)
    spatial = [it.var for it in node.iters if it.kind is IterKind.SPATIAL]
    picture = len(spatial) == 4 and any(e.indices[0] is spatial[1] for e in read_by(sch, block))
    if picture or len(spatial) < 3:
        return False
    try:
        conv = find_channels(sch, block)
    except TensorIRError:
        return False
    return bool(conv.phases) or 2 * conv.filters >= lanes


def find_channels(sch: Schedule, block: str) -> Channels:
    """The convolution whose sums `block` computes; TensorIRError where it computes something else.

    All sizes but the batch must be constants.
    """
    node = sch.state.block(block)
    spatial = [it for it in node.iters if it.kind is IterKind.SPATIAL]
    reduced = [it for it in node.iters if it.kind is IterKind.REDUCE]
    loads = read_by(sch, block)
    _require(node, len(spatial) >= 3 and len(reduced) >= 2 and len(loads) == 2)
    batch, out = spatial[0].var, spatial[1].var
    weights = [load for load in loads if out in load.indices]
    images = [load for load in loads if load not in weights and load.indices[0] is batch]
    _require(node, len(weights) == len(images) == 1 and images[0].buffer.ndim >= 3)
    weight, image = weights[0], images[0]
    channel = image.indices[1]
    _require(node, channel in [it.var for it in reduced] and channel in weight.indices)
    ends = [variables(index) for index in image.indices[2:]]
    seen = {var for found in ends for var in found}
    moved = [it for it in spatial[2:] if it.var in seen]
    phases = [it for it in spatial[2:] if it.var not in seen]
    _require(node, len(moved) == len(ends) and all(it.var in e for it, e in zip(moved, ends)))
    sizes = [constant_size(it, block) for it in (spatial[1], *moved, *phases, *reduced)]
    if not all(sizes) or int_value(spatial[0].extent) == 0:
        raise TensorIRError(f"block {block!r} is empty; there is nothing to schedule")
    turn = _turned(sch, block) if phases else None
    _require(node, bool(turn) == bool(phases))
    made = turn or block
    last = elementwise_user(sch, made) or made
    pad, packed = padding_of(sch, block, image), padding_of(sch, block, weight)
    _require(node, {*map(str, sch.get_blocks())} <= {block, turn, last, pad, packed})
    result = [it for it in sch.state.block(last).iters[2:] if it.kind is IterKind.SPATIAL]
    return Channels(
        block, turn, last, pad, weight, packed, int_value(spatial[0].extent), sizes[0],
        prod(constant_size(it, block) for it in reduced),
        tuple(constant_size(it, last) for it in result),
        tuple(var_name(it.var) for it in moved), tuple(var_name(it.var) for it in phases),
        tuple(var_name(it.var) for it in reduced if it.var is not channel), var_name(channel),
        sizes[len(moved)],
    )  # fmt: skip


def var_name(var: Expr) -> str:
    """The name of a block variable without the v that it begins with."""
    return str(getattr(var, "name", "")).removeprefix("v")


def _require(node: Block, condition: bool) -> None:
    if not condition:
        raise TensorIRError(
            f"block {node.name!r} is no sum over channels and taps of image[n, channel, ..] times "
            "a weight for each output channel, in one group; make it with ops.conv1d, conv3d or "
            "conv2d_transpose with channels first, and schedule it before all else"
        )


def _turned(sch: Schedule, block: str) -> str | None:
    """The one stage that reads what `block` makes, if it only puts it in another order."""
    users = [str(user) for user in sch.get_consumers(block)]
    if len(users) != 1:
        return None
    user = sch.state.block(users[0])
    body = user.body
    if user.is_reduction or not isinstance(body, Store) or not isinstance(body.value, Load):
        return None
    own = [it.var for it in user.iters]
    same = list(body.value.indices[:2]) == own[:2] and list(body.indices) == own
    return users[0] if same else None
