"""Rows of the set `operators`: what networks do between their products, in the sizes they do it.

A row names an operator of tensorir.ops and its attributes; its inputs are texts such as
"float32 1,64,112,112" or "int64 384 <30522", integers from 0 up to, not including, the limit.
"""

from __future__ import annotations

from typing import Any

from benchmarks.peers.rows import Row


def op(name: str, operator: str, *inputs: str, tolerance: float = 1e-5, **attrs: Any) -> Row:
    """A row of one operator. `tolerance` is the largest error, relative to the largest value."""
    given = {key: _listed(value) for key, value in attrs.items()}
    sizes = {"op": operator, "inputs": list(inputs), "attrs": given, "tolerance": tolerance}
    return Row(name, "operator", sizes)


def _listed(value: Any) -> Any:
    """Tuples as lists, as JSON has them."""
    return [_listed(v) for v in value] if isinstance(value, (tuple, list)) else value


def unary(operator: str, shape: str, dtype: str = "float32", **attrs: Any) -> Row:
    return op(f"{operator} {shape.replace(',', 'x')}", operator, f"{dtype} {shape}", **attrs)


F16 = 1e-3
STEP = 1e-2
"""Of quantized values: neighbours, where libraries multiply by the reciprocal of a scale."""

POOLS = (
    op("max pool 3x3 s2 64x112", "max_pool2d", "float32 1,64,112,112", kernel=3, stride=2,
       padding=1),
    op("max pool 2x2 s2 64x224", "max_pool2d", "float32 1,64,224,224", kernel=2),
    op("max pool 5x5 s1 256x20", "max_pool2d", "float32 1,256,20,20", kernel=5, stride=1,
       padding=2),
    op("max pool 3x3 s2 NHWC 64x112", "max_pool2d", "float32 1,112,112,64", kernel=3, stride=2,
       padding=1, layout="NHWC"),
    op("max pool 3x3 s3 96x63", "max_pool2d", "float32 1,96,63,63", kernel=3, stride=3),
    op("avg pool 3x3 s1 192x35", "avg_pool2d", "float32 1,192,35,35", kernel=3, stride=1,
       padding=1),
    op("avg pool 2x2 s2 128x56", "avg_pool2d", "float32 1,128,56,56", kernel=2),
    op("avg pool 2x2 s2 NHWC 128x56", "avg_pool2d", "float32 1,56,56,128", kernel=2,
       layout="NHWC"),
    op("global avg pool 2048x7", "global_avg_pool", "float32 1,2048,7,7"),
    op("global avg pool 64x112", "global_avg_pool", "float32 1,64,112,112"),
    op("global avg pool NHWC 7x1280", "global_avg_pool", "float32 1,7,7,1280", layout="NHWC"),
    op("adaptive avg pool 512x14 to 7", "adaptive_avg_pool", "float32 1,512,14,14", output_size=7),
    op("adaptive avg pool 256x13 to 6", "adaptive_avg_pool", "float32 1,256,13,13", output_size=6),
)  # fmt: skip

PICTURES = (
    op("resize nearest 256x40 to 80", "resize2d", "float32 1,256,40,40", size=80,
       method="nearest", coordinates="asymmetric"),
    op("resize linear 256x28 to 56", "resize2d", "float32 1,256,28,28", size=56),
    op("resize linear 3x480x640 to 224", "resize2d", "float32 1,3,480,640", size=224,
       tolerance=1e-3),
    op("resize linear 21x65 to 513 corners", "resize2d", "float32 1,21,65,65", size=513,
       coordinates="align_corners"),
    op("resize linear NHWC 28x256 to 56", "resize2d", "float32 1,28,28,256", size=56,
       layout="NHWC"),
    op("depth to space 256x56", "depth_to_space", "float32 1,256,56,56", block=2),
    op("space to depth 3x640", "space_to_depth", "float32 1,3,640,640", block=2),
    op("pad 1 64x56", "pad", "float32 1,64,56,56", padding=((0, 0), (0, 0), (1, 1), (1, 1))),
    op("pad reflect 3 3x256", "pad", "float32 1,3,256,256", mode="reflect",
       padding=((0, 0), (0, 0), (3, 3), (3, 3))),
    op("flip 3x512", "flip", "float32 3,512,512", axis=2),
    op("roll 56x56x96", "roll", "float32 1,56,56,96", shift=-3, axis=2),
)  # fmt: skip

PARTS = (
    op("concat channels 4x64x56", "concat", *["float32 1,64,56,56"] * 4, axis=1),
    op("concat last 4096x64+64", "concat", *["float32 4096,64"] * 2, axis=1),
    op("stack last 512x512", "stack", *["float32 512,512"] * 2, axis=2),
    op("slice s2 64x112", "slice", "float32 1,64,112,112", begin=(0, 0), end=(112, 112),
       strides=(2, 2), axes=(2, 3)),
    op("slice heads 384x2304", "slice", "float32 384,2304", begin=(768,), end=(1536,), axes=(1,)),
    op("embedding 384 of 30522x768", "take", "float32 30522,768", "int64 1,384 <30522"),
    op("take columns 4096x1024", "take", "float32 4096,1024", "int64 512 <1024", axis=1),
    op("gather 4096x1000", "gather", "float32 4096,1000", "int64 4096,100 <1000", axis=1),
    op("one hot 4096x1000", "one_hot", "int64 4096 <1000", depth=1000),
    op("repeat heads 8 to 32", "repeat", "float32 8,512,64", repeats=4, axis=0),
    op("tile 64x56", "tile", "float32 64,56,56", reps=(1, 2, 2)),
    op("tril 12x384", "tril", "float32 12,384,384"),
)  # fmt: skip


