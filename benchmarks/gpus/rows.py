"""The rows: an operator of each family, in a size for GPUs and in one that an emulator runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tensorir import PrimFunc, dtype, int_value, ops, te

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Family:
    """What rows are held to.

    most       times the transactions of `of`, at the most; None where there is no figure
    of         "arguments", each moved once, or "tiles": what those of a product have to move
    occupancy  the share of warps at least
    """

    name: str
    most: float | None
    of: str = "arguments"
    occupancy: float = 0.5


MEMORY = Family("memory", 1.05)
LONG_SCANS = Family("long scans", 1.55)
"""Scans of rows that no block has room for: they are read twice and written once."""

LONG_ROWS = Family("long rows", 2.05)
"""Rows of softmax and norms that no block has room for: only another kernel knows their sums, so
that each of two sums at the most reads a row again, and the result once more."""

WINDOWS = Family("windows", 1.15)
PRODUCT = Family("product", 1.1, "tiles", 0.125)
FREE = Family("free", None, occupancy=0.125)
"""No figure for transactions: the least depends on values, or on what is kept between stages."""


@dataclass(frozen=True)
class Row:
    """One operator.

    make    from tensors to the result
    full    shapes of the inputs; `small` those for the emulator
    torch   the same from torch and its tensors, None where it has no form
    flops   additions and multiplications at full size; 0 where memory decides
    types   of the inputs, float32 where there are fewer; integers are places below `below`
    why     the reason for what the counts do not hold, "" where they hold
    """

    name: str
    family: Family
    make: Callable[..., Any]
    full: Shapes
    small: Shapes
    torch: Callable[..., Any] | None = None
    flops: float = 0.0
    types: tuple[str, ...] = ()
    below: int = 1
    why: str = ""

    def func(self, small: bool = False) -> PrimFunc:
        """The program."""
        shapes = self.small if small else self.full
        inputs = [
            te.placeholder(shape, kind, name=f"x{n}")
            for n, (shape, kind) in enumerate(zip(shapes, self.kinds))
        ]
        made = self.make(*inputs)
        outputs = made if isinstance(made, tuple) else (made,)
        return te.create_prim_func([*inputs, *outputs], name="program")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The types of all inputs."""
        return (*self.types, *["float32"] * (len(self.full) - len(self.types)))

    def inputs(self, small: bool = False, seed: int = 0) -> list[np.ndarray]:
        """Arrays for a call: floats in [-1, 1), integers that are places."""
        rng, found = np.random.default_rng(seed), []
        below = min(self.small[0]) if small else self.below
        for shape, kind in zip(self.small if small else self.full, self.kinds):
            if dtype.is_int(kind):
                found.append(rng.integers(0, below, shape).astype(kind))
            else:
                found.append((rng.random(shape, np.float32) * 2 - 1).astype(kind))
        return found

    @property
    def bytes(self) -> float:
        """Of all inputs and outputs at full size."""
        func = self.func()
        return sum(prod(p.const_shape or ()) * dtype.itemsize(p.dtype) for p in func.params)


def cross_entropy(x: Any, labels: Any) -> Any:
    """The logarithm of the share of the right class in each row, negative."""
    rows = x.shape[0]
    total, last = ops.logsumexp(x, axis=1, name="total"), x.shape[1] - 1
    return te.compute(
        (rows,), lambda i: total[i] - x[i, te.clip(labels[i], 0, last)], name="loss"
    )


def histogram(x: Any) -> Any:
    """How many elements have each of 256 values."""
    k = te.reduce_axis(x.shape[0], name="k")
    return te.compute((256,), lambda b: te.sum((x[k] == b).astype("int32"), axis=k), name="counts")


def gradient_of_table(at: Any, rows: Any) -> Any:
    """What each of 1000 rows of a table gets of the rows that were made of it."""
    n, width = rows.shape
    k = te.reduce_axis(n, name="k")
    return te.compute(
        (1000, width),
        lambda i, j: te.sum(te.if_then_else(at[k] == i, rows[k, j], 0), axis=k),
        name="gradient",
    )


def stencil(x: Any) -> Any:
    """The mean of the four neighbours."""
    m, n = (extent - 2 for extent in x.shape)
    return te.compute(
        (m, n),
        lambda i, j: (x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j] + x[i + 1, j + 2]) * 0.25,
        name="out",
    )


def twice(x: Any) -> Any:
    """An image of twice the height and width, interpolated."""
    return ops.resize2d(x, tuple(2 * int_value(extent) for extent in x.shape[2:]))


def feed_forward(x: Any, w: Any, b: Any, v: Any, c: Any, g: Any, s: Any) -> Any:
    """A block of a transformer: two linear layers with GELU between, the sum with x, its norm."""
    inner = ops.linear(x, w, b, activation="gelu", layout="KN", name="inner")
    outer = ops.linear(inner, v, c, layout="KN", name="outer")
    return ops.layer_norm(ops.add(outer, x, name="both"), g, s, name="norm")


