"""Derived schedules, written only with primitives."""

from schedule.library.conv import conv2d
from schedule.library.conv_depthwise import DepthwisePlan, conv2d_depthwise
from schedule.library.conv_direct import DirectPlan, conv2d_direct, plan_direct
from schedule.library.conv_pixels import PixelsPlan, conv2d_pixels, plan_pixels
from schedule.library.conv_winograd import conv2d_winograd
from schedule.library.tensorized_matmul import TensorizedMatmul, tensorized_matmul
from schedule.library.tensorized_roles import Roles, find_dot_product
from schedule.library.tensorized_tile import STRIP
from schedule.library.tile import tile
from schedule.library.winograd_plan import WinogradPlan, plan_winograd, winograd_tile

__all__ = [
    "STRIP",
    "DepthwisePlan",
    "DirectPlan",
    "PixelsPlan",
    "Roles",
    "TensorizedMatmul",
    "WinogradPlan",
    "conv2d",
    "conv2d_depthwise",
    "conv2d_direct",
    "conv2d_pixels",
    "conv2d_winograd",
    "find_dot_product",
    "plan_direct",
    "plan_pixels",
    "plan_winograd",
    "tensorized_matmul",
    "tile",
    "winograd_tile",
]
