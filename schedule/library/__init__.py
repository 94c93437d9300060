"""Derived schedules, written only with primitives."""

from schedule.library.channels_last_find import ChannelsLast, find_channels_last
from schedule.library.contraction import Contraction, NestPlan, Pack, find_contraction, make_nest
from schedule.library.conv import conv2d
from schedule.library.conv_channels import ChannelsPlan, conv_channels
from schedule.library.conv_depthwise import DepthwisePlan, conv2d_depthwise
from schedule.library.conv_depthwise_nhwc import DepthwiseNhwcPlan, conv2d_depthwise_nhwc
from schedule.library.conv_direct import DirectPlan, conv2d_direct, plan_direct
from schedule.library.conv_nhwc import conv2d_nhwc, plan_nhwc
from schedule.library.conv_pixels import PixelsPlan, conv2d_pixels, plan_pixels
from schedule.library.conv_winograd import conv2d_winograd
from schedule.library.cooperative_fetch import cooperative_fetch
from schedule.library.nhwc_plan import NhwcPlan
from schedule.library.tensorized_matmul import TensorizedMatmul, tensorized_matmul
from schedule.library.tensorized_roles import Roles, find_dot_product
from schedule.library.tensorized_tile import STRIP
from schedule.library.tile import tile
from schedule.library.winograd_plan import (
    WinogradPlan,
    plan_winograd,
    winograd_plans,
    winograd_tile,
)

__all__ = [
    "STRIP",
    "ChannelsLast",
    "ChannelsPlan",
    "Contraction",
    "DepthwiseNhwcPlan",
    "DepthwisePlan",
    "DirectPlan",
    "NestPlan",
    "NhwcPlan",
    "Pack",
    "PixelsPlan",
    "Roles",
    "TensorizedMatmul",
    "WinogradPlan",
    "conv2d",
    "conv2d_depthwise",
    "conv2d_depthwise_nhwc",
    "conv2d_direct",
    "conv2d_nhwc",
    "conv2d_pixels",
    "conv2d_winograd",
    "conv_channels",
    "cooperative_fetch",
    "find_channels_last",
    "find_contraction",
    "find_dot_product",
    "make_nest",
    "plan_direct",
    "plan_nhwc",
    "plan_pixels",
    "plan_winograd",
    "tensorized_matmul",
    "tile",
    "winograd_plans",
    "winograd_tile",
]