def _feed_forward(t: Any, x: Any, w: Any, b: Any, v: Any, c: Any, g: Any, s: Any) -> Any:
    inner = t.nn.functional.gelu(x @ w + b)
    return t.nn.functional.layer_norm(inner @ v + c + x, (x.shape[-1],), g, s)


def _conv(n: int, c: int, size: int, k: int, kernel: int, groups: int = 1) -> float:
    return 2.0 * n * k * (c // groups) * size * size * kernel * kernel


def _nhwc(t: Any, x: Any, w: Any, **how: Any) -> Any:
    """torch's convolution of an image whose channels are last."""
    image, weight = x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)
    return t.nn.functional.conv2d(image, weight, **how).permute(0, 2, 3, 1)


def _unshuffled(t: Any, x: Any) -> Any:
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, 4 * c, h // 2, w // 2)


LAYOUTS = (
    Row("add 8192x8192", MEMORY, ops.add, ((8192, 8192),) * 2, ((64, 104),) * 2,
        lambda t, x, y: x + y),
    Row("gelu 4097x4099", MEMORY, ops.gelu, ((4097, 4099),), ((37, 41),),
        lambda t, x: t.nn.functional.gelu(x)),
    Row("relu 65536x65536", MEMORY, ops.relu, ((65536, 65536),), ((64, 96),),
        lambda t, x: t.relu(x)),
    Row("concat 2 x 4096x4096", MEMORY, lambda x, y: ops.concat([x, y], 1), ((4096, 4096),) * 2,
        ((32, 64),) * 2, lambda t, x, y: t.cat([x, y], 1)),
    Row("space to depth 16x64x224x224", MEMORY, lambda x: ops.space_to_depth(x, 2),
        ((16, 64, 224, 224),), ((2, 4, 32, 32),), _unshuffled),
    Row("transpose 8192x4096", MEMORY, lambda x: ops.transpose(x, (1, 0)), ((8192, 4096),),
        ((96, 64),), lambda t, x: x.T.contiguous()),
    Row("transpose 4097x4099", MEMORY, lambda x: ops.transpose(x, (1, 0)), ((4097, 4099),),
        ((65, 67),), lambda t, x: x.T.contiguous()),
    Row("permute 64x512x512 to 2, 0, 1", MEMORY, lambda x: ops.transpose(x, (2, 0, 1)),
        ((64, 512, 512),), ((8, 32, 64),), lambda t, x: x.permute(2, 0, 1).contiguous()),
    Row("channels last 32x64x112x112", MEMORY, lambda x: ops.transpose(x, (0, 2, 3, 1)),
        ((32, 64, 112, 112),), ((2, 32, 8, 8),), lambda t, x: x.permute(0, 2, 3, 1).contiguous()),
    Row("channels last 32x3x224x224", MEMORY, lambda x: ops.transpose(x, (0, 2, 3, 1)),
        ((32, 3, 224, 224),), ((2, 3, 16, 32),), lambda t, x: x.permute(0, 2, 3, 1).contiguous()),
)  # fmt: skip

