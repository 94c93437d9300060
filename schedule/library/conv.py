"""conv2d: the schedule that fits the convolution that a program has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Union

from schedule.library.channels_last_find import may_be_channels_last
from schedule.library.conv_channels import ChannelsPlan, conv_channels
from schedule.library.conv_channels_find import fits_channels
from schedule.library.conv_depthwise import DepthwisePlan, conv2d_depthwise
from schedule.library.conv_depthwise_nhwc import DepthwiseNhwcPlan, conv2d_depthwise_nhwc
from schedule.library.conv_direct import DirectPlan, choose_direct, conv2d_direct
from schedule.library.conv_find import elementwise_user, find_conv, merge_epilogue
from schedule.library.conv_nhwc import conv2d_nhwc, plan_nhwc
from schedule.library.conv_pixels import PixelsPlan, choose_pixels, conv2d_pixels
from schedule.library.lanes import read_by
from schedule.library.nhwc_plan import NhwcPlan
from tensorir import IterKind, Target, TensorIRError, variables

if TYPE_CHECKING:
    from schedule.schedule import Schedule

ConvPlan = Union[
    DirectPlan, PixelsPlan, DepthwisePlan, ChannelsPlan, NhwcPlan, DepthwiseNhwcPlan
]


def conv2d(sch: Schedule, target: Target, packed: bool = True) -> ConvPlan:
    """Schedule the convolution of ops.conv2d or depthwise_conv2d.

    In layout NCHW or NHWC; those of ops.conv1d and conv3d with channels first or last, transposed
    ones with channels first and in one group. With channels last, weights that are not `packed`
    are read where they are: this saves time where they are no constants and few pixels use them.
    `target` must be resolved (backends.resolve), and all sizes constant but the batch. Returns
    what was chosen. Raises TensorIRError where the program has no such convolution, several, or
    stages that do not go with it.
    """
    blocks = [str(block) for block in sch.get_blocks()]
    sums = [name for name in blocks if sch.state.block(name).is_reduction]
    if len(sums) != 1:
        raise TensorIRError(
            f"the program has {len(sums)} reductions ({', '.join(sums) or 'none'}), not one "
            "convolution; call the schedule in schedule.library that fits, with its name"
        )
    done = len(sch.trace)
    try:
        merge_epilogue(sch, sums[0])
        if fits_channels(sch, sums[0], target.lanes()):
            return conv_channels(sch, target, sums[0])
        _require_alone(sch, sums[0])
        return _schedule(sch, target, sums[0], packed)
    except TensorIRError:
        sch.undo(len(sch.trace) - done)
        raise


def _require_alone(sch: Schedule, sums: str) -> None:
    taken = {sums, elementwise_user(sch, sums), *map(str, sch.get_producers(sums))}
    others = [str(name) for name in sch.get_blocks() if name not in taken]
    if others:
        raise TensorIRError(
            f"the program has stages around its convolution that do not go with it: "
            f"{', '.join(others)}; call the schedule in schedule.library that fits, and schedule "
            "these by hand"
        )


def _schedule(sch: Schedule, target: Target, sums: str, packed: bool) -> ConvPlan:
    channels_last = may_be_channels_last(sch, sums)
    if channels_last is not None:
        if channels_last.depthwise:
            return conv2d_depthwise_nhwc(sch, target, sums)
        chosen = plan_nhwc(sch, target, sums)
        return conv2d_nhwc(sch, target, sums, replace(chosen, packed=packed))
    taps = [it for it in sch.state.block(sums).iters if it.kind is IterKind.REDUCE]
    if len(taps) == 2 and _reads_own_channel(sch, sums):
        return conv2d_depthwise(sch, target, sums)
    conv = find_conv(sch, sums)
    pixels, plan = choose_pixels(conv, target)
    if pixels < choose_direct(conv, target)[0]:
        return conv2d_pixels(sch, target, sums, plan)
    return conv2d_direct(sch, target, sums)


def _reads_own_channel(sch: Schedule, name: str) -> bool:
    block = sch.state.block(name)
    spatial = [it for it in block.iters if it.kind is IterKind.SPATIAL]
    found = read_by(sch, name)
    return len(spatial) == 4 and any(
        load.indices[0] is spatial[0].var and spatial[1].var in variables(load.indices[1])
        for load in found
        if len(load.indices) == 4
    )
