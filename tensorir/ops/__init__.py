"""Operators as functions on tensors: `from tensorir import ops`.

Each is a tensor expression with a NumPy reference and examples; docs/operators.md lists them.
"""

# mypy: implicit-reexport
# ruff: noqa: F401

from typing import TYPE_CHECKING

from tensorir.lazy import lazy_names

if TYPE_CHECKING:
    from tensorir.ops.activation import (
        ACTIVATIONS,
        elu,
        gelu,
        hardsigmoid,
        hardswish,
        leaky_relu,
        mish,
        prelu,
        relu,
        relu6,
        selu,
        silu,
        softplus,
    )
    from tensorir.ops.adaptive_pool import (
        adaptive_avg_pool,
        adaptive_max_pool,
        global_avg_pool,
        global_max_pool,
    )
    from tensorir.ops.attention import attention
    from tensorir.ops.blocks import depth_to_space, space_to_depth, tril, triu
    from tensorir.ops.broadcast import (
        add,
        atan2,
        bitwise_and,
        bitwise_or,
        bitwise_xor,
        divide,
        equal,
        floor_divide,
        fmod,
        greater,
        greater_equal,
        left_shift,
        less,
        less_equal,
        logical_and,
        logical_or,
        logical_xor,
        maximum,
        minimum,
        mod,
        multiply,
        not_equal,
        power,
        right_shift,
        subtract,
        where,
    )
    from tensorir.ops.built_in import OPERATORS
    from tensorir.ops.conv import conv1d, conv2d, conv3d, depthwise_conv2d
    from tensorir.ops.conv_transpose import conv1d_transpose, conv2d_transpose, conv3d_transpose
    from tensorir.ops.cumulative import cumprod, cumsum
    from tensorir.ops.einsum import einsum
    from tensorir.ops.elementwise import (
        abs,
        acos,
        acosh,
        asin,
        asinh,
        atan,
        atanh,
        bitwise_count,
        cast,
        ceil,
        clip,
        cos,
        cosh,
        erf,
        exp,
        exp2,
        expm1,
        floor,
        isfinite,
        isinf,
        isnan,
        log,
        log1p,
        log2,
        log10,
        logical_not,
        negative,
        reciprocal,
        round,
        rsqrt,
        sigmoid,
        sign,
        sin,
        sinh,
        sqrt,
        square,
        tan,
        tanh,
        trunc,
    )
    from tensorir.ops.group_norm import group_norm, instance_norm
    from tensorir.ops.indexing import gather, one_hot, take
    from tensorir.ops.matmul import batch_matmul, linear, matmul
    from tensorir.ops.norm import batch_norm, layer_norm, rms_norm
    from tensorir.ops.pad import pad
    from tensorir.ops.pool import (
        avg_pool1d,
        avg_pool2d,
        avg_pool3d,
        max_pool1d,
        max_pool2d,
        max_pool3d,
    )
    from tensorir.ops.quantize import dequantize, quantize, requantize
    from tensorir.ops.random import dropout, random_integers, random_normal, random_uniform
    from tensorir.ops.rearrange import (
        broadcast_to,
        expand_dims,
        flip,
        repeat,
        reshape,
        roll,
        squeeze,
        tile,
        transpose,
    )
    from tensorir.ops.reduce import all, any, argmax, argmin, max, min, prod, sum
    from tensorir.ops.registry import (
        Array,
        Example,
        Operator,
        find_operator,
        integers,
        operator,
        prim_func,
        uniform,
        values,
    )
    from tensorir.ops.resize import resize2d
    from tensorir.ops.selection import concat, slice, split, stack
    from tensorir.ops.softmax import log_softmax, softmax
    from tensorir.ops.sorting import argsort, sort, topk
    from tensorir.ops.statistics import logsumexp, mean, norm, std, var
    from tensorir.ops.winograd import conv2d_winograd, winograd_weights

__all__ = lazy_names(__name__)
