"""Operators as functions on tensors: `from tensorir import ops`.

Each is a tensor expression with a NumPy reference and examples; docs/operators.md lists them.
"""

from typing import TYPE_CHECKING

from tensorir.lazy import lazy_names

if TYPE_CHECKING:
    from tensorir.ops.activation import ACTIVATIONS as ACTIVATIONS
    from tensorir.ops.activation import elu as elu
    from tensorir.ops.activation import gelu as gelu
    from tensorir.ops.activation import hardsigmoid as hardsigmoid
    from tensorir.ops.activation import hardswish as hardswish
    from tensorir.ops.activation import leaky_relu as leaky_relu
    from tensorir.ops.activation import mish as mish
    from tensorir.ops.activation import prelu as prelu
    from tensorir.ops.activation import relu as relu
    from tensorir.ops.activation import relu6 as relu6
    from tensorir.ops.activation import selu as selu
    from tensorir.ops.activation import silu as silu
    from tensorir.ops.activation import softplus as softplus
    from tensorir.ops.adaptive_pool import adaptive_avg_pool as adaptive_avg_pool
    from tensorir.ops.adaptive_pool import adaptive_max_pool as adaptive_max_pool
    from tensorir.ops.adaptive_pool import global_avg_pool as global_avg_pool
    from tensorir.ops.adaptive_pool import global_max_pool as global_max_pool
    from tensorir.ops.attention import attention as attention
    from tensorir.ops.blocks import depth_to_space as depth_to_space
    from tensorir.ops.blocks import space_to_depth as space_to_depth
    from tensorir.ops.blocks import tril as tril
    from tensorir.ops.blocks import triu as triu
    from tensorir.ops.broadcast import add as add
    from tensorir.ops.broadcast import atan2 as atan2
    from tensorir.ops.broadcast import bitwise_and as bitwise_and
    from tensorir.ops.broadcast import bitwise_or as bitwise_or
    from tensorir.ops.broadcast import bitwise_xor as bitwise_xor
    from tensorir.ops.broadcast import divide as divide
    from tensorir.ops.broadcast import equal as equal
    from tensorir.ops.broadcast import floor_divide as floor_divide
    from tensorir.ops.broadcast import fmod as fmod
    from tensorir.ops.broadcast import greater as greater
    from tensorir.ops.broadcast import greater_equal as greater_equal
    from tensorir.ops.broadcast import left_shift as left_shift
    from tensorir.ops.broadcast import less as less
    from tensorir.ops.broadcast import less_equal as less_equal
    from tensorir.ops.broadcast import logical_and as logical_and
    from tensorir.ops.broadcast import logical_or as logical_or
    from tensorir.ops.broadcast import logical_xor as logical_xor
    from tensorir.ops.broadcast import maximum as maximum
    from tensorir.ops.broadcast import minimum as minimum
    from tensorir.ops.broadcast import mod as mod
    from tensorir.ops.broadcast import multiply as multiply
    from tensorir.ops.broadcast import not_equal as not_equal
    from tensorir.ops.broadcast import power as power
    from tensorir.ops.broadcast import right_shift as right_shift
    from tensorir.ops.broadcast import subtract as subtract
    from tensorir.ops.broadcast import where as where
    from tensorir.ops.conv import conv1d as conv1d
    from tensorir.ops.conv import conv2d as conv2d
    from tensorir.ops.conv import conv3d as conv3d
    from tensorir.ops.conv import depthwise_conv2d as depthwise_conv2d
    from tensorir.ops.conv_transpose import conv1d_transpose as conv1d_transpose
    from tensorir.ops.conv_transpose import conv2d_transpose as conv2d_transpose
    from tensorir.ops.conv_transpose import conv3d_transpose as conv3d_transpose
    from tensorir.ops.cumulative import cumprod as cumprod
    from tensorir.ops.cumulative import cumsum as cumsum
    from tensorir.ops.einsum import einsum as einsum
    from tensorir.ops.elementwise import abs as abs
    from tensorir.ops.elementwise import acos as acos
    from tensorir.ops.elementwise import acosh as acosh
    from tensorir.ops.elementwise import asin as asin
    from tensorir.ops.elementwise import asinh as asinh
    from tensorir.ops.elementwise import atan as atan
    from tensorir.ops.elementwise import atanh as atanh
    from tensorir.ops.elementwise import bitwise_count as bitwise_count
    from tensorir.ops.elementwise import cast as cast
    from tensorir.ops.elementwise import ceil as ceil
    from tensorir.ops.elementwise import clip as clip
    from tensorir.ops.elementwise import cos as cos
    from tensorir.ops.elementwise import cosh as cosh
    from tensorir.ops.elementwise import erf as erf
    from tensorir.ops.elementwise import exp as exp
    from tensorir.ops.elementwise import exp2 as exp2
    from tensorir.ops.elementwise import expm1 as expm1
    from tensorir.ops.elementwise import floor as floor
    from tensorir.ops.elementwise import isfinite as isfinite
    from tensorir.ops.elementwise import isinf as isinf
    from tensorir.ops.elementwise import isnan as isnan
    from tensorir.ops.elementwise import log as log
    from tensorir.ops.elementwise import log1p as log1p
    from tensorir.ops.elementwise import log2 as log2
    from tensorir.ops.elementwise import log10 as log10
    from tensorir.ops.elementwise import logical_not as logical_not
    from tensorir.ops.elementwise import negative as negative
    from tensorir.ops.elementwise import reciprocal as reciprocal
    from tensorir.ops.elementwise import round as round
    from tensorir.ops.elementwise import rsqrt as rsqrt
    from tensorir.ops.elementwise import sigmoid as sigmoid
    from tensorir.ops.elementwise import sign as sign
    from tensorir.ops.elementwise import sin as sin
    from tensorir.ops.elementwise import sinh as sinh
    from tensorir.ops.elementwise import sqrt as sqrt
    from tensorir.ops.elementwise import square as square
    from tensorir.ops.elementwise import tan as tan
    from tensorir.ops.elementwise import tanh as tanh
    from tensorir.ops.elementwise import trunc as trunc
    from tensorir.ops.group_norm import group_norm as group_norm
    from tensorir.ops.group_norm import instance_norm as instance_norm
    from tensorir.ops.indexing import gather as gather
    from tensorir.ops.indexing import one_hot as one_hot
    from tensorir.ops.indexing import take as take
    from tensorir.ops.matmul import batch_matmul as batch_matmul
    from tensorir.ops.matmul import linear as linear
    from tensorir.ops.matmul import matmul as matmul
    from tensorir.ops.norm import batch_norm as batch_norm
    from tensorir.ops.norm import layer_norm as layer_norm
    from tensorir.ops.norm import rms_norm as rms_norm
    from tensorir.ops.pad import pad as pad
    from tensorir.ops.pool import avg_pool1d as avg_pool1d
    from tensorir.ops.pool import avg_pool2d as avg_pool2d
    from tensorir.ops.pool import avg_pool3d as avg_pool3d
    from tensorir.ops.pool import max_pool1d as max_pool1d
    from tensorir.ops.pool import max_pool2d as max_pool2d
    from tensorir.ops.pool import max_pool3d as max_pool3d
    from tensorir.ops.quantize import dequantize as dequantize
    from tensorir.ops.quantize import quantize as quantize
    from tensorir.ops.quantize import requantize as requantize
    from tensorir.ops.random import dropout as dropout
    from tensorir.ops.random import random_integers as random_integers
    from tensorir.ops.random import random_normal as random_normal
    from tensorir.ops.random import random_uniform as random_uniform
    from tensorir.ops.rearrange import broadcast_to as broadcast_to
    from tensorir.ops.rearrange import expand_dims as expand_dims
    from tensorir.ops.rearrange import flip as flip
    from tensorir.ops.rearrange import repeat as repeat
    from tensorir.ops.rearrange import reshape as reshape
    from tensorir.ops.rearrange import roll as roll
    from tensorir.ops.rearrange import squeeze as squeeze
    from tensorir.ops.rearrange import tile as tile
    from tensorir.ops.rearrange import transpose as transpose
    from tensorir.ops.reduce import all as all
    from tensorir.ops.reduce import any as any
    from tensorir.ops.reduce import argmax as argmax
    from tensorir.ops.reduce import argmin as argmin
    from tensorir.ops.reduce import max as max
    from tensorir.ops.reduce import min as min
    from tensorir.ops.reduce import prod as prod
    from tensorir.ops.reduce import sum as sum
    from tensorir.ops.registry import OPERATORS as OPERATORS
    from tensorir.ops.registry import Array as Array
    from tensorir.ops.registry import Example as Example
    from tensorir.ops.registry import Operator as Operator
    from tensorir.ops.registry import find_operator as find_operator
    from tensorir.ops.registry import integers as integers
    from tensorir.ops.registry import operator as operator
    from tensorir.ops.registry import prim_func as prim_func
    from tensorir.ops.registry import uniform as uniform
    from tensorir.ops.registry import values as values
    from tensorir.ops.resize import resize2d as resize2d
    from tensorir.ops.selection import concat as concat
    from tensorir.ops.selection import slice as slice
    from tensorir.ops.selection import split as split
    from tensorir.ops.selection import stack as stack
    from tensorir.ops.softmax import log_softmax as log_softmax
    from tensorir.ops.softmax import softmax as softmax
    from tensorir.ops.sorting import argsort as argsort
    from tensorir.ops.sorting import sort as sort
    from tensorir.ops.sorting import topk as topk
    from tensorir.ops.statistics import logsumexp as logsumexp
    from tensorir.ops.statistics import mean as mean
    from tensorir.ops.statistics import norm as norm
    from tensorir.ops.statistics import std as std
    from tensorir.ops.statistics import var as var
    from tensorir.ops.winograd import conv2d_winograd as conv2d_winograd
    from tensorir.ops.winograd import winograd_weights as winograd_weights

