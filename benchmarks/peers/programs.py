"""The rows as tensor expressions of this project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.peers.kinds import EPSILON, Sizes, channels_last, operator_example
from benchmarks.peers.programs_invented import invented
from tensorir import Expr, PrimFunc, ops, te
from tensorir.te import Tensor


def prim_func(kind: str, sizes: Sizes) -> PrimFunc:
    """The program of a row; its parameters are the inputs in order, then the output."""
    return PROGRAMS[kind](sizes)


def _matmul(s: Sizes) -> PrimFunc:
    a, b = te.placeholder((s["m"], s["k"]), name="a"), te.placeholder((s["k"], s["n"]), name="b")
    k = te.reduce_axis(s["k"], name="k")
    out = te.compute((s["m"], s["n"]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="out")
    return te.create_prim_func([a, b, out], name="matmul")


def _int8_matmul(s: Sizes) -> PrimFunc:
    a = te.placeholder((s["m"], s["k"]), "uint8", name="a")
    b = te.placeholder((s["k"], s["n"]), "int8", name="b")
    k = te.reduce_axis(s["k"], name="k")
    out = te.compute(
        (s["m"], s["n"]),
        lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k), name="out",
    )  # fmt: skip
    return te.create_prim_func([a, b, out], name="int8_matmul")


def _bf16_matmul(s: Sizes) -> PrimFunc:
    a = te.placeholder((s["m"], s["k"]), "bfloat16", name="a")
    b = te.placeholder((s["k"], s["n"]), "bfloat16", name="b")
    k = te.reduce_axis(s["k"], name="k")
    product = te.compute(
        (s["m"], s["n"]),
        lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k),
        name="product",
    )
    out = te.compute((s["m"], s["n"]), lambda i, j: product[i, j].astype("bfloat16"), name="out")
    return te.create_prim_func([a, b, out], name="bf16_matmul")


def _activated(value: Expr, activation: str) -> Expr:
    if activation == "relu":
        return te.max(value, 0.0)
    return value * 0.5 * (te.erf(value * 0.5**0.5) + 1.0)


def _linear(s: Sizes) -> PrimFunc:
    m, n, by_output = s["m"], s["n"], s["by_output"]
    x = te.placeholder((m, s["k"]), name="x")
    w = te.placeholder((n, s["k"]) if by_output else (s["k"], n), name="w")
    bias = te.placeholder((n,), name="bias")
    k = te.reduce_axis(s["k"], name="k")

    def step(i: Expr, j: Expr) -> Expr:
        return te.sum(x[i, k] * (w[j, k] if by_output else w[k, j]), axis=k)

    product = te.compute((m, n), step, name="product")
    out = te.compute(
        (m, n), lambda i, j: _activated(product[i, j] + bias[j], s["activation"]), name="out"
    )
    return te.create_prim_func([x, w, bias, out], name=f"linear_{s['activation']}")


def _batch_matmul(s: Sizes) -> PrimFunc:
    a = te.placeholder((s["b"], s["m"], s["k"]), name="a")
    b = te.placeholder((s["b"], s["n"], s["k"]), name="b")
    k = te.reduce_axis(s["k"], name="k")
    out = te.compute(
        (s["b"], s["m"], s["n"]),
        lambda p, i, j: te.sum(a[p, i, k] * b[p, j, k], axis=k), name="out",
    )  # fmt: skip
    return te.create_prim_func([a, b, out], name="batch_matmul")


def _conv2d(s: Sizes) -> PrimFunc:
    x, w, bias = _conv_inputs(s)
    given: dict[str, Any] = {"padding": s["r"] // 2, "activation": "relu", "name": "out"}
    given["layout"] = "NHWC" if channels_last(s) else "NCHW"
    if s["groups"] == s["c"] == s["k"]:
        out = ops.depthwise_conv2d(x, w, bias, stride=s["stride"], **given)
    else:
        out = ops.conv2d(x, w, bias, stride=s["stride"], groups=s["groups"], **given)
    return te.create_prim_func([x, w, bias, out], name="conv2d")


def _conv_inputs(s: Sizes) -> tuple[Tensor, Tensor, Tensor]:
    c, k, r = s["c"], s["k"], s["r"]
    size, each = s["size"], c // s["groups"]
    last = channels_last(s)
    x = te.placeholder((1, size, size, c) if last else (1, c, size, size), name="x")
    w = te.placeholder((r, r, each, k) if last else (k, each, r, r), name="w")
    return x, w, te.placeholder((k,), name="bias")


def _softmax(s: Sizes) -> PrimFunc:
    x = te.placeholder((s["m"], s["n"]), name="x")
    return te.create_prim_func([x, ops.softmax(x, name="out")], name="softmax")


def _layer_norm(s: Sizes) -> PrimFunc:
    m, n = s["m"], s["n"]
    x = te.placeholder((m, n), name="x")
    gamma, beta = te.placeholder((n,), name="gamma"), te.placeholder((n,), name="beta")
    k, r = te.reduce_axis(n, name="k"), te.reduce_axis(n, name="r")
    total = te.compute((m,), lambda i: te.sum(x[i, k], axis=k), name="total")
    mean = te.compute((m,), lambda i: total[i] * (1.0 / n), name="mean")
    square = te.compute(
        (m,), lambda i: te.sum((x[i, r] - mean[i]) * (x[i, r] - mean[i]), axis=r), name="square"
    )
    scale = te.compute((m,), lambda i: te.rsqrt(square[i] * (1.0 / n) + EPSILON), name="scale")
    out = te.compute(
        (m, n), lambda i, j: (x[i, j] - mean[i]) * scale[i] * gamma[j] + beta[j], name="out"
    )
    return te.create_prim_func([x, gamma, beta, out], name="layer_norm")


def _row_sum(s: Sizes) -> PrimFunc:
    x = te.placeholder((s["m"], s["n"]), name="x")
    k = te.reduce_axis(s["n"], name="k")
    out = te.compute((s["m"],), lambda i: te.sum(x[i, k], axis=k), name="out")
    return te.create_prim_func([x, out], name="row_sum")


def _elementwise(s: Sizes) -> PrimFunc:
    a, b, c, d = (te.placeholder((s["n"],), name=name) for name in "abcd")
    out = te.compute(
        (s["n"],), lambda i: te.max(a[i] * b[i] + c[i], 0.0) * te.sigmoid(d[i]), name="out"
    )
    return te.create_prim_func([a, b, c, d, out], name="elementwise")


def _transpose(s: Sizes) -> PrimFunc:
    x = te.placeholder((s["m"], s["n"]), name="x")
    out = te.compute((s["n"], s["m"]), lambda i, j: x[j, i], name="out")
    return te.create_prim_func([x, out], name="transpose")


def _attention(s: Sizes) -> PrimFunc:
    shape = (1, s["heads"], s["length"], s["depth"])
    q, k, v = (te.placeholder(shape, name=name) for name in "qkv")
    return te.create_prim_func([q, k, v, ops.attention(q, k, v, name="out")], name="attention")


def _operator(s: Sizes) -> PrimFunc:
    example = operator_example(s)
    inputs = example.placeholders()
    outputs = ops.find_operator(s["op"]).outputs(example, inputs)
    return te.create_prim_func([*inputs, *outputs], name=s["op"])


PROGRAMS: Mapping[str, Callable[[Mapping[str, Any]], PrimFunc]] = {
    "matmul": _matmul,
    "int8_matmul": _int8_matmul,
    "bf16_matmul": _bf16_matmul,
    "linear": _linear,
    "batch_matmul": _batch_matmul,
    "conv2d": _conv2d,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "row_sum": _row_sum,
    "elementwise": _elementwise,
    "transpose": _transpose,
    "attention": _attention,
    "operator": _operator,
    "invented": invented,
}
