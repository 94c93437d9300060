"""Workloads for `make fuzz`: one function each, its extents and variants drawn by `Draw.pick`.

Inputs hold small integers, so that sums are exact in every order and a wrong term shows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorir import PrimFunc, interpret, parse, reference, te

sys.path.insert(0, str(Path(__file__).parent))
import holes  # noqa: E402
import number_workloads as numbers  # noqa: E402
import triangles  # noqa: E402
import window_workloads as windows  # noqa: E402
from draws import Draw  # noqa: E402


@dataclass(frozen=True)
class Workload:
    """A definition, the values of its size variables, and the range of its input numbers."""

    func: PrimFunc
    sizes: dict[str, Any]
    high: int = 3

    def expected(self, inputs: list[Any]) -> tuple[Any, ...]:
        """The values by NumPy; of a text that is no tensor expression those of the definition,
        unscheduled, by the interpreter."""
        if self.func.name in (*triangles.NAMES, *holes.NAMES):
            return interpret(self.func, *inputs, sizes=self.sizes)
        return reference(self.func, *inputs, sizes=self.sizes)


def elementwise(d: Draw) -> PrimFunc:
    shape = tuple(d.extent(name, 0) for name in d.pick([["n"], ["n", "m"], ["n", "m", "r"]]))
    kind = d.pick(["float32", "int32", "float64", "int8"])
    a = te.placeholder(shape, kind, name="A")
    b = te.compute(shape, lambda *i: a[i] * 3 + 1, name="B")
    c = te.compute(shape, lambda *i: te.max(b[i], a[i]) - b[i] * a[i], name="C")
    return te.create_prim_func([a, c], name="elementwise")


def broadcast(d: Draw) -> PrimFunc:
    n, m = d.extent("n", 0), d.extent("m", 0)
    a = te.placeholder((n,), name="A")
    b = te.placeholder((m,), name="B")
    s = te.placeholder((), name="S")
    scaled = te.compute((m,), lambda j: b[j] * s[()], name="scaled")
    c = te.compute((n, m), lambda i, j: a[i] + scaled[j], name="C")
    return te.create_prim_func([a, b, s, c], name="broadcast")


def transpose(d: Draw) -> PrimFunc:
    n, m = d.extent("n"), d.extent("m", symbolic=False)
    a = te.placeholder((n, m), name="A")
    b = te.compute((m, n), lambda j, i: a[i, j] + 1.0, name="B")
    if d.flag():
        c = te.compute((n * m,), lambda f: b[f % m, f // m] * 2.0, name="C")
    else:
        c = te.compute((n, m), lambda i, j: b[j, i] * a[i, j], name="C")
    return te.create_prim_func([a, c], name="transpose")


def reduction(d: Draw) -> PrimFunc:
    kind = d.pick(["float32", "int32", "float64", "float32"])
    op = d.pick(["sum", "max", "min", "prod", "sum"])
    least = 0 if op in ("sum", "prod") else 1
    n, m, r = d.extent("n", 0), d.extent("m", least), d.extent("r", least)
    a = te.placeholder((n, m, r), kind, name="A")
    k, q = te.reduce_axis(m, name="k"), te.reduce_axis(r, name="q")
    axes = [k, q] if d.flag() else [q, k]
    where = (k + q) % 2 == 0 if d.flag() and least == 0 else None
    reduce: Any = getattr(te, op)
    c = te.compute((n,), lambda i: reduce(a[i, k, q], axis=axes, where=where), name="C")
    e = te.compute((n, m), lambda i, j: c[i] + j.astype(kind), name="E")
    return te.create_prim_func([a, e if d.flag() else c], name=f"reduce_{op}")


def scalar(d: Draw) -> PrimFunc:
    n = d.extent("n")
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis(n, name="k")
    s = te.compute((), lambda: te.sum(a[k], axis=k), name="S")
    c = te.compute((n,), lambda i: a[i] - s[()], name="C")
    t = te.compute((), lambda: s[()] * 2.0, name="T")
    return te.create_prim_func([a, c if d.flag() else t], name="scalar")


def matmul(d: Draw) -> PrimFunc:
    n, m, r = d.extent("n", 0), d.extent("m"), d.extent("r", 0)
    across, narrow = d.flag(), d.pick([False, False, True])
    kind = "int8" if narrow else "float32"
    a = te.placeholder((n, r), kind, name="A")
    b = te.placeholder((m, r) if across else (r, m), kind, name="B")
    bias = te.placeholder((m,), "int32" if narrow else "float32", name="bias")
    k = te.reduce_axis(r, name="k")

    def term(i: Any, j: Any) -> Any:
        right = b[j, k] if across else b[k, j]
        left = a[i, k]
        return left.astype("int32") * right.astype("int32") if narrow else left * right

    c = te.compute((n, m), lambda i, j: te.sum(term(i, j), axis=k), name="C")
    if d.flag():
        return te.create_prim_func([a, b, c], name="matmul")
    e = te.compute((n, m), lambda i, j: c[i, j] + bias[j], name="E")
    if d.flag():
        return te.create_prim_func([a, b, bias, e], name="matmul_bias")
    f = te.compute((n, m), lambda i, j: te.max(e[i, j], 0), name="F")
    return te.create_prim_func([a, b, bias, f], name="matmul_relu")


def batch_matmul(d: Draw) -> PrimFunc:
    g, n = d.extent("g"), d.extent("n")
    m, r = d.pick([1, 2, 3, 5]), d.pick([1, 2, 3, 4, 7])
    a = te.placeholder((g, n, r), name="A")
    b = te.placeholder((g, r, m), name="B")
    k = te.reduce_axis(r, name="k")
    c = te.compute((g, n, m), lambda x, i, j: te.sum(a[x, i, k] * b[x, k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c], name="batch_matmul")


def two_matmuls(d: Draw) -> PrimFunc:
    n, m, r = d.extent("n"), d.pick([1, 3, 4, 6]), d.pick([1, 2, 5])
    a = te.placeholder((n, r), name="A")
    b = te.placeholder((r, m), name="B")
    w = te.placeholder((m, r), name="W")
    k, q = te.reduce_axis(r, name="k"), te.reduce_axis(m, name="q")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    e = te.compute((n, r), lambda i, j: te.sum(c[i, q] * w[q, j], axis=q), name="E")
    return te.create_prim_func([a, b, w, e], name="two_matmuls")


def reshapes(d: Draw) -> PrimFunc:
    """Stages that only move elements, between others."""
    n, m, r = (d.extent(name, symbolic=False) for name in "nmr")
    a = te.placeholder((n, m * r), name="A")
    b = te.compute((n, m * r), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, m, r), lambda i, j, k: b[i, j * r + k] * 2.0, name="C")
    e = te.compute((m, n, r), lambda j, i, k: c[i, j, k], name="E")
    f = te.compute((m * n * r,), lambda f: e[f // (n * r), f // r % n, f % r] - 1.0, name="F")
    return te.create_prim_func([a, f if d.flag() else e], name="reshapes")


def softmax(d: Draw) -> PrimFunc:
    n, m = d.extent("n"), d.extent("m")
    a = te.placeholder((n, m), name="A")
    k, q = te.reduce_axis(m, name="k"), te.reduce_axis(m, name="q")
    top = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="top")
    e = te.compute((n, m), lambda i, j: te.exp(a[i, j] - top[i]), name="E")
    s = te.compute((n,), lambda i: te.sum(e[i, q], axis=q), name="S")
    c = te.compute((n, m), lambda i, j: e[i, j] / s[i], name="C")
    return te.create_prim_func([a, c], name="softmax")


def layer_norm(d: Draw) -> PrimFunc:
    n, m = d.extent("n"), d.extent("m", symbolic=False)
    a = te.placeholder((n, m), name="A")
    k, q = te.reduce_axis(m, name="k"), te.reduce_axis(m, name="q")
    s = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="S")
    c = te.compute((n, m), lambda i, j: a[i, j] - s[i] * (1.0 / m), name="C")
    v = te.compute((n,), lambda i: te.sum(c[i, q] * c[i, q], axis=q), name="V")
    e = te.compute((n, m), lambda i, j: c[i, j] / te.sqrt(v[i] + 1.0), name="E")
    return te.create_prim_func([a, e], name="layer_norm")


def argmax(d: Draw) -> PrimFunc:
    n, m = d.extent("n"), d.extent("m")
    a = te.placeholder((n, m), d.pick(["float32", "int32"]), name="A")
    k = te.reduce_axis(m, name="k")
    best = d.pick([te.argmax, te.argmin])
    c = te.compute((n,), lambda i: best(a[i, k], axis=k), name="best")
    e = te.compute((n,), lambda i: c[i] * 2 + 1, name="E")
    return te.create_prim_func([a, e if d.flag() else c], name="argmax")


def several_sums(d: Draw) -> PrimFunc:
    n, m = d.extent("n"), d.extent("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis(m, name="k")
    pair = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.maximum(x[1], y[1])),
        lambda s, t: (te.const(0, s), te.min_value(t)),
        name="sum_max",
    )
    s, t = te.compute((n,), lambda i: pair((a[i, k], a[i, k] * 2.0), axis=k), name="P")
    c = te.compute((n,), lambda i: s[i] - t[i], name="C")
    return te.create_prim_func([a, s, c] if d.flag() else [a, c], name="several_sums")


def gather(d: Draw) -> PrimFunc:
    n, m, r = d.extent("n"), d.extent("m"), d.extent("r", symbolic=False)
    table = te.placeholder((r, m), name="T")
    index = te.placeholder((n,), d.pick(["int32", "int64"]), name="J")
    g = te.compute((n, m), lambda i, j: table[te.clip(index[i], 0, r - 1), j], name="G")
    if d.flag():
        return te.create_prim_func([table, index, g], name="gather")
    k = te.reduce_axis(m, name="k")
    c = te.compute((n,), lambda i: te.sum(g[i, k], axis=k), name="C")
    return te.create_prim_func([table, index, c], name="gather_sum")


def histogram(d: Draw) -> PrimFunc:
    """What is added up by a number that data tell, of one or two variables, or row by row."""
    n, bins = d.extent("n", 0), d.extent("bins", symbolic=False)  # no input tells their number
    index = te.placeholder((n,), d.pick(["int32", "int64", "int8"]), name="J")
    other = te.placeholder((n,), "int32", name="L")
    values = te.placeholder((n, 3), d.pick(["float32", "int32"]), name="V")
    k, both = te.reduce_axis(n, name="k"), d.flag()
    number = d.pick([lambda: index[k], lambda: index[k] + 1, lambda: te.max(index[k], other[k])])

    def term(i: Any, j: Any) -> Any:
        found = te.all(number() == i, other[k] == j) if both else number() == i
        return te.if_then_else(found, values[k, j], 0)

    h = te.compute((bins, 3), lambda i, j: te.sum(term(i, j), axis=k), name="H")
    c = te.compute((bins, 3), lambda i, j: h[i, j] * 2, name="C")
    return te.create_prim_func([index, other, values, c if d.flag() else h], name="histogram")


def several_outputs(d: Draw) -> PrimFunc:
    n, m = d.extent("n", 0), d.extent("m", 0)
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2.0, name="C")
    k = te.reduce_axis(m, name="k")
    e = te.compute((n,), lambda i: te.sum(b[i, k] - c[i, k], axis=k), name="E")
    return te.create_prim_func([a, b, c, e] if d.flag() else [a, c, e], name="several_outputs")


def running_sum(d: Draw) -> PrimFunc:
    n, m = d.extent("n"), d.extent("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis(n, name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[k, j], axis=k, where=k <= i), name="C")
    return te.create_prim_func([a, c], name="running_sum")


def concat(d: Draw) -> PrimFunc:
    n, m = d.extent("n", symbolic=False), d.extent("m")
    a = te.placeholder((n, m), name="A")
    b = te.placeholder((3, m), name="B")
    c = te.compute(
        (n + 3, m),
        lambda i, j: te.if_then_else(i < n, a[te.min(i, n - 1), j], b[te.max(i - n, 0), j]),
        name="C",
    )
    e = te.compute((n + 3, m), lambda i, j: c[n + 2 - i, j] + 1.0, name="E")
    return te.create_prim_func([a, b, e], name="concat")


def scan(d: Draw) -> PrimFunc:
    """Running sums by a recurrence, with a computation in each step."""
    n, m = d.pick([2, 3, 5, 7]), d.extent("m")
    x = te.placeholder((n, m), name="X")
    s = te.placeholder((n, m), name="s")
    first = te.compute((1, m), lambda _, i: x[0, i], name="first")
    step = te.compute((n, m), lambda t, i: s[t - 1, i] + x[t, i], name="step")
    total = te.scan(first, step, s, name="total")
    c = te.compute((n, m), lambda t, i: total[t, i] * 2.0, name="C")
    return te.create_prim_func([x, c if d.flag() else total], name="scan")


def row_sort(d: Draw) -> PrimFunc:
    """Rows that an extern function sorts, or selects from, between elementwise stages."""
    n, m = d.extent("n", 0), d.extent("m")
    a = te.placeholder((n, m), d.pick(["float32", "int32"]), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2 + 1, name="B")
    if d.flag():
        s = te.extern((n, m), b, "sort", name="S")
    else:
        s, _ = te.extern([(n, m), (n, m)], b, "topk", name="T")
    c = te.compute((n, m), lambda i, j: s[i, j] - b[i, 0], name="C")
    return te.create_prim_func([a, c if d.flag() else s], name="row_sort")


ALTERNATING = parse("""
@prim_func
def alternating(A: f32[n, m], T: f32[n, m], S: f32[n]):
    for i in range(n):
        with block("S"):
            vi = spatial(n, i)
            S[vi] = 0.0
        for j in range(m):
            with block("T"):
                vi = spatial(n, i)
                vj = opaque(m, j)
                T[vi, vj] = A[vi, vj] - S[vi]
            with block("S_next"):
                vi = spatial(n, i)
                vj = opaque(m, j)
                if T[vi, vj] < 3.0:
                    S[vi] = T[vi, vj]
