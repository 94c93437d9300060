"""What a program with a convolution whose channels lie last is made of: NWC, NHWC, NDHWC."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from schedule.library.conv_find import elementwise_user, group_count, padding_of, stride_of
from schedule.library.lanes import constant_size, read_by
from tensorir import (
    Block,
    Expr,
    IterKind,
    IterVar,
    Load,
    Store,
    TensorIRError,
    Var,
    const,
    int_value,
    variables,
)

if TYPE_CHECKING:
    from schedule.schedule import Schedule

TYPES = ("float32", "float64")

SMALL_WORK = 200_000
"""Multiply-adds below which one thread does the work."""


@dataclass(frozen=True)
class ChannelsLast:
    """The blocks of a convolution, the variables of the block with its sums, and the sizes.

    Names are those of block variables without the leading v. `last` follows the sums, if it is not
    they; `pad` makes the image, for them alone. `spaces` are the dimensions of a picture, `windows`
    the variables that run over the filter, `places` what the dimensions of the weights are: one of
    `windows`, `channel`, `filter`, or "" for one of size 1. `samples` is None for a symbolic batch.
    `sizes` are those of the outputs in each of `spaces`, `step` how far apart their windows are.
    `depth` are the input channels of one of the `groups`.
    """

    sums: str
    last: str
    pad: str | None
    image: Load
    weight: Load
    spaces: tuple[str, ...]
    windows: tuple[str, ...]
    channel: str | None
    filter: str
    places: tuple[str, ...]
    samples: int | None
    filters: int
    sizes: tuple[int, ...]
    depth: int
    groups: int
    taps: tuple[int, ...]
    step: tuple[int, ...]
    dtype: str

    @property
    def width(self) -> int:
        """Outputs of a row."""
        return self.sizes[-1]

    @property
    def height(self) -> int:
        """Rows of a picture; 1 in one dimension."""
        return self.sizes[-2] if len(self.sizes) > 1 else 1

    def panel(self, channels: int) -> int:
        """Output channels of a panel of weights, for tiles of so many; at most those of a group."""
        return min(channels, self.filters // self.groups)

    @property
    def small(self) -> bool:
        """Whether starting threads may cost more than it saves."""
        sums = self.filters * prod(self.sizes) * (self.samples or 0)
        return self.samples is not None and sums * self.depth * prod(self.taps) < SMALL_WORK

    @property
    def depthwise(self) -> bool:
        """Whether neighbouring outputs read neighbouring inputs."""
        return self.channel is None and self.groups == self.filters > 1


def find_channels_last(sch: Schedule, block: str) -> ChannelsLast:
    """The convolution whose sums `block` computes; TensorIRError where it computes something else.

    All sizes but the batch must be constants. The weights may have any order.
    """
    found = may_be_channels_last(sch, block)
    node = sch.state.block(block)
    if found is None:
        raise TensorIRError(
            f"block {block!r} is no sum over (.., row, column, channel) of image[n, .., channel] "
            "times weights; make it with ops.conv2d in layout NHWC, with elements of "
            f"{' or '.join(TYPES)}, and schedule it before all else"
        )
    sizes = [constant_size(it, block) for it in node.iters if it.var is not found.image.indices[0]]
    if not all(sizes) or found.samples == 0:
        raise TensorIRError(f"block {block!r} is empty; there is nothing to schedule")
    return found


def may_be_channels_last(sch: Schedule, block: str) -> ChannelsLast | None:
    """The convolution in `block`, or None; sizes that are no numbers count as 0."""
    node = sch.state.block(block)
    if not isinstance(node.body, Store):
        return None
    spatial = {it.var: it for it in node.iters if it.kind is IterKind.SPATIAL}
    reduced = {it.var: it for it in node.iters if it.kind is IterKind.REDUCE}
    out = [i for i in node.body.indices if isinstance(i, Var)]
    whole = len(out) == len(node.body.indices) == len(spatial) and set(out) == set(spatial)
    if not whole or len(out) not in (3, 4, 5):
        return None
    operands = _operands(sch, node, out[-1], set(reduced))
    if operands is None:
        return None
    image, weight = operands
    windows = _windows(image, out, set(reduced))
    if windows is None or image.indices[0] is not out[0]:
        return None
    channels = [v for v in reduced if v not in windows]
    channel: Expr = channels[0] if channels else const(0)
    depth = _size(reduced[channels[0]]) if channels else 1
    filters = _size(spatial[out[-1]])
    groups = group_count(sch, image, -1, channel, depth, out[-1], filters)
    if not groups:
        return None
    known = {v: v.name.removeprefix("v") for v in (*out, *reduced)}
    outer = [_size(spatial[v]) for v in out[1:-1]]
    steps = [stride_of(sch, i, spatial[v]) for i, v in zip(image.indices[1:-1], out[1:-1])]
    return ChannelsLast(
        sums=block,
        last=elementwise_user(sch, block) or block,
        pad=padding_of(sch, block, image),
        image=image,
        weight=weight,
        spaces=tuple(known[v] for v in out[1:-1]),
        windows=tuple(known[v] for v in windows),
        channel=known[channels[0]] if channels else None,
        filter=known[out[-1]],
        places=tuple(known.get(i, "") if isinstance(i, Var) else "" for i in weight.indices),
        samples=int_value(spatial[out[0]].extent),
        filters=filters,
        sizes=tuple(outer),
        depth=depth,
        groups=groups,
        taps=tuple(_size(reduced[v]) for v in windows),
        step=tuple(steps),
        dtype=node.body.buffer.dtype,
    )


def _size(it: IterVar) -> int:
    return int_value(it.extent) or 0


def _operands(sch: Schedule, node: Block, out: Var, reduced: set[Var]) -> tuple[Load, Load] | None:
    """The image and the weights: the latter are read at variables of their own alone."""
    assert isinstance(node.body, Store)
    loads = read_by(sch, node.name)
    own: set[Expr] = {out, *reduced}

    def plain(load: Load) -> bool:
        used = [i for i in load.indices if i in own]
        rest = [i for i in load.indices if i not in own]
        return out in used and len(set(used)) == len(used) and all(int_value(i) == 0 for i in rest)

    weights = [load for load in loads if plain(load)]
    images = [load for load in loads if load not in weights]
    if len(weights) != 1 or len(images) != 1 or images[0].buffer.ndim != len(node.body.indices):
        return None
    kinds = {load.buffer.dtype for load in loads} | {node.body.buffer.dtype}
    return (images[0], weights[0]) if len(kinds) == 1 and kinds <= set(TYPES) else None


def _windows(image: Load, out: list[Var], reduced: set[Var]) -> list[Var] | None:
    """The variable of the filter in each dimension of a picture; None where one has another form.

    All other variables that are summed over, of which there is one at most, are the channel.
    """
    found: list[Var] = []
    for index, place in zip(image.indices[1:-1], out[1:-1]):
        used = variables(index)
        window = [v for v in used if v in reduced]
        if place not in used or len(window) != 1 or len(used) != 2:
            return None
        found += window
    rest = reduced - set(found)
    fits = len(set(found)) == len(found) and len(rest) <= 1 and rest <= variables(image.indices[-1])
    return found if fits else None
