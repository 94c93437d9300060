"""Derived schedules, written only with primitives."""

from typing import TYPE_CHECKING

from tensorir import lazy_names

if TYPE_CHECKING:
    from schedule.library.channels_last_find import ChannelsLast as ChannelsLast
    from schedule.library.channels_last_find import find_channels_last as find_channels_last
    from schedule.library.contraction import Access as Access
    from schedule.library.contraction import Axis as Axis
    from schedule.library.contraction import Contraction as Contraction
    from schedule.library.contraction import Digit as Digit
    from schedule.library.contraction import NestPlan as NestPlan
    from schedule.library.contraction import Operand as Operand
    from schedule.library.contraction import Pack as Pack
    from schedule.library.contraction import Partial as Partial
    from schedule.library.contraction import PartialPlan as PartialPlan
    from schedule.library.contraction import adding_up as adding_up
    from schedule.library.contraction import find_contraction as find_contraction
    from schedule.library.contraction import make_nest as make_nest
    from schedule.library.contraction import make_partial_nest as make_partial_nest
    from schedule.library.contraction import partial_sums as partial_sums
    from schedule.library.contraction import with_panel as with_panel
    from schedule.library.contraction import with_partial as with_partial
    from schedule.library.conv import conv2d as conv2d
    from schedule.library.conv_channels import ChannelsPlan as ChannelsPlan
    from schedule.library.conv_channels import conv_channels as conv_channels
    from schedule.library.conv_depthwise import DepthwisePlan as DepthwisePlan
    from schedule.library.conv_depthwise import conv2d_depthwise as conv2d_depthwise
    from schedule.library.conv_depthwise_nhwc import DepthwiseNhwcPlan as DepthwiseNhwcPlan
    from schedule.library.conv_depthwise_nhwc import conv2d_depthwise_nhwc as conv2d_depthwise_nhwc
    from schedule.library.conv_direct import DirectPlan as DirectPlan
    from schedule.library.conv_direct import conv2d_direct as conv2d_direct
    from schedule.library.conv_direct import plan_direct as plan_direct
    from schedule.library.conv_nhwc import conv2d_nhwc as conv2d_nhwc
    from schedule.library.conv_nhwc import plan_nhwc as plan_nhwc
    from schedule.library.conv_pixels import PixelsPlan as PixelsPlan
    from schedule.library.conv_pixels import conv2d_pixels as conv2d_pixels
    from schedule.library.conv_pixels import plan_pixels as plan_pixels
    from schedule.library.cooperative_fetch import cooperative_fetch as cooperative_fetch
    from schedule.library.nhwc_plan import NhwcPlan as NhwcPlan
    from schedule.library.tensorized_matmul import TensorizedMatmul as TensorizedMatmul
    from schedule.library.tensorized_matmul import tensorized_matmul as tensorized_matmul
    from schedule.library.tensorized_roles import Roles as Roles
    from schedule.library.tensorized_roles import find_dot_product as find_dot_product
    from schedule.library.tensorized_tile import STRIP as STRIP
    from schedule.library.tile import tile as tile
    from schedule.library.winograd import Winograd as Winograd
    from schedule.library.winograd import WinogradPlan as WinogradPlan
    from schedule.library.winograd import find_winograd as find_winograd
    from schedule.library.winograd import make_winograd as make_winograd

__all__ = lazy_names(
    __name__,
    {
        "schedule.library.channels_last_find": "ChannelsLast find_channels_last",
        "schedule.library.contraction": (
            "Access Axis Contraction Digit NestPlan Operand Pack Partial PartialPlan adding_up "
            "find_contraction make_nest make_partial_nest partial_sums with_panel with_partial"
        ),
        "schedule.library.conv": "conv2d",
        "schedule.library.conv_channels": "ChannelsPlan conv_channels",
        "schedule.library.conv_depthwise": "DepthwisePlan conv2d_depthwise",
        "schedule.library.conv_depthwise_nhwc": "DepthwiseNhwcPlan conv2d_depthwise_nhwc",
        "schedule.library.conv_direct": "DirectPlan conv2d_direct plan_direct",
        "schedule.library.conv_nhwc": "conv2d_nhwc plan_nhwc",
        "schedule.library.conv_pixels": "PixelsPlan conv2d_pixels plan_pixels",
        "schedule.library.cooperative_fetch": "cooperative_fetch",
        "schedule.library.nhwc_plan": "NhwcPlan",
        "schedule.library.tensorized_matmul": "TensorizedMatmul tensorized_matmul",
        "schedule.library.tensorized_roles": "Roles find_dot_product",
        "schedule.library.tensorized_tile": "STRIP",
        "schedule.library.tile": "tile",
        "schedule.library.winograd": "Winograd WinogradPlan find_winograd make_winograd",
    },
)