ROWS_AND_COLUMNS = (
    Row("row sum 65536x1024", MEMORY, lambda x: ops.sum(x, 1), ((65536, 1024),), ((9, 1024),),
        lambda t, x: x.sum(1)),
    Row("row max 1024x65536", MEMORY, lambda x: ops.max(x, 1), ((1024, 65536),), ((3, 4096),),
        lambda t, x: x.amax(1)),
    Row("argmax 65536x1024", MEMORY, lambda x: ops.argmax(x, 1), ((65536, 1024),), ((9, 1024),),
        lambda t, x: x.argmax(1)),
    Row("column sum 65536x1024", MEMORY, lambda x: ops.sum(x, 0), ((65536, 1024),), ((300, 64),),
        lambda t, x: x.sum(0)),
    Row("sum of 256x256x64x64 but axis 1", MEMORY, lambda x: ops.sum(x, (0, 2, 3)),
        ((256, 256, 64, 64),), ((8, 4, 16, 16),), lambda t, x: x.sum((0, 2, 3))),
    Row("sum of 2^28", MEMORY, ops.sum, ((1 << 28,),), ((1 << 14,),), lambda t, x: x.sum()),
    Row("global average 64x256x56x56", MEMORY, ops.global_avg_pool, ((64, 256, 56, 56),),
        ((2, 8, 8, 8),), lambda t, x: x.mean((2, 3), keepdim=True)),
    Row("softmax 65536x1024", MEMORY, ops.softmax, ((65536, 1024),), ((9, 1024),),
        lambda t, x: t.softmax(x, -1)),
    Row("softmax 4096x50257", MEMORY, ops.softmax, ((4096, 50257),), ((3, 1031),),
        lambda t, x: t.softmax(x, -1)),
    Row("softmax along 4096x256x64", MEMORY, lambda x: ops.softmax(x, 1), ((4096, 256, 64),),
        ((2, 16, 64),), lambda t, x: t.softmax(x, 1)),
    Row("log-softmax 8192x32000", MEMORY, ops.log_softmax, ((8192, 32000),), ((3, 2000),),
        lambda t, x: t.log_softmax(x, -1)),
    Row("cross entropy 8192x32000", MEMORY, cross_entropy, ((8192, 32000), (8192,)),
        ((24, 640), (24,)),
        lambda t, x, y: t.nn.functional.cross_entropy(x, y.long(), reduction="none"),
        types=("float32", "int32"), below=32000),
    Row("layer norm 16384x4096", MEMORY, ops.layer_norm, ((16384, 4096), (4096,), (4096,)),
        ((130, 256), (256,), (256,)),
        lambda t, x, g, b: t.nn.functional.layer_norm(x, (x.shape[-1],), g, b)),
    Row("rms norm 16384x5120", MEMORY, ops.rms_norm, ((16384, 5120), (5120,)),
        ((130, 320), (320,)),
        lambda t, x, g: x * t.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * g),
    Row("group norm 32x64x56x56, 8 groups", MEMORY, lambda x: ops.group_norm(x, groups=8),
        ((32, 64, 56, 56),), ((2, 8, 8, 8),), lambda t, x: t.nn.functional.group_norm(x, 8)),
    Row("running sums 65536x1024", MEMORY, ops.cumsum, ((65536, 1024),), ((9, 256),),
        lambda t, x: x.cumsum(-1)),
    Row("running sums of 2^26", LONG_SCANS, ops.cumsum, ((1 << 26,),), ((1 << 15,),),
        lambda t, x: x.cumsum(-1)),
)  # fmt: skip

WINDOWED = (
    Row("max pool 3x3 s2 32x64x113x113", WINDOWS, lambda x: ops.max_pool2d(x, 3, 2),
        ((32, 64, 113, 113),), ((1, 2, 32, 32),),
        lambda t, x: t.nn.functional.max_pool2d(x, 3, 2)),
    Row("average pool 2x2 64x64x112x112", WINDOWS, lambda x: ops.avg_pool2d(x, 2),
        ((64, 64, 112, 112),), ((1, 4, 32, 32),), lambda t, x: t.nn.functional.avg_pool2d(x, 2)),
    Row("stencil 8194x8194", WINDOWS, stencil, ((8194, 8194),), ((66, 66),),
        lambda t, x: (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * 0.25),
    Row("depthwise 3x3 32x128x56x56", WINDOWS,
        lambda x, w: ops.depthwise_conv2d(x, w, padding=1), ((32, 128, 56, 56), (128, 1, 3, 3)),
        ((1, 4, 28, 28), (4, 1, 3, 3)),
        lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1, groups=x.shape[1])),
    Row("depthwise 3x3 32x56x56x128", WINDOWS,
        lambda x, w: ops.depthwise_conv2d(x, w, padding=1, layout="NHWC"),
        ((32, 56, 56, 128), (3, 3, 1, 128)), ((1, 14, 14, 32), (3, 3, 1, 32)),
        lambda t, x, w: _nhwc(t, x, w, padding=1, groups=x.shape[3])),
)  # fmt: skip

