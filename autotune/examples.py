"""Operators to try things on, each made from sizes that all have defaults."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping

from tensorir import Expr, PrimFunc, TensorIRError, all_of, te


def matmul(m: int = 1024, n: int = 1024, k: int = 1024) -> PrimFunc:
    """C[m, n] = A[m, k] @ B[k, n], float32."""
    A = te.placeholder((m, k), "float32", name="A")
    B = te.placeholder((k, n), "float32", name="B")
    r = te.reduce_axis(k, name="k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return te.create_prim_func([A, B, C], name="matmul")


def linear_relu(m: int = 128, n: int = 768, k: int = 3072) -> PrimFunc:
    """out[m, n] = max(x[m, k] @ w[k, n] + bias[n], 0), float32."""
    x = te.placeholder((m, k), "float32", name="x")
    w = te.placeholder((k, n), "float32", name="w")
    bias = te.placeholder((n,), "float32", name="bias")
    r = te.reduce_axis(k, name="k")
    product = te.compute((m, n), lambda i, j: te.sum(x[i, r] * w[r, j], axis=r), name="product")
    out = te.compute((m, n), lambda i, j: te.max(product[i, j] + bias[j], 0.0), name="out")
    return te.create_prim_func([x, w, bias, out], name="linear_relu")


def conv2d_bias_relu(
    n: int = 1, h: int = 56, w: int = 56, c: int = 64, k: int = 64, r: int = 3, s: int = 3
) -> PrimFunc:
    """out[n, h, w, k] = max(conv(x[n, h, w, c], weight[r, s, c, k]) + bias[k], 0), float32.

    Stride 1, zeros around the picture so that it keeps its size.
    """
    x = te.placeholder((n, h, w, c), "float32", name="x")
    weight = te.placeholder((r, s, c, k), "float32", name="weight")
    bias = te.placeholder((k,), "float32", name="bias")
    top, left = r // 2, s // 2

    def padded(b: Expr, y: Expr, z: Expr, ch: Expr) -> Expr:
        inside = all_of(y >= top, y < h + top, z >= left, z < w + left)
        return te.if_then_else(inside, x[b, y - top, z - left, ch], 0.0)

    pad = te.compute((n, h + r - 1, w + s - 1, c), padded, name="pad")
    dy, dx, ci = te.reduce_axis(r, name="r"), te.reduce_axis(s, name="s"), te.reduce_axis(c, "c")
    conv = te.compute(
        (n, h, w, k),
        lambda b, y, z, ko: te.sum(
            pad[b, y + dy, z + dx, ci] * weight[dy, dx, ci, ko], axis=[dy, dx, ci]
        ),
        name="conv",
    )
    out = te.compute(
        (n, h, w, k), lambda b, y, z, ko: te.max(conv[b, y, z, ko] + bias[ko], 0.0), name="out"
    )
    return te.create_prim_func([x, weight, bias, out], name="conv2d_bias_relu")


def elementwise(size: int = 1 << 22) -> PrimFunc:
    """out[size] = max(a * b + c, 0) * d, float32."""
    a, b, c, d = (te.placeholder((size,), "float32", name=name) for name in "abcd")
    out = te.compute((size,), lambda i: te.max(a[i] * b[i] + c[i], 0.0) * d[i], name="out")
    return te.create_prim_func([a, b, c, d, out], name="elementwise")


def row_sum(m: int = 4096, n: int = 4096) -> PrimFunc:
    """out[m] = the sum of each row of x[m, n], float32."""
    x = te.placeholder((m, n), "float32", name="x")
    k = te.reduce_axis(n, name="k")
    out = te.compute((m,), lambda i: te.sum(x[i, k], axis=k), name="out")
    return te.create_prim_func([x, out], name="row_sum")


def softmax(m: int = 1024, n: int = 1024) -> PrimFunc:
    """out[m, n] = exp(x - max) / sum of it, in each row of x[m, n], float32."""
    x = te.placeholder((m, n), "float32", name="x")
    k, r = te.reduce_axis(n, name="k"), te.reduce_axis(n, name="r")
    top = te.compute((m,), lambda i: te.max(x[i, k], axis=k), name="top")
    power = te.compute((m, n), lambda i, j: te.exp(x[i, j] - top[i]), name="power")
    total = te.compute((m,), lambda i: te.sum(power[i, r], axis=r), name="total")
    out = te.compute((m, n), lambda i, j: power[i, j] / total[i], name="out")
    return te.create_prim_func([x, out], name="softmax")


EXAMPLES: dict[str, Callable[..., PrimFunc]] = {
    maker.__name__: maker
    for maker in (matmul, linear_relu, conv2d_bias_relu, elementwise, row_sum, softmax)
}
"""Operators by name, for the command line."""


def sizes_of(maker: Callable[..., object]) -> dict[str, int | None]:
    """The sizes that `maker` takes, with their defaults; None for one that has to be given."""
    found = inspect.signature(maker).parameters.values()
    return {p.name: None if p.default is p.empty else p.default for p in found}


def no_size(maker: Callable[..., object]) -> str:
    """Why `maker` is no maker of programs, whose parameters are sizes: "" if they may all be.

    A parameter is none where something is asked of it that integers do not have, such as
    `sch.split` in a function of a schedule.
    """
    try:
        nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(maker)))))
    except (OSError, TypeError, SyntaxError):  # without a source, or a lambda inside of a line
        return ""
    bound = Counter(node.arg for node in nodes if isinstance(node, ast.arg))
    bound += Counter(
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    names = [name for name in sizes_of(maker) if bound[name] == 1]  # the parameter itself
    for node in nodes:
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        if node.value.id in names and not hasattr(0, node.attr):
            return f"its parameter {node.value.id!r} is no size: it is asked for {node.attr!r}"
    return ""


def make_example(name: str, sizes: Mapping[str, int] | None = None) -> PrimFunc:
    """The example called `name`; raises TensorIRError for an unknown name or size."""
    if name not in EXAMPLES:
        raise TensorIRError(f"there is no example {name!r}; known are {', '.join(EXAMPLES)}")
    known = sizes_of(EXAMPLES[name])
    for size, value in (sizes or {}).items():
        if size not in known:
            raise TensorIRError(f"{name} has no size {size!r}; it has {', '.join(known)}")
        if value < 1:
            raise TensorIRError(f"size {size}={value} of {name} is not positive")
    return EXAMPLES[name](**(sizes or {}))
