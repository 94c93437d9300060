"""Every operator of tensorir.ops in sizes that networks have, some of them symbolic, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensorir.ops.registry import Example, Operator, known_operators

Shape = tuple["int | str", ...]

MATRIX: Shape = (1024, 1024)
IMAGE: Shape = (1, 64, 56, 56)
UNKNOWN = {"n": 64, "m": 384, "b": 2}
"""The values that symbolic sizes have in the first call."""


def _of(*shapes: Shape | None, dtypes: Any = "float32", **attrs: Any) -> Example:
    return Example(shapes, attrs, dtypes, sizes=UNKNOWN)


def _convolutions() -> Iterator[tuple[str, Example]]:
    x: Shape = (1, 256, 14, 14)
    yield "conv1d", _of((1, 128, 1000), (128, 128, 3), padding=1)
    yield "conv1d", _of((1, 1000, 128), (3, 128, 128), padding=1, layout="NWC")
    yield "conv1d", _of((1, 256, 1000), (256, 1, 7), padding=3, groups=256)
    yield "conv2d", _of((1, 64, 28, 28), (64, 64, 3, 3), padding=1)
    yield "conv2d", _of((1, 3, 224, 224), (64, 3, 7, 7), (64,), padding=3, stride=2)
    yield "conv2d", _of(x, (256, 256, 3, 3), (256,), padding=1, activation="relu")
    yield "conv2d", _of(x, (1024, 256, 1, 1), (1024,))
    yield "conv2d", _of((1, 128, 28, 28), (128, 4, 3, 3), padding=1, groups=32)
    yield "conv2d", _of((1, 56, 56, 64), (3, 3, 64, 64), padding=1, layout="NHWC")
    yield "conv2d", _of(("n", 64, 28, 28), (64, 64, 3, 3), padding=1)
    yield "conv2d", _of((8, 32, 33, 35), (48, 32, 5, 3), (48,), padding=2, activation="gelu")
    yield "conv3d", _of((1, 16, 16, 28, 28), (32, 16, 3, 3, 3), padding=1)
    yield "conv3d", _of((1, 16, 28, 28, 16), (3, 3, 3, 16, 32), padding=1, layout="NDHWC")
    yield "depthwise_conv2d", _of((1, 96, 56, 56), (96, 1, 3, 3), padding=1)
    yield "depthwise_conv2d", _of((1, 240, 28, 28), (240, 1, 5, 5), padding=2, stride=2)
    yield "depthwise_conv2d", _of((1, 56, 56, 96), (3, 3, 1, 96), padding=1, layout="NHWC")
    yield "conv1d_transpose", _of((1, 256, 100), (256, 128, 16), stride=8, padding=4)
    yield "conv2d_transpose", _of((1, 64, 28, 28), (64, 32, 4, 4), stride=2, padding=1)
    yield "conv2d_transpose", _of((1, 128, 14, 14), (128, 64, 3, 3), padding=1)
    yield "conv3d_transpose", _of((1, 16, 8, 14, 14), (16, 8, 2, 2, 2), stride=2)
    yield "winograd_weights", _of((64, 64, 3, 3))
    yield "conv2d_winograd", _of((1, 64, 56, 56), (64, 64, 3, 3), (64,), activation="relu")
    yield "conv2d_winograd", _of((1, 128, 28, 28), (128, 128, 3, 3), tile=(2, 2))


def _products() -> Iterator[tuple[str, Example]]:
    yield "matmul", _of((512, 512), (512, 512))
    yield "matmul", _of((777, 513), (513, 1025))
    yield "matmul", _of((1, 4096), (4096, 4096))
    yield "matmul", _of(("n", 768), (768, 768))
    yield "matmul", _of(("n", "m"), ("m", 768))
    yield "matmul", _of((512, 512), (512, 512), dtypes="float64")
    yield "matmul", _of((512, 512), (512, 512), dtypes="int8", out_dtype="int32")
    yield "matmul", _of((512, 512), (512, 512), dtypes="bfloat16", out_dtype="float32")
    yield "matmul", _of((512, 512), (512, 512), dtypes="float16", out_dtype="float32")
    yield "batch_matmul", _of((12, 384, 64), (12, 64, 384))
    yield "batch_matmul", _of(("b", 384, 64), ("b", 64, 384))
    yield "linear", _of((128, 768), (3072, 768), (3072,), activation="gelu")
    yield "linear", _of((1, 768), (3072, 768), (3072,), activation="relu")
    yield "linear", _of(("n", 768), (3072, 768), (3072,), activation="gelu")
    yield "linear", _of(("n", 768), (768, 3072), (3072,), layout="KN", activation="silu")
    yield "einsum", _of((2, 8, 128, 64), (2, 8, 96, 64), equation="bhmd,bhnd->bhmn")
    heads: Shape = (1, 12, 384, 64)
    yield "attention", _of(heads, heads, heads)
    yield "attention", _of(heads, heads, heads, causal=True)
    yield "attention", _of(*[(1, 16, 197, 64)] * 3)
    yield "attention", _of(*[("b", 12, 384, 64)] * 3)
    yield "attention", _of(*[("b", 12, "m", 64)] * 3)
    yield "attention", _of(*[("b", 12, "m", 64)] * 3, causal=True)
    yield "attention", _of(("b", 12, 1, 64), ("b", 12, "m", 64), ("b", 12, "m", 64))


def _rows() -> Iterator[tuple[str, Example]]:
    for name in ("softmax", "log_softmax"):
        yield name, _of((512, 1024))
        yield name, _of(("n", "m"))
        yield name, _of((12, 384, 384), dtypes="float64")
        yield name, _of((64, 1024, 56), axis=1)
    for name in ("logsumexp", "mean", "var", "std", "norm", "sum", "max", "min", "prod"):
        yield name, _of((512, 1024), axis=-1)
    for name in ("argmax", "argmin"):
        yield name, _of((512, 1024), axis=1)
    yield "sum", _of((4096, 1024), axis=0)
    yield "sum", _of((64, 56, 56), axis=(1, 2))
    yield "var", _of((512, "m"), axis=-1)
    yield "mean", _of(IMAGE, axis=(2, 3))
    for name in ("any", "all"):
        yield name, _of((512, 1024), dtypes="bool", axis=1)
    yield "layer_norm", _of((512, 1024), (1024,), (1024,))
    yield "layer_norm", _of(("n", 768), (768,), (768,))
    yield "layer_norm", _of((300, 5000), (5000,), (5000,), dtypes="float64")
    yield "rms_norm", _of((512, 1024), (1024,))
    yield "rms_norm", _of(("n", 4096), (4096,))
    yield "batch_norm", _of(IMAGE, *[(64,)] * 4)
    yield "group_norm", _of(IMAGE, (64,), (64,), groups=32)
    yield "group_norm", _of(("n", 320, 32, 32), (320,), (320,), groups=32)
    yield "instance_norm", _of(IMAGE, (64,), (64,))
    yield "cumsum", _of((512, 1024), axis=-1)
    yield "cumsum", _of(MATRIX, axis=0)
    yield "cumprod", _of((512, 1024), axis=-1)
    for name in ("sort", "argsort"):
        yield name, _of((512, 1000))
    yield "topk", _of((64, 1000), k=5)
    yield "topk", _of((8, 32000), k=50)


def _windows() -> Iterator[tuple[str, Example]]:
    for kind in ("max", "avg"):
        yield f"{kind}_pool1d", _of((1, 128, 1000), kernel=3, stride=2)
        yield f"{kind}_pool2d", _of((1, 64, 112, 112), kernel=3, stride=2, padding=1)
        yield f"{kind}_pool2d", _of((1, 56, 56, 64), kernel=2, layout="NHWC")
        yield f"{kind}_pool3d", _of((1, 32, 16, 28, 28), kernel=2)
        yield f"{kind}_pool3d", _of((1, 16, 28, 28, 32), kernel=3, stride=2, layout="NDHWC")
        yield f"global_{kind}_pool", _of((1, 512, 7, 7))
        yield f"adaptive_{kind}_pool", _of((1, 256, 13, 13), output_size=(6, 6))
    yield "resize2d", _of((1, 32, 56, 56), size=(112, 112))
    yield "resize2d", _of((1, 32, 56, 56), size=(112, 112), method="linear")


def _moves() -> Iterator[tuple[str, Example]]:
    yield "pad", _of(IMAGE, padding=((0, 0), (0, 0), (1, 1), (1, 1)))
    yield "transpose", _of(MATRIX)
    yield "transpose", _of((1, 384, 12, 64), axes=(0, 2, 1, 3))
    yield "transpose", _of(IMAGE, axes=(0, 2, 3, 1))
    yield "reshape", _of(MATRIX, shape=(64, 16, 1024))
    yield "squeeze", _of((1, 1000, 1), axis=0)
    yield "expand_dims", _of(MATRIX, axis=1)
    yield "broadcast_to", _of((1024, 1), shape=(1024, 1024))
    yield "flip", _of(MATRIX, axis=1)
    yield "roll", _of(MATRIX, shift=5, axis=1)
    yield "tile", _of((64, 64), reps=(8, 8))
    yield "repeat", _of((64, 1024), repeats=4, axis=0)
    yield "depth_to_space", _of((1, 64, 56, 56), block=2)
    yield "space_to_depth", _of((1, 16, 112, 112), block=2)
    yield "tril", _of(MATRIX)
    yield "triu", _of(("n", "n"))
    yield "concat", _of(IMAGE, IMAGE, axis=1)
    yield "stack", _of(MATRIX, MATRIX)
    yield "split", _of((128, 2304), parts=3, axis=1)
    yield "slice", _of(MATRIX, begin=(1, 0), end=(1001, 1000), strides=(1, 2))
    yield "take", _of((30522, 768), (384,), dtypes=("float32", "int64"))
    yield "gather", _of((512, 1000), (512, 10), dtypes=("float32", "int64"))
    yield "one_hot", _of((384,), dtypes="int64", depth=1000)


def _type(found: Operator) -> str:
    """The type that an operator's first example has."""
    dtypes = found.examples[0].dtypes
    return dtypes if isinstance(dtypes, str) else str(dtypes[0])


