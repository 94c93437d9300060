"""Graphs of a few stages for random te schedules: of each kind that stages can be of."""

from __future__ import annotations

from typing import Any

from tensorir import te


def product(n: int, m: int, r: int) -> list[Any]:
    """A chain around a matrix product."""
    a, b = te.placeholder((n, r), name="A"), te.placeholder((r, m), name="B")
    k = te.reduce_axis(r, name="k")
    p = te.compute((n, r), lambda i, j: a[i, j] * 2.0, name="P")
    c = te.compute((n, m), lambda i, j: te.sum(p[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((n, m), lambda i, j: te.max(c[i, j], 0.0) + c[i, j], name="D")
    return [te.compute((n, m), lambda i, j: d[n - 1 - i, j] + d[i, j], name="E")]


def softmax(n: int, m: int, _: int) -> list[Any]:
    a = te.placeholder((n, m), name="A")
    k1, k2 = te.reduce_axis(m, name="k1"), te.reduce_axis(m, name="k2")
    top = te.compute((n,), lambda i: te.max(a[i, k1], axis=k1), name="top")
    e = te.compute((n, m), lambda i, j: te.exp(a[i, j] - top[i]), name="e")
    total = te.compute((n,), lambda i: te.sum(e[i, k2], axis=k2), name="total")
    return [te.compute((n, m), lambda i, j: e[i, j] / total[i], name="out")]


def window(n: int, m: int, _: int) -> list[Any]:
    """A padded window over rows: parts of neighbours overlap."""
    a = te.placeholder((n, m), name="A")
    pad = te.compute(
        (n + 2, m),
        lambda i, j: te.if_then_else(te.all(i >= 1, i < n + 1), a[i - 1, j], 0.0),
        name="pad",
    )
    k = te.reduce_axis(3, name="k")
    conv = te.compute((n, m), lambda i, j: te.sum(pad[i + k, j], axis=k), name="conv")
    return [te.compute((n, m), lambda i, j: conv[i, j] * 0.5, name="out")]


def two_outputs(n: int, m: int, _: int) -> list[Any]:
    """Several results of one operation, and one of a reduction of several values."""
    a = te.placeholder((n, m), name="A")
    b0, b1 = te.compute((n, m), lambda i, j: (a[i, j] + 2.0, a[i, j] * 3.0), name="B")
    k = te.reduce_axis(m, name="k")
    add = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]),
        lambda t0, t1: (te.const(0, t0), te.const(0, t1)),
        name="add",
    )
    s0, s1 = te.compute((n,), lambda i: add((b0[i, k], b1[i, k]), axis=k), name="S")
    return list(te.compute((n, m), lambda i, j: (s0[i] + b1[i, j], s1[i] - b0[i, j]), name="D"))


def argmax(n: int, m: int, _: int) -> list[Any]:
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis(m, name="k")
    p = te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="P")
    top = te.compute((n,), lambda i: te.argmax(p[i, k], axis=k), name="top")
    return [te.compute((n,), lambda i: top[i] * 2, name="out")]


def scan(n: int, m: int, _: int) -> list[Any]:
    x, state = te.placeholder((n + 1, m), name="X"), te.state((n + 1, m), name="s")
    y = te.compute((n + 1, m), lambda t, i: x[t, i] * 2.0, name="Y")
    first = te.compute((1, m), lambda _, i: y[0, i], name="first")
    half = te.compute((n + 1, m), lambda t, i: state[t - 1, i] * 0.5, name="half")
    step = te.compute((n + 1, m), lambda t, i: half[t, m - 1 - i] + y[t, i], name="step")
    return [te.scan(first, step, state, name="p")]


def extern(n: int, m: int, _: int) -> list[Any]:
    """Rows that an extern function makes, several outputs of them, and of one."""
    a = te.placeholder((n, m + 1), name="A")
    p = te.compute((n, m + 1), lambda i, j: a[i, j] * 2.0, name="P")
    values, places = te.extern([(n, 1), (n, 1)], p, "topk", name="top")
    ordered = te.extern((n, m + 1), p, "sort", name="S")
    return [
        te.compute(
            (n, m + 1),
            lambda i, j: ordered[i, j] + values[i, 0] * places[i, 0].astype("float32"),
            name="Q",
        )
    ]


def scaled(n: int, m: int, _: int) -> list[Any]:
    """Sums of scaled elements and a choice: numbers among the arguments that are no sizes."""
    alpha, flag = te.var("alpha", "float32"), te.var("flag", "bool")
    a = te.placeholder((n, m), name="A")
    p = te.compute((n, m), lambda i, j: a[i, j] * alpha + 1.0, name="P")
    k = te.reduce_axis(m, name="k")
    s = te.compute((n,), lambda i: te.sum(p[i, k] * alpha, axis=k), name="S")

    def chosen(i: Any, j: Any) -> Any:
        return te.if_then_else(flag, p[i, j] - s[i], te.max(s[i], alpha))

    return [te.compute((n, m), chosen, name="out")]


WORKLOADS = [product, softmax, window, two_outputs, argmax, scan, extern, scaled]