__all__ = lazy_names(
    __name__,
    {
        "tensorir.ops.activation": (
            "ACTIVATIONS elu gelu hardsigmoid hardswish leaky_relu mish prelu relu relu6 selu "
            "silu softplus"
        ),
        "tensorir.ops.adaptive_pool": (
            "adaptive_avg_pool adaptive_max_pool global_avg_pool global_max_pool"
        ),
        "tensorir.ops.attention": "attention",
        "tensorir.ops.blocks": "depth_to_space space_to_depth tril triu",
        "tensorir.ops.broadcast": (
            "add atan2 bitwise_and bitwise_or bitwise_xor divide equal floor_divide fmod "
            "greater greater_equal left_shift less less_equal logical_and logical_or logical_xor "
            "maximum minimum mod multiply not_equal power right_shift subtract where"
        ),
        "tensorir.ops.conv": "conv1d conv2d conv3d depthwise_conv2d",
        "tensorir.ops.conv_transpose": "conv1d_transpose conv2d_transpose conv3d_transpose",
        "tensorir.ops.built_in": "OPERATORS",
        "tensorir.ops.cumulative": "cumprod cumsum",
        "tensorir.ops.einsum": "einsum",
        "tensorir.ops.elementwise": (
            "abs acos acosh asin asinh atan atanh bitwise_count cast ceil clip cos cosh erf exp "
            "exp2 expm1 floor isfinite isinf isnan log log1p log2 log10 logical_not negative "
            "reciprocal round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc"
        ),
        "tensorir.ops.group_norm": "group_norm instance_norm",
        "tensorir.ops.indexing": "gather one_hot take",
        "tensorir.ops.matmul": "batch_matmul linear matmul",
        "tensorir.ops.norm": "batch_norm layer_norm rms_norm",
        "tensorir.ops.pad": "pad",
        "tensorir.ops.pool": "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d",
        "tensorir.ops.quantize": "dequantize quantize requantize",
        "tensorir.ops.random": "dropout random_integers random_normal random_uniform",
        "tensorir.ops.rearrange": (
            "broadcast_to expand_dims flip repeat reshape roll squeeze tile transpose"
        ),
        "tensorir.ops.reduce": "all any argmax argmin max min prod sum",
        "tensorir.ops.registry": (
            "Array Example Operator find_operator integers operator prim_func uniform values"
        ),
        "tensorir.ops.resize": "resize2d",
        "tensorir.ops.selection": "concat slice split stack",
        "tensorir.ops.softmax": "log_softmax softmax",
        "tensorir.ops.sorting": "argsort sort topk",
        "tensorir.ops.statistics": "logsumexp mean norm std var",
        "tensorir.ops.winograd": "conv2d_winograd winograd_weights",
    },
)