""")


def statements(d: Draw) -> PrimFunc:
    """A program of statements, once or twice, between elementwise stages."""
    n, m = d.extent("n"), d.extent("m")
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2.0 + 1.0, name="B")
    t, s = ALTERNATING(b)
    if d.flag():
        t, s = te.extern([(n, m), (n,)], t, ALTERNATING, name="U")
    c = te.compute((n, m), lambda i, j: t[i, j] + s[i], name="C")
    return te.create_prim_func([a, c if d.flag() else t], name="statements")


WORKLOADS: list[Callable[[Draw], PrimFunc]] = [
    elementwise, broadcast, transpose, reduction, scalar, matmul, batch_matmul, two_matmuls,
    windows.conv1d, windows.symbolic_conv, windows.conv2d, windows.nchw_conv, windows.stencil,
    windows.pooling, softmax, layer_norm, argmax, several_sums, windows.stencil_chain, reshapes,
    gather, histogram, several_outputs, running_sum, concat, scan, row_sort,
    triangles.by_text, triangles.by_axes, triangles.solved, statements,
    numbers.sums_of_parts, numbers.shifted, numbers.scaled, numbers.weighted_sums,
]  # fmt: skip


def draw(pick: Callable[[list[Any]], Any]) -> Workload:
    """A random workload."""
    d = Draw(pick)
    func = d.pick(WORKLOADS)(d)
    return Workload(func, d.sizes, 2 if func.name == "reduce_prod" else 3)
