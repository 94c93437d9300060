"""ONNX Runtime: each row as a graph with its weights as initializers, into a bound output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from benchmarks.peers.kinds import EPSILON, operator_out
from benchmarks.peers.libraries.operators_onnx import nodes_of
from benchmarks.peers.task import Call, Task, attempt, choose, in_channels_first

OPSET = 23
IR_VERSION = 10
TYPES: dict[Any, Any] = {
    np.dtype(name): getattr(TensorProto, name.upper().replace("FLOAT32", "FLOAT"))
    for name in ("float32", "int32", "uint8", "int8", "bool", "int64", "float16")
} | {np.dtype(np.float64): TensorProto.DOUBLE}

Nodes = list[Any]


def start(threads: int) -> None:
    """Sessions are told of the threads when they are made."""


def version() -> str:
    return str(onnxruntime.__version__)


def as_array(result: Any) -> np.ndarray:
    return np.asarray(result)


@in_channels_first
def prepare(task: Task) -> dict[str, Call]:
    """One call for each graph of this kind of row."""
    if task.kind == "operator":
        nodes, held = nodes_of(task)
        return {"graph": attempt(partial(_call, task, nodes, held))}
    graphs: Any = choose(GRAPHS, task)
    return {name: attempt(partial(_call, task, nodes)) for name, nodes in graphs.items()}


def _out(task: Task) -> np.ndarray:
    if task.kind == "operator":
        return task.out(operator_out(task.sizes))
    return task.out(np.int32 if task.kind == "int8_matmul" else np.float32)


def _call(task: Task, nodes: Nodes, held: Mapping[str, np.ndarray] | None = None) -> Call:
    out = _out(task)
    session = _session(task, nodes, out, held or {})
    binding = session.io_binding()
    for name, array in task.inputs.items():
        if name not in task.constants:
            binding.bind_cpu_input(name, array)
    binding.bind_output("out", "cpu", 0, out.dtype.type, out.shape, out.ctypes.data)

    def call() -> np.ndarray:
        session.run_with_iobinding(binding)
        return out

    return call


def _session(
    task: Task, nodes: Nodes, out: np.ndarray, known: Mapping[str, np.ndarray]
) -> Any:
    def info(name: str, array: np.ndarray) -> Any:
        return helper.make_tensor_value_info(name, TYPES[array.dtype], array.shape)

    given = {n: a for n, a in task.inputs.items() if n not in task.constants}
    held = [numpy_helper.from_array(task.inputs[n], n) for n in task.constants]
    scale = np.array(task.sizes.get("depth", 1) ** -0.5, np.float32)
    constants = {"scale": scale, "axes": np.array([1], np.int64), **known}
    held += [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(
        nodes, task.kind, [info(n, a) for n, a in given.items()], [info("out", out)], held
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = task.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _node(op: str, inputs: str, output: str = "out", **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def _single(op: str, inputs: str, **attributes: Any) -> Callable[[Task], dict[str, Any]]:
    return lambda task: {op: [_node(op, inputs, **attributes)]}


def _linear(task: Task) -> dict[str, Any]:
    turned = int(task.sizes["by_output"])
    activation = {"relu": "Relu", "gelu": "Gelu"}[task.sizes["activation"]]
    gemm = _node("Gemm", "x w bias", "y", transB=turned)
    forms = {"Gemm": [gemm, _node(activation, "y")]}
    if not turned:
        product = [_node("MatMul", "x w", "p"), _node("Add", "p bias", "y")]
        forms["MatMul"] = [*product, _node(activation, "y")]
    return forms


def _conv(task: Task) -> dict[str, Any]:
    s, pad = task.sizes, task.sizes["r"] // 2
    conv = _node(
        "Conv", "x w bias", "y", kernel_shape=[s["r"]] * 2, strides=[s["stride"]] * 2,
        pads=[pad] * 4, group=s["groups"],
    )  # fmt: skip
    return {"Conv": [conv, _node("Relu", "y")]}


def _elementwise(task: Task) -> dict[str, Any]:
    return {
        "graph": [
            _node("Mul", "a b", "ab"), _node("Add", "ab c", "abc"), _node("Relu", "abc", "left"),
            _node("Sigmoid", "d", "right"), _node("Mul", "left right"),
        ]
    }  # fmt: skip


def _attention(task: Task) -> dict[str, Any]:
    plain = [
        _node("Transpose", "k", "kt", perm=[0, 1, 3, 2]), _node("MatMul", "q kt", "qk"),
        _node("Mul", "qk scale", "scaled"), _node("Softmax", "scaled", "p", axis=-1),
        _node("MatMul", "p v"),
    ]  # fmt: skip
    return {"MatMul": plain, "Attention": [_node("Attention", "q k v")]}


def _batch(task: Task) -> dict[str, Any]:
    turn = _node("Transpose", "b", "bt", perm=[0, 2, 1])
    return {"MatMul": [turn, _node("MatMul", "a bt")]}


GRAPHS: dict[str, Callable[[Task], dict[str, Any]]] = {
    "matmul": _single("MatMul", "a b"),
    "int8_matmul": _single("MatMulInteger", "a b"),
    "linear": _linear,
    "batch_matmul": _batch,
    "conv2d": _conv,
    "softmax": _single("Softmax", "x", axis=1),
    "layer_norm": _single("LayerNormalization", "x gamma beta", axis=1, epsilon=EPSILON),
    "row_sum": _single("ReduceSum", "x axes", keepdims=0),
    "elementwise": _elementwise,
    "transpose": _single("Transpose", "x", perm=[1, 0]),
    "attention": _attention,
}
