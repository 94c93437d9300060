"""Apache TVM: each row tuned by MetaSchedule, which takes minutes a row."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import te, topi
from tvm.s_tir import meta_schedule

from benchmarks.peers.kinds import EPSILON, channels_last
from benchmarks.peers.libraries.invented_tvm import expression
from benchmarks.peers.task import Call, Task, Unsupported, choose

TRIALS = 64
"""Where none are asked for."""

BUILD_S = 300.0
"""For a batch of candidates; its own 30 s are short where other programs run."""

Tensors = list[Any]


def start(threads: int) -> None:
    """TVM reads its number of threads from the environment."""


def version() -> str:
    return str(tvm.__version__)


def as_array(result: Any) -> np.ndarray:
    return result.numpy()  # type: ignore[no-any-return]


def prepare(task: Task) -> dict[str, Call]:
    """Tune and compile; weights are arguments."""
    func: Any = choose(PROGRAMS, task)
    trials = task.options.get("their_trials") or task.options.get("trials") or TRIALS
    target = tvm.target.Target({"kind": "llvm", "mcpu": _processor(), "num-cores": task.threads})
    with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
        database = meta_schedule.tune_tir(
            func,
            target,
            folder,
            trials,
            seed=task.options.get("seed", 0),
            num_trials_per_iter=16,
            builder=meta_schedule.builder.LocalBuilder(timeout_sec=BUILD_S),
        )
        schedule = meta_schedule.tir_integration.compile_tir(database, func, target)
    if schedule is None:
        raise Unsupported(f"its tuner found no schedule that runs in {trials} trials")
    run = tvm.compile(schedule.mod, target=target)["main"]
    arrays = [tvm.runtime.tensor(a) for a in task.arrays]
    out = tvm.runtime.tensor(task.out())
    return {f"MetaSchedule, {trials} trials": lambda: (run(*arrays, out), out)[1]}


def _processor() -> str:
    return str(tvm.get_global_func("target.llvm_get_system_cpu")())


def _program(expression: Callable[[Task, Tensors], Any]) -> Callable[[Task], Any]:
    """From an expression over the inputs to a program with them and the output as parameters."""

    def make(task: Task) -> Any:
        inputs = [te.placeholder(a.shape, str(a.dtype), name) for name, a in task.inputs.items()]
        func = te.create_prim_func([*inputs, expression(task, inputs)])
        return func.with_attr("global_symbol", "main")

    return make


def _product(a: Any, b: Any, by_output: bool = False) -> Any:
    k = te.reduce_axis((0, a.shape[1]), name="k")
    n = b.shape[0] if by_output else b.shape[1]
    return te.compute(
        (a.shape[0], n),
        lambda i, j: te.sum(a[i, k] * (b[j, k] if by_output else b[k, j]), axis=k), name="product",
    )  # fmt: skip


def _linear(task: Task, inputs: Tensors) -> Any:
    x, w, bias = inputs
    product = _product(x, w, task.sizes["by_output"])

    def finish(i: Any, j: Any) -> Any:
        value = product[i, j] + bias[j]
        if task.sizes["activation"] == "relu":
            return te.max(value, 0.0)
        return value * 0.5 * (te.erf(value * 0.5**0.5) + 1.0)

    return te.compute(product.shape, finish, name="out")


def _batch(task: Task, inputs: Tensors) -> Any:
    a, b = inputs
    k = te.reduce_axis((0, a.shape[2]), name="k")
    return te.compute(
        (a.shape[0], a.shape[1], b.shape[1]),
        lambda p, i, j: te.sum(a[p, i, k] * b[p, j, k], axis=k), name="out",
    )  # fmt: skip


def _conv(task: Task, inputs: Tensors) -> Any:
    x, w, bias = inputs
    s, pad = task.sizes, task.sizes["r"] // 2
    if channels_last(s):
        raise Unsupported("its convolutions are written in NCHW only")
    if s["groups"] == 1:
        y = topi.nn.conv2d_nchw(x, w, s["stride"], pad, 1)
    elif s["groups"] == s["c"] == s["k"]:
        y = topi.nn.depthwise_conv2d_nchw(x, w, s["stride"], pad, 1)
    else:
        y = topi.nn.group_conv2d_nchw(x, w, s["stride"], pad, 1, s["groups"])
    return te.compute(y.shape, lambda b, c, i, j: te.max(y[b, c, i, j] + bias[c], 0.0), name="out")


def _elementwise(task: Task, inputs: Tensors) -> Any:
    a, b, c, d = inputs
    return te.compute(
        a.shape, lambda i: te.max(a[i] * b[i] + c[i], 0.0) * te.sigmoid(d[i]), name="out"
    )


def _attention(task: Task, inputs: Tensors) -> Any:
    q, k, v = inputs
    e = te.reduce_axis((0, task.sizes["depth"]), name="e")
    r = te.reduce_axis((0, task.sizes["length"]), name="r")
    scale = task.sizes["depth"] ** -0.5
    score = te.compute(
        (*q.shape[:3], k.shape[2]),
        lambda b, h, i, j: te.sum(q[b, h, i, e] * k[b, h, j, e] * scale, axis=e), name="score",
    )  # fmt: skip
    weight = topi.nn.softmax(score, axis=3)
    return te.compute(
        q.shape, lambda b, h, i, j: te.sum(weight[b, h, i, r] * v[b, h, r, j], axis=r), name="out"
    )


PROGRAMS = {
    "matmul": _program(lambda task, x: _product(*x)),
    "linear": _program(_linear),
    "batch_matmul": _program(_batch),
    "conv2d": _program(_conv),
    "softmax": _program(lambda task, x: topi.nn.softmax(x[0], axis=1)),
    "layer_norm": _program(
        lambda task, x: topi.nn.layer_norm(x[0], x[1], x[2], axis=[1], epsilon=EPSILON)
    ),
    "row_sum": _program(lambda task, x: topi.sum(x[0], axis=1)),
    "elementwise": _program(_elementwise),
    "transpose": _program(lambda task, x: topi.transpose(x[0])),
    "attention": _program(_attention),
    "invented": _program(expression),
}