def _random() -> Iterator[tuple[str, Example]]:
    for name in ("random_uniform", "random_normal"):
        yield name, _of((1,), dtypes="uint64", shape=MATRIX)
    yield "random_integers", _of((1,), dtypes="uint64", shape=MATRIX, low=0, high=1000)
    yield "dropout", _of(MATRIX, (1,), dtypes=("float32", "uint64"), p=0.1)


def _elements() -> Iterator[tuple[str, Example]]:
    given: dict[str, Mapping[str, Any]] = {
        "clip": {"low": 0.0, "high": 6.0},
        "cast": {"dtype": "bfloat16"},
        "quantize": {"scale": 0.03125},
        "dequantize": {"scale": 0.1},
        "requantize": {"scale": 0.0078125},
    }
    for name, found in known_operators().items():
        if found.family in ("activation", "elementwise", "quantize"):
            more: tuple[Shape, ...] = ((64,),) if name == "prelu" else ()
            shape = IMAGE if name == "prelu" else MATRIX
            yield name, _of(shape, *more, dtypes=_type(found), **given.get(name, {}))
            if name in ("exp", "erf", "gelu", "tanh", "sin", "log"):
                yield name, _of(MATRIX, dtypes="float64")
        if found.family == "broadcast" and name != "where":
            yield name, _of(MATRIX, (1024,), dtypes=_type(found))
    yield "where", _of(MATRIX, MATRIX, (1024,), dtypes=("bool", "float32", "float32"))


def cold_rows() -> dict[str, tuple[str, Example]]:
    """Operators with inputs; names are the operator's, numbered from 2 on where it has several."""
    found: dict[str, tuple[str, Example]] = {}
    counts: dict[str, int] = {}
    for part in (_products, _convolutions, _rows, _windows, _moves, _elements, _random):
        for name, example in part():
            counts[name] = counts.get(name, 0) + 1
            found[name if counts[name] == 1 else f"{name}.{counts[name]}"] = (name, example)
    return found
