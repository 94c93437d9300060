"""ONNX Runtime: the nodes of each operator of the set `operators`, with their constant inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import helper

from benchmarks.peers.task import Task, Unsupported

Attrs = Mapping[str, Any]
Held = dict[str, np.ndarray]
Made = tuple[list[Any], Held]


def _node(op: str, inputs: str, output: str = "out", **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def _plain(op: str, inputs: str = "x0", *names: str) -> Callable[[Task, Attrs], Made]:
    """One node with the attributes `names` of ours."""
    return lambda task, a: ([_node(op, inputs, **{n: a[n] for n in names if n in a})], {})


def _int64(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


def _pool(op: str) -> Callable[[Task, Attrs], Made]:
    def make(task: Task, a: Attrs) -> Made:
        if a.get("layout") == "NHWC":
            raise Unsupported("ONNX pools in layout NCHW only")
        k, pad = a["kernel"], a.get("padding", 0)
        more = {"count_include_pad": 1} if op == "AveragePool" else {}
        return [
            _node(op, "x0", kernel_shape=[k] * 2, strides=[a.get("stride", k)] * 2,
                  pads=[pad] * 4, **more)
        ], {}  # fmt: skip

    return make


def _mean(task: Task, a: Attrs) -> Made:
    if a.get("layout") == "NHWC":
        return [_node("ReduceMean", "x0 axes", keepdims=1)], {"axes": _int64(1, 2)}
    return [_node("GlobalAveragePool", "x0")], {}


def _resize(task: Task, a: Attrs) -> Made:
    if a.get("layout") == "NHWC":
        raise Unsupported("resizing of layout NHWC is not written for it")
    nearest = a.get("method") == "nearest"
    more = {"mode": "nearest", "nearest_mode": "floor"} if nearest else {"mode": "linear"}
    coordinates = a.get("coordinates", "half_pixel")
    node = helper.make_node(
        "Resize", ["x0", "", "", "sizes"], ["out"],
        coordinate_transformation_mode=coordinates, **more,
    )  # fmt: skip
    return [node], {"sizes": _int64(*task.out_shape)}


def _slice(task: Task, a: Attrs) -> Made:
    steps = a.get("strides", [1] * len(a["axes"]))
    held = {"begin": a["begin"], "end": a["end"], "axes": a["axes"], "steps": steps}
    return [_node("Slice", "x0 begin end axes steps")], {n: _int64(*v) for n, v in held.items()}


def _pad(task: Task, a: Attrs) -> Made:
    lows, highs = zip(*a["padding"])
    mode = a.get("mode", "constant")
    return [_node("Pad", "x0 pads", mode=mode)], {"pads": _int64(*lows, *highs)}


def _clip(task: Task, a: Attrs) -> Made:
    held = {n: np.array(a[n], np.float32) for n in ("low", "high")}
    return [_node("Clip", "x0 low high")], held


def _batch_norm(task: Task, a: Attrs) -> Made:
    if a.get("axis") == 3:
        raise Unsupported("ONNX normalizes dimension 1 only")
    return [_node("BatchNormalization", "x0 x3 x4 x1 x2", epsilon=1e-5)], {}


def _prelu(task: Task, a: Attrs) -> Made:
    nodes = [_node("Reshape", "x1 shape", "slope"), _node("PRelu", "x0 slope")]
    return nodes, {"shape": _int64(-1, 1, 1)}


def _cast(task: Task, a: Attrs) -> Made:
    return [_node("Cast", "x0", to=helper.np_dtype_to_tensor_dtype(np.dtype(a["dtype"])))], {}


def _quantize(task: Task, a: Attrs) -> Made:
    held = {"scale": np.array(a["scale"], np.float32), "zero": np.array(0, np.int8)}
    op = "QuantizeLinear" if task.sizes["op"] == "quantize" else "DequantizeLinear"
    return [_node(op, "x0 scale zero")], held


def _cumsum(task: Task, a: Attrs) -> Made:
    return [_node("CumSum", "x0 axis")], {"axis": np.array(a.get("axis", -1), np.int64)}


def _topk(task: Task, a: Attrs) -> Made:
    return [helper.make_node("TopK", ["x0", "k"], ["out", "at"])], {"k": _int64(a["k"])}


def _concat(task: Task, a: Attrs) -> Made:
    names = " ".join(task.inputs)
    return [_node("Concat", names, axis=a["axis"])], {}


def _tile(task: Task, a: Attrs) -> Made:
    return [_node("Tile", "x0 reps")], {"reps": _int64(*a["reps"])}


def _one_hot(task: Task, a: Attrs) -> Made:
    held = {"depth": _int64(a["depth"]), "values": np.array([0, 1], np.float32)}
    return [_node("OneHot", "x0 depth values")], held


PLAIN: Mapping[str, str] = {
    "tanh": "Tanh", "exp": "Exp", "sigmoid": "Sigmoid", "relu": "Relu", "erf": "Erf",
    "sqrt": "Sqrt", "isnan": "IsNaN", "log": "Log", "sin": "Sin", "gelu": "Gelu",
    "mish": "Mish", "hardswish": "HardSwish", "tril": "Trilu",
}  # fmt: skip

NODES: Mapping[str, Callable[[Task, Attrs], Made]] = {
    **{name: _plain(op) for name, op in PLAIN.items()},
    "tril": lambda task, a: ([_node("Trilu", "x0", upper=0)], {}),
    "silu": lambda task, a: ([_node("Sigmoid", "x0", "s"), _node("Mul", "x0 s")], {}),
    "add": _plain("Add", "x0 x1"),
    "multiply": _plain("Mul", "x0 x1"),
    "greater": _plain("Greater", "x0 x1"),
    "logical_and": _plain("And", "x0 x1"),
    "bitwise_xor": _plain("BitwiseXor", "x0 x1"),
    "power": _plain("Pow", "x0 x1"),
    "where": _plain("Where", "x0 x1 x2"),
    "clip": _clip,
    "batch_norm": _batch_norm,
    "prelu": _prelu,
    "max_pool2d": _pool("MaxPool"),
    "avg_pool2d": _pool("AveragePool"),
    "global_avg_pool": _mean,
    "resize2d": _resize,
    "depth_to_space": lambda task, a: ([_node("DepthToSpace", "x0", blocksize=a["block"])], {}),
    "space_to_depth": lambda task, a: ([_node("SpaceToDepth", "x0", blocksize=a["block"])], {}),
    "pad": _pad,
    "concat": _concat,
    "slice": _slice,
    "take": lambda task, a: ([_node("Gather", "x0 x1", axis=a.get("axis", 0))], {}),
    "gather": lambda task, a: ([_node("GatherElements", "x0 x1", axis=a["axis"])], {}),
    "one_hot": _one_hot,
    "tile": _tile,
    "transpose": lambda task, a: ([_node("Transpose", "x0", perm=a["axes"])], {}),
    "cast": _cast,
    "quantize": _quantize,
    "dequantize": _quantize,
    "cumsum": _cumsum,
    "topk": _topk,
}


def nodes_of(task: Task) -> Made:
    """The graph of a row, and the inputs of its nodes that are constants."""
    s = task.sizes
    if s["op"] not in NODES:
        raise Unsupported(f"no form of {s['op']} is written for it")
    return NODES[s["op"]](task, s["attrs"])