PRODUCTS = (
    *(Row(f"matmul {n}", PRODUCT, ops.matmul, ((n, n), (n, n)), ((64, 48), (48, 80)),
          lambda t, x, y: x @ y, 2.0 * n**3) for n in (1024, 4096, 8192)),
    Row("matmul 4097x4099x4093", PRODUCT, ops.matmul, ((4097, 4093), (4093, 4099)),
        ((65, 35), (35, 67)), lambda t, x, y: x @ y, 2.0 * 4097 * 4093 * 4099),
    Row("linear 2048x4096x4096, gelu", PRODUCT,
        lambda x, w, b: ops.linear(x, w, b, activation="gelu"),
        ((2048, 4096), (4096, 4096), (4096,)), ((64, 32), (48, 32), (48,)),
        lambda t, x, w, b: t.nn.functional.gelu(t.nn.functional.linear(x, w, b)),
        2.0 * 2048 * 4096 * 4096),
    Row("batched 256x512x512x64", PRODUCT, ops.batch_matmul, ((256, 512, 64), (256, 64, 512)),
        ((2, 64, 16), (2, 16, 64)), lambda t, x, y: x @ y, 2.0 * 256 * 512 * 512 * 64),
    Row("matmul 16x4096x4096", PRODUCT, ops.matmul, ((16, 4096), (4096, 4096)),
        ((16, 64), (64, 64)), lambda t, x, y: x @ y, 2.0 * 16 * 4096**2,
        why="each warp reads the rows again; tiles that copy them take 1.4 times as long"),
    Row("matmul 1x4096x4096", PRODUCT, ops.matmul, ((1, 4096), (4096, 4096)),
        ((1, 64), (64, 64)), lambda t, x, y: x @ y, 2.0 * 4096**2),
    Row("matmul 64x64x65536", PRODUCT, ops.matmul, ((64, 65536), (65536, 64)),
        ((16, 512), (512, 16)), lambda t, x, y: x @ y, 2.0 * 64 * 64 * 65536),
    Row("conv 3x3 32x128x56x56", PRODUCT, lambda x, w: ops.conv2d(x, w, padding=1),
        ((32, 128, 56, 56), (128, 128, 3, 3)), ((1, 8, 14, 14), (16, 8, 3, 3)),
        lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1), _conv(32, 128, 56, 128, 3)),
    Row("conv 3x3 32x56x56x128", PRODUCT,
        lambda x, w: ops.conv2d(x, w, padding=1, layout="NHWC"),
        ((32, 56, 56, 128), (3, 3, 128, 128)), ((1, 14, 14, 8), (3, 3, 8, 16)),
        lambda t, x, w: _nhwc(t, x, w, padding=1), _conv(32, 128, 56, 128, 3)),
    Row("conv 1x1 32x256x28x28", PRODUCT, ops.conv2d, ((32, 256, 28, 28), (512, 256, 1, 1)),
        ((1, 16, 8, 8), (32, 16, 1, 1)), lambda t, x, w: t.nn.functional.conv2d(x, w),
        _conv(32, 256, 28, 512, 1)),
    Row("grouped conv 3x3 32x128x28x28, 8 groups", PRODUCT,
        lambda x, w: ops.conv2d(x, w, padding=1, groups=8),
        ((32, 128, 28, 28), (128, 16, 3, 3)), ((1, 16, 7, 7), (16, 2, 3, 3)),
        lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1, groups=8),
        _conv(32, 128, 28, 128, 3, 8)),
    Row("transposed conv 4x4 s2 16x128x28x28", PRODUCT,
        lambda x, w: ops.conv2d_transpose(x, w, stride=2, padding=1),
        ((16, 128, 28, 28), (128, 64, 4, 4)), ((1, 4, 6, 6), (4, 4, 4, 4)),
        lambda t, x, w: t.nn.functional.conv_transpose2d(x, w, stride=2, padding=1),
        2.0 * 16 * 128 * 28 * 28 * 64 * 16),
)  # fmt: skip

OTHERS = (
    Row("take 65536 rows of 50000x1024", FREE, lambda x, at: ops.take(x, at),
        ((50000, 1024), (65536,)), ((40, 64), (50,)), lambda t, x, at: x[at.long()],
        types=("float32", "int32"), below=50000),
    Row("gather 65536x512 of 65536x1024", FREE, lambda x, at: ops.gather(x, at),
        ((65536, 1024), (65536, 512)), ((16, 64), (16, 32)),
        lambda t, x, at: t.gather(x, 1, at.long()), types=("float32", "int32"), below=1024),
    Row("histogram of 2^24", FREE, histogram, ((1 << 24,),), ((3000,),),
        lambda t, x: t.bincount(x, minlength=256).int(), types=("int32",), below=256),
    Row("gradient of 16384 rows of 1000x512", FREE, gradient_of_table,
        ((16384,), (16384, 512)), ((60,), (60, 64)),
        lambda t, at, x: x.new_zeros(1000, x.shape[1]).index_add_(0, at, x),
        types=("int32", "float32"), below=1000),
    Row("resize 16x64x56x56 by 2", FREE, twice, ((16, 64, 56, 56),), ((1, 4, 7, 8),),
        lambda t, x: t.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")),
    Row("attention 8x16x1024x64", FREE, ops.attention, ((8, 16, 1024, 64),) * 3,
        ((1, 2, 96, 16),) * 3,
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v),
        4.0 * 128 * 1024 * 1024 * 64),
    Row("feed forward 4096x1024x4096", FREE, feed_forward,
        ((4096, 1024), (1024, 4096), (4096,), (4096, 1024), (1024,), (1024,), (1024,)),
        ((40, 16), (16, 48), (48,), (48, 16), (16,), (16,), (16,)), _feed_forward,
        4.0 * 4096 * 1024 * 4096),
)  # fmt: skip

ROWS = {row.name: row for row in (*LAYOUTS, *ROWS_AND_COLUMNS, *WINDOWED, *PRODUCTS, *OTHERS)}
"""All rows by name."""