def transpose(shape: str, axes: tuple[int, ...], dtype: str = "float32") -> Row:
    said = "".join(map(str, axes))
    name = f"transpose {shape.replace(',', 'x')} {said} {dtype}"
    return op(name, "transpose", f"{dtype} {shape}", axes=axes, tolerance=F16)


ORDERS = (
    transpose("1,384,12,64", (0, 2, 1, 3)),
    transpose("1,12,384,64", (0, 1, 3, 2)),
    transpose("1,64,112,112", (0, 2, 3, 1)),
    transpose("1,112,112,64", (0, 3, 1, 2)),
    transpose("1,224,224,3", (0, 3, 1, 2)),
    transpose("1,3,224,224", (0, 2, 3, 1)),
    transpose("64,200,300", (2, 1, 0)),
    transpose("1024,1024", (1, 0), "float16"),
    transpose("1024,1024", (1, 0), "float64"),
    transpose("2048,2048", (1, 0), "uint8"),
    transpose("1,224,224,3", (0, 3, 1, 2), "uint8"),
    transpose("1024,1024", (1, 0), "bool"),
)

ELEMENTS = (
    op("bias 64x112", "add", "float32 1,64,112,112", "float32 1,64,1,1"),
    op("add 384x768+768", "add", "float32 384,768", "float32 768"),
    op("outer 2048x2048", "multiply", "float32 2048,1", "float32 1,2048"),
    op("add 1000", "add", "float32 1000", "float32 1000"),
    op("add 1M", "add", "float32 1000000", "float32 1000000"),
    op("where 12x384", "where", "bool 1,1,384,384", "float32 1,12,384,384", "float32 1"),
    op("clip 1M", "clip", "float32 1000000", low=-0.5, high=0.5),
    op("greater 1M", "greater", "float32 1000000", "float32 1000000"),
    op("logical and 1M", "logical_and", "bool 1000000", "bool 1000000"),
    op("xor 1M", "bitwise_xor", "int32 1000000 <1000000", "int32 1000000 <1000000"),
    op("batch norm 64x112", "batch_norm", "float32 1,64,112,112", *["float32 64 <1"] * 4),
    op("batch norm NHWC 56x256", "batch_norm", "float32 1,56,56,256", *["float32 256 <1"] * 4,
       axis=3),
    op("prelu 64x56", "prelu", "float32 1,64,56,56", "float32 64"),
    unary("gelu", "384,3072"), unary("silu", "1,128,80,80"), unary("mish", "1,64,160,160"),
    unary("hardswish", "1,240,28,28"), unary("tanh", "1000"), unary("exp", "100000"),
    unary("sigmoid", "10000000"), unary("relu", "10000000"), unary("erf", "1000000"),
    unary("isnan", "1000000"), op("sqrt 1M", "sqrt", "float32 1000000 <1"),
    op("log 1M", "log", "float32 1000000 <1"), op("sin 1M", "sin", "float32 1000000"),
    op("pow 1M", "power", "float32 1000000 <1", "float32 1000000"),
)  # fmt: skip

TYPES = (
    op("cast f32 f16 1M", "cast", "float32 1000000", dtype="float16", tolerance=F16),
    op("cast f16 f32 1M", "cast", "float16 1000000", dtype="float32"),
    op("cast u8 f32 1M", "cast", "uint8 1000000 <256", dtype="float32"),
    op("cast f32 i32 1M", "cast", "float32 1000000", dtype="int32"),
    op("cast i64 f32 1M", "cast", "int64 1000000 <1000", dtype="float32"),
    op("quantize 1M", "quantize", "float32 1000000", scale=0.01, dtype="int8", tolerance=STEP),
    op("dequantize 1M", "dequantize", "int8 1000000 <127", scale=0.01),
)  # fmt: skip

ORDERED = (
    op("cumsum rows 4096x1024", "cumsum", "float32 4096,1024"),
    op("cumsum columns 4096x1024", "cumsum", "float32 4096,1024", axis=0),
    op("cumsum 1M", "cumsum", "float32 1000000", tolerance=1e-4),
    op("cumprod rows 4096x64", "cumprod", "float32 4096,64 <1"),
    op("topk 10 of 1000x1000", "topk", "float32 1000,1000", k=10),
    op("topk 50 of 50257", "topk", "float32 1,50257", k=50),
    op("sort 1000x1000", "sort", "float32 1000,1000"),
    op("sort 100000", "sort", "float32 100000"),
    op("argsort 1000x1000", "argsort", "float32 1000,1000"),
)  # fmt: skip

OPERATORS = (*POOLS, *PICTURES, *PARTS, *ORDERS, *ELEMENTS, *TYPES, *ORDERED)
"""Each with its default schedule beside the libraries."""

FEW = (
    op("max pool 5x7", "max_pool2d", "float32 1,2,5,7", kernel=3, stride=2, padding=1),
    op("concat 3x5", "concat", "float32 3,5", "float32 3,5", axis=1),
    op("gather 3x5", "gather", "float32 3,5", "int64 3,2 <5", axis=1),
    op("greater 7", "greater", "float32 7", "float32 7"),
    op("cast 7", "cast", "float32 7", dtype="float16", tolerance=F16),
    op("topk 2 of 3x5", "topk", "float32 3,5", k=2),
)
"""Tiny rows, to see that everything runs."""
